//! What one commit writes.
//!
//! Every action of a driver ends in a list of facts, and this module makes the lists: for a command, for the
//! beginning of a turn, for its end. They are plain data made from the chat's state, so the ordering rules
//! (results after their calls, no message while a call is open) hold by construction and are tested without a
//! store.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::alive::AliveSpans;
use crate::chat::{
    AskBelow, CallOpening, CallState, Chat, OpenCall, QueuedMessage, TranscriptTail, TurnEnd, TurnFailure, tail_of,
};
use crate::command::{
    AnswerContent, CallAnswer, Command, Delivery, InboxCommand, ModelChoice, Refusal, admit, check, is_late,
};
use crate::fact::{Fact, QueueEnd};
use crate::ids::{CallUid, InboxSeq, MessageId, StepId, Timestamp};
use crate::limits::Limits;
use crate::message::{Body, Call, CallResult, CallVerdict, Message, Output, Part, Reply, SendReceipt, Stop};
use crate::permission::{GRANT_TIME_MAX, Grant};
use crate::status::Status;
use crate::turn_settings::TurnSettings;

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
    fn hear(&mut self, parts: &[Part], sent: SendReceipt) -> &mut Self {
        let body = Body::User(parts.to_vec());
        let tail = tail_of(&body);
        self.add(body, Some(sent), tail)
    }

    /// Adds a message that means something else to the plan than its kind says.
    pub fn say_as(&mut self, body: Body, tail: TranscriptTail) -> &mut Self {
        self.add(body, None, tail)
    }

    fn add(&mut self, body: Body, sent: Option<SendReceipt>, tail: TranscriptTail) -> &mut Self {
        self.newest = self.newest.next();
        let message = Message { id: self.newest, at: self.at, body, sent };
        self.fact(Fact::Said(Arc::new(message), tail))
    }

    /// Adds a result.
    pub fn result(&mut self, result: CallResult) -> &mut Self {
        self.say(Body::Result(Box::new(result)))
    }

    /// Adds a reply with the calls it leaves open. `open` says how far each of them is.
    ///
    /// Calls that were cut off or are denied are answered at once: they never run.
    pub fn reply<Opening: Into<CallOpening>>(&mut self, reply: Reply, open: impl Fn(&Call) -> Opening) -> &mut Self {
        self.reply_with(reply, open, |_| false)
    }

    /// As [`Change::reply`], where `delegates` says which calls ask a sub-agent.
    pub fn reply_with<Opening: Into<CallOpening>>(
        &mut self,
        reply: Reply,
        open: impl Fn(&Call) -> Opening,
        delegates: impl Fn(&Call) -> bool,
    ) -> &mut Self {
        let openings: Vec<(Call, CallOpening)> = reply.calls().map(|call| (call.clone(), open(call).into())).collect();
        let left = openings.iter().find(|(_, open)| *open == CallOpening::Left).map(|(call, _)| call.tool.clone());
        let opened = |(call, open): &(Call, CallOpening)| OpenCall {
            delegates: delegates(call),
            ..OpenCall::new(call, open.clone())
        };
        let calls: Vec<OpenCall> = openings.iter().filter(|(_, open)| *open != CallOpening::Left).map(opened).collect();
        let kept = !matches!(reply.stop, Stop::Interrupted | Stop::Broken);
        let since_reply = self.chat.turn.as_ref().map_or(Duration::ZERO, |turn| turn.alive.since_reply);
        let alive = since_reply.saturating_add(AliveSpans::by(self.chat, &self.facts).sum());
        self.say(Body::Reply(Box::new(reply.with_alive(alive))));
        if !calls.is_empty() {
            self.fact(Fact::Opened(calls));
        }
        for (call, opening) in openings.iter().filter(|_| kept) {
            match opening {
                CallOpening::Left => continue,
                _ if !call.whole => self.result(refused(call, self.at, CallVerdict::Error, CUT)),
                CallOpening::Denied(told) => self.result(refused(call, self.at, CallVerdict::Denied, told)),
                CallOpening::Open(_) | CallOpening::Ask(_) => continue,
            };
        }
        // Calls that run here are run first: then the turn ends, and the client goes on with its own.
        self.facts.extend(left.map(Fact::StopAfter));
        self
    }

    /// Begins the only turn of a chat that answers a request: the conversation as its client tells it, and its settings.
    /// What the client says last, behind the newest reply, is what the turn answers.
    pub fn answer_request(&mut self, conversation: &[Body], settings: Arc<TurnSettings>) -> &mut Self {
        let replied = conversation.iter().rposition(|body| matches!(body, Body::Reply(_))).map_or(0, |at| at + 1);
        let (earlier, asked) = conversation.split_at(replied);
        for body in earlier {
            self.say_as(body.clone(), TranscriptTail::Nothing);
        }
        self.fact(Fact::TurnBegan(self.at)).fact(Fact::Settings(settings));
        for body in asked {
            self.say(body.clone());
        }
        self.fact(Fact::Moved(Status::Running))
    }

    /// Answers open calls with one verdict, in call order. `told` says what the model hears of a call that is so far.
    pub fn answer_open(
        &mut self,
        calls: &[OpenCall],
        verdict: CallVerdict,
        told: impl Fn(CallState) -> &'static str,
    ) -> &mut Self {
        for open in calls {
            let result = CallResult::new(open.uid, &open.tool, verdict, Output::text(told(open.state)), self.at);
            self.result(CallResult { began: open.began(), ..result });
        }
        self
    }

    /// Ends the turn, and begins the next one if a message is queued.
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
        self.keep(reply, CallVerdict::Error, BROKEN);
        self.finish(end)
    }

    /// Ends the turn with an error and keeps what was shown. Queued messages stay queued: they might fail in
    /// the same way, so the user decides.
    pub fn fail(&mut self, reply: Option<Reply>, failure: TurnFailure) -> &mut Self {
        for open in &self.chat.calls {
            let (verdict, told) = failed(open.state);
            self.answer_open(std::slice::from_ref(open), verdict, |_| told);
        }
        self.keep(reply, CallVerdict::Error, BROKEN);
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

    fn begin_turn(&mut self, queued: &QueuedMessage) -> &mut Self {
        let began = Fact::TurnBegan(self.at);
        self.fact(began)
            .hear(&queued.parts, queued.sent())
            .fact(Fact::Unqueued(queued.id))
            .fact(Fact::Moved(Status::Running))
    }

    /// Keeps what an interrupted turn has shown, answers its open calls, and ends it.
    pub fn settle(&mut self, reply: Option<Reply>) -> &mut Self {
        self.answer_open(&self.chat.calls, CallVerdict::Interrupted, interrupted);
        self.keep(reply, CallVerdict::Interrupted, INTERRUPTED);
        self.finish(TurnEnd::Interrupted)
    }

    /// Adds a reply that never came to its end, if there is one, and answers its calls.
    fn keep(&mut self, reply: Option<Reply>, verdict: CallVerdict, text: &str) {
        let Some(reply) = reply else { return };
        let calls: Vec<Call> = reply.calls().cloned().collect();
        self.reply(reply, |_| CallState::Ready);
        for call in &calls {
            self.result(refused(call, self.at, verdict, text));
        }
    }

    /// Takes a command out of the inbox and does what it says; or records why not.
    pub fn obey(&mut self, inbound: &InboxCommand, verdict: Result<(), Refusal>) -> &mut Self {
        self.fact(Fact::Obeyed(inbound.seq, verdict));
        if verdict.is_err() {
            return self;
        }
        match &inbound.command {
            Command::Send { parts, when } => self.send(inbound, parts, *when),
            Command::Promote(id) => self.promote(*id),
            Command::Unqueue(id) => self.fact(Fact::Unqueued(*id)),
            Command::Interrupt => self.interrupt(inbound.aimed),
            Command::Answer(answers) => self.answers(answers),
            Command::Edit { message, parts } => self.edit(*message, parts, inbound),
            Command::Compact => {
                self.fact(Fact::TurnBegan(self.at)).fact(Fact::CompactionAsked).fact(Fact::Moved(Status::Running))
            }
            Command::Archive => self.fact(Fact::Archived(true)),
            Command::Unarchive => self.fact(Fact::Archived(false)),
            Command::Rename(title) => self.fact(Fact::Renamed(title.trim().into())),
            Command::Revoke(call) => self.fact(Fact::Revoked(*call)),
            Command::Patch { title, archived, model, debug } => {
                self.patch(title.as_deref(), *archived, model.clone());
                self.facts.extend(debug.map(Fact::Debugged));
                self
            }
        }
    }

    /// Stops the turn its sender saw: one that ended before leaves nothing to stop, and the next one goes on.
    fn interrupt(&mut self, aimed: StepId) -> &mut Self {
        match self.chat.status {
            Status::Idle | Status::Failed => self,
            Status::Running | Status::Awaiting | Status::Interrupting if is_late(self.chat, aimed) => self,
            Status::Running | Status::Awaiting | Status::Interrupting => self.fact(Fact::Moved(Status::Interrupting)),
        }
    }

    fn patch(&mut self, title: Option<&str>, archived: Option<bool>, model: Option<ModelChoice>) {
        let title = title.map(|title| Fact::Renamed(title.trim().into()));
        self.facts.extend(title);
        self.facts.extend(archived.map(Fact::Archived));
        self.facts.extend(model.map(|choice| Fact::Chose(choice.model())));
    }

    /// Begins a turn with the message, or queues it if the chat is busy.
    fn send(&mut self, inbound: &InboxCommand, parts: &[Part], when: Delivery) -> &mut Self {
        if !self.chat.is_busy() && self.chat.queue.is_empty() {
            return self.fact(Fact::TurnBegan(self.at)).hear(parts, inbound.sent()).fact(Fact::Moved(Status::Running));
        }
        let Some(queued) = inbound.queued() else { return self };
        let place = if when == Delivery::Now { QueueEnd::Front } else { QueueEnd::Back };
        self.fact(Fact::Queued(queued, place));
        match (self.chat.status, when) {
            (Status::Running | Status::Awaiting, Delivery::Now) => self.fact(Fact::Moved(Status::Interrupting)),
            (Status::Idle | Status::Failed, _) => self.fact(Fact::Moved(Status::Running)),
            (Status::Running | Status::Awaiting | Status::Interrupting, _) => self,
        }
    }

    fn promote(&mut self, id: InboxSeq) -> &mut Self {
        if let Some(queued) = self.chat.queue.iter().find(|queued| queued.id == id) {
            let first = QueuedMessage { steers: true, ..queued.clone() };
            self.fact(Fact::Unqueued(id)).fact(Fact::Queued(first, QueueEnd::Front));
        }
        match self.chat.status {
            Status::Failed => self.fact(Fact::Moved(Status::Running)),
            Status::Idle | Status::Running | Status::Interrupting | Status::Awaiting => self,
        }
    }

    fn answers(&mut self, answers: &[CallAnswer]) -> &mut Self {
        for CallAnswer { call, what } in answers {
            let Some(open) = self.chat.calls.iter().find(|open| open.uid == *call) else {
                continue; // Checked before; a call cannot vanish in between.
            };
            if open.questions() {
                self.fact(Fact::Answered { call: *call, answer: answer_text(what).into() });
                continue;
            }
            let (verdict, output) = match what {
                AnswerContent::Output(output) => (CallVerdict::Done, output.clone()),
                AnswerContent::Error(output) => (CallVerdict::Error, output.clone()),
                AnswerContent::Deny { reason } => (CallVerdict::Denied, Output::text(denial(reason))),
                AnswerContent::Approve { .. } => {
                    self.fact(Fact::Approved(*call));
                    continue;
                }
                AnswerContent::Grant { by, until, .. } => {
                    self.fact(Fact::Approved(*call));
                    self.grant(open, by, *until);
                    continue;
                }
            };
            self.result(CallResult::new(*call, &open.tool, verdict, output, self.at));
        }
        let answered = |open: &OpenCall| answers.iter().any(|answer| answer.call == open.uid);
        if self.chat.calls.iter().filter(|open| open.state.asks()).all(answered) {
            self.resume();
        }
        self
    }

    fn grant(&mut self, open: &OpenCall, by: &str, until: Timestamp) {
        let Some((rule, detail)) = open.ask.as_ref().and_then(|ask| Some((ask.grant.clone()?, ask))) else { return };
        let until = until.min(self.at + GRANT_TIME_MAX);
        let grant = Grant { call: open.uid, rule, terms: detail.terms.clone(), by: by.into(), at: self.at, until };
        self.fact(Fact::Granted(Box::new(grant)));
    }

    /// Steps may have ended since the edit was accepted. An interrupt that arrived before the edit's turn
    /// began names the step that turn was expected to open.
    fn edit(&mut self, from: MessageId, parts: &[Part], inbound: &InboxCommand) -> &mut Self {
        let began = Fact::TurnBegan(self.at);
        self.fact(Fact::Rewound { from })
            .fact(began)
            .fact(Fact::Foreseen(inbound.aimed.next()))
            .hear(parts, inbound.sent())
            .fact(Fact::Moved(Status::Running))
    }

    /// Rests until every call that asks is answered, or until the deadline passes.
    pub fn ask(&mut self, until: Timestamp) -> &mut Self {
        let rests_since = self.chat.turn.as_ref().and_then(|turn| turn.rests_since);
        let until = self.chat.awaits_until.unwrap_or(until); // Calls that rest may be waited for already.
        let awaits = Fact::Awaits { since: rests_since.unwrap_or(self.at), until };
        self.fact(awaits).fact(Fact::Moved(Status::Awaiting))
    }

    /// Waits for calls that go on elsewhere, until the deadline passes. The chat is still running for its clients: there
    /// is nothing that they could answer.
    pub fn await_calls(&mut self, until: Timestamp) -> &mut Self {
        self.fact(Fact::Awaits { since: self.at, until })
    }

    /// Adds the result of a call that went on elsewhere, and resumes the turn if no other call is waited for.
    pub fn ended_elsewhere(&mut self, result: CallResult) -> &mut Self {
        let call = result.call;
        self.result(result);
        let others = || self.chat.calls.iter().filter(|open| open.uid != call);
        let can_begin = others().any(OpenCall::is_to_start); // It was held back.
        if can_begin || others().next().is_none() || self.is_answered(others()) { self.resume() } else { self }
    }

    /// Notes which calls of chats below wait for people, and resumes the turn if that was all it waited for.
    pub fn asks_below(&mut self, call: CallUid, asks: Arc<[AskBelow]>) -> &mut Self {
        let is_none = asks.is_empty();
        self.fact(Fact::AsksBelow { call, asks });
        let others = self.chat.calls.iter().filter(|open| open.uid != call);
        if is_none && self.is_answered(others) { self.resume() } else { self }
    }

    /// Whether a chat that waits for people would wait for none, had it these open calls alone.
    fn is_answered(&self, mut left: impl Iterator<Item = &'a OpenCall>) -> bool {
        self.chat.status == Status::Awaiting && !left.any(OpenCall::waits_for_people)
    }

    /// Answers every call that still asks or rests with a note that nothing came in time, and resumes the turn.
    pub fn expire(&mut self) -> &mut Self {
        let waits = |open: &&OpenCall| open.state.asks() || open.state.rests();
        for open in self.chat.calls.iter().filter(waits) {
            let verdict = if open.state.rests() { CallVerdict::Unknown } else { CallVerdict::Error };
            self.answer_open(std::slice::from_ref(open), verdict, unanswered);
        }
        self.resume()
    }

    fn resume(&mut self) -> &mut Self {
        let resumed = Fact::Resumed(self.at);
        self.fact(resumed);
        match self.chat.status {
            Status::Awaiting => self.fact(Fact::Moved(Status::Running)),
            Status::Idle | Status::Running | Status::Interrupting | Status::Failed => self,
        }
    }
}

