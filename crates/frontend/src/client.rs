//! A client of the daemon.
//!
//! Connections break and daemons are restarted. A command gets one idempotency key and is sent with it until
//! it is answered, so that it has one effect; a stream reconnects with its cursor, so that each event is seen
//! once. Both give up after a bounded time, and a refused request is never repeated.

mod backoff;
mod calls;
#[cfg(any(test, feature = "test-support"))]
#[allow(clippy::unwrap_used, reason = "it is for tests")]
pub mod canned;
mod error;
mod watch;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everturn::providers::endpoint;
use everturn::stores::TokenHash;
use everturn_server::wire::{Follower, ProblemBody};
use everturn_server::{DataDir, DataError};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use crate::entropy;
use backoff::Backoff;
pub use error::ClientError;
use error::cause;
pub use watch::{Watch, WatchEvent};

/// Timeout for a whole answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Timeout for the first connection of a command: a wrong address should be reported quickly.
const REACH_MAX: Duration = Duration::from_millis(1_500);
/// Longest silence of a stream; the server sends a keep-alive every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(40);
/// Limit of one answer.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A client of one daemon, or of the daemon that runs on a data directory at the time of the request.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    daemon: Arc<Daemon>,
    /// HTTP client for a Unix socket, with its path: such a client is bound to one socket.
    socket: Arc<Mutex<Option<(String, reqwest::Client)>>>,
    /// Idempotency key for all commands; each gets its own if `None`.
    name: Option<String>,
    patience: Patience,
}

/// How long the client waits for a daemon.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// How long a request is retried.
    total: Duration,
    /// How long one try of several waits for an answer to begin: a command is answered within ten seconds, or
    /// refused. Shorter than `total`, so that a dead connection is not the only one that is tried.
    begin_max: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { total: Duration::from_secs(15), begin_max: Duration::from_secs(12) }
    }
}

#[derive(Debug)]
enum Daemon {
    At { base: Url, token: String },
    Of(DataDir),
}

/// A request that can be sent several times.
struct RepeatableRequest {
    method: Method,
    path: String,
    /// Its idempotency key: a repeated request has no second effect.
    key: Option<String>,
    body: Option<Vec<u8>>,
}

impl Client {
    /// A client of the daemon at this address.
    pub fn new(base: Url, token: String) -> Self {
        // A proxy could read a token that is sent over plain http.
        let is_direct = base.scheme() == "http" || is_near(&base);
        Self::with(Daemon::At { base, token }, is_direct)
    }

    /// A client of the daemon on this data directory, also after a restart; `None` if none is running.
    pub fn local(data: &DataDir) -> Result<Option<Self>, ClientError> {
        let is_there = data.address()?.is_some();
        Ok(is_there.then(|| Self::of(data)))
    }

    /// A client of the daemon that runs on this data directory at the time of each request.
    pub fn of(data: &DataDir) -> Self {
        Self::with(Daemon::Of(data.clone()), true)
    }

    fn with(daemon: Daemon, is_direct: bool) -> Self {
        // No proxy between two processes on one machine.
        let builder = if is_direct { builder().no_proxy() } else { builder() };
        Self {
            http: built(builder),
            daemon: Arc::new(daemon),
            socket: Arc::default(),
            name: None,
            patience: Patience::default(),
        }
    }

    /// Checks that a server listens at the configured address. A server that answers slowly counts.
    ///
    /// # Errors
    /// No server listens there.
    pub async fn reach(&self) -> Result<(), ClientError> {
        let Daemon::At { base, .. } = &*self.daemon else { return Ok(()) };
        let builder = if is_near(base) { builder().no_proxy() } else { builder() };
        let builder = builder.connect_timeout(REACH_MAX);
        let request = match base.as_str().strip_prefix("unix:") {
            Some(socket) => built(builder.unix_socket(socket)).get("http://localhost/healthz"),
            None => built(builder).get(format!("{}/healthz", base.as_str().trim_end_matches('/'))),
        };
        match timeout(REACH_MAX + REACH_MAX / 4, request.send()).await {
            Ok(Err(error)) if error.is_connect() => {
                Err(ClientError::Away { at: base.as_str().trim_end_matches('/').into(), why: cause(&error) })
            }
            _ => Ok(()),
        }
    }

    /// This client with a fixed idempotency key, for one command that may be sent several times.
    pub fn named(&self) -> Result<Self, ClientError> {
        Ok(Self { name: Some(new_key()?), ..self.clone() })
    }

    /// The HTTP client for a Unix socket.
    fn over(&self, path: &str) -> reqwest::Client {
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        match &*socket {
            Some((known, http)) if known == path => http.clone(),
            _ => {
                let http = built(builder().unix_socket(path));
                *socket = Some((path.into(), http.clone()));
                http
            }
        }
    }

    /// The daemon's current address and token.
    fn place(&self) -> Result<(String, String), ClientError> {
        match &*self.daemon {
            Daemon::At { base, token } => Ok((base.as_str().trim_end_matches('/').into(), token.clone())),
            Daemon::Of(data) => {
                let none = || ClientError::NoDaemon(data.path().into());
                Ok((data.address()?.ok_or_else(none)?.url, data.read_token()?.ok_or_else(none)?))
            }
        }
    }

