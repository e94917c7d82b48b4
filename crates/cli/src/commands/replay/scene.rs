//! Reconstructs the events of a chat in their order.
//!
//! Deltas are deleted once their message is committed. The remaining records suffice: when each attempt began
//! and how it ended, when each call was started and answered, when each message was committed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use everturn::core::delta::Rung;
use everturn::core::error::Cause;
use everturn::core::fact::{AttemptOutcome, AttemptPurpose, AttemptRecord};
use everturn::core::ids::{CallUid, MessageId, StepId, Timestamp};
use everturn::core::message::{Body, CallResult, CallVerdict, Message, Part, Reply, Stop};
use everturn::stores::CallRecord;

use crate::render::duration;
use crate::terminal::visible;

/// Characters of an input or a result that are shown.
const CHARS_MAX: usize = 160;

/// One event of the replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// When it began.
    pub at: Timestamp,
    /// How long its text took to arrive.
    pub lasts: Duration,
    /// The message it belongs to.
    pub message: Option<MessageId>,
    /// The speaker.
    pub voice: Voice,
    /// The text, one or more lines. Safe for a terminal.
    pub text: String,
}

impl Beat {
    /// Cuts the text to what had arrived by this time.
    pub fn cut(&mut self, last: Timestamp) {
        let said = last.since(self.at);
        if said >= self.lasts {
            return;
        }
        let share = said.as_secs_f64() / self.lasts.as_secs_f64();
        let len = (self.text.chars().count() as f64 * share) as usize;
        self.text = self.text.chars().take(len).collect();
        self.lasts = said;
    }
}

/// The speaker of a beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    Person,
    Model,
    Thought,
    Tool,
    /// The engine: attempts, joins, costs.
    Note,
    /// The engine, about a failure.
    Trouble,
}

/// All beats of a chat, in order.
pub fn beats(transcript: &[Arc<Message>], attempts: &[AttemptRecord], calls: &[CallRecord]) -> Vec<Beat> {
    let replied: BTreeSet<StepId> = transcript.iter().filter_map(|message| step_of(message)).collect();
    let mut lost: Vec<&AttemptRecord> = attempts.iter().filter(|attempt| !replied.contains(&attempt.step)).collect();
    lost.sort_by_key(|attempt| attempt.began);
    let mut stage = Stage {
        attempts,
        calls: calls.iter().map(|call| (call.uid, call)).collect(),
        lost: lost.into_iter().peekable(),
        beats: Vec::new(),
    };
    transcript.iter().for_each(|message| stage.message(message));
    stage.lost_before(Timestamp(i64::MAX));
    stage.total();
    stage.beats
}

fn step_of(message: &Message) -> Option<StepId> {
    match &message.body {
        Body::Reply(reply) => Some(reply.step),
        _ => None,
    }
}

struct Stage<'a, I: Iterator<Item = &'a AttemptRecord>> {
    attempts: &'a [AttemptRecord],
    calls: BTreeMap<CallUid, &'a CallRecord>,
    /// Attempts of steps that never came to a reply.
    lost: std::iter::Peekable<I>,
    beats: Vec<Beat>,
}

