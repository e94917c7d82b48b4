//! What one commit writes.
//!
//! Every act of a driver ends in a list of facts, and this is where the lists are made: what a command does, how a turn
//! begins, how it settles. All of it is plain data made from the chat as it stands, so the rules of who may follow whom
//! (results behind their calls, nothing said over an open call) hold by construction and are tested without a store.

use std::sync::Arc;

use crate::chat::{CallState, Chat, Failure, OpenCall, Queued, Tail, TurnEnd, tail_of};
use crate::command::{Answer, Answered, Choice, Command, Inbound, Refusal, When, admit, check_inbound};
use crate::fact::{Fact, Place};
use crate::ids::{InboxSeq, MessageId, StepId, Timestamp};
use crate::limits::Limits;
use crate::message::{Body, Call, CallResult, Message, Meta, Output, Part, Reply, Sent, Stop, Verdict};
use crate::status::Status;

/// A commit being put together.
#[derive(Debug, Clone)]
pub struct Change<'a> {
    chat: &'a Chat,
    at: Timestamp,
    newest: MessageId,
    facts: Vec<Fact>,
}

impl<'a> Change<'a> {
    /// A commit to `chat`, made at `at`, that says nothing yet.
    #[must_use]
    pub const fn new(chat: &'a Chat, at: Timestamp) -> Self {
        Self { chat, at, newest: chat.newest, facts: Vec::new() }
    }

    /// The finished list.
    #[must_use]
    pub fn facts(self) -> Vec<Fact> {
        self.facts
    }

    /// Adds a fact.
    pub fn fact(&mut self, fact: Fact) -> &mut Self {
        self.facts.push(fact);
        self
    }

    /// Adds a message.
    pub fn say(&mut self, body: Body) -> &mut Self {
        let tail = tail_of(&body);
        self.say_as(body, tail)
    }

    /// Adds a person's message, with the request that brought it.
    fn hear(&mut self, parts: &[Part], sent: Sent) -> &mut Self {
        let body = Body::User(parts.to_vec());
        let tail = tail_of(&body);
        self.add(body, Some(sent), tail)
    }

    /// Adds a message that means something else to the plan than its kind says.
    pub fn say_as(&mut self, body: Body, tail: Tail) -> &mut Self {
        self.add(body, None, tail)
    }

    fn add(&mut self, body: Body, sent: Option<Sent>, tail: Tail) -> &mut Self {
        self.newest = self.newest.next();
        let message = Message { id: self.newest, at: self.at, body, sent };
        self.fact(Fact::Said(Arc::new(message), tail))
    }

    /// Adds a result.
    pub fn result(&mut self, result: CallResult) -> &mut Self {
        self.say(Body::Result(Box::new(result)))
    }

    /// Adds a reply with the calls it leaves open. `state` says how far each of them is.
    ///
    /// Calls that were cut off are answered at once: they never run.
    pub fn reply(&mut self, reply: Reply, state: impl Fn(&Call) -> CallState) -> &mut Self {
        let open = |call: &Call| OpenCall {
            uid: call.uid,
            tool: call.tool.clone(),
            input_hash: input_hash(&call.tool, &call.input),
            state: state(call),
        };
        let calls: Vec<OpenCall> = reply.calls().map(open).collect();
        let cut: Vec<Call> = reply.calls().filter(|call| !call.whole).cloned().collect();
        let kept = !matches!(reply.stop, Stop::Interrupted | Stop::Broken);
        self.say(Body::Reply(Box::new(reply)));
        if !calls.is_empty() {
            self.fact(Fact::Opened(calls));
        }
        for call in cut.iter().filter(|_| kept) {
            self.result(refused(call, self.at, Verdict::Error, CUT));
        }
        self
    }

    /// Answers open calls with one verdict, in call order. `told` says what the model hears of a call that is so far.
    pub fn answer_open(
        &mut self,
        calls: &[OpenCall],
        verdict: Verdict,
        told: impl Fn(CallState) -> &'static str,
    ) -> &mut Self {
        for open in calls {
            let began = match open.state {
                CallState::Started { at, .. } => Some(at),
                CallState::Ready | CallState::Approved | CallState::AsksClient | CallState::AsksApproval => None,
            };
            self.result(CallResult {
                call: open.uid,
                tool: open.tool.clone(),
                verdict,
                output: Output::text(told(open.state)),
                began,
                ended: self.at,
                meta: Meta::new(),
            });
        }
        self
    }