/// The answer to a question, for its tool.
fn answer_text(what: &AnswerContent) -> String {
    let answer = match what {
        AnswerContent::Output(output) => json!({"output": output.text}),
        AnswerContent::Error(output) => json!({"declined": output.text}),
        AnswerContent::Deny { reason } => json!({"declined": reason}),
        AnswerContent::Approve { .. } | AnswerContent::Grant { .. } => json!({}), // Checked before.
    };
    answer.to_string()
}

const CUT: &str = "This call was cut off before its input was complete. It was not run.";
/// What the model is told of a call that an interrupt kept from running.
pub const INTERRUPTED: &str = "The turn was interrupted before this call could be run. It was not run.";
const BROKEN: &str = "The answer broke off before this call could be run.";
/// The result sent to the model for a call with an unknown outcome.
pub const UNKNOWN: &str = "This call was started, and then the process that ran it was lost. \
    Whether it took effect is unknown. Check before you repeat it.";

/// What the model is told of a call when the turn is interrupted: whether it can have taken effect.
const fn interrupted(state: CallState) -> &'static str {
    match state {
        CallState::Started { .. } => {
            "The turn was interrupted while this call ran, and it was stopped. Whether it took effect is unknown."
        }
        CallState::Rests { .. } => {
            "The turn was interrupted while this call went on elsewhere. It was told to stop, and may go on all the same."
        }
        CallState::AsksClient => "The turn was interrupted before the client answered this call.",
        CallState::Ready | CallState::Approved | CallState::AsksApproval => INTERRUPTED,
    }
}