impl<'a, I: Iterator<Item = &'a AttemptRecord>> Stage<'a, I> {
    fn beat(&mut self, at: Timestamp, message: Option<MessageId>, voice: Voice, text: String) {
        self.beats.push(Beat { at, lasts: Duration::ZERO, message, voice, text });
    }

    fn message(&mut self, message: &Message) {
        let (id, at) = (Some(message.id), message.at);
        self.lost_before(match &message.body {
            Body::Reply(reply) => earlier_by(at, reply.runtime),
            _ => at,
        });
        match &message.body {
            Body::User(parts) => self.beat(at, id, Voice::Person, format!("{} > {}", message.id, said(parts))),
            Body::Context(text) => {
                let text = format!("{} (note to the model: {})", message.id, visible::line(text, CHARS_MAX));
                self.beat(at, id, Voice::Note, text);
            }
            Body::Reply(reply) => self.reply(message, reply),
            Body::Result(result) => self.result(message, result),
            Body::Summary(summary) => {
                let text = visible::line(&summary.text, CHARS_MAX);
                let text = format!("{} = summary in {}: {text}", message.id, took(summary.runtime));
                self.beat(at, id, Voice::Note, text);
            }
        }
    }

    /// Adds the attempts without a reply that began before this time.
    fn lost_before(&mut self, at: Timestamp) {
        while let Some(attempt) = self.lost.next_if(|attempt| attempt.began <= at) {
            self.began(attempt, None, None);
            self.ended(attempt, None);
        }
    }

    fn began(&mut self, attempt: &AttemptRecord, before: Option<&AttemptRecord>, message: Option<MessageId>) {
        let AttemptRecord { step, number, model, aim, .. } = attempt;
        let why = match (aim, before) {
            (AttemptPurpose::Answer(rung), _) => name_of(*rung),
            (AttemptPurpose::Summary, _) => ", for a summary",
            (AttemptPurpose::Unknown, None) => "",
            (AttemptPurpose::Unknown, Some(before)) if before.model != *model => ", another model",
            (AttemptPurpose::Unknown, Some(_)) => ", again",
        };
        let text = format!("  · step {step}, attempt {number}{why}: {}", visible::line(&model.to_string(), 80));
        self.beat(attempt.began, message, Voice::Note, text);
    }

    fn ended(&mut self, attempt: &AttemptRecord, message: Option<MessageId>) {
        let (voice, how) = match attempt.outcome {
            AttemptOutcome::Answered => (Voice::Note, "answered".to_owned()),
            AttemptOutcome::Broke(Cause::Resumed, _) => (Voice::Trouble, "broke: its process ended".to_owned()),
            AttemptOutcome::Broke(cause, kind) => {
                (Voice::Trouble, format!("broke: {} ({})", cause.label(), kind.label()))
            }
            AttemptOutcome::Interrupted => (Voice::Trouble, "interrupted".to_owned()),
            AttemptOutcome::Lost => (Voice::Trouble, "lost with its process".to_owned()),
        };
        let (tokens, cost) = (attempt.tally.total(), attempt.spend.total());
        let about = if attempt.spend.estimated.0 > 0 { "about " } else { "" };
        let text = format!("  · {how} after {}, {tokens} tokens, {about}{cost}", took(attempt.took));
        self.beat(attempt.began + attempt.took, message, voice, text);
    }

    /// Adds the attempts of a step, and the outcome of the last.
    fn reply(&mut self, message: &Message, reply: &Reply) {
        let id = Some(message.id);
        let of_step: Vec<&'a AttemptRecord> =
            self.attempts.iter().filter(|attempt| attempt.step == reply.step).collect();
        let (last, earlier) = match of_step.split_last() {
            Some((last, earlier)) => (Some(*last), earlier),
            None => (None, &[][..]),
        };
        let mut before = None;
        for attempt in earlier {
            self.began(attempt, before, id);
            self.ended(attempt, id);
            before = Some(*attempt);
        }
        if let Some(last) = last {
            self.began(last, before, id);
        }
        self.spoken(message, reply, last.map_or(earlier_by(message.at, reply.runtime), |last| last.began));
        if let Some(last) = last {
            self.ended(last, id);
        }
        if reply.stop == Stop::ToolUse && last.is_some_and(|last| matches!(last.outcome, AttemptOutcome::Broke(..))) {
            let text = "  · salvage: the complete calls are run, without another attempt".into();
            self.beat(message.at, id, Voice::Trouble, text);
        }
        for seam in &reply.seams {
            let text = format!(
                "  · joined at byte {}: {} repeated bytes left out, {} put in",
                seam.at, seam.dropped, seam.inserted
            );
            self.beat(message.at, id, Voice::Trouble, text);
        }
        for tool in &reply.retracted {
            let text = format!("  · a call of {} was cut off and retracted", visible::line(tool, 80));
            self.beat(message.at, id, Voice::Trouble, text);
        }
        if let Some(how) = stopped(&reply.stop) {
            self.beat(message.at, id, Voice::Trouble, format!("  · {how}"));
        }
    }

    /// Adds the model's text, lasting as long as it took to arrive.
    fn spoken(&mut self, message: &Message, reply: &Reply, from: Timestamp) {
        let mut parts: Vec<(Voice, String)> = Vec::new();
        for part in &reply.parts {
            let (voice, text) = match part {
                Part::Text(text) => (Voice::Model, visible(&text.text).into_owned()),
                Part::Reasoning(thought) => {
                    (Voice::Thought, format!("  ~ {}", visible::line(&thought.text, CHARS_MAX)))
                }
                Part::Call(call) => {
                    let tool = visible::line(&call.tool, 80);
                    (Voice::Tool, format!("  → {} {tool} {}", call.uid, visible::line(&call.input, CHARS_MAX)))
                }
                Part::Provided(found) => {
                    (Voice::Tool, format!("  ← {} at the provider", visible::line(&found.tool, 80)))
                }
                Part::Source(source) => (Voice::Note, format!("  [{}]", visible::line(&source.url, CHARS_MAX))),
                Part::File(file) => (Voice::Note, format!("  [file {}]", visible::line(&file.media_type, 80))),
                Part::Other(_) => (Voice::Note, "  [a part this version does not know]".into()),
            };
            match parts.last_mut() {
                Some((Voice::Model, before)) if voice == Voice::Model => before.push_str(&text),
                _ => parts.push((voice, text)),
            }
        }
        let len: usize = parts.iter().map(|(_, text)| text.len()).sum();
        let (mut at, whole) = (from, message.at.since(from));
        for (index, (voice, mut text)) in parts.into_iter().enumerate() {
            let share = text.len() as f64 / len.max(1) as f64;
            let lasts = whole.mul_f64(share);
            if index == 0 || voice == Voice::Model {
                text = format!("{} < {}", message.id, text.trim_start_matches("  "));
            }
            self.beats.push(Beat { at, lasts, message: Some(message.id), voice, text });
            at = at + lasts;
        }
    }

    fn result(&mut self, message: &Message, result: &CallResult) {
        let record = self.calls.get(&result.call);
        let began = record.map(|record| record.started).or(result.began);
        let how = match result.verdict {
            CallVerdict::Done => "done",
            CallVerdict::Error => "failed",
            CallVerdict::Denied => "refused",
            CallVerdict::Interrupted => "interrupted",
            CallVerdict::Unknown => "outcome not known",
        };
        let after = began.map_or_else(String::new, |began| format!(" after {}", took(result.ended.since(began))));
        let again =
            record.filter(|record| record.starts > 1).map(|record| format!(", started {} times", record.starts));
        let (tool, text) = (visible::line(&result.tool, 80), visible::line(&result.output.text, CHARS_MAX));
        let again = again.unwrap_or_default();
        let text = format!("{} ← {} {tool} {how}{after}{again}: {text}", message.id, result.call);
        let voice = if result.verdict == CallVerdict::Done { Voice::Tool } else { Voice::Trouble };
        self.beat(message.at, Some(message.id), voice, text);
    }

    /// Adds the total cost.
    fn total(&mut self) {
        let Some(last) = self.beats.last().map(|beat| beat.at) else { return };
        let tokens: u64 = self.attempts.iter().map(|attempt| attempt.tally.total()).sum();
        let spent = self.attempts.iter().map(|attempt| attempt.spend.total()).reduce(|sum, more| sum.plus(more));
        let attempts = self.attempts.len();
        if let Some(spent) = spent {
            self.beat(last, None, Voice::Note, format!("  · {attempts} attempts, {tokens} tokens, {spent}"));
        }
    }
}

