//! Watching a chat.
//!
//! A subscriber has a cursor and reads the store from there, again and again. Nothing waits for it: a slow subscriber reads
//! more at once later, and a late one gets a snapshot first. Catching up and watching live are the same.
//!
//! An accepted command shows with the commit that applies it, a moment later. If that takes longer, because the disk is full
//! or the database slow, the subscriber gets the chat's standing without it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use everturn_core::ids::{ChatId, InboxSeq};
use everturn_core::view::{Cursor, Event, Standing};
use everturn_stores::{News, Store, StoreError};
use tokio::time::{Sleep, sleep};

use crate::util::poll_on_wake::PollOnWake;
use crate::watch::hub::ChatSignals;
use crate::watch::poll::Polling;
use crate::watch::signal::SignalListener;

/// How long the commit that applies a command may take before subscribers learn without it that it was accepted.
const APPLIED_AFTER: Duration = Duration::from_millis(50);

/// The events of one chat, from a cursor on, without end.
pub struct Subscription {
    store: Arc<dyn Store>,
    chat: ChatId,
    cursor: Option<Cursor>,
    ahead: VecDeque<Event>,
    woken: SignalListener,
    /// Whether there may be something unread. A read finds everything, so after it only another ring makes this true.
    is_behind: bool,
    /// The newest command that the events so far account for.
    received: InboxSeq,
    overdue: Overdue,
    /// When to read although no signal came.
    poll: Polling,
    _signals: Arc<ChatSignals>,
}

impl Subscription {
    pub(crate) fn new(store: Arc<dyn Store>, chat: ChatId, cursor: Option<Cursor>, signals: Arc<ChatSignals>) -> Self {
        let (woken, overdue) = (signals.news.listen(), Overdue::new(&signals));
        Self {
            store,
            chat,
            cursor,
            ahead: VecDeque::new(),
            woken,
            is_behind: true,
            received: InboxSeq(0),
            overdue,
            poll: Polling::of(&chat.as_u128().to_be_bytes()),
            _signals: signals,
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
            self.is_behind = true; // Until it is read: the caller may drop this future.
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

    /// The cursor to resume from later: behind every event returned so far. `None` between the events of one catch-up,
    /// because a reader cannot resume from half a commit.
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

    /// Reads whether a command was accepted that no commit shows. If the chat has moved on, a signal comes for that.
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

/// Fires when an accepted command should have shown in a commit.
struct Overdue {
    accepted: SignalListener,
    timer: Option<PollOnWake<Pin<Box<Sleep>>>>,
    /// Whether it has fired.
    is_due: bool,
}

impl Overdue {
    fn new(signals: &ChatSignals) -> Self {
        Self { accepted: signals.accepted.listen(), timer: None, is_due: false }
    }

    /// Waits until it is time. Dropping the future loses nothing.
    async fn due(&mut self) {
        if self.timer.is_none() {
            self.accepted.rung().await;
            self.accepted.mark();
        }
        self.timer.get_or_insert_with(|| PollOnWake::new(Box::pin(sleep(APPLIED_AFTER)))).await;
        self.timer = None;
        self.is_due = true;
    }
}
