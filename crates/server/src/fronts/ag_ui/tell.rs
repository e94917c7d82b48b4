//! What the client is told of a turn: events of AG-UI.
//!
//! As the teller of the AI SDK it remembers what it has told and tells the difference. Calls are told when their input is
//! whole, so nothing has to be taken back: a call that broke off is never seen. Everything that is open is closed before
//! the run ends, or the client refuses the end.

use std::collections::BTreeSet;

use everturn::core::chat::{CallState, OpenCall};
use everturn::core::ids::{CallUid, StepId};
use everturn::core::message::{Call, CallVerdict, Part};
use serde_json::{Value, json};

use super::Tools;
use super::request::RunInput;
use super::snapshot::{reply_id, result_id, thought_id};
use crate::fronts::names::approval_name;
use crate::fronts::turn::{Contradicted, TurnOutcome, TurnProgress, TurnStep, TurnView};

/// Tells one turn to one client.
pub(super) struct RunTeller {
    thread: String,
    run: String,
    /// Whether the client speaks 1.0: earlier ones know no outcome and no reasoning.
    is_current: bool,
    clients: Tools,
    told: Option<ToldStep>,
    out: Vec<u8>,
}

#[derive(Debug, Default)]
struct ToldStep {
    step: StepId,
    /// Whether the client has the step from an earlier run, but not all results of its calls.
    is_known: bool,
    restarts: u32,
    thoughts: Vec<ToldText>,
    /// All text of the step is one message.
    text_len: usize,
    text_is_open: bool,
    calls: BTreeSet<CallUid>,
    results: BTreeSet<u16>,
}

#[derive(Debug)]
struct ToldText {
    id: String,
    len: usize,
    is_open: bool,
}

impl RunTeller {
    pub(super) fn new(input: &RunInput, clients: Tools) -> Self {
        let (thread, run) = (input.thread_id.clone(), input.run_id.clone());
        let is_current = input.protocol_version.is_some();
        Self { thread, run, is_current, clients, told: None, out: Vec::new() }
    }

    /// The client knows everything up to this step, but not all results of its calls.
    pub(super) fn knows(&mut self, step: StepId) {
        self.told = Some(ToldStep { step, is_known: true, ..ToldStep::default() });
    }

    /// The client gets the messages before the turn, and the whole turn.
    pub(super) fn knows_nothing(&mut self) {
        self.told = None;
    }

    /// The step that was told last.
    pub(super) fn newest(&self) -> Option<StepId> {
        self.told.as_ref().map(|told| told.step)
    }

