//! HTTP to a server, within bounds.
//!
//! No redirects, which would carry headers elsewhere; no retries, because a call may have effects; no total time, since a
//! call may take as long as it makes progress. What goes wrong is classified by whether the server can have run the call.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt as _};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::common::client_side_sse::SseRetryPolicy;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use super::MESSAGE_BYTES_MAX;
use crate::oauth::LoginError;
use crate::oauth::bearer::Bearer;

const CONNECT_MAX: Duration = Duration::from_secs(10);
/// The header with the session of a server before 2026.
pub(crate) const SESSION_HEADER: &str = "mcp-session-id";
const LAST_EVENT_HEADER: &str = "last-event-id";
/// Bytes of an error's body that are read.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// Characters of an error's body that are told.
const ERROR_CHARS: usize = 300;
/// How often, and how soon, a cut stream of events is resumed where a server allows it.
const RESUMES_MAX: usize = 3;
const RESUME_AFTER: Duration = Duration::from_secs(1);

/// A client of one server.
#[derive(Debug, Clone)]
pub(crate) struct HttpClient {
    client: reqwest::Client,
    headers: HeaderMap,
    /// The login that is used, unless the headers have credentials.
    bearer: Option<Bearer>,
}

/// Why a request to a server failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpFailure {
    /// There was no connection, so nothing was sent.
    #[error("{0}")]
    NotConnected(String),
    /// The credentials were refused.
    #[error("the server refused the credentials (HTTP {0}): {1}")]
    Refused(u16, String),
    /// Another answer than a result.
    #[error("the server answered {0}")]
    Status(String),
    /// The answer is larger than is taken.
    #[error("the server's answer has more than {} MiB", MESSAGE_BYTES_MAX / 1024 / 1024)]
    TooLarge,
    /// The connection broke.
    #[error("{0}")]
    Broken(String),
}

type Failed = StreamableHttpError<HttpFailure>;

impl HttpClient {
    pub(crate) fn new(headers: HeaderMap, bearer: Bearer) -> Self {
        // Keeps a provider that was installed before; ours is ring.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .build()
            .expect("a client without files or addresses of its own can be built");
        let bearer = Some(bearer).filter(|_| !headers.contains_key(AUTHORIZATION));
        Self { client, headers, bearer }
    }

    /// Sends a request, and takes out the answers that mean the same for each kind of request.
    async fn sent(
        &self,
        request: reqwest::RequestBuilder,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Response, Failed> {
        let mut request = request.headers(self.headers.clone()).headers(headers.into_iter().collect());
        if let Some(session) = session {
            request = request.header(SESSION_HEADER, session);
        }
        let response = self.with_login(request.header(ACCEPT, "text/event-stream, application/json")).await?;
        match response.status() {
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                Err(Failed::Client(self.refused(status.as_u16(), "")))
            }
            StatusCode::NOT_FOUND if session.is_some() => Err(Failed::SessionExpired),
            status if status.is_redirection() => Err(Failed::Client(HttpFailure::Status(format!(
                "HTTP {} with another address, which is not followed: put the server's own address into `url`",
                status.as_u16()
            )))),
            _ => Ok(response),
        }
    }

    /// Sends a request with the token of the login, if there is one. A token that is refused is renewed once: the server did
    /// not take the request.
    async fn with_login(&self, request: reqwest::RequestBuilder) -> Result<Response, Failed> {
        let Some(bearer) = &self.bearer else { return request.send().await.map_err(broken) };
        let token = bearer.token(None).await.map_err(|error| self.no_token(error))?;
        let Some(token) = token else { return request.send().await.map_err(broken) };
        let again = request.try_clone();
        let response = with_token(request, &token)?.send().await.map_err(broken)?;
        let Some(again) = again.filter(|_| response.status() == StatusCode::UNAUTHORIZED) else { return Ok(response) };
        match bearer.token(Some(&token)).await.map_err(|error| self.no_token(error))? {
            Some(renewed) if renewed != token => with_token(again, &renewed)?.send().await.map_err(broken),
            Some(_) | None => Ok(response),
        }
    }

    fn no_token(&self, error: LoginError) -> Failed {
        Failed::Client(match error {
            LoginError::Refused(why) => self.refused(StatusCode::UNAUTHORIZED.as_u16(), &format!("{why}; ")),
            other => HttpFailure::NotConnected(format!("the login could not be renewed: {other}")),
        })
    }

    /// The failure of refused credentials, with advice.
    fn refused(&self, status: u16, why: &str) -> HttpFailure {
        let advice = match &self.bearer {
            None => "check the headers of its entry".into(),
            Some(bearer) if self.headers.is_empty() => format!("log in with `everturn mcp login {}`", bearer.server()),
            Some(bearer) => {
                format!("log in with `everturn mcp login {}`, or check the headers of its entry", bearer.server())
            }
        };
        HttpFailure::Refused(status, format!("{why}{advice}"))
    }
}

fn with_token(request: reqwest::RequestBuilder, token: &str) -> Result<reqwest::RequestBuilder, Failed> {
    let value = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut value =
        value.map_err(|_| Failed::Client(HttpFailure::NotConnected("the stored login is damaged".into())))?;
    value.set_sensitive(true);
    Ok(request.header(AUTHORIZATION, value))
}

fn broken(error: reqwest::Error) -> Failed {
    let is_connect = error.is_connect();
    let told = causes(&error.without_url());
    Failed::Client(if is_connect { HttpFailure::NotConnected(told) } else { HttpFailure::Broken(told) })
}

