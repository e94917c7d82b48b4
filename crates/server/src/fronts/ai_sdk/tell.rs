//! What the client is told of a turn: chunks of the UI message stream.
//!
//! The teller remembers what it has told and tells the difference to the turn as it is, so a replay, a live stream and the
//! rest of a turn behind an answered call are one function. What the profile cannot take back is held until it is certain:
//! in the base profile a call is told when its input is whole, and whatever follows it waits for that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everturn::core::chat::{CallState, OpenCall};
use everturn::core::ids::{CallUid, StepId};
use everturn::core::message::{Call, CallResult, CallVerdict, Part, RunBy};
use serde_json::{Value, json};

use super::Profile;
use super::parts::{self, CUT_INPUT};
use crate::fronts::names;
use crate::fronts::turn::{Contradicted, TurnOutcome, TurnStep, TurnView};

/// Tells one turn to one client.
pub(super) struct ChunkTeller {
    profile: Profile,
    /// The names of the tools that clients run.
    clients: Arc<BTreeSet<String>>,
    has_started: bool,
    told: Option<ToldStep>,
    /// What was written and not sent yet.
    out: Vec<u8>,
}

/// What was told of a step.
#[derive(Debug, Default)]
struct ToldStep {
    step: StepId,
    /// Whether `finish-step` is due.
    is_open: bool,
    restarts: u32,
    texts: Vec<ToldText>,
    thoughts: Vec<ToldText>,
    calls: BTreeMap<CallUid, ToldCall>,
    /// Sources, files and outcomes without a call, by their place among those.
    others: usize,
    results: BTreeSet<u16>,
}

#[derive(Debug)]
struct ToldText {
    id: String,
    len: usize,
    is_open: bool,
}

#[derive(Debug, Default)]
struct ToldCall {
    input_len: usize,
    is_whole: bool,
}

impl ChunkTeller {
    pub(super) const fn new(profile: Profile, clients: Arc<BTreeSet<String>>) -> Self {
        Self { profile, clients, has_started: false, told: None, out: Vec::new() }
    }

    /// The client knows everything up to this step, but not all results of its calls.
    pub(super) fn knows(&mut self, step: StepId) {
        self.told = Some(ToldStep { step, restarts: u32::MAX, ..ToldStep::default() });
    }

