//! The list of an owner's chats, kept up to date.
//!
//! A heading is sent as a whole and replaces the one before, so nothing has to be resumed: a client that reconnects gets
//! the newest page again, and then the changes. An open stream gets the page again too when more has changed than was
//! tracked: the page replaces everything, and removes chats whose deletion was not tracked.

use std::collections::{BTreeSet, HashMap};

use everturn::core::ids::{ChatId, InboxSeq, Version};
use everturn::stores::{ChatQuery, Heading, StoreError, SubAgentChats};
use everturn::{Changed, Feed};
use tokio::time::{Duration, Instant, sleep_until};

use crate::api::wire;
use crate::app::SharedApp;
use crate::auth::access::Caller;

/// Chats on the page.
const PAGE_LEN: usize = 50;
/// Chats that are remembered. When there are more, the page is sent again.
const KNOWN_LEN_MAX: usize = 4_096;
/// Shortest time between two reads of the list: a turn commits many times per second.
const PAUSE: Duration = Duration::from_millis(100);

/// The version of a heading: the chat's commits, and the newest accepted command.
type Told = (Version, InboxSeq);

const fn told(heading: &Heading) -> Told {
    (heading.version, heading.received)
}

/// The list as one client knows it.
pub(super) struct List {
    app: SharedApp,
    caller: Caller,
    feed: Feed,
    known: HashMap<ChatId, Told>,
    /// Chats to read again, and whether the whole page is to be.
    due: BTreeSet<ChatId>,
    is_stale: bool,
    /// Earliest time of the next read.
    next: Instant,
    is_new: bool,
}

impl List {
    pub(super) fn new(app: &SharedApp, caller: &Caller) -> Self {
        Self {
            feed: app.feed(caller),
            app: app.clone(),
            caller: caller.clone(),
            known: HashMap::new(),
            due: BTreeSet::new(),
            is_stale: true,
            next: Instant::now(),
            is_new: true,
        }
    }

    /// Waits for the next frame.
    pub(super) async fn next(&mut self) -> Result<String, StoreError> {
        loop {
            self.changed().await;
            let frame = self.frame().await?;
            if !frame.is_empty() {
                return Ok(frame);
            }
        }
    }

    /// Waits until the list may have changed.
    async fn changed(&mut self) {
        loop {
            let is_due = self.is_stale || !self.due.is_empty();
            tokio::select! {
                biased;
                changed = self.feed.next() => match changed {
                    Changed::Chat(chat) if self.due.len() < PAGE_LEN => drop(self.due.insert(chat)),
                    Changed::Chat(chat) if self.due.contains(&chat) => {}
                    Changed::Chat(_) | Changed::Anything => self.is_stale = true,
                },
                () = sleep_until(self.next), if is_due => return,
            }
        }
    }

    /// The changes since the last frame; often empty.
    async fn frame(&mut self) -> Result<String, StoreError> {
        self.next = Instant::now() + PAUSE;
        let mut frame = String::new();
        if std::mem::take(&mut self.is_stale) {
            self.page(&mut frame).await?;
        }
        while let Some(chat) = self.due.pop_first() {
            match self.app.heading_of(&self.caller, chat).await {
                Ok(Some(heading)) if heading.parent.is_some() => {} // Of a sub-agent: not in the list.
                Ok(Some(heading)) => self.tell(&heading, &mut frame),
                Ok(None) => {} // Of another owner.
                Err(StoreError::NoSuchChat) => self.gone(chat, &mut frame),
                Err(error) => return Err(error),
            }
        }
        Ok(frame)
    }

    async fn page(&mut self, frame: &mut String) -> Result<(), StoreError> {
        let query = ChatQuery { len: PAGE_LEN, sub_agents: SubAgentChats::LeftOut, ..ChatQuery::default() };
        let headings = self.app.newest(&self.caller, query).await?;
        let listed: HashMap<ChatId, Told> = headings.iter().map(|heading| (heading.id, told(heading))).collect();
        let is_known = !std::mem::take(&mut self.is_new) && listed == self.known;
        self.known = listed;
        if is_known {
            return Ok(()); // A shared store is polled; nothing has changed.
        }
        let data = serde_json::to_string(&wire::Chats::page(&headings, PAGE_LEN)).unwrap_or_default();
        frame.extend(["event: list\ndata: ", &data, "\n\n"]);
        Ok(())
    }

    fn know(&mut self, heading: &Heading) {
        if self.known.len() >= KNOWN_LEN_MAX {
            self.is_stale = true;
        }
        self.known.insert(heading.id, told(heading));
    }

    fn tell(&mut self, heading: &Heading, frame: &mut String) {
        if self.known.get(&heading.id) == Some(&told(heading)) {
            return;
        }
        self.know(heading);
        let listed = wire::Listed { chat: heading.id.to_string(), heading: heading.into() };
        let data = serde_json::to_string(&listed).unwrap_or_default();
        frame.extend(["event: heading\ndata: ", &data, "\n\n"]);
    }

    /// Adds a `gone` event, only for a chat that was sent before: other ids may belong to another owner.
    fn gone(&mut self, chat: ChatId, frame: &mut String) {
        if self.known.remove(&chat).is_some() {
            frame.push_str(&super::all::gone(chat));
        }
    }
}
