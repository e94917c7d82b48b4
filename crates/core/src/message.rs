//! Committed messages and their parts.
//!
//! A message is what happened: what a person said, what the model replied, what a tool gave back. It is kept as it
//! was, with whatever the provider attached to it, because signatures and ids must be echoed to the byte later. What a
//! provider can be sent is a different question, answered by [`crate::prompt`] and never stored.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use serde_json::Value;

use crate::blob::Blob;
use crate::cost::Usage;
use crate::ids::{CallUid, InboxSeq, MessageId, ModelId, StepId, Timestamp};
use crate::seam::Seam;

/// What providers attached, by provider name. Kept and echoed, never interpreted outside the adapter that wrote it.
pub type Meta = BTreeMap<String, Value>;

/// One committed entry of a transcript.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Its number in the chat.
    pub id: MessageId,
    /// When it was committed.
    pub at: Timestamp,
    /// What it is.
    pub body: Body,
    /// The request that brought it, if it is a person's message and a request brought it.
    pub sent: Option<SendReceipt>,
}

/// The request that brought a person's message. It ties the receipt its sender got to the message in the
/// transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendReceipt {
    /// The number its sender was given when it was accepted.
    pub receipt: InboxSeq,
    /// The sender's own name for the request, if it had one.
    pub key: Option<String>,
}

/// The kinds of entry.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// What a person said: text and files.
    User(Vec<Part>),
    /// What the embedding program tells the model between steps. People need not see it.
    Context(String),
    /// What the model answered, whole or interrupted.
    Reply(Box<Reply>),
    /// What one tool call came to. Committed in order of completion, read in order of the calls.
    Result(Box<CallResult>),
    /// What stands for everything before it in later prompts.
    Summary(Box<Summary>),
}

/// A typed piece of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Words.
    Text(Text),
    /// The model's thinking.
    Reasoning(Reasoning),
    /// A tool use.
    Call(Call),
    /// The outcome of a tool that ran at the provider, inline where it came.
    Provided(Provided),
    /// Something the answer rests on.
    Source(Source),
    /// A file or an image.
    File(File),
    /// A kind of part this version does not know, as it came.
    Other(Meta),
}

/// Words.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Text {
    /// The words.
    pub text: String,
    /// What the provider attached.
    pub meta: Meta,
}

impl Text {
    /// Words that nothing is attached to.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), meta: Meta::new() }
    }
}

impl Part {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Text::new(text))
    }
}

/// The model's thinking, with what makes it acceptable to its provider again.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reasoning {
    /// What may be shown; empty when redacted or withheld.
    pub text: String,
    /// The provider's seal. Only sealed reasoning is ever sent back, byte for byte.
    pub seal: Option<Seal>,
    /// When it began.
    pub began: Timestamp,
    /// When it ended; for an interrupted one, the interrupt.
    pub ended: Timestamp,
    /// What the provider attached.
    pub meta: Meta,
}

/// What a provider needs to recognise its own reasoning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seal {
    /// The text is signed.
    Signature(String),
    /// There is no text; this opaque block stands for it.
    Redacted(String),
}

/// Where a tool runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunBy {
    /// A tool of ours, or one a client runs for us: the call needs a [`CallResult`].
    Us,
    /// The provider itself, while it answers: the outcome comes inline.
    Provider,
}

/// A tool use.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Our own name for it.
    pub uid: CallUid,
    /// The provider's, which may be empty or repeated.
    pub provider_id: String,
    /// The tool's name, as the model wrote it.
    pub tool: String,
    /// The input, as it came: meant to be a JSON object, and not always one.
    pub input: String,
    /// Whether the input arrived whole. One that did not is never run.
    pub whole: bool,
    /// Where it runs.
    pub run_by: RunBy,
    /// When it began to arrive.
    pub at: Timestamp,
    /// What the provider attached.
    pub meta: Meta,
}

