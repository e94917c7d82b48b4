//! Records requests and responses of providers, for debugging.
//!
//! Recording is off unless it is switched on, for all chats or for one: [`recording`] runs a future, and
//! every exchange made inside goes to a [`Recorder`] at its end. Records hold no key: only headers known to
//! hold none are recorded, and the endpoint's key is removed from all text.

use std::sync::{Arc, Mutex, PoisonError};

use everturn_core::error::ProviderError;
use everturn_core::ids::ChatId;
use reqwest::header::HeaderMap;

use crate::endpoint::Endpoint;
use crate::http::HttpCall;

/// Bytes kept of one answer; what came after them is not.
pub const RECORDED_BYTES_MAX: usize = 1 << 20;

/// Headers that are told. Of the others only the name is.
const TOLD: [&str; 14] = [
    "accept",
    "anthropic-beta",
    "anthropic-version",
    "cf-ray",
    "content-length",
    "content-type",
    "date",
    "openai-processing-ms",
    "request-id",
    "retry-after",
    "retry-after-ms",
    "server",
    "user-agent",
    "x-request-id",
];

/// One request and what came back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exchange {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The host.
    pub host: String,
    /// `POST`, `GET`…
    pub method: String,
    /// Below the provider's base.
    pub path: String,
    /// What was sent before the body.
    pub request_headers: Vec<(String, String)>,
    /// The body.
    pub request_body: String,
    /// How it was answered, if it was.
    pub status: Option<u16>,
    /// What came before the body.
    pub response_headers: Vec<(String, String)>,
    /// The body, as text as far as it is.
    pub response_body: String,
    /// Whether there was more of it than is kept.
    pub is_cut: bool,
    /// What went wrong.
    pub error: Option<String>,
}

/// The chat an exchange belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Of {
    /// The chat.
    pub chat: ChatId,
    /// Whether recording is switched on for this chat.
    pub debug: bool,
}

/// A sink for recorded exchanges.
pub trait Recorder: Send + Sync + 'static {
    /// An exchange made for a chat is over. Called where the answer is read: keep it short.
    fn record(&self, of: Of, exchange: Exchange);

    /// Deletes what was kept of a chat, because the chat is gone.
    fn forget(&self, chat: ChatId);

    /// The chats of which something is kept.
    fn kept(&self) -> Vec<ChatId>;

    /// Whether anything of this chat may be recorded. If not, nothing is taken down either.
    fn is_on(&self, _: Of) -> bool {
        true
    }
}

tokio::task_local! {
    static TAPE: Option<(Arc<dyn Recorder>, Of)>;
}

/// Runs a future. What is exchanged inside goes to `recorder`, if there is one.
pub async fn recording<F: Future>(recorder: Option<Arc<dyn Recorder>>, of: Of, inside: F) -> F::Output {
    let recorder = recorder.filter(|recorder| recorder.is_on(of));
    TAPE.scope(recorder.map(|recorder| (recorder, of)), inside).await
}

/// An exchange under way. It ends when its last clone is dropped.
#[derive(Clone, Default)]
pub(crate) struct Recording(Option<Arc<Open>>);

struct Open {
    recorder: Arc<dyn Recorder>,
    of: Of,
    endpoint: Endpoint,
    state: Mutex<(Exchange, Vec<u8>)>,
}

impl Recording {
    /// Begins with a request, if anybody records here.
    pub(crate) fn begin(endpoint: &Endpoint, call: &HttpCall, headers: &HeaderMap) -> Self {
        let Some((recorder, of)) = TAPE.try_with(Clone::clone).ok().flatten() else { return Self(None) };
        let body = call.body.as_ref().map(ToString::to_string).unwrap_or_default();
        let exchange = Exchange {
            provider: endpoint.provider().to_owned(),
            host: endpoint.host(),
            method: call.method.to_string(),
            path: endpoint.veil_text(&call.path),
            request_headers: told(endpoint, headers),
            request_body: endpoint.veil_text(&body),
            ..Exchange::default()
        };
        let state = Mutex::new((exchange, Vec::new()));
        Self(Some(Arc::new(Open { recorder, of, endpoint: endpoint.clone(), state })))
    }

    fn note(&self, note: impl FnOnce(&mut (Exchange, Vec<u8>))) {
        if let Some(open) = &self.0 {
            note(&mut open.state.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// It was answered.
    pub(crate) fn answered(&self, status: u16, headers: &HeaderMap) {
        let headers = self.0.as_ref().map(|open| told(&open.endpoint, headers)).unwrap_or_default();
        self.note(|(exchange, _)| {
            exchange.status = Some(status);
            exchange.response_headers = headers;
        });
    }

    /// More of the answer came.
    pub(crate) fn came(&self, bytes: &[u8]) {
        self.note(|(exchange, body)| {
            let room = RECORDED_BYTES_MAX - body.len();
            body.extend_from_slice(&bytes[..bytes.len().min(room)]);
            exchange.is_cut |= bytes.len() > room;
        });
    }

    /// It went wrong.
    pub(crate) fn broke(&self, error: &ProviderError) {
        self.note(|(exchange, _)| {
            exchange.error = Some(format!("{}: {error} {}", error.kind.label(), error.detail).trim_end().to_owned());
        });
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (mut exchange, body) = std::mem::take(state);
        exchange.response_body = String::from_utf8_lossy(&self.endpoint.veil(&body)).into_owned();
        self.recorder.record(self.of, exchange);
    }
}

fn told(endpoint: &Endpoint, headers: &HeaderMap) -> Vec<(String, String)> {
    let value = |(name, value): (&reqwest::header::HeaderName, &reqwest::header::HeaderValue)| {
        let is_told = TOLD.contains(&name.as_str()) || name.as_str().contains("ratelimit");
        let value = if is_told { value.to_str().unwrap_or("not text") } else { "not recorded" };
        (name.to_string(), endpoint.veil_text(value)) // A server may echo a key in any header.
    };
    headers.iter().map(value).collect()
}
