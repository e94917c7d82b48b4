//! One chat with everything around it, in the plainest form: what a store must equal.

use std::sync::Arc;

use everturn_core::change::{Change, admit_behind};
use everturn_core::chat::Chat;
use everturn_core::command::{Command, InboxCommand, Refusal};
use everturn_core::delta::Delta;
use everturn_core::draft::Draft;
use everturn_core::fact::{AttemptRecord, Fact};
use everturn_core::ids::{ChatId, InboxSeq, MessageId, Timestamp};
use everturn_core::limits::Limits;
use everturn_core::message::{Body, Message};
use everturn_core::view::JournalRow;

use super::{Deed, Dice, deed, obey};

/// One chat with everything around it.
#[derive(Debug, Clone)]
pub struct Stage {
    /// Where it stands.
    pub chat: Chat,
    /// What was said and not rewound.
    pub transcript: Vec<Arc<Message>>,
    /// The journal of the open step.
    pub rows: Vec<JournalRow>,
    /// What the rows add up to.
    pub draft: Option<Draft>,
    /// Every command that was accepted, and what became of it.
    pub inbox: Vec<(InboxCommand, Option<Result<(), Refusal>>)>,
    /// Every attempt.
    pub attempts: Vec<AttemptRecord>,
    /// The time.
    pub now: Timestamp,
}

impl Stage {
    /// An empty chat.
    #[must_use]
    pub fn new(id: ChatId) -> Self {
        Self {
            chat: Chat::new(id, "agent", "owner"),
            transcript: Vec::new(),
            rows: Vec::new(),
            draft: None,
            inbox: Vec::new(),
            attempts: Vec::new(),
            now: Timestamp(0),
        }
    }

    /// Puts a command into the inbox, or says why not.
    pub fn submit(&mut self, command: Command, limits: &Limits) -> Result<InboxSeq, Refusal> {
        self.submit_as(None, command, limits)
    }

    /// Submits a command with an idempotency key.
    pub fn submit_as(&mut self, key: Option<&str>, command: Command, limits: &Limits) -> Result<InboxSeq, Refusal> {
        let aimed = admit_behind(&self.chat, self.pending(), &command, limits, self.now, |id| self.is_users(id))?;
        let seq = self.inbox.last().map_or(self.chat.obeyed, |(newest, _)| newest.seq).next();
        let (at, key) = (self.now, key.map(Into::into));
        self.inbox.push((InboxCommand { seq, aimed, at, key, command }, None));
        Ok(seq)
    }

    /// Commands that were not obeyed yet.
    pub fn pending(&self) -> impl Iterator<Item = &InboxCommand> + Clone {
        self.inbox.iter().map(|(inbound, _)| inbound).filter(|inbound| inbound.seq > self.chat.obeyed)
    }

    /// What the driver makes of the next command, if there is one.
    #[must_use]
    pub fn obey_next(&self) -> Option<Vec<Fact>> {
        let next = self.pending().next()?;
        Some(obey(&self.chat, self.draft.as_ref(), next, |id| self.is_users(id), self.now))
    }

    /// What the driver does next by itself.
    #[must_use]
    pub fn deed(&self, limits: &Limits, dice: &mut Dice) -> Deed {
        deed(&self.chat, self.draft.as_ref(), limits, self.now, dice)
    }

    /// What `make` puts together.
    #[must_use]
    pub fn change(&self, make: impl for<'c, 'a> FnOnce(&'c mut Change<'a>) -> &'c mut Change<'a>) -> Vec<Fact> {
        let mut change = Change::new(&self.chat, self.now);
        make(&mut change);
        change.facts()
    }

    /// Writes a change.
    pub fn commit(&mut self, facts: &[Fact]) {
        self.chat.apply(facts);
        for fact in facts {
            match fact {
                Fact::Said(message, _) => self.transcript.push(message.clone()),
                Fact::Rewound { from } => self.transcript.retain(|message| message.id < *from),
                Fact::Attempted(attempted, _) => self.attempts.push((**attempted).clone()),
                Fact::Obeyed(seq, outcome) => {
                    let letter = self.inbox.iter_mut().find(|(inbound, _)| inbound.seq == *seq);
                    letter.expect("it was submitted").1 = Some(*outcome);
                }
                _ => {}
            }
        }
        if self.draft.take_if(|draft| draft.step() < self.chat.step).is_some() {
            self.rows.clear();
        }
    }

    /// Numbers deltas of the open step and lets the draft grow by them.
    pub fn journal(&mut self, deltas: Vec<Delta>) -> Vec<JournalRow> {
        let (step, at) = (self.chat.step, self.now);
        let draft = self.draft.get_or_insert_with(|| Draft::new(step));
        let number = |delta: Delta| {
            let seq = draft.push(at, &delta).expect("deltas are drawn to fit");
            JournalRow { step, seq, at, delta: Arc::new(delta) }
        };
        let rows: Vec<JournalRow> = deltas.into_iter().map(number).collect();
        self.rows.extend(rows.iter().cloned());
        rows
    }

    /// Whether a person sent this message.
    #[must_use]
    pub fn is_users(&self, id: MessageId) -> bool {
        self.transcript.iter().any(|message| message.id == id && matches!(message.body, Body::User(_)))
    }
}
