//! Prepares prompts: what a model is sent.
//!
//! A transcript is what happened, and it may hold anything: calls of a process that died, results that came
//! late or twice, reasoning of another provider, files that are gone. A provider answers a single such flaw
//! with a refusal, for ever, since the flaw stays where it is. So no request is ever made of the transcript
//! itself. It is made of a [`Prompt`], which turns *any* sequence of messages into one the target takes, and
//! changes as little as it can: a healthy transcript comes through whole, and reasoning that is sent is sent
//! to the byte.
//!
//! A prompt is a fold over messages. What was prepared stays prepared: the entries of all closed segments are shared
//! between requests and never made again, so a step costs what the step said, and the provider finds its cache where it
//! left it. A summary is the one thing that begins a prompt anew.
//!
//! [`validate()`] is the other half: a model of what each provider refuses, written without looking at the preparation.
//! Whatever is prepared must pass it.

mod clean;
mod echo;
mod entry;
mod format;
mod hosted;
mod lean;
mod repair;
mod reply;
mod request;
mod sampling;
mod schema;
mod segment;
mod target;
mod user;
mod validate;
pub(crate) mod words;

#[cfg(test)]
pub(crate) mod tests;

use std::mem;
use std::sync::Arc;

pub use echo::echoes;
pub use entry::{
    HostedCall, HostedResult, MEDIA_BYTES, PromptCall, PromptEntries, PromptEntry, PromptFile, PromptMedia, PromptPart,
    PromptResult, Role, SealedReasoning,
};
pub use format::{AnswerSchema, OutputFormat};
pub use repair::{Repair, RepairKind};
pub use request::{CacheMarks, ContinueMode, Effort, OUTPUT_MAX, Request, ResponseChain, ToolChoice, UnfinishedAnswer};
pub use sampling::{BadSampling, STOP_BYTES_MAX, STOPS_MAX, Sampling, TEMPERATURE_MAX, TakesSampling};
pub use schema::{ToolSpec, gemini_schema, normal_schema};
pub use target::{Target, WireFormat};
pub use user::{INLINE_BYTES_MAX, told_of};
pub use validate::{NotOfferable, RequestViolation, offerable, validate};

use crate::ids::{MessageId, ModelId};
use crate::message::{Body, CallResult, Message, Meta, Reply, Stop, Summary};
use reply::{Names, spoken};
use segment::Segment;

/// A transcript on its way to one target, message by message.
#[derive(Debug)]
pub struct Prompt {
    target: Target,
    /// Up to this message, media are told of and not shown.
    unseen: MessageId,
    /// The target, if it took no media.
    blind: Target,
    closed: Arc<Vec<PromptEntry>>,
    closed_bytes: usize,
    open: Segment,
    names: Names,
    last_was_reply: bool,
    link: Option<Link>,
    repairs: Vec<Repair>,
}

/// The last reply, as its provider knows it.
#[derive(Debug)]
struct Link {
    response_id: String,
    model: ModelId,
}

/// The entries for `target` of a whole transcript.
#[must_use]
pub fn prepare<'a>(transcript: impl IntoIterator<Item = &'a Message>, target: &Target) -> PromptEntries {
    let mut prompt = Prompt::new(target.clone());
    transcript.into_iter().for_each(|message| prompt.push(message));
    prompt.entries()
}