impl Call {
    /// A whole call of a tool of ours, without anything that a provider would attach.
    pub fn new(uid: CallUid, tool: impl Into<String>, input: impl Into<String>) -> Self {
        Self {
            uid,
            provider_id: String::new(),
            tool: tool.into(),
            input: input.into(),
            whole: true,
            run_by: RunBy::Us,
            at: Timestamp::default(),
            meta: Meta::new(),
        }
    }

    /// The input if it is a JSON object; an empty input counts as an empty object.
    #[must_use]
    pub fn object(&self) -> Option<serde_json::Map<String, Value>> {
        if self.input.trim().is_empty() {
            return Some(serde_json::Map::new());
        }
        serde_json::from_str(&self.input).ok()
    }
}

/// The outcome of a tool that ran at the provider.
#[derive(Debug, Clone, PartialEq)]
pub struct Provided {
    /// The call it answers, when the provider said which.
    pub uid: Option<CallUid>,
    /// The tool's name.
    pub tool: String,
    /// The outcome, as it came.
    pub output: Value,
    /// When it came.
    pub at: Timestamp,
    /// What the provider attached.
    pub meta: Meta,
}

/// Something an answer rests on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Source {
    /// Where it is.
    pub url: String,
    /// What it is called.
    pub title: String,
    /// What the provider attached.
    pub meta: Meta,
}

/// A file or an image.
#[derive(Debug, Clone, PartialEq)]
pub struct File {
    /// Its name, if it has one.
    pub name: String,
    /// Its media type, such as `image/png`.
    pub media_type: String,
    /// Its bytes. A store may not have them any more.
    pub bytes: Option<Blob>,
    /// What the provider attached.
    pub meta: Meta,
}

impl File {
    /// A file with its bytes.
    pub fn new(name: impl Into<String>, media_type: impl Into<String>, bytes: impl Into<Blob>) -> Self {
        Self { name: name.into(), media_type: media_type.into(), bytes: Some(bytes.into()), meta: Meta::new() }
    }
}

/// A finished answer of the model. Only [`crate::draft::Draft::seal`] makes one, from a stop: a stream that was cut has
/// none, so it cannot become an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply(ReplyBody);

/// What a reply holds.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyBody {
    /// The step it is the reply of.
    pub step: StepId,
    /// What the model said, in order.
    pub parts: Vec<Part>,
    /// Why it ended.
    pub stop: Stop,
    /// The model that said it; the last one, when several did.
    pub model: ModelId,
    /// What the attempt that ended it reported.
    pub usage: Option<Usage>,
    /// How long the model streamed, all attempts together. Waits do not count.
    pub runtime: Duration,
    /// How long the turn was at work for it, since the reply before it: provider calls, waits between their attempts, and
    /// tools. See [`crate::alive`].
    pub alive: Duration,
    /// The context window, when the provider told it or the model's facts do.
    pub context_limit: Option<u64>,
    /// The provider's name for the response.
    pub response_id: Option<String>,
    /// Where attempts were joined.
    pub seams: Vec<Seam>,
    /// Tools with calls that were cut off and retracted; the model is told.
    pub retracted: Vec<String>,
    /// What the provider attached to the message as a whole.
    pub meta: Meta,
}

impl ReplyBody {
    /// A reply of a model, without anything that is known of how it came to be.
    #[must_use]
    pub const fn new(step: StepId, model: ModelId, parts: Vec<Part>, stop: Stop) -> Self {
        Self {
            step,
            parts,
            stop,
            model,
            usage: None,
            runtime: Duration::ZERO,
            alive: Duration::ZERO,
            context_limit: None,
            response_id: None,
            seams: Vec::new(),
            retracted: Vec::new(),
            meta: Meta::new(),
        }
    }
}

impl Reply {
    pub(crate) const fn with_alive(mut self, alive: Duration) -> Self {
        self.0.alive = alive;
        self
    }

    pub(crate) const fn sealed(body: ReplyBody) -> Self {
        Self(body)
    }

    /// A reply that was committed before, as a store read it back. Not for anything that still streams.
    #[must_use]
    pub const fn restored(body: ReplyBody) -> Self {
        Self(body)
    }

