//! Watches a chat through every reconnect.

use std::collections::VecDeque;

use everturn::providers::sse::{Decoder, Overlong, SseBounds};
use everturn_server::wire::{BadFold, Event, Follower, View};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use reqwest::{Method, Response};
use tokio::time::{Instant, sleep_until};

use super::backoff::Backoff;
use super::{ANSWER_BYTES_MAX, Client, ClientError};

/// A chat that is watched. Connections come and go; each event is seen once, in order.
pub struct Watch {
    client: Client,
    chat: String,
    follower: Follower,
    connection: Option<Connection>,
    /// Kept across calls of `next`: a dropped call does not restart the connection.
    connecting: Option<BoxFuture<'static, Result<Response, ClientError>>>,
    backoff: Backoff,
    /// No new connection before this.
    not_before: Option<Instant>,
    /// Whether a lost connection was reported, and its return was not.
    is_lost: bool,
}

/// What is new about a chat.
#[derive(Debug)]
pub enum WatchEvent {
    /// Events that belong together, already folded into the view. Each comes once.
    Events(Vec<Event>),
    /// The connection is lost and is being retried. Reported after every try: the daemon's successor may have
    /// ended too.
    Lost(ClientError),
    /// The daemon is connected again.
    Back,
}

struct Connection {
    response: Response,
    decoder: Decoder,
    /// Events whose cursor has not arrived.
    half: Vec<Event>,
    ready: VecDeque<Vec<Event>>,
}

/// A stream that cannot be followed.
#[derive(Debug)]
enum Bad {
    Overlong,
    Malformed,
    Fold,
}

impl From<Overlong> for Bad {
    fn from(_: Overlong) -> Self {
        Self::Overlong
    }
}

impl From<serde_json::Error> for Bad {
    fn from(_: serde_json::Error) -> Self {
        Self::Malformed
    }
}

impl From<BadFold> for Bad {
    fn from(_: BadFold) -> Self {
        Self::Fold
    }
}

impl Watch {
    /// A watch of a chat from a follower's position.
    pub(super) fn new(client: Client, chat: &str, follower: Follower) -> Self {
        Self {
            client,
            chat: chat.into(),
            follower,
            connection: None,
            connecting: None,
            backoff: Backoff::default(),
            not_before: None,
            is_lost: false,
        }
    }

    /// The chat after all events so far.
    pub const fn view(&self) -> &View {
        self.follower.view()
    }

    /// The position, to resume on another connection.
    pub fn into_follower(self) -> Follower {
        self.follower
    }

    /// Waits for news. Cancel-safe: dropping the future loses nothing.
    ///
    /// # Errors
    /// The chat cannot be watched any more: it was deleted, or the token is not valid.
    pub async fn next(&mut self) -> Result<WatchEvent, ClientError> {
        loop {
            if let Some(at) = self.not_before {
                sleep_until(at).await;
                self.not_before = None;
            }
            let Some(connection) = &mut self.connection else {
                match self.connect().await {
                    Ok(connection) => self.connection = Some(connection),
                    Err(error) if error.is_passing() || error.kind() == Some("too-many") => {
                        return Ok(self.lost(error));
                    }
                    Err(error) => return Err(error),
                }
                continue;
            };
            if let Some(events) = connection.ready.pop_front() {
                if std::mem::take(&mut self.is_lost) {
                    connection.ready.push_front(events);
                    return Ok(WatchEvent::Back);
                }
                self.backoff = Backoff::default();
                return Ok(WatchEvent::Events(events));
            }
            let read = connection.response.chunk().await;
            if let Some(news) = self.take(read.map(|bytes| bytes.map(Vec::from))) {
                return Ok(news);
            }
        }
    }

    async fn connect(&mut self) -> Result<Connection, ClientError> {
        let connecting = match &mut self.connecting {
            Some(connecting) => connecting,
            none => {
                let mut request = self.client.request(Method::GET, &format!("/v1/chats/{}/stream", self.chat))?;
                if let Some(cursor) = self.follower.cut() {
                    request = request.header("last-event-id", cursor);
                }
                let client = self.client.clone();
                none.insert(async move { client.answered(request).await }.boxed())
            }
        };
        let response = connecting.await;
        self.connecting = None;
        let bounds = SseBounds {
            line_bytes_max: ANSWER_BYTES_MAX,
            frame_bytes_max: ANSWER_BYTES_MAX,
            response_bytes_max: usize::MAX, // A stream has no end; each event is bounded.
        };
        Ok(Connection { response: response?, decoder: Decoder::new(bounds), half: Vec::new(), ready: VecDeque::new() })
    }

    /// Processes bytes from the connection; returns news if it is lost.
    fn take(&mut self, read: reqwest::Result<Option<Vec<u8>>>) -> Option<WatchEvent> {
        let Self { connection: Some(Connection { decoder, half, ready, .. }), follower, .. } = self else {
            return None;
        };
        let bytes = match read {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return self.cut(),
            Err(error) => return Some(self.lost(ClientError::Connection(error))),
        };
        let taken = decoder.push(&bytes, |event| {
            let Some(parsed) = Event::parse(event.name, event.data)? else { return Ok(()) };
            half.push(parsed.clone());
            if follower.take(parsed, event.has_id.then_some(event.id))? {
                ready.push_back(std::mem::take(half));
            }
            Ok::<(), Bad>(())
        });
        if taken.is_err() {
            // Should not happen. The view cannot be trusted: start again as a new client would.
            self.follower = Follower::default();
            return self.cut();
        }
        None
    }

    /// The stream has ended in good order: reconnect at once, unless that was tried just now.
    fn cut(&mut self) -> Option<WatchEvent> {
        self.connection = None;
        self.not_before = Some(Instant::now() + self.backoff.next());
        None
    }

    fn lost(&mut self, error: ClientError) -> WatchEvent {
        self.cut();
        self.is_lost = true;
        WatchEvent::Lost(error)
    }
}