impl Prompt {
    /// A prompt for `target`, of nothing yet.
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self::unseeing(target, MessageId(0))
    }

    /// Replaces each image and file up to this message by a line of text: the target refused a request with
    /// them.
    #[must_use]
    pub fn unseeing(target: Target, unseen: MessageId) -> Self {
        let blind = Target { user_media: Vec::new(), result_media: Vec::new(), ..target.clone() };
        Self {
            target,
            unseen,
            blind,
            closed: Arc::default(),
            closed_bytes: 0,
            open: Segment::default(),
            names: Names::default(),
            last_was_reply: false,
            link: None,
            repairs: Vec::new(),
        }
    }

    /// The target it is for.
    #[must_use]
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// Up to which message media are told of and not shown.
    #[must_use]
    pub const fn unseen(&self) -> MessageId {
        self.unseen
    }

    /// What had to be mended so far, since the last summary. A healthy transcript has none.
    #[must_use]
    pub fn repairs(&self) -> &[Repair] {
        &self.repairs
    }

    /// Calls of the newest replies that have no result so far. Mended only if nothing comes any more.
    pub fn unanswered(&self) -> impl Iterator<Item = Repair> {
        self.open.unanswered().map(Repair::unanswered)
    }

    /// Adds the next message of the transcript. Costs what that message holds and the segment it closes, provided that
    /// no request made of this prompt is still around: see [`PromptEntries`].
    pub fn push(&mut self, message: &Message) {
        match &message.body {
            Body::User(parts) => {
                let parts = user::user_parts(parts, self.shown(message.id));
                self.open.say(parts);
            }
            Body::Context(text) => self.open.say(clean::words(text, Meta::new())),
            Body::Reply(reply) => self.reply(message.id, reply),
            Body::Result(result) => self.result(message.id, result),
            Body::Summary(summary) => self.begin_anew(message.id, summary),
        }
        self.last_was_reply = matches!(message.body, Body::Reply(_));
    }

    /// All entries so far, ready to be sent.
    #[must_use]
    pub fn entries(&self) -> PromptEntries {
        PromptEntries::new(Arc::clone(&self.closed), self.closed_bytes, self.open.entries(&self.target))
    }

    /// How the next request to `model` can build upon the last response instead of repeating everything: only if that
    /// response is still what the transcript says it is, and everything after it is ours to tell.
    #[must_use]
    pub fn chain(&self, model: &ModelId) -> Option<ResponseChain> {
        let link = self.link.as_ref().filter(|link| link.model == *model)?;
        if !self.target.wire.rules().chains || !self.open.is_chainable() {
            return None;
        }
        let last = self.open.entries(&self.target).iter().rposition(|entry| entry.role == Role::Assistant)?;
        Some(ResponseChain { response_id: link.response_id.clone(), from: self.closed.len() + last + 1 })
    }

    fn reply(&mut self, message: MessageId, reply: &Reply) {
        let spoken = spoken(&reply.parts, &reply.model, &self.target, &mut self.names);
        self.repairs.extend(Repair::of_reply(message, &spoken));
        if spoken.parts.is_empty() {
            // Then the model said nothing, and whatever was said last is still open.
            self.open.say(segment::retraction(&reply.retracted, &self.target));
            self.link = None;
            return;
        }
        if self.open.is_prelude() || !self.last_was_reply {
            self.close();
        }
        self.open.reply(message, spoken, &reply.retracted, &self.target);
        self.link = Link::of(reply);
    }

    fn result(&mut self, message: MessageId, result: &CallResult) {
        let target = if message <= self.unseen { &self.blind } else { &self.target };
        let place = self.open.answer(result, target);
        self.repairs.extend(Repair::of_result(message, place));
    }

    fn close(&mut self) {
        let segment = mem::take(&mut self.open);
        self.repairs.extend(segment.unanswered().map(Repair::unanswered));
        let entries = segment.entries(&self.target);
        self.closed_bytes += entries.iter().map(PromptEntry::bytes).sum::<usize>();
        Arc::make_mut(&mut self.closed).extend(entries);
    }

    /// The target, as far as what a message shows is concerned.
    fn shown(&self, message: MessageId) -> &Target {
        if message <= self.unseen { &self.blind } else { &self.target }
    }

    fn begin_anew(&mut self, message: MessageId, summary: &Summary) {
        *self = Self::unseeing(self.target.clone(), self.unseen);
        if !summary.text.trim().is_empty() {
            self.open.say(clean::words(&words::summary(&summary.text), Meta::new()));
        }
        let newest = user::user_parts(&summary.newest_user, self.shown(message));
        if !newest.is_empty() {
            self.open.say([PromptPart::text(words::NEWEST)]);
        }
        self.open.say(newest);
    }
}

impl Link {
    /// None if the provider's copy of the reply is not the whole of it: cut off, joined from attempts, or trimmed.
    fn of(reply: &Reply) -> Option<Self> {
        let whole = matches!(reply.stop, Stop::End | Stop::ToolUse) && reply.seams.is_empty();
        let response_id = reply.response_id.clone().filter(|id| !id.trim().is_empty())?;
        (whole && reply.retracted.is_empty()).then(|| Self { response_id, model: reply.model.clone() })
    }
}
