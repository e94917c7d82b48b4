//! What a chat's rows say about one turn.
//!
//! A pure fold, shared by all fronts that show chats: stored messages and deltas in, the steps of a turn out. A front keeps
//! what it has told its client and tells the difference, so it does not matter in which portions the rows arrive, or
//! whether a draft was replaced by its message meanwhile: the same rows end in the same turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use everturn::core::chat::{OpenCall, TurnEnd};
use everturn::core::draft::Draft;
use everturn::core::ids::{InboxSeq, MessageId, StepId};
use everturn::core::message::{Body, CallResult, Message, Part, Reply, Stop};
use everturn::core::status::Status;
use everturn::core::view::{Event, Standing};

/// One turn, from a user message up to the next one: a message that steers begins a turn of its own here.
#[derive(Debug)]
pub(crate) struct TurnView {
    user: MessageId,
    /// The receipt of the user message.
    receipt: Option<InboxSeq>,
    steps: Vec<CommittedStep>,
    draft: Option<Draft>,
    /// The step that was drafted last, and how often something shown of it was taken back.
    restarts: (StepId, u32),
    fate: TurnFate,
}

/// What became of the turn in the transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TurnFate {
    /// Its messages are the newest.
    Newest,
    /// A later user message follows.
    Followed,
    /// It was rewound.
    Gone,
}

#[derive(Debug)]
struct CommittedStep {
    reply: Arc<Message>,
    restarts: u32,
    results: BTreeMap<u16, Arc<Message>>,
}

/// A step of the turn: a reply, or the draft of one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TurnStep<'a> {
    /// Its number.
    pub step: StepId,
    /// What the model has said.
    pub parts: &'a [Part],
    /// The reply, once it is committed.
    pub reply: Option<&'a Reply>,
    /// How often something shown of the step was taken back, calls apart.
    pub restarts: u32,
    results: Option<&'a BTreeMap<u16, Arc<Message>>>,
}

/// What was told contradicts the turn, and the protocol has no way to take it back: the stream has to be broken, and the
/// client's next request is told all of it anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contradicted;

/// How far a turn is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TurnProgress {
    /// More will follow.
    Going,
    /// A client or a person has to answer these calls.
    Asks(Vec<OpenCall>),
    /// It is over.
    Over(TurnOutcome),
    /// Its message was removed from the transcript.
    Gone,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TurnOutcome {
    /// The model was done.
    Done,
    /// The answer reached the output limit.
    Length,
    /// The provider cut the answer by its policy.
    Filtered,
    /// A person stopped it.
    Interrupted,
    /// A limit of the turn, or a message that steered it.
    Other,
    /// It failed; the text is for people.
    Failed(String),
}

impl TurnView {
    /// The turn that begins with this message of a user, of which nothing else is known.
    pub(crate) fn new(user: &Message) -> Self {
        Self {
            user: user.id,
            receipt: user.sent.as_ref().map(|sent| sent.receipt),
            steps: Vec::new(),
            draft: None,
            restarts: (StepId(0), 0),
            fate: TurnFate::Newest,
        }
    }

    /// What stands before the first message of a user.
    pub(crate) const fn headless() -> Self {
        let (user, restarts) = (MessageId(0), (StepId(0), 0));
        Self { user, receipt: None, steps: Vec::new(), draft: None, restarts, fate: TurnFate::Newest }
    }

    /// The number of its user message.
    pub(crate) const fn user(&self) -> MessageId {
        self.user
    }

    /// Whether its messages are the newest of the chat.
    pub(crate) fn is_newest(&self) -> bool {
        self.fate == TurnFate::Newest
    }

    /// The newest message that was folded.
    pub(crate) fn newest(&self) -> MessageId {
        let step = self.steps.last();
        let results = step.into_iter().flat_map(|step| step.results.values());
        let newest = step.map(|step| &step.reply).into_iter().chain(results).map(|message| message.id).max();
        newest.unwrap_or(self.user)
    }