    pub(crate) fn parts_mut(&mut self) -> &mut [Part] {
        &mut self.0.parts
    }

    /// The calls that need a result from us, whole ones and cut ones.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.parts.iter().filter_map(|part| match part {
            Part::Call(call) if call.run_by == RunBy::Us => Some(call),
            _ => None,
        })
    }

    /// All text, joined.
    #[must_use]
    pub fn text(&self) -> String {
        text_of(&self.parts)
    }
}

impl Deref for Reply {
    type Target = ReplyBody;

    fn deref(&self) -> &ReplyBody {
        &self.0
    }
}

/// All text among some parts, joined.
#[must_use]
pub fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Why a reply ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The model was done.
    End,
    /// The model waits for tools.
    ToolUse,
    /// The output limit was reached.
    Length,
    /// The provider or the model refused to go on.
    Filtered {
        /// The provider's category, if it gave one.
        category: String,
        /// Its explanation, if it gave one.
        detail: String,
    },
    /// A person stopped it; what had been shown is kept.
    Interrupted,
    /// It broke and could not be recovered; what had been shown is kept.
    Broken,
}

/// What a tool call came to.
#[derive(Debug, Clone, PartialEq)]
pub struct CallResult {
    /// The call it answers.
    pub call: CallUid,
    /// The tool, by the name the model used.
    pub tool: String,
    /// How it went.
    pub verdict: CallVerdict,
    /// What the model is told.
    pub output: Output,
    /// When the tool was started, if it was.
    pub began: Option<Timestamp>,
    /// When it was known.
    pub ended: Timestamp,
    /// What a local runner of a provider-defined tool attached.
    pub meta: Meta,
}

impl CallResult {
    /// A result that was known at `ended`, of a call that was not started here.
    pub fn new(call: CallUid, tool: impl Into<String>, verdict: CallVerdict, output: Output, ended: Timestamp) -> Self {
        Self { call, tool: tool.into(), verdict, output, began: None, ended, meta: Meta::new() }
    }

    /// When the tool began and how long it ran, if it returned. For others it is unknown: they may have been
    /// lost long before that was noticed.
    #[must_use]
    pub fn ran(&self) -> Option<(Timestamp, Duration)> {
        let came_back = matches!(self.verdict, CallVerdict::Done | CallVerdict::Error);
        self.began.filter(|_| came_back).map(|began| (began, self.ended.since(began)))
    }
}

/// How a call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallVerdict {
    /// The tool did its work.
    Done,
    /// The tool, or we on its behalf, say that it failed.
    Error,
    /// A person refused it.
    Denied,
    /// It was stopped or never started because the turn was interrupted.
    Interrupted,
    /// It was started and its outcome is unknown.
    Unknown,
}

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Output {
    /// Text for the model, within its bound.
    pub text: String,
    /// Images and other media.
    pub media: Vec<Media>,
    /// The exact bytes, where `text` is not all of them: cut, or not UTF-8.
    pub full: Option<Blob>,
}

impl Output {
    /// An output of words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// Bytes with a type.
#[derive(Debug, Clone, PartialEq)]
pub struct Media {
    /// Such as `image/png`.
    pub media_type: String,
    /// The bytes themselves; encoded only on a wire.
    pub bytes: Blob,
}

impl Media {
    /// Bytes of a type.
    pub fn new(media_type: impl Into<String>, bytes: impl Into<Blob>) -> Self {
        Self { media_type: media_type.into(), bytes: bytes.into() }
    }
}

/// What stands for everything before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The summary.
    pub text: String,
    /// The person's newest words before the boundary, verbatim, so that no summary can bend them.
    pub newest_user: Vec<Part>,
    /// Why it was made.
    pub source: SummarySource,
    /// Prompt tokens before, as reported or estimated.
    pub tokens_before: u64,
    /// How long the model took.
    pub runtime: Duration,
}

/// Why a summary was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SummarySource {
    /// The next request would have come too near the limit.
    Automatic,
    /// A command requested it.
    Asked,
    /// The provider refused a request as too long.
    Overflow,
}
