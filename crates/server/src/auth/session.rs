//! Sessions of the web page, and the codes that open them.
//!
//! A session has two secrets, and a request needs both. The cookie cannot be read by scripts, but browsers send it to every
//! port of its host. The page key lies in the page's storage, which is divided by port, but any script of the page can read
//! it. A session is a token whose hash is that of both secrets, so that one of them alone finds nothing.

use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::uri::Authority;
use axum::http::{HeaderName, Method};
use everturn::stores::TokenHash;

use crate::api::problem::{Problem, ProblemKind};

/// The header with the page key.
pub const PAGE_KEY: HeaderName = HeaderName::from_static("x-everturn-key");
/// The cookie under TLS. Browsers refuse this name to other hosts, paths and to plain HTTP.
const SECURE_COOKIE: &str = "__Host-everturn";
/// The beginning of the cookie's name elsewhere; the port follows, because ports do not divide cookies.
const PLAIN_COOKIE: &str = "everturn";
/// Cookies of this name that are tried: another server of the same host can set some too.
const COOKIES_MAX: usize = 4;

/// The two secrets of a session, as a request shows them.
#[derive(Debug)]
pub struct ShownSession<'a> {
    cookies: Vec<&'a str>,
    key: Option<&'a str>,
}

impl<'a> ShownSession<'a> {
    /// What the request shows.
    pub fn of(headers: &'a HeaderMap) -> Self {
        let key = headers.get(PAGE_KEY).and_then(|key| key.to_str().ok()).filter(|key| !key.is_empty());
        let plain = CookieName::plain(headers);
        let pairs = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs = pairs.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let ours = pairs.filter(|(name, _)| *name == SECURE_COOKIE || *name == plain.0);
        Self { cookies: ours.map(|(_, value)| value).take(COOKIES_MAX).collect(), key }
    }

    /// Whether there is a cookie of ours, valid or not.
    pub fn has_cookie(&self) -> bool {
        !self.cookies.is_empty()
    }

    /// Whether both secrets are there.
    pub fn is_whole(&self) -> bool {
        self.has_cookie() && self.key.is_some()
    }

    /// The hashes under which the session may be stored.
    pub fn hashes(&self) -> impl Iterator<Item = TokenHash> {
        self.key.into_iter().flat_map(|key| self.cookies.iter().map(move |cookie| session_hash(cookie, key)))
    }
}

/// The hash of a session. No bearer token has the same: a header cannot contain a line break.
pub fn session_hash(cookie: &str, key: &str) -> TokenHash {
    TokenHash::of(&format!("everturn session\n{cookie}\n{key}"))
}

/// The hash of a code.
pub fn code_hash(code: &str) -> TokenHash {
    TokenHash::of(&format!("everturn code\n{code}"))
}

/// Refuses a session's cookie from anywhere but the page. Pages of other ports and of configured origins send it too.
pub fn comes_from_page(method: &Method, headers: &HeaderMap, has_origin: impl Fn(&str) -> bool) -> Result<(), Problem> {
    let all = |name: &str, is_good: &dyn Fn(&HeaderValue) -> bool| headers.get_all(name).iter().all(is_good);
    let is_same = all("sec-fetch-site", &|site| site == "same-origin");
    let is_ours = all("origin", &|origin| origin.to_str().is_ok_and(&has_origin));
    let says_where = headers.contains_key("sec-fetch-site") || headers.contains_key(header::ORIGIN);
    if is_same && is_ours && (says_where || method.is_safe()) {
        return Ok(());
    }
    Err(Problem::new(ProblemKind::Origin, "A session of the web page is for requests of that page; use a token."))
}

/// The name of the session's cookie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieName(String);