    /// Folds an event. The error says what did not fit; it happens only if events were lost or doubled.
    pub(crate) fn fold(&mut self, event: &Event) -> Result<(), &'static str> {
        match event {
            Event::Message(message) => self.message(message),
            Event::Rewound(from) if *from <= self.user => self.fate = TurnFate::Gone,
            Event::Delta(row) if self.fate == TurnFate::Newest => {
                let draft = match &mut self.draft {
                    Some(draft) if draft.step() == row.step => draft,
                    stale => stale.insert(Draft::new(row.step)),
                };
                if row.seq != draft.seq().next() {
                    return Err("a delta is missing");
                }
                let before = draft.parts().len();
                draft.push(row.at, &row.delta).map_err(|_| "a delta does not fit the draft")?;
                // A call that was taken back is noticed by its absence.
                if before > 0 && draft.parts().is_empty() {
                    self.restarted(row.step);
                }
            }
            Event::Standing(standing) => {
                self.draft.take_if(|draft| draft.step() < standing.step);
            }
            // The newest page, after the messages before it: see `reset`.
            Event::Reset(snapshot) => {
                let had = self.draft.take();
                snapshot.messages.iter().for_each(|message| self.message(message));
                self.draft = snapshot.draft.clone().filter(|_| self.fate == TurnFate::Newest);
                if let (Some(had), Some(has)) = (&had, &self.draft)
                    && had.step() == has.step()
                    && !extends(had.parts(), has.parts())
                {
                    self.restarted(had.step());
                }
            }
            Event::Rewound(_) | Event::Delta(_) => {}
        }
        Ok(())
    }

    /// Folds a stored message; one that was folded before changes nothing.
    pub(crate) fn message(&mut self, message: &Arc<Message>) {
        if message.id <= self.user || self.fate != TurnFate::Newest {
            return;
        }
        match &message.body {
            Body::User(_) => {
                self.fate = TurnFate::Followed;
                self.draft = None;
            }
            Body::Reply(reply) => {
                if self.steps.last().is_some_and(|step| step.reply.id >= message.id) {
                    return;
                }
                let drafted = self.draft.take_if(|draft| draft.step() <= reply.step);
                if drafted.is_some_and(|draft| draft.step() == reply.step && !extends(draft.parts(), &reply.parts)) {
                    self.restarted(reply.step);
                }
                let restarts = self.restarts_of(reply.step);
                self.steps.push(CommittedStep { reply: message.clone(), restarts, results: BTreeMap::new() });
            }
            Body::Result(result) => {
                let of = |step: &&mut CommittedStep| step_of(&step.reply) == Some(result.call.step);
                if let Some(step) = self.steps.iter_mut().rev().find(of) {
                    step.results.insert(result.call.ordinal, message.clone());
                }
            }
            Body::Context(_) | Body::Summary(_) => {}
        }
    }

    fn restarts_of(&self, step: StepId) -> u32 {
        if self.restarts.0 == step { self.restarts.1 } else { 0 }
    }

    fn restarted(&mut self, step: StepId) {
        let (newest, count) = &mut self.restarts;
        *count = if *newest == step { *count + 1 } else { 1 };
        *newest = step;
    }

    /// Its steps, oldest first; the draft is the last.
    pub(crate) fn steps(&self) -> impl Iterator<Item = TurnStep<'_>> {
        let committed = self.steps.iter().filter_map(|step| {
            let Body::Reply(reply) = &step.reply.body else { return None };
            let (parts, results) = (&*reply.parts, Some(&step.results));
            Some(TurnStep { step: reply.step, parts, reply: Some(reply), restarts: step.restarts, results })
        });
        let drafted = self.draft.iter().map(|draft| TurnStep {
            step: draft.step(),
            parts: draft.parts(),
            reply: None,
            restarts: self.restarts_of(draft.step()),
            results: None,
        });
        committed.chain(drafted)
    }

    /// Forgets the steps before this one, which are not told again.
    pub(crate) fn forget_before(&mut self, step: StepId) {
        let is_later = |committed: &CommittedStep| step_of(&committed.reply) >= Some(step);
        let from = self.steps.iter().position(is_later).unwrap_or(self.steps.len());
        self.steps.drain(..from.min(self.steps.len().saturating_sub(1)));
    }

    /// How far it is, as the chat stands. All events of a catch-up must be folded.
    pub(crate) fn progress(&self, standing: &Standing) -> TurnProgress {
        match self.fate {
            TurnFate::Gone => return TurnProgress::Gone,
            TurnFate::Followed => return TurnProgress::Over(self.outcome(None)),
            TurnFate::Newest => {}
        }
        let is_answered = self.receipt.is_some_and(|receipt| !standing.unanswered.contains(&receipt));
        match standing.status {
            Status::Idle | Status::Failed => TurnProgress::Over(self.outcome(standing.ended.as_ref())),
            // The chat works for a message behind this turn.
            Status::Running | Status::Interrupting if is_answered => TurnProgress::Over(self.outcome(None)),
            Status::Awaiting if !standing.asks.is_empty() => TurnProgress::Asks(standing.asks.clone()),
            Status::Running | Status::Interrupting | Status::Awaiting => TurnProgress::Going,
        }
    }

    fn outcome(&self, ended: Option<&TurnEnd>) -> TurnOutcome {
        match ended {
            Some(TurnEnd::Done | TurnEnd::StopAfter(_)) => TurnOutcome::Done,
            Some(TurnEnd::Interrupted) => TurnOutcome::Interrupted,
            Some(TurnEnd::Length) => TurnOutcome::Length,
            Some(TurnEnd::Filtered) => TurnOutcome::Filtered,
            Some(TurnEnd::Failed(failure)) => TurnOutcome::Failed(failure.message.clone()),
            Some(
                TurnEnd::Empty
                | TurnEnd::StepsMax
                | TurnEnd::TimeMax
                | TurnEnd::TokensMax
                | TurnEnd::CostMax
                | TurnEnd::SameCallMax,
            ) => TurnOutcome::Other,
            None => match self.steps.last().map(|step| &step.reply.body) {
                Some(Body::Reply(reply)) => match reply.stop {
                    Stop::End => TurnOutcome::Done,
                    Stop::Length => TurnOutcome::Length,
                    Stop::Filtered { .. } => TurnOutcome::Filtered,
                    Stop::Interrupted => TurnOutcome::Interrupted,
                    Stop::Broken => TurnOutcome::Failed("The answer broke off.".into()),
                    Stop::ToolUse => TurnOutcome::Other,
                },
                _ => TurnOutcome::Other,
            },
        }
    }
}

