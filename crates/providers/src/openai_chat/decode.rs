//! The chunks of a completion, as frames.
//!
//! Everybody speaks this wire and hardly two speak it alike, so it is read generously: fields may be missing, null, or of
//! another type, calls may come in pieces or whole, under ids or without. One thing is insisted upon: a finish reason is
//! the only evidence that an answer is over, and it counts for what came before it. `[DONE]` says no more than the end of
//! the bytes does, unless there are calls and all of them are evidently whole.

use everturn_core::cost::UsageReport;
use everturn_core::delta::Delta;
use everturn_core::error::{Cause, ErrorKind, ProviderError};
use everturn_core::message::Stop;
use serde_json::{Value, json};

use super::classify;
use crate::classify::error_in;
use crate::openai::{HeldSources, Loose, meta, report, source};
use crate::provider::Frame;
use crate::sse;
use crate::wire::Decode;

mod calls;
mod chunk;
pub(super) mod closing;
mod finish;

use calls::CallList;
use chunk::{ChatChoice, ChatChunk, ChatDelta};
use finish::Finish;

/// A completion being read.
#[derive(Debug)]
pub struct Completions {
    provider: String,
    calls: CallList,
    finish: Option<Finish>,
    usage: Usage,
    sources: HeldSources,
    /// What is known about the answer as a whole, once something is.
    about: Option<Value>,
    refused: bool,
    stopped: bool,
}

/// What was stated about tokens, and how much of that was told.
#[derive(Debug, Default)]
struct Usage {
    stated: UsageReport,
    told: UsageReport,
}

