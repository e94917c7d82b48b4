//! The only connections to model providers.
//!
//! Every wire talks through this one client: no redirects, which would carry a key elsewhere; no retries, which are the
//! engine's to decide; no total time, since an answer may take as long as it makes progress. Bounded is how long a
//! connection and the headers may take, and how much of an error is read. What goes wrong is handed to
//! [`crate::classify`] as types, never as text.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use everturn_core::error::ProviderError;
use everturn_core::limits::{Limits, Thinking};
use futures_util::StreamExt as _;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Response};
use rustls::ClientConfig;
use rustls_platform_verifier::ConfigVerifierExt as _;
use serde_json::Value;

use crate::classify::{BODY_BYTES_MAX, Evidence, Phase, Transport, classify, request_id};
use crate::clock;
use crate::endpoint::Endpoint;
use crate::provider::FrameStream;
use crate::record::Recording;
use crate::sse::SseBounds;
use crate::wire::{Decode, Fold, ResponseBody, frames};

mod lanes;
mod trouble;

use lanes::{LaneGuard, Lanes, ProxyUse};

#[cfg(test)]
mod tests;

/// A request to an endpoint.
#[derive(Debug, Clone)]
pub struct HttpCall {
    /// `GET`, `POST`…
    pub method: Method,
    /// Below the endpoint's base; may have a query.
    pub path: String,
    /// What this wire wants besides the endpoint's headers, and instead of them.
    pub headers: HeaderMap,
    /// The JSON to send.
    pub body: Option<Value>,
    /// Whether the model may think before it answers.
    pub thinking: Thinking,
}

impl HttpCall {
    /// A question.
    #[must_use]
    pub fn post(path: impl Into<String>, body: Value) -> Self {
        Self { method: Method::POST, body: Some(body), ..Self::get(path) }
    }

    /// A GET request.
    #[must_use]
    pub fn get(path: impl Into<String>) -> Self {
        let (path, headers) = (path.into(), HeaderMap::new());
        Self { method: Method::GET, path, headers, body: None, thinking: Thinking::No }
    }

    /// This request with one more header.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// This request to a model that may think first.
    #[must_use]
    pub const fn thinking(mut self, thinking: Thinking) -> Self {
        self.thinking = thinking;
        self
    }
}

/// The client all providers share. Clones share its connections.
#[derive(Debug, Clone)]
pub struct Http {
    lanes: Arc<Lanes>,
    /// For addresses of plain http: a proxy would read what is sent there, keys included.
    plain: Arc<Lanes>,
    limits: Limits,
}

impl Http {
    /// A client with these bounds. Honours the usual proxy variables for https, where a proxy only makes a tunnel. Hosts of
    /// plain http are asked directly.
    ///
    /// # Panics
    /// If the machine's TLS cannot be set up at all.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self::over(limits, ProxyUse::Usual, trusting_the_machine())
    }

    /// A client that uses no proxy, for a server on this machine.
    ///
    /// # Panics
    /// If the machine's TLS cannot be set up at all.
    #[must_use]
    pub fn direct(limits: &Limits) -> Self {
        Self::over(limits, ProxyUse::Direct, trusting_the_machine())
    }

    fn over(limits: &Limits, route: ProxyUse, tls: ClientConfig) -> Self {
        let plain = Arc::new(Lanes::new(limits, ProxyUse::Direct, tls.clone()));
        Self { lanes: Arc::new(Lanes::new(limits, route, tls)), plain, limits: limits.clone() }
    }

    /// A place for a request to an endpoint.
    fn place(&self, endpoint: &Endpoint) -> LaneGuard {
        if endpoint.is_plain() { self.plain.place() } else { self.lanes.place() }
    }

    /// Asks, and gives back the answer as it arrives, read by `decode`.
    ///
    /// # Errors
    /// There is no answer, or something else was answered.
    pub async fn stream<D: Decode>(
        &self,
        endpoint: &Endpoint,
        call: HttpCall,
        decode: D,
    ) -> Result<FrameStream, ProviderError> {
        let place = self.place(endpoint);
        let (response, recording) = self.send(&place, endpoint, call, "text/event-stream").await?;
        let seen = Seen::of(&response);
        if !is_event_stream(response.headers()) {
            return Err(self.refusal(endpoint, response, &recording).await);
        }
        let body = body(endpoint.clone(), seen.clone(), response, recording.clone());
        let fold = Fold::new(endpoint.provider(), SseBounds::from(&self.limits), decode);
        let endpoint = endpoint.clone();
        let frames = frames(body, fold, self.limits.tail_max());
        let told = move |error| {
            let _until_the_end = &place;
            let error = endpoint.veiled(seen.tell(error));
            recording.broke(&error);
            error
        };
        Ok(frames.map(move |frame| frame.map_err(&told)).boxed())
    }

    /// Asks, and gives back the answer as a whole, if it is JSON.
    ///
    /// # Errors
    /// There is no answer, or it is not JSON, or it is too long.
    pub async fn fetch(&self, endpoint: &Endpoint, call: HttpCall) -> Result<Value, ProviderError> {
        let place = self.place(endpoint);
        let (response, recording) = self.send(&place, endpoint, call, "application/json").await?;
        let seen = Seen::of(&response);
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = read(response, self.limits.response_bytes_max).await;
        let bytes = bytes.map_err(|error| broke(endpoint, Phase::Streaming, &error, &seen))?;
        recording.came(&bytes);
        serde_json::from_slice(&bytes).map_err(|_| answered(endpoint, status, &headers, &bytes))
    }

    /// Sends a request and takes an answer with a good status.
    async fn send(
        &self,
        place: &LaneGuard,
        endpoint: &Endpoint,
        call: HttpCall,
        accept: &'static str,
    ) -> Result<(Response, Recording), ProviderError> {
        let mut headers = endpoint.headers()?;
        headers.extend(call.headers.clone());
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let recording = Recording::begin(endpoint, &call, &headers);
        let mut request = place.client.request(call.method, endpoint.url(&call.path)).headers(headers);
        if let Some(body) = call.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let opened = tokio::time::timeout(self.limits.open_for(call.thinking), request.send()).await;
        let response = match opened {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let error = broke(endpoint, Phase::Opening, &error, &Seen::default());
                recording.broke(&error);
                return Err(error);
            }
            Err(_) => {
                let silence = "no headers in time";
                let evidence =
                    Evidence::of_transport(endpoint.provider(), Phase::Opening, Transport::TimedOut, silence);
                let error = classify(&evidence);
                recording.broke(&error);
                return Err(error);
            }
        };
        recording.answered(response.status().as_u16(), response.headers());
        match response.status().is_success() {
            true => Ok((response, recording)),
            false => Err(self.refusal(endpoint, response, &recording).await),
        }
    }

    /// The error for a response whose status is not a success.
    async fn refusal(&self, endpoint: &Endpoint, response: Response, recording: &Recording) -> ProviderError {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        // A body that never ends must not keep us: what has come by then is read.
        let body = tokio::time::timeout(self.limits.connect_max, read(response, BODY_BYTES_MAX)).await;
        let body = body.unwrap_or(Ok(Bytes::new())).unwrap_or_default();
        recording.came(&body);
        let error = answered(endpoint, status, &headers, &body);
        recording.broke(&error);
        error
    }
}