impl<'a> TurnStep<'a> {
    /// The result of the call with this place, once it is committed.
    pub(crate) fn result(&self, ordinal: u16) -> Option<&'a CallResult> {
        match &self.results?.get(&ordinal)?.body {
            Body::Result(result) => Some(result),
            _ => None,
        }
    }
}

fn step_of(message: &Message) -> Option<StepId> {
    match &message.body {
        Body::Reply(reply) => Some(reply.step),
        _ => None,
    }
}

/// Whether what was shown of a draft is still there, calls apart.
fn extends(shown: &[Part], now: &[Part]) -> bool {
    fn texts<'a>(parts: &'a [Part]) -> Vec<&'a str> {
        let text = |part: &'a Part| match part {
            Part::Text(text) => Some(text.text.as_str()),
            _ => None,
        };
        parts.iter().filter_map(text).filter(|text| !text.is_empty()).collect()
    }
    fn thoughts<'a>(parts: &'a [Part]) -> Vec<&'a str> {
        let thought = |part: &'a Part| match part {
            Part::Reasoning(reasoning) => Some(reasoning.text.as_str()),
            _ => None,
        };
        parts.iter().filter_map(thought).filter(|text| !text.is_empty()).collect()
    }
    let goes_on = |shown: Vec<&str>, now: Vec<&str>| {
        shown.len() <= now.len() && shown.iter().zip(now).all(|(shown, now)| now.starts_with(shown))
    };
    goes_on(texts(shown), texts(now)) && goes_on(thoughts(shown), thoughts(now))
}
