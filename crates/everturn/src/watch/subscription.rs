//! Watching a chat.
//!
//! A subscriber has a cursor and reads the store from there, again and again. It is never waited for: one that is slow
//! reads more at once later, and one that comes late gets a snapshot first. Catching up and watching live are the same.
//!
//! A command that was accepted shows with the commit that obeys it, a moment later. If that takes longer, because the disk is
//! full or the database slow, the subscriber is told where the chat stands without it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use everturn_core::ids::{ChatId, InboxSeq};
use everturn_core::view::{Cursor, Event, Standing};
use everturn_stores::{News, Store, StoreError};
use tokio::time::{Sleep, sleep};

use crate::util::poll_on_wake::Dormant;
use crate::watch::hub::Bell;
use crate::watch::poll::Poll;
use crate::watch::signal::Listener;

/// How long the commit that obeys a command may take before subscribers are told without it that it was accepted.
const OBEYED_AFTER: Duration = Duration::from_millis(50);

/// The events of one chat, from a cursor on, without end.
pub struct Subscription {
    store: Arc<dyn Store>,
    chat: ChatId,
    cursor: Option<Cursor>,
    ahead: VecDeque<Event>,
    woken: Listener,
    /// Whether there may be something that was not read. A read finds all there is, so behind it that takes another ring.
    is_behind: bool,
    /// The newest command that was taken into account in what was told.
    received: InboxSeq,
    overdue: Overdue,
    /// When to look although nobody rang.
    poll: Poll,
    _bell: Arc<Bell>,
}

impl Subscription {
    pub(crate) fn new(store: Arc<dyn Store>, chat: ChatId, cursor: Option<Cursor>, bell: Arc<Bell>) -> Self {
        let (woken, overdue) = (bell.news.listen(), Overdue::new(&bell));
        Self {
            store,
            chat,
            cursor,
            ahead: VecDeque::new(),
            woken,
            is_behind: true,
            received: InboxSeq(0),
            overdue,
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
                    () = self.overdue.due() => {}
                    () = self.poll.due() => {}
                }
            }
            self.is_behind = true; // Until it is read: whoever asked may leave meanwhile.
            self.woken.mark(); // Before the read: a commit in between wakes us again.
            self.read().await?;
            self.look().await?;
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
        let news = self.store.since(self.chat, self.cursor).await?;
        if let Some(News { cursor, events }) = news {
            self.cursor = Some(cursor);
            let standing = events.iter().rev().find_map(|event| match event {
                Event::Standing(standing) => Some(&**standing),
                Event::Reset(snapshot) => Some(&snapshot.standing),
                Event::Message(_) | Event::Delta(_) | Event::Rewound(_) => None,
            });
            if let Some(Standing { received, .. }) = standing {
                self.received = *received;
                self.overdue.timer = None; // It was read just now, with all that was accepted.
                self.overdue.is_due = false;
            }
            self.ahead.extend(events);
        }
        Ok(())
    }

    /// Looks whether something was accepted that no commit has told of. If the chat has moved on, that is rung for.
    async fn look(&mut self) -> Result<(), StoreError> {
        if !self.overdue.is_due {
            return Ok(());
        }
        let standing = self.store.standing(self.chat).await?;
        if self.cursor.is_some_and(|seen| seen.version == standing.version) && standing.received > self.received {
            self.received = standing.received;
            self.ahead.push_back(Event::Standing(Box::new(standing)));
        }
        self.overdue.is_due = false;
        Ok(())
    }
}

/// Says when a command that was accepted should have been told of.
struct Overdue {
    accepted: Listener,
    timer: Option<Dormant<Pin<Box<Sleep>>>>,
    /// Whether it is time.
    is_due: bool,
}

impl Overdue {
    fn new(bell: &Bell) -> Self {
        Self { accepted: bell.accepted.listen(), timer: None, is_due: false }
    }

    /// Waits until it is time. Dropping the future loses nothing.
    async fn due(&mut self) {
        if self.timer.is_none() {
            self.accepted.rung().await;
            self.accepted.mark();
        }
        self.timer.get_or_insert_with(|| Dormant::new(Box::pin(sleep(OBEYED_AFTER)))).await;
        self.timer = None;
        self.is_due = true;
    }
}
