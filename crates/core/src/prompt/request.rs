//! One request to a model, before any adapter has seen it.
//!
//! The entries are right by the time they get here, but a request is more than its entries: some wires refuse reasoning
//! together with this or that, some want tools declared for calls of long ago, and cache markers must lie where the
//! next request will find them. [`Request::fit`] settles all that; nothing of it is ever stored.

use std::sync::Arc;

use super::echo::echo;
use super::entry::{PromptEntries, PromptEntry, PromptPart, Role};
use super::format::OutputFormat;
use super::reply::{Names, unfinished};
use super::sampling::Sampling;
use super::schema::ToolSpec;
use super::target::{Target, WireFormat};
use super::words;
use crate::ids::ModelId;
use crate::message::{Meta, Part};

/// The output limit when none is configured.
pub const OUTPUT_MAX: u32 = 32_000;

/// What an adapter writes down for its provider.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The model asked.
    pub model: ModelId,
    /// The format it is asked in.
    pub wire: WireFormat,
    /// The system prompt, in pieces.
    pub system: Vec<String>,
    /// The conversation.
    pub entries: PromptEntries,
    /// The tools offered. Their order is part of the cached prefix: keep it.
    pub tools: Arc<[ToolSpec]>,
    /// What the model may do with them.
    pub tool_choice: ToolChoice,
    /// Whether it may call several of them in one answer; its own default if left out.
    pub parallel_calls: Option<bool>,
    /// The form the answer must have.
    pub format: OutputFormat,
    /// The most tokens it may answer with.
    pub max_output: u32,
    /// Whether the agent asked for that limit. A server of unknown window is told of no other.
    pub output_is_told: bool,
    /// How hard it should think; none leaves it to the model.
    pub effort: Option<Effort>,
    /// How it should pick its words, and what ends its answer.
    pub sampling: Sampling,
    /// Where the provider should keep what it has read.
    pub marks: CacheMarks,
    /// The response this request builds upon.
    pub chain: Option<ResponseChain>,
    /// Whether the provider should go on when the connection is gone.
    pub background: bool,
    /// What the provider attached to the answer that is sent back for it to go on, if one is.
    pub echoed: Meta,
}

/// What the model may do with the tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// As it sees fit.
    #[default]
    Auto,
    /// Nothing. The tools are still sent, so that the cached prefix holds.
    None,
    /// Call at least one.
    Required,
    /// Call this one.
    Tool(String),
}

/// How hard to think, from not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effort {
    /// Not at all.
    None,
    /// As little as the model can.
    Minimal,
    /// A little.
    Low,
    /// Somewhat.
    Medium,
    /// Hard.
    High,
    /// Harder.
    XHigh,
    /// As hard as the model can.
    Max,
}

/// Where cache markers go: behind the system prompt, and behind the last two entries. Two, because the last of this
/// request is the last but one or two of the next, which so finds what this one left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheMarks {
    /// Behind the last piece of the system prompt.
    pub system: bool,
    /// Behind the last part of these entries.
    pub entries: [Option<usize>; 2],
}

/// A response the provider keeps, and which of the entries come after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseChain {
    /// The provider's name for the response.
    pub response_id: String,
    /// The first entry it has not seen. Those before it are not sent, and results name their calls by the provider's id.
    pub from: usize,
}

/// An answer that broke off.
#[derive(Debug, Clone, Copy)]
pub struct UnfinishedAnswer<'a> {
    /// What was said.
    pub parts: &'a [Part],
    /// The model that said it.
    pub by: &'a ModelId,
}

/// How a model is asked to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ContinueMode {
    /// The beginning of the answer is put into its mouth.
    Prefill,
    /// It is shown the beginning, and told to go on.
    Instruct,
    /// It gets the beginning back as it came.
    Echo,
}

impl Request {
    /// A request with nothing but a conversation. Fill in the rest, then [`Self::fit`] it.
    #[must_use]
    pub fn new(model: ModelId, target: &Target, entries: PromptEntries) -> Self {
        Self {
            model,
            wire: target.wire,
            system: Vec::new(),
            entries,
            tools: Arc::new([]),
            tool_choice: ToolChoice::Auto,
            parallel_calls: None,
            format: OutputFormat::Text,
            max_output: OUTPUT_MAX,
            output_is_told: false,
            effort: None,
            sampling: Sampling::default(),
            marks: CacheMarks::default(),
            chain: None,
            background: false,
            echoed: Meta::new(),
        }
    }