/// What became of a call when the turn failed, and what the model is told of it.
const fn failed(state: CallState) -> (CallVerdict, &'static str) {
    match state {
        CallState::Started { .. } => (CallVerdict::Unknown, UNKNOWN),
        CallState::Rests { .. } => (
            CallVerdict::Unknown,
            "The turn failed while this call went on elsewhere. Whether it took effect is unknown.",
        ),
        CallState::AsksClient => (CallVerdict::Error, "The turn failed before the client answered this call."),
        CallState::Ready | CallState::Approved | CallState::AsksApproval => {
            (CallVerdict::Error, "The turn failed before this call could be run. It was not run.")
        }
    }
}

/// What became of a call when the turn reached a bound, and what the model is told of it.
const fn stopped(state: CallState) -> (CallVerdict, &'static str) {
    match state {
        CallState::Started { .. } => (
            CallVerdict::Unknown,
            "The turn took longer than it may while this call ran, and it was stopped. Whether it took effect is unknown.",
        ),
        CallState::Rests { .. } => (
            CallVerdict::Unknown,
            "The turn took longer than it may while this call went on elsewhere. It was told to stop, and may go on all \
             the same.",
        ),
        CallState::AsksClient => {
            (CallVerdict::Error, "The turn took longer than it may before the client answered this call.")
        }
        CallState::Ready | CallState::Approved | CallState::AsksApproval => {
            (CallVerdict::Error, "The turn took longer than it may before this call could be run. It was not run.")
        }
    }
}