    /// Ends the turn, and begins the next one if somebody waits.
    pub fn finish(&mut self, end: TurnEnd) -> &mut Self {
        self.fact(Fact::TurnEnded(end)).fact(Fact::Moved(Status::Idle));
        match self.chat.queue.first() {
            Some(next) => self.begin_turn(next),
            None => self,
        }
    }

    /// Ends the turn where it stands and keeps what was shown: a bound may be reached between two attempts at an answer, or
    /// while calls run.
    pub fn stop(&mut self, reply: Option<Reply>, end: TurnEnd) -> &mut Self {
        for open in &self.chat.calls {
            let (verdict, told) = stopped(open.state);
            self.answer_open(std::slice::from_ref(open), verdict, |_| told);
        }
        self.keep(reply, Verdict::Error, BROKEN);
        self.finish(end)
    }

    /// Ends the turn with an error and keeps what was shown. Who waits goes on waiting: the error may be theirs too, and
    /// they should decide.
    pub fn fail(&mut self, reply: Option<Reply>, failure: Failure) -> &mut Self {
        for open in &self.chat.calls {
            let (verdict, told) = failed(open.state);
            self.answer_open(std::slice::from_ref(open), verdict, |_| told);
        }
        self.keep(reply, Verdict::Error, BROKEN);
        self.fact(Fact::TurnEnded(TurnEnd::Failed(Box::new(failure)))).fact(Fact::Moved(Status::Failed))
    }

    /// Puts what waits into the transcript: within a turn all that steers, else the first, as a new turn.
    pub fn begin(&mut self) -> &mut Self {
        if self.chat.turn.is_some() {
            for queued in self.chat.queue.iter().filter(|queued| queued.steers) {
                self.hear(&queued.parts, queued.sent()).fact(Fact::Unqueued(queued.id));
            }
            return self;
        }
        match self.chat.queue.first() {
            Some(next) => self.begin_turn(next),
            None => self.fact(Fact::Moved(Status::Idle)), // It was deleted before it could begin.
        }
    }

    fn begin_turn(&mut self, queued: &Queued) -> &mut Self {
        let began = Fact::TurnBegan(self.at);
        self.fact(began)
            .hear(&queued.parts, queued.sent())
            .fact(Fact::Unqueued(queued.id))
            .fact(Fact::Moved(Status::Running))
    }

    /// Keeps what an interrupted turn has shown, answers its open calls, and ends it.
    pub fn settle(&mut self, reply: Option<Reply>) -> &mut Self {
        self.answer_open(&self.chat.calls, Verdict::Interrupted, interrupted);
        self.keep(reply, Verdict::Interrupted, INTERRUPTED);
        self.finish(TurnEnd::Interrupted)
    }

    /// Adds a reply that never came to its end, if there is one, and answers its calls.
    fn keep(&mut self, reply: Option<Reply>, verdict: Verdict, text: &str) {
        let Some(reply) = reply else { return };
        let calls: Vec<Call> = reply.calls().cloned().collect();
        self.reply(reply, |_| CallState::Ready);
        for call in &calls {
            self.result(refused(call, self.at, verdict, text));
        }
    }

    /// Takes a command out of the inbox and does what it says; or records why not.
    pub fn obey(&mut self, inbound: &Inbound, verdict: Result<(), Refusal>) -> &mut Self {
        self.fact(Fact::Obeyed(inbound.seq, verdict));
        if verdict.is_err() {
            return self;
        }
        match &inbound.command {
            Command::Send { parts, when } => self.send(inbound, parts, *when),
            Command::Promote(id) => self.promote(*id),
            Command::Unqueue(id) => self.fact(Fact::Unqueued(*id)),
            Command::Interrupt => self.fact(Fact::Moved(Status::Interrupting)),
            Command::Answer(answers) => self.answers(answers),
            Command::Edit { message, parts } => self.edit(*message, parts, inbound),
            Command::Compact => {
                self.fact(Fact::TurnBegan(self.at)).fact(Fact::CompactionAsked).fact(Fact::Moved(Status::Running))
            }
            Command::Archive => self.fact(Fact::Archived(true)),
            Command::Unarchive => self.fact(Fact::Archived(false)),
            Command::Rename(title) => self.fact(Fact::Renamed(title.trim().into())),
            Command::Patch { title, archived, model, debug } => {
                self.patch(title.as_deref(), *archived, model.clone());
                self.facts.extend(debug.map(Fact::Debugged));
                self
            }
        }
    }

