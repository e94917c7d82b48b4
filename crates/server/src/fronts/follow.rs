//! Following one turn of a chat: its stored rows first, then what comes.

use std::sync::Arc;

use everturn::Subscription;
use everturn::core::ids::{InboxSeq, MessageId};
use everturn::core::message::{Body, Message, Part};
use everturn::core::view::{Event, Snapshot, Standing};
use everturn::stores::StoreError;

use super::Front;
use super::turn::{TurnProgress, TurnView};
use crate::api::problem::{Problem, ProblemKind};
use crate::app::{OpenedChat, SharedApp};

const UNREADABLE: &str = "the chat cannot be read";
/// Messages that are read at once.
const PAGE_LEN: usize = 200;

/// Which turn is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhichTurn {
    /// The turn of the message with this receipt.
    Receipt(InboxSeq),
    /// The turn of this message.
    Message(MessageId),
}

/// One turn of a chat, while it goes on.
pub(crate) struct FollowedTurn {
    app: SharedApp,
    chat: OpenedChat,
    which: WhichTurn,
    events: Subscription,
    /// The turn, once its user message is in the transcript.
    pub view: Option<TurnView>,
    standing: Option<Box<Standing>>,
    /// A snapshot that is not folded yet: the messages before its page may have to be read.
    pending: Option<Box<Snapshot>>,
}

impl FollowedTurn {
    /// Follows a turn from its beginning.
    pub(crate) fn new(app: SharedApp, chat: OpenedChat, which: WhichTurn) -> Self {
        let events = chat.handle.events(None);
        Self { app, chat, which, events, view: None, standing: None, pending: None }
    }

    /// Counts bytes that a client is sent again.
    pub(crate) fn count_replayed(&self, front: Front, bytes: usize) {
        self.app.meter.fronts.replayed(front, bytes);
    }

    /// Waits for news and folds all of them. Dropping the future loses nothing. The error says why it cannot go on.
    pub(crate) async fn catch_up(&mut self) -> Result<(), &'static str> {
        if self.pending.is_some() {
            return self.fold_snapshot().await; // The last time it was dropped before that was done.
        }
        let mut event = Some(self.events.next().await.map_err(|error| trouble(&error))?);
        while let Some(next) = event {
            self.fold(next).await?;
            if self.events.cursor().is_some() {
                return Ok(());
            }
            event = self.events.try_next().await.map_err(|error| trouble(&error))?;
        }
        Ok(())
    }

    /// How far the turn is. `None` while its message waits in the queue.
    pub(crate) fn progress(&self) -> Option<TurnProgress> {
        let standing = self.standing.as_ref()?;
        match (&self.view, self.which) {
            (Some(view), _) => Some(view.progress(standing)),
            (None, WhichTurn::Receipt(receipt)) if standing.unanswered.contains(&receipt) => None,
            (None, _) => Some(TurnProgress::Gone),
        }
    }

    async fn fold(&mut self, event: Event) -> Result<(), &'static str> {
        match event {
            Event::Reset(snapshot) => {
                self.pending = Some(snapshot);
                return self.fold_snapshot().await;
            }
            Event::Standing(standing) => {
                if let Some(view) = &mut self.view {
                    view.fold(&Event::Standing(standing.clone()))?;
                }
                self.standing = Some(standing);
            }
            Event::Message(message) => {
                let message = with_files(&self.app, &self.chat, message).await?;
                match &mut self.view {
                    Some(view) => view.message(&message),
                    None => self.view = Some(TurnView::new(&message)).filter(|_| self.is_meant(&message)),
                }
            }
            event @ (Event::Delta(_) | Event::Rewound(_)) => {
                if let Some(view) = &mut self.view {
                    view.fold(&event)?;
                }
            }
        }
        Ok(())
    }

    /// Folds the snapshot that waits, and the messages between what is known and its page.
    async fn fold_snapshot(&mut self) -> Result<(), &'static str> {
        let Some(snapshot) = &self.pending else { return Ok(()) };
        let first = snapshot.messages.first().map(|message| message.id);
        if self.view.is_none() {
            let found = snapshot.messages.iter().find(|message| self.is_meant(message)).cloned();
            let is_queued = matches!(self.which, WhichTurn::Receipt(receipt)
                if snapshot.standing.unanswered.contains(&receipt));
            let found = match found {
                Some(found) => Some(found),
                None if is_queued => None,
                None => {
                    let is_meant = |message: &Message| self.is_meant(message);
                    find(&self.app, &self.chat, first, is_meant).await.map_err(|_| UNREADABLE)?
                }
            };
            self.view = found.as_deref().map(TurnView::new);
        }
        if let (Some(view), Some(first)) = (&mut self.view, first) {
            let mut after = view.newest();
            while after < first && view.is_newest() {
                let page = self.app.after(&self.chat, after, PAGE_LEN).await.map_err(|_| UNREADABLE)?;
                let Some(last) = page.last().map(|message| message.id) else { break };
                for message in page {
                    view.message(&with_files(&self.app, &self.chat, message).await?);
                }
                after = last;
            }
        }
        let pages = self.pending.as_ref().map(|snapshot| snapshot.messages.clone()).unwrap_or_default();
        if let Some(view) = &mut self.view {
            for message in pages {
                view.message(&with_files(&self.app, &self.chat, message).await?);
            }
        }
        if let Some(snapshot) = self.pending.take() {
            let event = Event::Reset(snapshot);
            if let Some(view) = &mut self.view {
                view.fold(&event)?;
            }
            let Event::Reset(snapshot) = event else { return Ok(()) };
            self.standing = Some(Box::new(snapshot.standing));
        }
        Ok(())
    }

    fn is_meant(&self, message: &Message) -> bool {
        let Body::User(_) = message.body else { return false };
        match self.which {
            WhichTurn::Receipt(receipt) => message.sent.as_ref().is_some_and(|sent| sent.receipt == receipt),
            WhichTurn::Message(id) => message.id == id,
        }
    }
}