/// The result sent to the model for a call that got no answer in time.
const fn unanswered(state: CallState) -> &'static str {
    match state {
        CallState::AsksApproval => "Nobody allowed this call in time. It was not run.",
        CallState::Rests { .. } => {
            "This call went on elsewhere and did not end in time. It was told to stop. Whether it took effect is unknown."
        }
        CallState::AsksClient | CallState::Ready | CallState::Approved | CallState::Started { .. } => {
            "Nobody answered this call in time."
        }
    }
}

/// The chat as it will stand once its driver has obeyed `pending`, as far as that can be told now. New commands are
/// checked against this, so that an accepted message can never find the chat archived under it.
#[must_use]
pub fn foresee<'a>(chat: &Chat, pending: impl Iterator<Item = &'a InboxCommand>, at: Timestamp) -> Chat {
    pending.fold(chat.clone(), |mut chat, inbound| {
        let verdict = check(&chat, &inbound.command, |_| true); // Looked up when it was accepted.
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
    pending: impl Iterator<Item = &'a InboxCommand> + Clone,
    command: &Command,
    limits: &Limits,
    at: Timestamp,
    is_users: impl Fn(MessageId) -> bool,
) -> Result<StepId, Refusal> {
    let edits = |inbound: &InboxCommand| match inbound.command {
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
pub fn refused(call: &Call, ended: Timestamp, verdict: CallVerdict, text: &str) -> CallResult {
    CallResult::new(call.uid, &call.tool, verdict, Output::text(text), ended)
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
    fnv(fnv(fnv(0xcbf2_9ce4_8422_2325, tool.as_bytes()), &[0]), input.as_bytes())
}

/// Goes on with a hash.
pub(crate) fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests;
