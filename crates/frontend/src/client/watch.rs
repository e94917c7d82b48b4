//! Watching a chat, whatever happens to the connection.

use std::collections::VecDeque;

use everturn::providers::sse::{Bounds, Decoder, Overlong};
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
    /// Kept across waits: whoever stops waiting does not begin anew.
    connecting: Option<BoxFuture<'static, Result<Response, ClientError>>>,
    backoff: Backoff,
    /// No new connection before this.
    not_before: Option<Instant>,
    /// Whether the loss of a connection was told, and its return was not.
    is_lost: bool,
}

/// What is new about a chat.
#[derive(Debug)]
pub enum News {
    /// Events that belong together, already folded into the view. Each comes once.
    Events(Vec<Event>),
    /// The daemon is away; it is looked for. Told after every try: whoever took its place may be gone by then, too.
    Lost(ClientError),
    /// The daemon is there again.
    Back,
}

struct Connection {
    response: Response,
    decoder: Decoder,
    /// Events whose cursor has not come.
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

impl Client {
    /// Watches a chat from where it is.
    pub fn watch(&self, chat: &str) -> Watch {
        self.resume(chat, Follower::default())
    }

    /// Watches a chat from where somebody stopped.
    pub fn resume(&self, chat: &str, follower: Follower) -> Watch {
        Watch {
            client: self.clone(),
            chat: chat.into(),
            follower,
            connection: None,
            connecting: None,
            backoff: Backoff::default(),
            not_before: None,
            is_lost: false,
        }
    }
}

impl Watch {
    /// The chat, as far as it was told.
    pub const fn view(&self) -> &View {
        self.follower.view()
    }

    /// Where to watch on, on another connection.
    pub fn into_follower(self) -> Follower {
        self.follower
    }

    /// Waits for what is new. May be dropped while it waits; nothing is lost by it.
    ///
    /// # Errors
    /// The chat cannot be watched any more: it is gone, or the token is not good.
    pub async fn next(&mut self) -> Result<News, ClientError> {
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
                    return Ok(News::Back);
                }
                self.backoff = Backoff::default();
                return Ok(News::Events(events));
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
        let bounds = Bounds {
            line_bytes_max: ANSWER_BYTES_MAX,
            frame_bytes_max: ANSWER_BYTES_MAX,
            response_bytes_max: usize::MAX, // It has no end; each event has.
        };
        Ok(Connection { response: response?, decoder: Decoder::new(bounds), half: Vec::new(), ready: VecDeque::new() })
    }

    /// Takes in what was read, and says so if the connection is lost by it.
    fn take(&mut self, read: reqwest::Result<Option<Vec<u8>>>) -> Option<News> {
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
            // Should not happen. What was folded so far is not to be trusted: begin anew, as a new client would.
            self.follower = Follower::default();
            return self.cut();
        }
        None
    }

    /// The stream has ended in good order: come back at once, unless that was tried just now.
    fn cut(&mut self) -> Option<News> {
        self.connection = None;
        self.not_before = Some(Instant::now() + self.backoff.next());
        None
    }

    fn lost(&mut self, error: ClientError) -> News {
        self.cut();
        self.is_lost = true;
        News::Lost(error)
    }
}
