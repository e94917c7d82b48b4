//! Watching a chat.
//!
//! A subscriber has a cursor and reads the store from there, again and again. It is never waited for: one that is slow
//! reads more at once later, and one that comes late gets a snapshot first. Catching up and watching live are the same.

use std::collections::VecDeque;
use std::sync::Arc;

use everturn_core::ids::ChatId;
use everturn_core::view::{Cursor, Event};
use everturn_stores::{Store, StoreError};

use crate::chime::Listener;
use crate::hub::Bell;
use crate::poll::Poll;

/// The events of one chat, from a cursor on, without end.
pub struct Subscription {
    store: Arc<dyn Store>,
    chat: ChatId,
    cursor: Option<Cursor>,
    ahead: VecDeque<Event>,
    woken: Listener,
    /// Whether there may be something that was not read. A read finds all there is, so behind it that takes another ring.
    is_behind: bool,
    /// When to look although nobody rang.
    poll: Poll,
    _bell: Arc<Bell>,
}

impl Subscription {
    pub(crate) fn new(store: Arc<dyn Store>, chat: ChatId, cursor: Option<Cursor>, bell: Arc<Bell>) -> Self {
        let woken = bell.news.listen();
        Self {
            store,
            chat,
            cursor,
            ahead: VecDeque::new(),
            woken,
            is_behind: true,
            poll: Poll::of(&chat.as_u128().to_be_bytes()),
            _bell: bell,
        }
    }

    /// The next event; waits for one. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Event, StoreError> {
        loop {
            if let Some(event) = self.ahead.pop_front() {
                return Ok(event);
            }
            if !self.is_behind {
                tokio::select! {
                    biased;
                    () = self.woken.rung() => {}
                    () = self.poll.due() => {}
                }
            }
            self.is_behind = true; // Until it is read: whoever asked may leave meanwhile.
            self.woken.mark(); // Before the read: a commit in between wakes us again.
            self.read().await?;
            self.is_behind = false;
        }
    }

    /// The next event if there is one already.
    pub async fn try_next(&mut self) -> Result<Option<Event>, StoreError> {
        if self.ahead.is_empty() {
            self.read().await?;
        }
        Ok(self.ahead.pop_front())
    }

    /// Where to go on from later: everything handed out so far has been seen. `None` between the events of one
    /// catch-up, because nobody can resume from half a commit.
    #[must_use]
    pub fn cursor(&self) -> Option<Cursor> {
        self.cursor.filter(|_| self.ahead.is_empty())
    }

    async fn read(&mut self) -> Result<(), StoreError> {
        let news = match self.cursor.and_then(|cursor| self.store.at_hand(self.chat, cursor)) {
            Some(news) => news,
            None => self.store.since(self.chat, self.cursor).await?,
        };
        if let Some(news) = news {
            self.cursor = Some(news.cursor);
            self.ahead.extend(news.events);
        }
        Ok(())
    }
}