    /// Settles what depends on other fields: drops blank system pieces, offers a stand-in tool where old calls need
    /// one, switches reasoning off where it would be refused, leaves out sampling parameters the target does not take, and
    /// sets the cache markers.
    #[must_use]
    pub fn fit(mut self, target: &Target) -> Self {
        let rules = target.wire.rules();
        self.system.retain(|piece| !piece.trim().is_empty());
        if self.tools.is_empty() {
            self.tool_choice = ToolChoice::Auto;
            self.parallel_calls = None;
            if rules.calls_need_tools && self.entries.iter().any(|entry| entry.role == Role::Tool) {
                self.tools = Arc::new([ToolSpec::new("unavailable", words::NO_TOOLS, serde_json::Value::Null)]);
                self.tool_choice = ToolChoice::None;
            }
        }
        let forced = matches!(self.tool_choice, ToolChoice::Required | ToolChoice::Tool(_));
        let refused = (rules.forced_without_reasoning && forced) || (target.leading_reasoning && self.is_unled());
        if self.reasons() && refused {
            self.effort = Some(Effort::None);
        }
        self.sampling = self.sampling.fitting(target, self.effort);
        self.background &= target.background;
        self.marks = if rules.marks { CacheMarks::of(&self.system, &self.entries) } else { CacheMarks::default() };
        self
    }

    /// The request for the rest of `unfinished`, or the same request if nothing of it can be sent. A prefill or an echo the
    /// target would refuse becomes an instruction. Markers stay where they were, since neither entry is there to stay; a chain
    /// is given up, since the provider never kept the unfinished answer.
    ///
    /// What is sent may end earlier than what was shown: some wires refuse white space there. Join what comes to what
    /// was shown, not to what was sent.
    #[must_use]
    pub fn continuing(mut self, target: &Target, unfinished: UnfinishedAnswer<'_>, how: ContinueMode) -> Self {
        let mut names = Names::of(&self.entries);
        if let (ContinueMode::Echo, Some(parts)) = (how, echo(unfinished, target, &names)) {
            self.chain = None;
            self.entries.push(PromptEntry::new(Role::Assistant, parts));
            if self.reasons() && target.leading_reasoning && self.is_unled() {
                self.effort = Some(Effort::None);
            }
            return self;
        }
        let begun = self::unfinished(unfinished.parts, unfinished.by, target, &mut names);
        if begun.is_empty() {
            return self;
        }
        self.chain = None;
        let prefill = match how {
            ContinueMode::Prefill => self.prefill(&begun, target),
            ContinueMode::Instruct | ContinueMode::Echo => None,
        };
        if let Some(parts) = prefill {
            self.entries.push(PromptEntry::new(Role::Assistant, parts));
        } else {
            self.entries.push(PromptEntry::new(Role::Assistant, begun));
            self.entries.push(PromptEntry::new(Role::User, vec![PromptPart::text(words::CONTINUE)]));
        }
        self
    }

    /// An estimate of the size: system, tools and [`PromptEntries::bytes`].
    #[must_use]
    pub fn bytes(&self) -> usize {
        let system: usize = self.system.iter().map(String::len).sum();
        let tools = self.tools.iter().map(ToolSpec::bytes).sum::<usize>();
        system + tools + self.format.bytes() + self.entries.bytes()
    }

    /// Whether it sends an answer back as it came, for its provider to go on.
    #[must_use]
    pub fn is_echo(&self) -> bool {
        let last = self.entries.last().filter(|last| last.role == Role::Assistant).and_then(|last| last.parts.last());
        matches!(last, Some(PromptPart::HostedCall(_) | PromptPart::HostedResult(_)))
    }

    /// Whether the model is asked to reason.
    #[must_use]
    pub fn reasons(&self) -> bool {
        self.effort.is_some_and(|effort| effort != Effort::None)
    }

    /// Whether the model is in a tool loop that did not begin with sealed reasoning.
    fn is_unled(&self) -> bool {
        let in_loop = self.entries.iter().rev().take_while(|entry| entry.role != Role::User);
        let first = in_loop.filter(|entry| entry.role == Role::Assistant).last();
        first.is_some_and(|entry| !matches!(entry.parts.first(), Some(PromptPart::Reasoning(_))))
    }

    /// The beginning of an answer in the form the target goes on from, if it does.
    fn prefill(&self, begun: &[PromptPart], target: &Target) -> Option<Vec<PromptPart>> {
        let rules = target.wire.rules();
        let leads = rules.prefill_without_reasoning || target.leading_reasoning;
        if !target.prefill || (leads && self.reasons()) {
            return None;
        }
        let mut parts = begun.to_vec();
        if rules.prefill_without_reasoning {
            parts.retain(|part| !matches!(part, PromptPart::Reasoning(_)));
        }
        let Some(PromptPart::Text(last)) = parts.last_mut() else { return None };
        if rules.prefill_trimmed {
            last.text.truncate(last.text.trim_end().len());
        }
        Some(parts)
    }
}

impl Effort {
    /// All of them, from least to most.
    pub const ALL: [Self; 7] = [Self::None, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::XHigh, Self::Max];
}

impl CacheMarks {
    fn of(system: &[String], entries: &PromptEntries) -> Self {
        let len = entries.len();
        Self { system: !system.is_empty(), entries: [len.checked_sub(2), len.checked_sub(1)] }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        usize::from(self.system) + self.entries.iter().flatten().count()
    }
}
