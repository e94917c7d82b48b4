//! Origins whose pages may use the API (CORS).
//!
//! A browser sends the requests of any page, and shows the page the response only if the server allows it. By default the
//! server never does, and refuses requests from other origins. Pages of a configured origin are allowed. They need their
//! own token, as every client does; there are no cookies, so a page can send nothing in a user's name by itself.

use std::fmt;
use std::str::FromStr;

use axum::http::header::{self, HeaderMap, HeaderName};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};

/// Headers that a page may send, and headers that it may read.
const SENT: &str = concat!(
    "authorization, content-type, idempotency-key, last-event-id, x-request-id, ",
    // Those that the stock clients of fronts send from a browser.
    "user-agent, x-api-key, anthropic-version, anthropic-beta, anthropic-dangerous-direct-browser-access, ",
    "openai-organization, openai-project, openai-beta, x-stainless-arch, x-stainless-helper-method, x-stainless-lang, ",
    "x-stainless-os, x-stainless-package-version, x-stainless-retry-count, x-stainless-runtime, ",
    "x-stainless-runtime-version, x-stainless-timeout",
);
const READ: &str = "request-id, retry-after, x-request-id, x-should-retry, x-vercel-ai-ui-message-stream";
/// How long a browser may cache a preflight, in seconds: the longest that any browser accepts.
const REMEMBERED: &str = "7200";

/// An origin as browsers write it: scheme, host, and the port unless it is the scheme's default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site(HeaderValue);

/// A text that is not an origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a site: write it as browsers do, such as https://app.example.com or http://localhost:5173")]
pub struct BadSite(String);

impl FromStr for Site {
    type Err = BadSite;

    fn from_str(text: &str) -> Result<Self, BadSite> {
        let bad = || BadSite(text.to_owned());
        let (scheme, name) = text.split_once("://").ok_or_else(bad)?;
        let usual = if scheme == "https" { ":443" } else { ":80" };
        let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b':' | b'[' | b']');
        if !matches!(scheme, "http" | "https")
            || name.is_empty()
            || !name.bytes().all(is_plain)
            || name.ends_with(usual)
            || !is_authority(name)
        {
            return Err(bad());
        }
        HeaderValue::from_str(text).map(Self).map_err(|_| bad())
    }
}

/// Whether this is a host, with a port if there is a colon.
fn is_authority(name: &str) -> bool {
    let is_host = |host: &str| {
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        !host.is_empty() && (is_bracketed || !host.contains([':', '[', ']']))
    };
    match name.rsplit_once(':').filter(|_| !name.ends_with(']')) {
        Some((host, port)) => is_host(host) && port.parse::<u16>().is_ok_and(|number| number.to_string() == port),
        None => is_host(name),
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_str().unwrap_or_default())
    }
}

/// The configured origins.
#[derive(Debug, Clone, Default)]
pub struct AllowedSites(pub Vec<Site>);

impl AllowedSites {
    /// The configured origin that a request comes from.
    pub fn of(&self, headers: &HeaderMap) -> Option<Site> {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (Some(origin), None) => self.0.iter().find(|site| site.0 == *origin).cloned(),
            _ => None,
        }
    }

    /// Lets a page of this origin read the response, and keeps caches from giving it to another origin.
    pub fn tell(&self, site: Option<Site>, headers: &mut HeaderMap) {
        if !self.0.is_empty() {
            headers.append(header::VARY, HeaderValue::from_static("origin"));
        }
        if let Some(Site(origin)) = site {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(READ));
        }
    }
}

/// Whether this is a browser's preflight request.
pub fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a preflight: allowed. It needs no token and reveals no route; the request itself is checked when it comes.
pub fn preflight() -> Response {
    let told: [(HeaderName, &str); 3] = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, PATCH, DELETE"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, SENT),
        (header::ACCESS_CONTROL_MAX_AGE, REMEMBERED),
    ];
    (StatusCode::NO_CONTENT, told).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_written_as_browsers_write_it() {
        for site in ["https://app.example.com", "http://localhost:5173", "http://[::1]:8080", "https://a.example:8443"]
        {
            assert_eq!(site.parse::<Site>().unwrap().to_string(), site);
        }
        let others = [
            "*",
            "null",
            "",
            "app.example.com",
            "https://",
            "https://a.example/",
            "https://a.example/page",
            "https://A.example",
            "https://a.example:443",
            "http://a.example:80",
            "ftp://a.example",
            "https://user@a.example",
            "https://*.example",
            "https://a.example\r\nx: y",
            "https://a.example:",
            "https://a.example:99999",
            "https://a.example:http",
            "https://a:b:1",
            "https://:8443",
        ];
        for other in others {
            assert_eq!(other.parse::<Site>(), Err(BadSite(other.into())));
        }
    }
}