    fn patch(&mut self, title: Option<&str>, archived: Option<bool>, model: Option<Choice>) {
        let title = title.map(|title| Fact::Renamed(title.trim().into()));
        self.facts.extend(title);
        self.facts.extend(archived.map(Fact::Archived));
        self.facts.extend(model.map(|choice| Fact::Chose(choice.model())));
    }

    fn send(&mut self, inbound: &Inbound, parts: &[Part], when: When) -> &mut Self {
        if !self.chat.is_busy() && self.chat.queue.is_empty() {
            return self.fact(Fact::TurnBegan(self.at)).hear(parts, inbound.sent()).fact(Fact::Moved(Status::Running));
        }
        let Some(queued) = inbound.queued() else { return self };
        let place = if when == When::Now { Place::Front } else { Place::Back };
        self.fact(Fact::Queued(queued, place));
        match (self.chat.status, when) {
            (Status::Running | Status::Awaiting, When::Now) => self.fact(Fact::Moved(Status::Interrupting)),
            (Status::Idle | Status::Failed, _) => self.fact(Fact::Moved(Status::Running)),
            (Status::Running | Status::Awaiting | Status::Interrupting, _) => self,
        }
    }

    fn promote(&mut self, id: InboxSeq) -> &mut Self {
        if let Some(queued) = self.chat.queue.iter().find(|queued| queued.id == id) {
            let first = Queued { steers: true, ..queued.clone() };
            self.fact(Fact::Unqueued(id)).fact(Fact::Queued(first, Place::Front));
        }
        match self.chat.status {
            Status::Failed => self.fact(Fact::Moved(Status::Running)),
            Status::Idle | Status::Running | Status::Interrupting | Status::Awaiting => self,
        }
    }

    fn answers(&mut self, answers: &[Answer]) -> &mut Self {
        for Answer { call, what } in answers {
            let Some(open) = self.chat.calls.iter().find(|open| open.uid == *call) else {
                continue; // Checked before; a call cannot vanish in between.
            };
            let (verdict, output) = match what {
                Answered::Output(output) => (Verdict::Done, output.clone()),
                Answered::Error(output) => (Verdict::Error, output.clone()),
                Answered::Deny { reason } => (Verdict::Denied, Output::text(denial(reason))),
                Answered::Approve { .. } => {
                    self.fact(Fact::Approved(*call));
                    continue;
                }
            };
            let (tool, ended, meta) = (open.tool.clone(), self.at, Meta::new());
            self.result(CallResult { call: *call, tool, verdict, output, began: None, ended, meta });
        }
        let answered = |open: &OpenCall| answers.iter().any(|answer| answer.call == open.uid);
        if self.chat.calls.iter().filter(|open| open.state.asks()).all(answered) {
            self.resume();
        }
        self
    }

    /// Steps may have ended since the edit was accepted. Who wanted its turn stopped before it had begun aimed at the step
    /// that it was to open then.
    fn edit(&mut self, from: MessageId, parts: &[Part], inbound: &Inbound) -> &mut Self {
        let began = Fact::TurnBegan(self.at);
        self.fact(Fact::Rewound { from })
            .fact(began)
            .fact(Fact::Foreseen(inbound.aimed.next()))
            .hear(parts, inbound.sent())
            .fact(Fact::Moved(Status::Running))
    }

    /// Rests until every call that asks is answered, or nobody did so in time.
    pub fn ask(&mut self, until: Timestamp) -> &mut Self {
        self.fact(Fact::Awaits { since: self.at, until }).fact(Fact::Moved(Status::Awaiting))
    }

    /// Answers whatever is still asked with a note that nobody did, and lets the turn go on.
    pub fn expire(&mut self) -> &mut Self {
        let asked: Vec<_> = self.chat.calls.iter().filter(|open| open.state.asks()).cloned().collect();
        self.answer_open(&asked, Verdict::Error, unanswered).resume()
    }

    fn resume(&mut self) -> &mut Self {
        let resumed = Fact::Resumed(self.at);
        self.fact(resumed).fact(Fact::Moved(Status::Running))
    }
}

const CUT: &str = "This call was cut off before its input was complete. It was not run.";
/// What the model is told of a call that an interrupt kept from running.
pub const INTERRUPTED: &str = "The turn was interrupted before this call could be run. It was not run.";
const BROKEN: &str = "The answer broke off before this call could be run.";
/// What the model is told of a call whose outcome nobody knows.
pub const UNKNOWN: &str = "This call was started, and then the process that ran it was lost. \
    Whether it took effect is unknown. Check before you repeat it.";