impl Completions {
    /// A completion of `provider` of which nothing has come.
    #[must_use]
    pub fn new(provider: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            calls: CallList::default(),
            finish: None,
            usage: Usage::default(),
            sources: HeldSources::default(),
            about: None,
            refused: false,
            stopped: false,
        }
    }

    fn chunk(&mut self, chunk: ChatChunk<'_>, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        self.begin(&chunk, out);
        let mut counted = self.count(&chunk.usage, out);
        let choices = chunk.choices.unwrap_or_default();
        let is_last = choices.is_empty();
        // With more than one answer asked for, the first is the answer.
        for choice in choices.into_iter().filter(|choice| choice.index.number().unwrap_or(0) == 0) {
            counted |= self.count(&choice.usage, out);
            self.choice(choice, out)?;
        }
        if is_last && counted && self.finish.is_some() {
            self.stop(out); // The count comes last. Not everybody says `[DONE]` after it.
        }
        Ok(())
    }

    /// An error in the stream; one that goes with a finish reason is that reason's.
    fn failed(&mut self, error: Value, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        if self.finish.is_some() {
            self.stop(out); // What failed behind the end is not the answer.
            return Ok(());
        }
        let finishes = |choice: &Value| choice["finish_reason"].as_str().is_some_and(|reason| !reason.is_empty());
        let has_finished = error["choices"].as_array().is_some_and(|choices| choices.iter().any(finishes));
        let error = classify::event(&self.provider, error);
        Err(if has_finished { error.with_cause(Cause::ErrorFinish) } else { error })
    }

    fn begin(&mut self, chunk: &ChatChunk<'_>, out: &mut Vec<Frame>) {
        if self.about.is_some() || (chunk.id.text().is_empty() && chunk.model.text().is_empty()) {
            return;
        }
        if !chunk.id.text().is_empty() {
            out.push(Frame::Delta(Delta::ResponseId(chunk.id.text().to_owned())));
        }
        self.tell_about("model", chunk.model.text(), out);
    }

    /// Tells one thing more about the answer, with what was told before: the newer telling replaces the older.
    fn tell_about(&mut self, key: &str, what: &str, out: &mut Vec<Frame>) {
        let about = self.about.get_or_insert_with(|| json!({}));
        about[key] = what.into();
        out.push(Frame::Delta(Delta::ReplyMeta(Box::new(meta(&self.provider, about.clone())))));
    }

    /// Takes in a count. Some send one with every chunk: the first is told, so that a cut answer has one, and the last.
    fn count(&mut self, usage: &Loose<'_>, out: &mut Vec<Frame>) -> bool {
        let Loose::Json(usage @ Value::Object(_)) = usage else { return false };
        let stated = report(usage);
        if stated == UsageReport::default() {
            return false;
        }
        self.usage.stated.update(&stated);
        if self.usage.told == UsageReport::default() {
            self.tell_usage(out);
        }
        true
    }

    fn tell_usage(&mut self, out: &mut Vec<Frame>) {
        if self.usage.told != self.usage.stated {
            self.usage.told = self.usage.stated;
            out.push(Frame::Delta(Delta::Usage(self.usage.stated.into())));
        }
    }

    fn choice(&mut self, choice: ChatChoice<'_>, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        if let Some(words) = choice.delta {
            let before = out.len();
            let calls = words.tool_calls.as_ref().is_some_and(|pieces| !pieces.is_empty());
            self.words(words, out)?;
            if out.len() > before || (calls && self.calls.is_open()) {
                self.finish = None; // It was not over after all.
            }
        }
        match choice.finish_reason.text() {
            "" => Ok(()),
            reason => self.finished(reason, out),
        }
    }

    fn words(&mut self, words: ChatDelta<'_>, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        let thought = match words.reasoning_content.text() {
            "" => words.reasoning.text(),
            thought => thought,
        };
        if !thought.is_empty() {
            out.push(Frame::Delta(Delta::Reasoning(thought.to_owned())));
        }
        match &words.content {
            Loose::Text(text) if !text.is_empty() => out.push(Frame::Delta(Delta::Text(text.clone().into_owned()))),
            Loose::Json(Value::Array(parts)) => parts.iter().for_each(|part| say_part(part, out)),
            Loose::None | Loose::Text(_) | Loose::Json(_) => {}
        }
        if !words.refusal.text().is_empty() {
            self.refused = true;
            out.push(Frame::Delta(Delta::Text(words.refusal.text().to_owned())));
        }
        if let Loose::Json(Value::Array(annotations)) = &words.annotations {
            annotations.iter().for_each(|one| self.sources.add(source(&self.provider, one)));
        }
        let taken = self.calls.take(words.tool_calls, words.function_call, out);
        taken.map_err(|what| self.malformed(what))
    }

    /// The answer is over, and this is why.
    fn finished(&mut self, reason: &str, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        let finish = Finish::of(reason);
        if finish == Finish::Failed {
            return Err(classify::finished(&self.provider, reason));
        }
        self.calls.settle(&finish, out).map_err(|what| self.malformed(what))?;
        if finish == Finish::Unknown {
            self.tell_about("finish_reason", reason, out);
        }
        self.finish = Some(finish);
        Ok(())
    }

    /// Says that the answer is over, if there is evidence for it.
    fn stop(&mut self, out: &mut Vec<Frame>) {
        let Some(finish) = self.finish.take() else { return };
        out.extend(self.sources.drain().map(|source| Frame::Delta(Delta::Source(Box::new(source)))));
        self.tell_usage(out);
        let filtered = |category: String| Stop::Filtered { category, detail: String::new() };
        out.push(Frame::Stop(match finish {
            _ if self.calls.is_cut() => Stop::Length,
            Finish::Length => Stop::Length,
            Finish::Filtered(category) => filtered(category),
            _ if self.calls.any() => Stop::ToolUse,
            _ if self.refused => filtered("refusal".to_owned()),
            Finish::Ended | Finish::Unknown | Finish::Failed => Stop::End,
        }));
        self.stopped = true;
    }

    fn malformed(&self, detail: &str) -> ProviderError {
        ProviderError::new(&*self.provider, ErrorKind::Malformed).with_detail(detail)
    }
}

/// A part of a text that comes as a list of parts.
fn say_part(part: &Value, out: &mut Vec<Frame>) {
    match (&part["text"], &part["thinking"]) {
        (Value::String(text), _) if text.is_empty() => {}
        (Value::String(text), _) => out.push(Frame::Delta(Delta::Text(text.clone()))),
        (_, Value::Array(thoughts)) => {
            let texts = thoughts.iter().filter_map(|thought| thought["text"].as_str()).filter(|text| !text.is_empty());
            out.extend(texts.map(|text| Frame::Delta(Delta::Reasoning(text.to_owned()))));
        }
        _ => {}
    }
}

impl Decode for Completions {
    fn event(&mut self, event: &sse::SseEvent<'_>, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        let before = out.len();
        match event.data.trim() {
            "" => {}
            "[DONE]" => {
                if self.finish.is_none() && self.calls.are_whole() {
                    self.finish = Some(Finish::Ended);
                }
                self.stop(out);
                if !self.stopped {
                    return Err(ProviderError::new(&*self.provider, ErrorKind::Truncated));
                }
            }
            _ => match error_in(event) {
                Some(error) => self.failed(error, out)?,
                None => {
                    let chunk = ChatChunk::read(event).map_err(|error| self.malformed(&error.to_string()))?;
                    self.chunk(chunk, out)?;
                }
            },
        }
        if out.len() == before {
            out.push(Frame::Ping);
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<Frame>) {
        self.stop(out);
    }

    fn is_finished(&self) -> bool {
        self.finish.is_some()
    }
}