    /// What was written since the last time.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    fn chunk(&mut self, chunk: &Value) {
        self.out.extend_from_slice(b"data: ");
        self.out.extend_from_slice(chunk.to_string().as_bytes());
        self.out.extend_from_slice(b"\n\n");
    }

    /// Tells what is new of a turn.
    pub(super) fn tell(&mut self, turn: &TurnView) -> Result<(), Contradicted> {
        if !self.has_started {
            self.has_started = true;
            self.chunk(&json!({"type": "start", "messageId": parts::reply_id(turn.user())}));
        }
        for step in turn.steps() {
            match self.told.as_ref().map(|told| told.step) {
                Some(told) if step.step < told => continue,
                Some(told) if step.step == told => {}
                Some(_) | None => {
                    self.finish_step();
                    self.chunk(&json!({"type": "start-step"}));
                    let (step, restarts) = (step.step, step.restarts);
                    self.told = Some(ToldStep { step, is_open: true, restarts, ..ToldStep::default() });
                }
            }
            self.step(&step)?;
        }
        Ok(())
    }

    /// The step that was told last.
    pub(super) fn newest(&self) -> Option<StepId> {
        self.told.as_ref().map(|told| told.step)
    }

    fn finish_step(&mut self) {
        if self.told.as_ref().is_some_and(|told| told.is_open) {
            self.end_texts();
            self.chunk(&json!({"type": "finish-step"}));
        }
    }

    /// Ends the texts that still grow.
    fn end_texts(&mut self) {
        let Some(told) = &mut self.told else { return };
        let texts = told.texts.iter_mut().map(|text| ("text-end", text));
        let thoughts = told.thoughts.iter_mut().map(|text| ("reasoning-end", text));
        let open: Vec<Value> = texts
            .chain(thoughts)
            .filter(|(_, text)| text.is_open)
            .map(|(kind, text)| {
                text.is_open = false;
                json!({"type": kind, "id": text.id})
            })
            .collect();
        open.iter().for_each(|chunk| self.chunk(chunk));
    }

    fn step(&mut self, step: &TurnStep<'_>) -> Result<(), Contradicted> {
        let Some(mut told) = self.told.take() else { return Ok(()) };
        let is_known = told.restarts == u32::MAX; // The client has it from an earlier stream.
        let outcome = if is_known { Ok(()) } else { self.parts(&mut told, step) };
        if let Some(reply) = step.reply.filter(|_| outcome.is_ok()) {
            for call in reply.calls() {
                self.result(&mut told, call, step.result(call.uid.ordinal));
            }
        }
        self.told = Some(told);
        outcome
    }

    fn parts(&mut self, told: &mut ToldStep, step: &TurnStep<'_>) -> Result<(), Contradicted> {
        let is_there =
            |uid: &CallUid| step.parts.iter().any(|part| matches!(part, Part::Call(call) if call.uid == *uid));
        if step.restarts != told.restarts || !told.calls.keys().all(is_there) {
            self.take_back(told, step)?;
        }
        let (mut texts, mut thoughts, mut others) = (0, 0, 0);
        // What the base profile holds: a call may be taken back, and what follows it has to stand behind it.
        let is_uncertain = |part: &Part| matches!(part, Part::Call(call) if !call.whole || call.object().is_none());
        let held =
            step.parts.iter().position(is_uncertain).filter(|_| step.reply.is_none() && self.profile == Profile::Base);
        let certain = &step.parts[..held.unwrap_or(step.parts.len())];
        let newest = certain.len().saturating_sub(1);
        for (place, part) in certain.iter().enumerate() {
            let is_over = step.reply.is_some() || place < newest;
            match part {
                Part::Text(text) if !text.text.is_empty() => {
                    self.text(told, Kind::Text, texts, &text.text, is_over)?;
                    texts += 1;
                }
                Part::Reasoning(thought) if !thought.text.is_empty() => {
                    self.text(told, Kind::Reasoning, thoughts, &thought.text, is_over)?;
                    thoughts += 1;
                }
                Part::Text(_) | Part::Reasoning(_) | Part::Other(_) => {}
                Part::Call(call) => self.call(told, call, step.reply.is_some()),
                Part::Provided(_) | Part::Source(_) | Part::File(_) => {
                    // A file has its bytes once the reply is committed.
                    let is_certain = step.reply.is_some() || !matches!(part, Part::File(_));
                    if others == told.others && is_certain {
                        told.others += 1;
                        parts::told(step.step, others, part).iter().for_each(|chunk| self.chunk(chunk));
                    }
                    others += 1;
                }
            }
        }
        Ok(())
    }

    /// Takes back what the turn does not hold any more.
    fn take_back(&mut self, told: &mut ToldStep, step: &TurnStep<'_>) -> Result<(), Contradicted> {
        let fresh = ToldStep { step: told.step, is_open: true, restarts: step.restarts, ..ToldStep::default() };
        match self.profile {
            Profile::Newest => {
                self.chunk(&json!({"type": "reset-step"}));
                *told = fresh;
            }
            // Reasoning may stand: the recovery retracts everything only from a draft without text.
            Profile::Base if told.texts.is_empty() && told.calls.is_empty() && told.others == 0 => {
                for text in told.thoughts.iter().filter(|text| text.is_open) {
                    self.chunk(&json!({"type": "reasoning-end", "id": text.id}));
                }
                *told = fresh;
            }
            Profile::Base => return Err(Contradicted),
        }
        Ok(())
    }

    fn text(
        &mut self,
        told: &mut ToldStep,
        kind: Kind,
        place: usize,
        text: &str,
        is_over: bool,
    ) -> Result<(), Contradicted> {
        let (step, restarts) = (told.step, told.restarts);
        let list = if kind == Kind::Text { &mut told.texts } else { &mut told.thoughts };
        if place == list.len() {
            let (letter, again) = (kind.letter(), if restarts > 0 { format!("-{restarts}") } else { String::new() });
            let id = format!("{letter}{step}.{place}{again}");
            self.chunk(&json!({"type": format!("{}-start", kind.name()), "id": id}));
            list.push(ToldText { id, len: 0, is_open: true });
        }
        let Some(shown) = list.get_mut(place) else { return Err(Contradicted) };
        let Some(more) = text.get(shown.len..) else { return Err(Contradicted) };
        if !more.is_empty() {
            if !shown.is_open {
                return Err(Contradicted);
            }
            shown.len = text.len();
            let chunk = json!({"type": format!("{}-delta", kind.name()), "id": shown.id, "delta": more});
            self.chunk(&chunk);
        }
        if is_over && shown.is_open {
            shown.is_open = false;
            let chunk = json!({"type": format!("{}-end", kind.name()), "id": shown.id});
            self.chunk(&chunk);
        }
        Ok(())
    }

    fn call(&mut self, told: &mut ToldStep, call: &Call, is_committed: bool) {
        let is_known = told.calls.contains_key(&call.uid);
        let shown = told.calls.entry(call.uid).or_default();
        if shown.is_whole {
            return;
        }
        let flags = |mut chunk: Value| {
            if !self.clients.contains(&call.tool) {
                chunk["dynamic"] = json!(true);
                chunk["providerExecuted"] = json!(true);
            }
            chunk
        };
        let id = call.uid.to_string();
        let mut chunks = Vec::new();
        if self.profile == Profile::Newest {
            if !is_known {
                chunks.push(flags(json!({"type": "tool-input-start", "toolCallId": id, "toolName": call.tool})));
            }
            if let Some(more) = call.input.get(shown.input_len..).filter(|more| !more.is_empty()) {
                shown.input_len = call.input.len();
                chunks.push(json!({"type": "tool-input-delta", "toolCallId": id, "inputTextDelta": more}));
            }
        }
        match call.object() {
            Some(input) if call.whole => {
                shown.is_whole = true;
                let chunk =
                    json!({"type": "tool-input-available", "toolCallId": id, "toolName": call.tool, "input": input});
                chunks.push(flags(chunk));
            }
            _ if is_committed => {
                shown.is_whole = true;
                told.results.insert(call.uid.ordinal); // It never ran.
                let chunk = json!({"type": "tool-input-error", "toolCallId": id, "toolName": call.tool,
                    "input": call.input, "errorText": CUT_INPUT});
                chunks.push(flags(chunk));
            }
            _ => {}
        }
        chunks.iter().for_each(|chunk| self.chunk(chunk));
    }

    fn result(&mut self, told: &mut ToldStep, call: &Call, result: Option<&CallResult>) {
        let Some(result) = result else { return };
        if !told.results.insert(call.uid.ordinal) || call.run_by == RunBy::Provider {
            return;
        }
        let id = call.uid.to_string();
        let mut chunk = match result.verdict {
            CallVerdict::Done => {
                let output = parts::output(result, self.clients.contains(&call.tool));
                json!({"type": "tool-output-available", "toolCallId": id, "output": output})
            }
            CallVerdict::Denied => json!({"type": "tool-output-denied", "toolCallId": id}),
            CallVerdict::Error | CallVerdict::Interrupted | CallVerdict::Unknown => {
                json!({"type": "tool-output-error", "toolCallId": id, "errorText": result.output.text})
            }
        };
        if !self.clients.contains(&call.tool) && result.verdict != CallVerdict::Denied {
            chunk["dynamic"] = json!(true);
            chunk["providerExecuted"] = json!(true);
        }
        self.chunk(&chunk);
    }

    /// Tells that these calls wait for answers, and ends.
    pub(super) fn asks(&mut self, asks: &[OpenCall]) {
        for ask in asks.iter().filter(|ask| ask.state == CallState::AsksApproval) {
            let id = names::approval_name(ask);
            self.chunk(&json!({"type": "tool-approval-request", "approvalId": id, "toolCallId": ask.uid.to_string()}));
        }
        self.finish("tool-calls");
    }

    /// Tells how the turn ended.
    pub(super) fn over(&mut self, outcome: &TurnOutcome) {
        let reason = match outcome {
            TurnOutcome::Done => "stop",
            TurnOutcome::Length => "length",
            TurnOutcome::Filtered => "content-filter",
            TurnOutcome::Interrupted if self.profile == Profile::Newest => "interrupted",
            TurnOutcome::Interrupted | TurnOutcome::Other => "other",
            TurnOutcome::Failed(why) => return self.fail(why),
        };
        self.finish(reason);
    }

    /// Ends with an error for people.
    pub(super) fn fail(&mut self, why: &str) {
        self.finish_step();
        self.chunk(&json!({"type": "error", "errorText": why}));
        self.out.extend_from_slice(b"data: [DONE]\n\n");
    }

    fn finish(&mut self, reason: &str) {
        self.finish_step();
        self.chunk(&json!({"type": "finish", "finishReason": reason}));
        self.out.extend_from_slice(b"data: [DONE]\n\n");
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Reasoning => "reasoning",
        }
    }

    const fn letter(self) -> char {
        match self {
            Self::Text => 't',
            Self::Reasoning => 'r',
        }
    }
}

#[cfg(test)]
mod tests;
