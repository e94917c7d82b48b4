//! Requests to authorization servers: bounded, without redirects, and to nowhere that a token could be read on the way.

use std::time::Duration;

use everturn::providers::endpoint;
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::LoginError;

/// How long one request may take.
const REQUEST_MAX: Duration = Duration::from_secs(20);
/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Characters of an error that are told.
const ERROR_CHARS: usize = 300;

/// A client for authorization servers.
#[derive(Debug, Clone)]
pub(crate) struct AuthorizationClient {
    client: reqwest::Client,
}

/// An answer with its status.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
}

impl AuthorizationClient {
    pub(crate) fn new() -> Self {
        // Keeps a provider that was installed before; ours is ring.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .timeout(REQUEST_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .expect("a client without files or addresses of its own can be built");
        Self { client }
    }

    pub(crate) fn get(&self, url: &Url) -> RequestBuilder {
        self.client.get(url.clone()).header("accept", "application/json")
    }

    pub(crate) fn post(&self, url: &Url) -> RequestBuilder {
        self.client.post(url.clone()).header("accept", "application/json")
    }
}

/// Sends a request, without reading the body of its answer.
pub(crate) async fn send(request: RequestBuilder) -> Result<Response, LoginError> {
    let sent = request.send().await;
    sent.map_err(|error| LoginError::Unreachable(format!("a request failed: {}", error.without_url())))
}

/// Sends a request and reads its answer, within bounds.
pub(crate) async fn answer(request: RequestBuilder) -> Result<Answer, LoginError> {
    let mut response = send(request).await?;
    let status = response.status();
    let mut body = Vec::new();
    let broken = |error: reqwest::Error| LoginError::Unreachable(format!("an answer broke: {}", error.without_url()));
    while let Some(piece) = response.chunk().await.map_err(broken)? {
        if body.len() + piece.len() > ANSWER_BYTES_MAX {
            return Err(LoginError::Discovery(format!("an answer has more than {} KiB", ANSWER_BYTES_MAX / 1024)));
        }
        body.extend_from_slice(&piece);
    }
    Ok(Answer { status, body })
}

impl Answer {
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }

    /// What an answer that is no success says, for people: never what was sent.
    pub(crate) fn told(&self) -> String {
        let said: Option<Value> = self.json();
        let field = |name: &str| said.as_ref().and_then(|said| said[name].as_str()).map(str::to_owned);
        let told = match (field("error"), field("error_description")) {
            (Some(error), Some(more)) => format!("{error}: {more}"),
            (Some(error), None) => error,
            (None, _) => format!("HTTP {}", self.status.as_u16()),
        };
        told.chars().filter(|c| !c.is_control()).take(ERROR_CHARS).collect()
    }
}

/// An address that secrets may be sent to.
pub(crate) fn checked(url: Url, plain_hosts: &str) -> Result<Url, LoginError> {
    if endpoint::may_carry_secrets(&url, plain_hosts) && matches!(url.scheme(), "http" | "https") {
        return Ok(url);
    }
    Err(LoginError::Discovery(format!(
        "{}://{} cannot be used: a login travels over https only",
        url.scheme(),
        endpoint::host(&url)
    )))
}
