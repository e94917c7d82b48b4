//! Checks before every route.
//!
//! A page of any site can make its reader's browser send requests to this machine, also under a host name that was just
//! pointed at it (DNS rebinding). So a request must be for a configured host, must not come from another origin, must be
//! JSON if it changes something, and must carry a token. Only then it reaches a route.

use std::net::{IpAddr, Ipv4Addr};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName};
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use everturn::core::ids::ChatId;
use everturn::stores::{TokenHash, TokenKind};
use futures_util::FutureExt as _;
use hyper::body::Body as _;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::api::problem::{Problem, ProblemKind};
use crate::app::SharedApp;
use crate::auth::access::Caller;
use crate::auth::audit;
use crate::auth::cors::{self, Site};
use crate::auth::proxies::Network;
use crate::auth::session::{ShownSession, comes_from_page};
use crate::entropy;
use crate::fronts::Front;
use crate::net::listen::{ListenAddress, ListenerConfig};
use crate::net::slow_reader::CutSignal;
use crate::page;

/// The paths that answer without a token, for the health checks of a supervisor or load balancer.
pub const PROBES: [&str; 2] = ["/healthz", "/readyz"];

/// The path that opens a session of the web page: `POST` needs no token.
pub const LOGIN: &str = "/v1/session";

/// The header with a request's id, in requests and responses.
const REQUEST_ID: &str = "x-request-id";
const REQUEST_ID_LEN_MAX: usize = 128;

/// Where a request came from.
#[derive(Debug, Clone, Copy)]
pub struct ClientPeer {
    address: IpAddr,
    /// Whether the way was encrypted or did not leave this machine.
    is_private: bool,
    is_encrypted: bool,
}

impl ClientPeer {
    /// A client on this machine.
    pub const LOCAL: Self = Self { address: IpAddr::V4(Ipv4Addr::LOCALHOST), is_private: true, is_encrypted: false };

    /// A client that connected over TCP.
    pub const fn over(address: IpAddr, is_encrypted: bool) -> Self {
        Self { address, is_private: is_encrypted || address.is_loopback(), is_encrypted }
    }

    /// Whether the client's connection was encrypted, here or by a configured proxy.
    pub fn is_over_tls(&self, proxies: &[Network]) -> bool {
        self.is_encrypted || proxies.iter().any(|proxy| proxy.has(self.address))
    }
}

/// The names this server answers under, with their ports, in lower case.
#[derive(Debug, Clone)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// The names of a server with these listeners, and the configured ones.
    pub fn new(entrances: &[ListenerConfig], given: &[String]) -> Self {
        let mut hosts: Vec<String> = given.iter().map(|host| host.to_ascii_lowercase()).collect();
        let own = ["localhost", "127.0.0.1", "[::1]"];
        for ListenerConfig { at, tls } in entrances {
            match at {
                ListenAddress::Unix(_) => hosts.push("localhost".into()),
                ListenAddress::Tcp(address) => {
                    let port = address.port();
                    hosts.extend(own.iter().map(|name| format!("{name}:{port}")));
                    hosts.push(address.to_string());
                    if port == if tls.is_some() { 443 } else { 80 } {
                        hosts.extend(own.map(String::from));
                    }
                }
            }
        }
        Self(hosts)
    }

    fn has(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        self.0.contains(&host)
    }

    fn has_origin(&self, origin: &str) -> bool {
        let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        host.is_some_and(|host| self.has(host))
    }
}

/// Passes a request to its route, or answers with a problem. Counts and logs it either way.
pub async fn guard(State(app): State<SharedApp>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let (id, method) = (app.request_ids.of(request.headers()), request.method().clone());
    let span = tracing::error_span!("request", id); // At level error, so that every log line of the request has its id.
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let chat = chat_of(&route, request.uri().path());
    let front = Front::of(request.uri().path());
    if let Some(front) = front {
        app.meter.fronts.requested(front);
    }
    let site = app.sites.of(request.headers());
    let answered = async {
        match admit(&app, &mut request, site.as_ref()).await {
            Ok(Entry::Asks) => next.run(request).await,
            Ok(Entry::MayAsk) => cors::preflight(),
            Err(problem) => problem.into_response(),
        }
    };
    let answered = answered.instrument(span);
    // A panic ends only its own request, which is answered with a problem.
    let mut response = AssertUnwindSafe(answered).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(request = %id, route, "request handler panicked; answered 500");
        Problem::new(ProblemKind::Internal, "The server failed on this request; see its log.").into_response()
    });
    if let Some(front) = front {
        response = front.tell(response);
    }
    let is_stream = response.extensions().get::<CutSignal>().is_some();
    if method.is_safe() || is_stream {
        response = app.answers.send(response); // Others are short, and a done change must not be answered with 503.
    }
    let (status, took) = (response.status(), began.elapsed());
    app.meter.answered(&method, &route, status, took);
    let chat = response.extensions().get::<CreatedChat>().map(|made| made.0).or(chat).map(tracing::field::display);
    let (status, ms) = (status.as_u16(), took.as_millis() as u64);
    tracing::info!(request = %id, %method, route, chat, status, ms, "answered");
    let headers = response.headers_mut();
    for (name, value) in EVERYWHERE {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    app.sites.tell(site, headers);
    response
}