/// TLS with the machine's root certificates.
fn trusting_the_machine() -> ClientConfig {
    // A crypto provider that is installed already stays; ring is the default.
    let _ = rustls::crypto::ring::default_provider().install_default();
    ClientConfig::with_platform_verifier().expect("the machine's root certificates can be read")
}

/// What is remembered of a response while its body arrives.
#[derive(Debug, Clone, Default)]
struct Seen {
    request_id: Option<String>,
}

impl Seen {
    fn of(response: &Response) -> Self {
        Self { request_id: request_id(|name| text(response.headers(), name)).map(str::to_owned) }
    }

    /// An error in the stream, with the name its request had.
    fn tell(&self, error: ProviderError) -> ProviderError {
        match (&error.request_id, &self.request_id) {
            (None, Some(id)) => error.with_request_id(id),
            _ => error,
        }
    }
}

fn broke(endpoint: &Endpoint, phase: Phase, error: &reqwest::Error, seen: &Seen) -> ProviderError {
    let transport = trouble::of(error, phase);
    let told = match (transport, phase) {
        // The host is the first thing to check.
        (Transport::Tls, _) => format!("no secure connection to {}: {}", endpoint.host(), trouble::told(error)),
        (Transport::Dns | Transport::Connect, Phase::Opening) => {
            format!("no connection to {}: {}", endpoint.host(), trouble::told(error))
        }
        // Several clocks run against one bound, each with words of its own.
        (Transport::TimedOut, Phase::Opening) => "no connection in time".to_owned(),
        _ => trouble::told(error),
    };
    let evidence = Evidence::of_transport(endpoint.provider(), phase, transport, &told);
    endpoint.veiled(seen.tell(classify(&evidence)))
}

/// The error that status, headers and body of a refused request tell.
fn answered(endpoint: &Endpoint, status: u16, headers: &HeaderMap, body: &[u8]) -> ProviderError {
    let body = endpoint.veil(body);
    let evidence = Evidence::of_response(endpoint.provider(), status, |name| text(headers, name), &body, clock::now());
    let key_variable = endpoint.key_variable().map(str::to_owned);
    let base_variable = endpoint.base_variable().map(str::to_owned);
    let error = endpoint.veiled(classify(&Evidence { key_variable, base_variable, ..evidence }));
    match status {
        404 | 405 if error.detail.is_empty() => {
            error.with_detail(&format!("status {status} for a request below {}", endpoint.base()))
        }
        300..400 if error.detail.is_empty() => {
            error.with_detail("a redirect, which is not followed; check the base URL")
        }
        _ => error,
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Whether a body is an event stream as we can read it. Some servers forget to say what it is.
fn is_event_stream(headers: &HeaderMap) -> bool {
    let plain = text(headers, CONTENT_ENCODING.as_str()).is_none_or(|coding| coding.eq_ignore_ascii_case("identity"));
    let media_type =
        text(headers, CONTENT_TYPE.as_str()).map(|value| value.split(';').next().unwrap_or_default().trim());
    plain && media_type.is_none_or(|name| name.eq_ignore_ascii_case("text/event-stream"))
}

/// The body, its errors typed.
fn body(endpoint: Endpoint, seen: Seen, response: Response, recording: Recording) -> ResponseBody {
    let typed = move |error: reqwest::Error| broke(&endpoint, Phase::Streaming, &error, &seen);
    let heard = move |bytes: &Result<Bytes, _>| {
        if let Ok(bytes) = bytes {
            recording.came(bytes);
        }
    };
    response.bytes_stream().inspect(heard).map(move |bytes| bytes.map_err(&typed)).boxed()
}

/// The first `max` bytes of a body.
async fn read(mut response: Response, max: usize) -> Result<Bytes, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await? {
        body.extend_from_slice(&bytes[..bytes.len().min(max - body.len())]);
        if body.len() == max {
            break;
        }
    }
    Ok(body.into())
}

/// Names are looked up afresh for every connection, and a failure is known by its type.
struct Names;

#[derive(Debug, thiserror::Error)]
#[error("the name has no address")]
struct NoAddress(#[source] std::io::Error);

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await.map_err(NoAddress)?;
            let addresses: Vec<SocketAddr> = found.collect();
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