    /// Watches a chat from its current state.
    pub fn watch(&self, chat: &str) -> Watch {
        self.resume(chat, Follower::default())
    }

    /// Watches a chat from a follower's position.
    pub fn resume(&self, chat: &str, follower: Follower) -> Watch {
        Watch::new(self.clone(), chat, follower)
    }

    /// Whether the server is ready to read and drive chats, without retries.
    pub async fn is_ready(&self) -> Result<bool, ClientError> {
        let asked = RepeatableRequest { method: Method::GET, path: "/readyz".into(), key: None, body: None };
        match timeout(ANSWER_MAX, self.once(&asked)).await {
            Ok(Ok(_)) => Ok(true),
            Ok(Err(ClientError::Problem(problem))) if problem.status == 503 => Ok(false),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(ClientError::Late(self.base())),
        }
    }

    /// The id of the token in use.
    pub fn token_id(&self) -> Result<String, ClientError> {
        Ok(TokenHash::of(&self.place()?.1).id())
    }

    /// The daemon's address, for messages.
    pub fn base(&self) -> String {
        self.place().map_or_else(|error| error.to_string(), |(base, _)| base)
    }

    fn request(&self, method: Method, path: &str) -> Result<RequestBuilder, ClientError> {
        let (base, token) = self.place()?;
        let request = match base.strip_prefix("unix:") {
            Some(socket) => self.over(socket).request(method, format!("http://localhost{path}")),
            None => self.http.request(method, format!("{base}{path}")),
        };
        Ok(request.bearer_auth(token))
    }

    /// Sends the request until there is an answer, and parses it.
    async fn ask<T: DeserializeOwned>(&self, asked: RepeatableRequest) -> Result<T, ClientError> {
        let bytes = self.ask_bytes(&asked).await?;
        serde_json::from_slice(&bytes).map_err(ClientError::Malformed)
    }

    async fn ask_bytes(&self, asked: &RepeatableRequest) -> Result<Vec<u8>, ClientError> {
        let (until, mut backoff) = (Instant::now() + self.patience.total, Backoff::default());
        // A request without a key may have had its effect.
        let is_repeatable = asked.key.is_some() || asked.method == Method::GET;
        let begin_max = if is_repeatable { self.patience.begin_max } else { ANSWER_MAX };
        loop {
            let late = |_| ClientError::Late(self.base());
            let answer = async {
                let mut response = timeout(begin_max, self.once(asked)).await.map_err(late)??;
                bounded(&mut response).await
            };
            let error = match timeout(ANSWER_MAX, answer).await.map_err(late) {
                Ok(Ok(bytes)) => return Ok(bytes),
                Ok(Err(error)) | Err(error) => error,
            };
            let is_safe = error.is_unsent() || is_repeatable;
            let delay = backoff.next();
            if !error.is_passing() || !is_safe || Instant::now() + delay > until {
                return Err(error);
            }
            tokio::time::sleep(delay).await;
        }
    }

    /// Sends the request once; returns when the answer begins.
    async fn once(
        &self,
        RepeatableRequest { method, path, key, body }: &RepeatableRequest,
    ) -> Result<Response, ClientError> {
        let mut request = self.request(method.clone(), path)?;
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.clone());
        }
        self.answered(request).await
    }

    /// Sends a request, and waits for an answer that is a success.
    async fn answered(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let answer = checked(request.send().await.map_err(ClientError::Connection)?).await;
        answer.map_err(|error| match (&*self.daemon, &error) {
            // The token was not named by the user, so the error names its file.
            (Daemon::Of(data), ClientError::Problem(problem)) if problem.status == 401 => {
                DataError::OldToken(data.token_file()).into()
            }
            _ => error,
        })
    }
}

/// Whether the daemon is on this machine.
fn is_near(base: &Url) -> bool {
    !base.has_host() || endpoint::is_near(base)
}

fn builder() -> reqwest::ClientBuilder {
    // Keeps a provider that was installed before; ours is ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .connect_timeout(CONNECT_MAX)
        .read_timeout(SILENCE_MAX)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
}

fn built(builder: reqwest::ClientBuilder) -> reqwest::Client {
    builder.build().expect("a client without files or addresses of its own can be built")
}

/// A successful answer, or the problem in its body.
async fn checked(mut response: Response) -> Result<Response, ClientError> {
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status();
    let body = bounded(&mut response).await?;
    match serde_json::from_slice::<ProblemBody>(&body) {
        Ok(problem) => Err(ClientError::Problem(Box::new(problem))),
        Err(_) => Err(ClientError::Strange(status)),
    }
}

async fn bounded(response: &mut Response) -> Result<Vec<u8>, ClientError> {
    let mut whole = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(ClientError::Connection)? {
        if whole.len() + piece.len() > ANSWER_BYTES_MAX {
            return Err(ClientError::Strange(StatusCode::PAYLOAD_TOO_LARGE));
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole)
}

/// A new idempotency key.
fn new_key() -> Result<String, ClientError> {
    entropy::name().map_err(ClientError::Chance)
}

#[cfg(test)]
mod tests;