const EVERYWHERE: [(HeaderName, &str); 6] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// A request that passed the checks.
enum Entry {
    /// A request for a route.
    Asks,
    /// A browser's preflight.
    MayAsk,
}

async fn admit(app: &SharedApp, request: &mut Request, site: Option<&Site>) -> Result<Entry, Problem> {
    is_for_us(app, request)?;
    let matched = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let is_login = request.method() == Method::POST && matched == Some(LOGIN);
    let front = Front::of(request.uri().path());
    let is_page = matched.is_none() && front.is_none() && page::is_for_page(request.method(), request.uri().path());
    match site {
        Some(_) if cors::is_preflight(request.method(), request.headers()) => return Ok(Entry::MayAsk),
        Some(_) if !is_login => {} // A page of another site gets no session.
        None if is_page && page::is_navigation(request.headers()) => {}
        _ => is_from_us(app, request.headers())?,
    }
    if PROBES.contains(&request.uri().path()) {
        return Ok(Entry::Asks);
    }
    let peer = request
        .extensions()
        .get::<ClientPeer>()
        .map(|peer| unread(*peer, &app.proxies, request.headers()))
        .transpose()?;
    if is_login {
        request.extensions_mut().insert(LoginPeer(peer));
    } else if !is_page {
        let caller = identify(app, (request.method(), request.headers()), front, peer).await?;
        request.extensions_mut().insert(caller);
    }
    Ok(Entry::Asks)
}

/// The client's address in a request that logs in, to count failures.
#[derive(Debug, Clone, Copy)]
pub struct LoginPeer(Option<IpAddr>);

impl LoginPeer {
    /// Counts and records a failed login; a problem if there were too many from this address.
    pub fn failed(self, app: &SharedApp) -> Result<(), Problem> {
        if self.0.is_some_and(|peer| app.failures.is_over(peer, app.limits.failures_max)) {
            return Err(Problem::new(ProblemKind::TooMany, "Too many failed logins; wait a minute.").after(60));
        }
        audit::login_failed(self.0); // Bounded by `failures_max`, so the audit file cannot be flooded.
        Ok(())
    }
}

fn is_for_us(app: &SharedApp, request: &Request) -> Result<(), Problem> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (host, more) = (hosts.next().map(|host| host.to_str().unwrap_or_default()), hosts.next());
    let authority = request.uri().authority().map(|authority| authority.as_str());
    let is_ours = match (authority, host) {
        (Some(authority), Some(host)) => authority.eq_ignore_ascii_case(host) && app.hosts.has(host),
        (Some(host), None) | (None, Some(host)) => app.hosts.has(host),
        (None, None) => false,
    };
    if is_ours && more.is_none() {
        return Ok(());
    }
    Err(Problem::new(ProblemKind::Host, "Use the address the server printed, or start it with --host for this name."))
}

fn is_from_us(app: &SharedApp, headers: &HeaderMap) -> Result<(), Problem> {
    let is_foreign = |origin: &HeaderValue| !origin.to_str().is_ok_and(|origin| app.hosts.has_origin(origin));
    let is_cross = |site: &HeaderValue| !matches!(site.as_bytes(), b"same-origin" | b"none");
    if headers.get_all(header::ORIGIN).iter().any(is_foreign) || headers.get_all("sec-fetch-site").iter().any(is_cross)
    {
        let detail =
            "The request comes from a page of another site; to allow that site, start the server with --origin.";
        return Err(Problem::new(ProblemKind::Origin, detail));
    }
    Ok(())
}

/// The client's address; a configured proxy forwards it. Refuses a request that crossed a network unencrypted, unless it
/// comes from a configured proxy, which has ended the TLS connection.
fn unread(
    ClientPeer { address, is_private, .. }: ClientPeer,
    proxies: &[Network],
    headers: &HeaderMap,
) -> Result<IpAddr, Problem> {
    let is_proxy = proxies.iter().any(|proxy| proxy.has(address));
    if !is_private && !is_proxy {
        let detail = "This address takes unencrypted requests from a proxy only: use the proxy's address, or configure the proxy with --proxy.";
        return Err(Problem::new(ProblemKind::Host, detail));
    }
    let told = headers.get_all("x-forwarded-for").iter().next_back().filter(|_| is_proxy);
    let last = told.and_then(|told| told.to_str().ok()?.rsplit(',').next()?.trim().parse().ok());
    Ok(last.unwrap_or(address))
}

/// Requires JSON for requests that change something, because no form of another site can send it. Runs after routing, so
/// that an unknown method is answered with 405. Stock clients stop an answer with a request that has neither a body nor a
/// type, so the fronts take it: what a form sends has a type, and no token.
pub async fn is_json(request: Request, next: Next) -> Response {
    match check_json(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn check_json(request: &Request) -> Result<(), Problem> {
    if !matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH) {
        return Ok(());
    }
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let has_body = !request.body().is_end_stream();
    if Front::of(request.uri().path()).is_some() && !request.headers().contains_key(header::CONTENT_TYPE) && !has_body {
        return Ok(());
    }
    let essence = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Problem::new(ProblemKind::MediaType, "Send the body with `content-type: application/json`."))
}