impl CookieName {
    /// The name that a new session gets, by the address that the browser has opened.
    pub fn of(headers: &HeaderMap) -> Self {
        let is_secure = headers.get(header::ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
        if is_secure { Self(SECURE_COOKIE.into()) } else { Self::plain(headers) }
    }

    fn plain(headers: &HeaderMap) -> Self {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
        let port = host.and_then(|host| host.port_u16());
        Self(port.map_or(PLAIN_COOKIE.into(), |port| format!("{PLAIN_COOKIE}-{port}")))
    }

    /// The cookie with this value, for some seconds; none end it.
    pub fn set(&self, value: &str, seconds: i64) -> HeaderValue {
        let Self(name) = self;
        let secure = if name == SECURE_COOKIE { "; Secure" } else { "" };
        let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}", seconds.max(0));
        HeaderValue::from_str(&cookie).unwrap_or(HeaderValue::from_static("")) // Names and secrets are ASCII.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(told: &[(&'static str, &'static str)]) -> HeaderMap {
        told.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    /// PG37: the cookie of another port's server is not ours, and both halves are needed.
    #[test]
    fn a_session_is_a_cookie_and_a_key() {
        let cookie = ("cookie", "a=b; everturn-4140=one; everturn-4999=other; __Host-everturn=two");
        let (host, key) = (("host", "127.0.0.1:4140"), ("x-everturn-key", "key"));
        let whole = headers(&[cookie, host, key]);
        let shown = ShownSession::of(&whole);
        assert_eq!(shown.hashes().collect::<Vec<_>>(), [session_hash("one", "key"), session_hash("two", "key")]);
        for (told, has_cookie) in [(&[cookie, host][..], true), (&[host, key], false), (&[], false)] {
            let told = headers(told);
            let shown = ShownSession::of(&told);
            assert_eq!((shown.is_whole(), shown.has_cookie(), shown.hashes().count()), (false, has_cookie, 0));
        }
        assert_ne!(session_hash("a", "b"), session_hash("b", "a"));
        assert_ne!(session_hash("", "b"), code_hash("b"));
    }

    /// PG36: over TLS the cookie has the name that only this host can set.
    #[test]
    fn a_cookie_is_named_by_the_address() {
        let of = |told: &[(&'static str, &'static str)]| CookieName::of(&headers(told)).set("v", 60);
        let plain = of(&[("host", "127.0.0.1:4140"), ("origin", "http://127.0.0.1:4140")]);
        assert_eq!(plain, "everturn-4140=v; Path=/; HttpOnly; SameSite=Strict; Max-Age=60");
        let secure = of(&[("host", "chat.example.com"), ("origin", "https://chat.example.com")]);
        assert_eq!(secure, "__Host-everturn=v; Path=/; HttpOnly; SameSite=Strict; Max-Age=60; Secure");
        assert_eq!(of(&[("host", "localhost")]), "everturn=v; Path=/; HttpOnly; SameSite=Strict; Max-Age=60");
        assert_eq!(of(&[("host", "[::1]:80")]), "everturn-80=v; Path=/; HttpOnly; SameSite=Strict; Max-Age=60");
    }

    /// PG37: a page of another port, of a configured origin and a forged origin cannot use the session.
    #[test]
    fn only_the_page_uses_a_session() {
        let may = |method: Method, told: &[(&'static str, &'static str)]| {
            comes_from_page(&method, &headers(told), |origin| origin == "http://127.0.0.1:4140").is_ok()
        };
        let (ours, theirs) = (("origin", "http://127.0.0.1:4140"), ("origin", "http://127.0.0.1:4999"));
        let site = |site| ("sec-fetch-site", site);
        assert!(may(Method::GET, &[site("same-origin")]) && may(Method::POST, &[site("same-origin"), ours]));
        assert!(may(Method::POST, &[ours]) && may(Method::GET, &[]));
        assert!(!may(Method::POST, &[]), "an old browser says where an unsafe request comes from");
        for wrong in ["same-site", "cross-site", "none"] {
            assert!(!may(Method::GET, &[site(wrong)]) && !may(Method::POST, &[site(wrong), ours]), "{wrong}");
        }
        assert!(!may(Method::POST, &[site("same-origin"), theirs]) && !may(Method::GET, &[theirs]));
    }
}
