//! One stream for everything a client shows: some chats in full, and the list of all.
//!
//! A browser has few connections to a server, so a page with many chats needs one stream for all of them. Chats share
//! nothing but the connection: each has its own cursor, which is in its events, and is resumed from it.

use std::collections::BTreeMap;

use axum::response::Response;
use bytes::Bytes;
use everturn::Subscription;
use everturn::core::ids::ChatId;
use everturn::core::view::{Cursor, Event};
use everturn::stores::StoreError;
use futures_util::future::{BoxFuture, FutureExt as _, OptionFuture};
use futures_util::stream::{self, FuturesUnordered, StreamExt as _};

use super::life::{self, FrameSource, StreamLife};
use super::list::List;
use super::trouble;
use crate::api::problem::Problem;
use crate::api::wire;
use crate::app::SharedApp;
use crate::auth::access::Caller;
use crate::net::slow_reader::CutSignal;

/// Chats that are read concurrently when a stream begins.
const GLANCES_LEN_MAX: usize = 4;

/// A followed chat.
struct Chat {
    id: ChatId,
    events: Subscription,
}

type Next = BoxFuture<'static, (Chat, Result<Event, StoreError>)>;
type NextOfList = BoxFuture<'static, (List, Result<String, StoreError>)>;

/// The stream of many chats to one client.
struct MultiChat {
    life: StreamLife,
    /// The followed chats, each waiting for its next event.
    chats: FuturesUnordered<Next>,
    /// The list, read concurrently, because that may take long.
    list: Option<NextOfList>,
    /// The first frame.
    first: String,
}

/// What to follow: chats in full, each from a cursor on.
pub type Followed = BTreeMap<ChatId, Option<Cursor>>;

/// The events of some chats and, if wanted, the list of all, as an endless response. A chat that does not exist, or belongs
/// to another owner, gets a `gone` event.
pub async fn answer_all(
    app: SharedApp,
    caller: &Caller,
    followed: Followed,
    is_listed: bool,
) -> Result<Response, Problem> {
    let life = StreamLife::begin(app.clone(), caller)?;
    let (chats, mut first) = (FuturesUnordered::new(), String::new());
    let glances = followed.into_iter().map(async |(id, cursor)| (id, cursor, app.heading_of(caller, id).await));
    let mut glances = stream::iter(glances).buffered(GLANCES_LEN_MAX);
    while let Some((id, cursor, heading_of)) = glances.next().await {
        match heading_of {
            Ok(Some(_)) => chats.push(next(Chat { id, events: app.events(id, cursor) })),
            Ok(None) | Err(StoreError::NoSuchChat) => first.push_str(&gone(id)),
            Err(error) => return Err(error.into()),
        }
    }
    drop(glances);
    let list = is_listed.then(|| list_next(List::new(&app, caller)));
    let all = MultiChat { life, chats, list, first };
    Ok(life::response(all))
}

fn next(mut chat: Chat) -> Next {
    async move {
        let event = chat.events.next().await;
        (chat, event)
    }
    .boxed()
}

fn list_next(mut list: List) -> NextOfList {
    async move {
        let frame = list.next().await;
        (list, frame)
    }
    .boxed()
}

pub(super) fn gone(chat: ChatId) -> String {
    format!("event: gone\ndata: {{\"chat\":\"{chat}\"}}\n\n")
}

impl FrameSource for MultiChat {
    fn ends(&self) -> CutSignal {
        self.life.ends()
    }

    async fn frame(&mut self) -> Option<Bytes> {
        if let Some(said) = self.life.hello() {
            return said;
        }
        if !self.first.is_empty() {
            return Some(std::mem::take(&mut self.first).into());
        }
        loop {
            let beat = tokio::select! {
                biased;
                beat = self.life.beat() => beat,
                Some((list, frame)) = OptionFuture::from(self.list.as_mut()) => {
                    self.life.spoke();
                    return self.listed(list, frame);
                }
                Some((chat, event)) = self.chats.next(), if !self.chats.is_empty() => {
                    self.life.spoke();
                    return self.gather(chat, event).await;
                }
            };
            if let Some(said) = self.life.heed(beat) {
                return Some(said);
            }
        }
    }
}

impl MultiChat {
    fn listed(&mut self, list: List, frame: Result<String, StoreError>) -> Option<Bytes> {
        match frame {
            Ok(frame) => {
                self.list = Some(list_next(list));
                Some(frame.into())
            }
            Err(error) => self.life.end(trouble(&error)),
        }
    }

    /// An event of a chat and the rest of its catch-up.
    async fn gather(&mut self, mut chat: Chat, first: Result<Event, StoreError>) -> Option<Bytes> {
        let mut event = match first {
            Ok(event) => event,
            Err(StoreError::NoSuchChat) => return Some(gone(chat.id).into()), // The other chats go on.
            Err(error) => return self.life.end(trouble(&error)),
        };
        let mut frame = String::new();
        loop {
            write(&mut frame, chat.id, &event, chat.events.cursor());
            if chat.events.cursor().is_some() {
                break;
            }
            event = match chat.events.try_next().await {
                Ok(Some(event)) => event,
                Ok(None) | Err(_) => break, // An error shows again at the next read.
            };
        }
        self.chats.push(next(chat));
        self.life.say(frame)
    }
}

fn write(frame: &mut String, chat: ChatId, event: &Event, cursor: Option<Cursor>) {
    let event = wire::Event::from(event);
    let name = event.name();
    let cursor = cursor.map(|cursor| wire::cursor::of(chat, cursor).to_string());
    let told = wire::Told { chat: chat.to_string(), cursor, event };
    let Ok(data) = serde_json::to_string(&told) else { return };
    frame.extend(["event: ", name, "\ndata: ", &data, "\n\n"]);
}