    /// What was written since the last time.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    fn event(&mut self, event: &Value) {
        self.out.extend_from_slice(b"data: ");
        self.out.extend_from_slice(event.to_string().as_bytes());
        self.out.extend_from_slice(b"\n\n");
    }

    /// Begins the run, with the messages before it where the client needs them.
    pub(super) fn started(&mut self, snapshot: Option<Vec<Value>>) {
        self.event(&json!({"type": "RUN_STARTED", "threadId": self.thread, "runId": self.run}));
        if let Some(mut messages) = snapshot {
            messages.retain(|message| self.is_current || message["role"] != "reasoning");
            self.event(&json!({"type": "MESSAGES_SNAPSHOT", "messages": messages}));
        }
    }

    /// Tells what is new of a turn.
    pub(super) fn tell(&mut self, turn: &TurnView) -> Result<(), Contradicted> {
        for step in turn.steps() {
            match self.told.as_ref().map(|told| told.step) {
                Some(told) if step.step < told => continue,
                Some(told) if step.step == told => {}
                Some(_) | None => {
                    self.close();
                    let (step, restarts) = (step.step, step.restarts);
                    self.told = Some(ToldStep { step, restarts, ..ToldStep::default() });
                }
            }
            let Some(mut told) = self.told.take() else { continue };
            let outcome = if told.is_known { Ok(()) } else { self.parts(&mut told, &step) };
            if outcome.is_ok() {
                self.results(&mut told, &step);
            }
            self.told = Some(told);
            outcome?;
        }
        Ok(())
    }

    fn parts(&mut self, told: &mut ToldStep, step: &TurnStep<'_>) -> Result<(), Contradicted> {
        if step.restarts != told.restarts {
            if told.text_len > 0 || !told.calls.is_empty() {
                return Err(Contradicted);
            }
            self.close_thoughts(told); // Reasoning that was given up may stand.
            told.restarts = step.restarts;
            told.thoughts.clear();
        }
        let (mut thoughts, mut text_end) = (0, 0);
        let newest = step.parts.len().saturating_sub(1);
        for (place, part) in step.parts.iter().enumerate() {
            let is_over = step.reply.is_some() || place < newest;
            match part {
                Part::Reasoning(thought) if !thought.text.is_empty() && self.is_current => {
                    self.thought(told, thoughts, &thought.text, is_over)?;
                    thoughts += 1;
                }
                Part::Text(text) if !text.text.is_empty() => {
                    self.text(told, &text.text, text_end)?;
                    text_end += text.text.len();
                }
                Part::Call(call) => {
                    let is_certain = call.whole && call.object().is_some();
                    if !is_certain && step.reply.is_none() {
                        return Ok(()); // It may be taken back, and what follows it has to stand behind it.
                    }
                    self.call(told, call);
                }
                _ => {}
            }
        }
        if step.reply.is_some() {
            self.close_text(told);
        }
        Ok(())
    }

    fn thought(&mut self, told: &mut ToldStep, place: usize, text: &str, is_over: bool) -> Result<(), Contradicted> {
        if place == told.thoughts.len() {
            let again = if told.restarts > 0 { format!("-{}", told.restarts) } else { String::new() };
            let id = format!("{}{again}", thought_id(told.step, place));
            self.event(&json!({"type": "REASONING_START", "messageId": id}));
            self.event(&json!({"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}));
            told.thoughts.push(ToldText { id, len: 0, is_open: true });
        }
        let Some(shown) = told.thoughts.get_mut(place) else { return Err(Contradicted) };
        let Some(more) = text.get(shown.len..) else { return Err(Contradicted) };
        if !more.is_empty() {
            shown.len = text.len();
            let event = json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": shown.id, "delta": more});
            self.event(&event);
        }
        if is_over {
            self.close_thoughts(told);
        }
        Ok(())
    }

    fn close_thoughts(&mut self, told: &mut ToldStep) {
        for thought in told.thoughts.iter_mut().filter(|thought| thought.is_open) {
            thought.is_open = false;
            self.event(&json!({"type": "REASONING_MESSAGE_END", "messageId": thought.id}));
            self.event(&json!({"type": "REASONING_END", "messageId": thought.id}));
        }
    }

    /// Tells a text part that begins at this byte of the step's text.
    fn text(&mut self, told: &mut ToldStep, text: &str, begin: usize) -> Result<(), Contradicted> {
        let end = begin + text.len();
        if end <= told.text_len {
            return Ok(());
        }
        let shown = told.text_len.checked_sub(begin).ok_or(Contradicted)?;
        let more = text.get(shown..).ok_or(Contradicted)?;
        let id = reply_id(told.step);
        if !told.text_is_open {
            told.text_is_open = true;
            self.event(&json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}));
        }
        told.text_len = end;
        self.event(&json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": more}));
        Ok(())
    }

    fn close_text(&mut self, told: &mut ToldStep) {
        if std::mem::take(&mut told.text_is_open) {
            self.event(&json!({"type": "TEXT_MESSAGE_END", "messageId": reply_id(told.step)}));
        }
    }

    fn call(&mut self, told: &mut ToldStep, call: &Call) {
        if !told.calls.insert(call.uid) {
            return;
        }
        self.close_text(told);
        let (id, parent) = (call.uid.to_string(), reply_id(told.step));
        let start =
            json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": call.tool, "parentMessageId": parent});
        self.event(&start);
        if !call.input.is_empty() {
            self.event(&json!({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": call.input}));
        }
        self.event(&json!({"type": "TOOL_CALL_END", "toolCallId": id}));
    }

    fn results(&mut self, told: &mut ToldStep, step: &TurnStep<'_>) {
        for call in step.reply.into_iter().flat_map(|reply| reply.calls()) {
            let Some(result) = step.result(call.uid.ordinal) else { continue };
            if !told.results.insert(call.uid.ordinal) {
                continue;
            }
            // The client has brought the results of its own tools.
            let is_clients = told.is_known && self.clients.contains(&call.tool);
            if is_clients && matches!(result.verdict, CallVerdict::Done | CallVerdict::Error) {
                continue;
            }
            let id = call.uid.to_string();
            self.event(&json!({"type": "TOOL_CALL_RESULT", "messageId": result_id(&id), "toolCallId": id,
                "content": result.output.text, "role": "tool"}));
        }
    }

    fn close(&mut self) {
        if let Some(mut told) = self.told.take() {
            self.close_thoughts(&mut told);
            self.close_text(&mut told);
            self.told = Some(told);
        }
    }

    /// Ends the run, if the turn is over or waits for answers. Returns whether it did.
    pub(super) fn end(&mut self, progress: &TurnProgress) -> bool {
        let outcome = match progress {
            TurnProgress::Going | TurnProgress::Gone => return false,
            TurnProgress::Over(TurnOutcome::Failed(why)) => {
                self.failed(why);
                return true;
            }
            TurnProgress::Over(TurnOutcome::Interrupted) => json!({"type": "cancelled"}),
            TurnProgress::Over(_) => json!({"type": "success"}),
            TurnProgress::Asks(asks) => {
                let is_approval = |state: CallState| state == CallState::AsksApproval;
                let interrupt = |ask: &OpenCall| {
                    json!({"id": approval_name(ask), "reason": "approval", "toolCallId": ask.uid.to_string(),
                        "message": format!("May the tool {} run?", ask.tool)})
                };
                let interrupts: Vec<Value> = asks.iter().filter(|ask| is_approval(ask.state)).map(interrupt).collect();
                let pending = asks.iter().filter(|ask| !is_approval(ask.state)).map(|ask| ask.uid.to_string());
                if interrupts.is_empty() {
                    json!({"type": "success", "pendingToolCallIds": pending.collect::<Vec<_>>()})
                } else {
                    json!({"type": "interrupt", "interrupts": interrupts})
                }
            }
        };
        self.close();
        let mut event = json!({"type": "RUN_FINISHED", "threadId": self.thread, "runId": self.run});
        if self.is_current {
            event["outcome"] = outcome;
        }
        self.event(&event);
        true
    }

    /// Ends the run with an error for people.
    pub(super) fn failed(&mut self, why: &str) {
        self.close();
        self.event(&json!({"type": "RUN_ERROR", "message": why, "code": "failed"}));
    }
}