/// The token of a request, and whether it has more than one. Clients of some fronts send it in a header of their own.
fn secret(headers: &HeaderMap, front: Option<Front>) -> (Option<&str>, bool) {
    let mut bearers = headers.get_all(header::AUTHORIZATION).iter();
    let mut own = front.and_then(Front::key_header).into_iter().flat_map(|name| headers.get_all(name).iter());
    let secret = match bearers.next() {
        Some(value) => value.to_str().ok().and_then(bearer),
        None => own.next().and_then(|value| value.to_str().ok()).map(str::trim),
    };
    let differs = |value: &HeaderValue| value.to_str().ok() != secret;
    (secret, bearers.next().is_some() || own.next().is_some_and(differs))
}

async fn identify(
    app: &SharedApp,
    (method, headers): (&Method, &HeaderMap),
    front: Option<Front>,
    peer: Option<IpAddr>,
) -> Result<Caller, Problem> {
    let session = ShownSession::of(headers);
    let (bearer, is_ambiguous) = secret(headers, front);
    // One way in: a token and the cookie of a session were put together by two parties.
    if let (Some(secret), false) = (bearer, is_ambiguous || session.has_cookie())
        && let Some(token) = app.token(&TokenHash::of(secret)).await?
        && token.kind == TokenKind::Bearer
    {
        return Ok(Caller::bearing(token));
    }
    if bearer.is_none() && front.is_none() && session.is_whole() {
        comes_from_page(method, headers, |origin| app.hosts.has_origin(origin))?;
        for hash in session.hashes() {
            if let Some(token) = app.token(&hash).await?
                && matches!(token.kind, TokenKind::Session { .. })
            {
                return Ok(Caller::bearing(token));
            }
        }
    }
    if bearer.is_some() || session.is_whole() {
        LoginPeer(peer).failed(app)?;
    }
    Err(Problem::new(
        ProblemKind::Unauthorized,
        "Send `authorization: Bearer …` with a token that is known and not expired.",
    ))
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim())
}

/// Request ids for responses and logs: the client's own, so that both ends can be searched by one id; else the process's
/// name and a count, so that logs of several processes can be read together.
pub struct RequestIds {
    process: String,
    next: AtomicU64,
}

impl RequestIds {
    pub fn new() -> Self {
        Self { process: entropy::process(), next: AtomicU64::new(1) }
    }

    fn of(&self, headers: &HeaderMap) -> String {
        let is_len = |id: &str| (1..=REQUEST_ID_LEN_MAX).contains(&id.len());
        let is_name = |id: &&str| is_len(id) && id.bytes().all(|b| b.is_ascii_graphic());
        match headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(is_name) {
            Some(id) => id.to_owned(),
            None => format!("req-{}-{}", self.process, self.next.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

/// The chat that a request created, for the log: the path names none, or another.
#[derive(Debug, Clone, Copy)]
pub struct CreatedChat(pub ChatId);

/// The chat in a path.
fn chat_of(route: &str, path: &str) -> Option<ChatId> {
    route.strip_prefix("/v1/chats/{id}")?;
    path.split('/').nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids of two processes differ, so that their logs can be read together.
    #[test]
    fn requests_of_two_processes_have_different_names() {
        let (one, other) = (RequestIds::new(), RequestIds::new());
        let plain = HeaderMap::new();
        let ids = [one.of(&plain), one.of(&plain), other.of(&plain), other.of(&plain)];
        assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), 4, "{ids:?}");
        let named = HeaderMap::from_iter([(HeaderName::from_static(REQUEST_ID), HeaderValue::from_static("kelp-7"))]);
        assert_eq!(one.of(&named), "kelp-7");
    }

    /// Unencrypted requests from the network are refused unless a configured proxy sends them; only its
    /// X-Forwarded-For is trusted.
    #[test]
    fn only_the_proxy_may_come_unencrypted() {
        let proxies = ["10.0.0.0/8".parse().unwrap()];
        let headers = |told: &'static str| {
            HeaderMap::from_iter([("x-forwarded-for".parse().unwrap(), HeaderValue::from_static(told))])
        };
        let asks = |from: &str, is_encrypted: bool, told| {
            unread(ClientPeer::over(from.parse().unwrap(), is_encrypted), &proxies, &headers(told))
                .ok()
                .map(|ip| ip.to_string())
        };
        assert_eq!(asks("192.0.2.1", false, ""), None);
        assert_eq!(asks("192.0.2.1", false, "10.0.0.1"), None);
        assert_eq!(asks("192.0.2.1", true, "10.0.0.1").unwrap(), "192.0.2.1");
        assert_eq!(asks("10.1.1.1", false, "203.0.113.7, 198.51.100.4").unwrap(), "198.51.100.4");
        assert_eq!(asks("10.1.1.1", false, "nonsense").unwrap(), "10.1.1.1");
        assert_eq!(asks("127.0.0.1", false, "203.0.113.7").unwrap(), "127.0.0.1");
    }
}