/// An error and its causes, each once.
fn causes(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !told.contains(&text) {
            told = format!("{told}: {text}");
        }
        next = cause.source();
    }
    told
}

/// The body of an answer, if it is not too large.
async fn body(response: &mut Response, bytes_max: usize) -> Result<Vec<u8>, Failed> {
    let mut whole = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(broken)? {
        if whole.len() + piece.len() > bytes_max {
            return Err(Failed::Client(HttpFailure::TooLarge));
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole)
}

/// An answer that is no success: the error of the protocol in its body, or its status.
async fn refusal(
    message: &ClientJsonRpcMessage,
    session: Option<&str>,
    mut response: Response,
) -> Result<StreamableHttpPostResponse, Failed> {
    let status = response.status();
    let body = body(&mut response, ERROR_BYTES_MAX).await.unwrap_or_default();
    let error = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(ServerJsonRpcMessage::Error(error)) => Some(error),
        Ok(_) | Err(_) => None,
    };
    let text: String = String::from_utf8_lossy(&body).chars().take(ERROR_CHARS).collect();
    let told = format!("HTTP {}: {}", status.as_u16(), text.trim());
    match (probe(message).filter(|_| session.is_none() && status.is_client_error()), error) {
        // Servers before 2026 refuse the first request of newer clients in many ways, often without its id.
        (Some(id), error) => {
            let error = error.map_or_else(|| ErrorData::invalid_request(told, None), |error| error.error);
            Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, Some(id)), None))
        }
        (None, Some(error)) => Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), None)),
        (None, None) => Err(Failed::Client(HttpFailure::Status(told))),
    }
}

/// The id of the request that finds out which protocol a server speaks.
fn probe(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => {
            matches!(request.request, ClientRequest::DiscoverRequest(_)).then(|| request.id.clone())
        }
        _ => None,
    }
}

fn is_of_type(response: &Response, kind: &str) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|told| told.as_bytes().starts_with(kind.as_bytes()))
}

fn events(response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
    let bytes = BoundedEvents { bytes: response.bytes_stream().boxed(), event_bytes: 0, line_bytes: 0 };
    SseStream::from_bytes_stream(bytes).boxed()
}

impl StreamableHttpClient for HttpClient {
    type Error = HttpFailure;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let request = self.client.post(&*uri).header(CONTENT_TYPE, "application/json");
        let request = request.body(serde_json::to_vec(&message)?);
        let mut response = self.sent(request, session.as_deref(), headers).await?;
        if matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !response.status().is_success() {
            return refusal(&message, session.as_deref(), response).await;
        }
        let new_session = response.headers().get(SESSION_HEADER).and_then(|told| told.to_str().ok()).map(str::to_owned);
        if is_of_type(&response, "text/event-stream") {
            return Ok(StreamableHttpPostResponse::Sse(events(response), new_session));
        }
        let body = body(&mut response, MESSAGE_BYTES_MAX).await?;
        if !matches!(message, ClientJsonRpcMessage::Request(_)) {
            return Ok(StreamableHttpPostResponse::Accepted); // No answer is expected.
        }
        match serde_json::from_slice(&body) {
            Ok(answer) => Ok(StreamableHttpPostResponse::Json(answer, new_session)),
            Err(error) => {
                let told = format!("with something else than a message of the protocol: {error}");
                Err(Failed::Client(HttpFailure::Status(told)))
            }
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        let mut request = self.client.get(&*uri);
        if let Some(last) = last_event {
            request = request.header(LAST_EVENT_HEADER, last);
        }
        let response = self.sent(request, session.as_deref(), headers).await?;
        if response.status() == StatusCode::METHOD_NOT_ALLOWED || !is_of_type(&response, "text/event-stream") {
            return Err(Failed::ServerDoesNotSupportSse);
        }
        Ok(events(response))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failed> {
        self.sent(self.client.delete(&*uri), Some(&session), headers).await.map(drop)
    }
}

/// How the transport behaves: it never sends a call twice.
pub(crate) fn transport_config(url: &str) -> StreamableHttpClientTransportConfig {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    config.retry_config = Arc::new(Resumes);
    config.reinit_on_expired_session = false;
    config.max_sse_event_size = MESSAGE_BYTES_MAX;
    config
}

/// When a cut stream of events is resumed.
#[derive(Debug)]
struct Resumes;

impl SseRetryPolicy for Resumes {
    fn retry(&self, times: usize) -> Option<Duration> {
        (times < RESUMES_MAX).then_some(RESUME_AFTER)
    }
}

/// The bytes of a stream of events, none of which is larger than a message may be.
struct BoundedEvents {
    bytes: BoxStream<'static, reqwest::Result<Bytes>>,
    event_bytes: usize,
    line_bytes: usize,
}

impl Stream for BoundedEvents {
    type Item = Result<Bytes, HttpFailure>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.bytes.poll_next_unpin(context).map(|piece| {
            let piece = match piece? {
                Ok(piece) => piece,
                Err(error) => return Some(Err(HttpFailure::Broken(causes(&error.without_url())))),
            };
            for byte in &piece {
                match byte {
                    b'\r' => {}
                    b'\n' if self.line_bytes == 0 => self.event_bytes = 0, // An empty line ends an event.
                    b'\n' => self.line_bytes = 0,
                    _ => {
                        self.line_bytes += 1;
                        self.event_bytes += 1;
                    }
                }
            }
            Some(if self.event_bytes > MESSAGE_BYTES_MAX { Err(HttpFailure::TooLarge) } else { Ok(piece) })
        })
    }
}