/// The rung of an attempt, in words.
const fn name_of(rung: Rung) -> &'static str {
    match rung {
        Rung::First => ", first",
        Rung::Reattach => ", re-attach",
        Rung::Continue => ", continue",
        Rung::Restart => ", restart",
        Rung::FallBack => ", fall back",
    }
}

/// The time minus a span.
fn earlier_by(at: Timestamp, span: Duration) -> Timestamp {
    Timestamp(at.0.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
}

/// How an incomplete answer ended.
fn stopped(stop: &Stop) -> Option<String> {
    match stop {
        Stop::End | Stop::ToolUse => None,
        Stop::Length => Some("it reached the output limit".into()),
        Stop::Filtered { category, .. } => Some(format!("the provider filtered it: {}", visible::line(category, 80))),
        Stop::Interrupted => Some("interrupted by the user; the text so far is kept".into()),
        Stop::Broken => Some("it broke and could not be recovered; the text so far is kept".into()),
    }
}

/// The text of a user message.
fn said(parts: &[Part]) -> String {
    let said = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(visible(&text.text).into_owned()),
        Part::File(file) => {
            Some(format!("[file {} {}]", visible::line(&file.name, 80), visible::line(&file.media_type, 80)))
        }
        _ => None,
    });
    said.collect::<Vec<_>>().join(" ")
}

/// A duration in words.
fn took(time: Duration) -> String {
    duration(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