/// What the model is told of a call when the turn is interrupted: whether it can have taken effect.
const fn interrupted(state: CallState) -> &'static str {
    match state {
        CallState::Started { .. } => {
            "The turn was interrupted while this call ran, and it was stopped. Whether it took effect is unknown."
        }
        CallState::AsksClient => "The turn was interrupted before the client answered this call.",
        CallState::Ready | CallState::Approved | CallState::AsksApproval => INTERRUPTED,
    }
}

/// What became of a call when the turn failed, and what the model is told of it.
const fn failed(state: CallState) -> (Verdict, &'static str) {
    match state {
        CallState::Started { .. } => (Verdict::Unknown, UNKNOWN),
        CallState::AsksClient => (Verdict::Error, "The turn failed before the client answered this call."),
        CallState::Ready | CallState::Approved | CallState::AsksApproval => {
            (Verdict::Error, "The turn failed before this call could be run. It was not run.")
        }
    }
}

/// What became of a call when the turn reached a bound, and what the model is told of it.
const fn stopped(state: CallState) -> (Verdict, &'static str) {
    match state {
        CallState::Started { .. } => (
            Verdict::Unknown,
            "The turn took longer than it may while this call ran, and it was stopped. Whether it took effect is unknown.",
        ),
        CallState::AsksClient => {
            (Verdict::Error, "The turn took longer than it may before the client answered this call.")
        }
        CallState::Ready | CallState::Approved | CallState::AsksApproval => {
            (Verdict::Error, "The turn took longer than it may before this call could be run. It was not run.")
        }
    }
}

/// What the model is told of a call that nobody answered.
const fn unanswered(state: CallState) -> &'static str {
    match state {
        CallState::AsksApproval => "Nobody allowed this call in time. It was not run.",
        CallState::AsksClient | CallState::Ready | CallState::Approved | CallState::Started { .. } => {
            "Nobody answered this call in time."
        }
    }
}

/// The chat as it will stand once its driver has obeyed `pending`, as far as that can be told now. New commands are
/// checked against this, so that an accepted message can never find the chat archived under it.
#[must_use]
pub fn foresee<'a>(chat: &Chat, pending: impl Iterator<Item = &'a Inbound>, at: Timestamp) -> Chat {
    pending.fold(chat.clone(), |mut chat, inbound| {
        let verdict = check_inbound(&chat, inbound, |_| true); // Looked up when it was accepted.
        let facts = {
            let mut change = Change::new(&chat, at);
            change.obey(inbound, verdict);
            change.facts()
        };
        chat.apply(&facts);
        chat
    })
}

/// Whether `command` may enter the inbox of `chat` behind `pending`: it is taken by the chat that will be there then.
/// If so, the step that will be open then.
pub fn admit_behind<'a>(
    chat: &Chat,
    pending: impl Iterator<Item = &'a Inbound> + Clone,
    command: &Command,
    limits: &Limits,
    at: Timestamp,
    is_users: impl Fn(MessageId) -> bool,
) -> Result<StepId, Refusal> {
    let edits = |inbound: &Inbound| match inbound.command {
        Command::Edit { message, .. } => Some(message),
        _ => None,
    };
    // The newest edit on its way leaves the least: one that left more would have been refused behind it.
    let edited = pending.clone().filter_map(edits).last();
    let is_there = |id| edited.is_none_or(|from| id < from) && is_users(id);
    let foreseen = foresee(chat, pending, at);
    admit(&foreseen, command, limits, is_there)?;
    Ok(foreseen.step)
}

/// A result that we give on a tool's behalf.
#[must_use]
pub fn refused(call: &Call, ended: Timestamp, verdict: Verdict, text: &str) -> CallResult {
    let (output, meta) = (Output::text(text), Meta::new());
    CallResult { call: call.uid, tool: call.tool.clone(), verdict, output, began: None, ended, meta }
}

fn denial(reason: &str) -> String {
    match reason.trim() {
        "" => "The user did not allow this call.".into(),
        reason => format!("The user did not allow this call: {reason}"),
    }
}

/// A number for a tool and its input, the same on every machine. Binds an approval to what was approved.
#[must_use]
pub fn input_hash(tool: &str, input: &str) -> u64 {
    // FNV-1a: short, stable across releases, and nothing here defends against collisions made on purpose, because the
    // model that would have to make one cannot choose the input that is shown and approved after the fact.
    let bytes = tool.bytes().chain([0]).chain(input.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests;