/// The message with the bytes of its files: pages come without.
pub(crate) async fn with_files(
    app: &SharedApp,
    chat: &OpenedChat,
    message: Arc<Message>,
) -> Result<Arc<Message>, &'static str> {
    if !lacks_bytes(&message) {
        return Ok(message);
    }
    app.message(chat, message.id).await.map_err(|_| UNREADABLE)
}

/// Whether a message has files whose bytes were not read.
pub(crate) fn lacks_bytes(message: &Message) -> bool {
    let parts = match &message.body {
        Body::User(parts) => parts,
        Body::Reply(reply) => &reply.parts,
        Body::Context(_) | Body::Result(_) | Body::Summary(_) => return false,
    };
    parts
        .iter()
        .any(|part| matches!(part, Part::File(file) if file.bytes.as_ref().is_some_and(|bytes| bytes.here().is_none())))
}

/// The newest message before `before` that is meant. Reads page by page.
pub(crate) async fn find(
    app: &SharedApp,
    chat: &OpenedChat,
    mut before: Option<MessageId>,
    is_meant: impl Fn(&Message) -> bool,
) -> Result<Option<Arc<Message>>, Problem> {
    loop {
        let page = app.page(chat, before, PAGE_LEN).await?;
        let Some(first) = page.first().map(|message| message.id) else { return Ok(None) };
        if let Some(found) = page.iter().rev().find(|message| is_meant(message)) {
            return Ok(Some(found.clone()));
        }
        before = Some(first);
    }
}

/// The turn that a client which comes now should see: the one under way, or about to begin. `None` if the chat rests or
/// waits for answers.
pub(crate) async fn turn_under_way(app: &SharedApp, chat: &OpenedChat) -> Result<Option<WhichTurn>, Problem> {
    let standing = chat.handle.standing().await?;
    if standing.unanswered.is_empty() || !standing.asks.is_empty() {
        return Ok(None);
    }
    let is_user = |message: &Message| matches!(message.body, Body::User(_));
    let newest = find(app, chat, None, is_user).await?;
    let receipt = newest.as_ref().and_then(|message| Some(message.sent.as_ref()?.receipt));
    Ok(match receipt.filter(|receipt| standing.unanswered.contains(receipt)) {
        Some(receipt) => Some(WhichTurn::Receipt(receipt)),
        None => standing.unanswered.first().copied().map(WhichTurn::Receipt),
    })
}

/// The problem of a turn that is not in the transcript any more.
pub(crate) fn no_such_turn() -> Problem {
    Problem::new(
        ProblemKind::NotFound,
        "The message is not in the chat: it was edited or removed; load the chat again.",
    )
}

fn trouble(error: &StoreError) -> &'static str {
    match error {
        StoreError::NoSuchChat => "the chat is gone",
        StoreError::Unavailable(_) => "the store is not available",
        StoreError::Unreadable(_) | StoreError::Damaged(_) => UNREADABLE,
    }
}
