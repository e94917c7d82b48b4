//! The target of a prompt: wire format and model.
//!
//! One transcript must fit four wire formats and many models behind each, and every one of them refuses
//! something that another demands. What a *format* demands is a row of [`Rules`]; what a *model* can take is
//! a [`Target`]. Preparation asks these two and never a provider's name, so a new provider is a new row, not
//! a new branch.

use super::sampling::TakesSampling;

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WireFormat {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    OpenAiResponses,
    /// OpenAI Chat Completions, and compatible servers.
    OpenAiChat,
    /// Gemini `generateContent`.
    Gemini,
}

impl WireFormat {
    /// All wire formats.
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::OpenAiResponses, Self::OpenAiChat, Self::Gemini];
}

/// A model, as far as its prompts are concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The format it is spoken to in.
    pub wire: WireFormat,
    /// The provider's name. Metadata, reasoning and tools under this name count as its own.
    pub provider: String,
    /// Whether it goes on from an assistant entry at the end.
    pub prefill: bool,
    /// Whether it can answer in the background, to be fetched later.
    pub background: bool,
    /// Whether it takes its sealed reasoning back.
    pub reasoning: bool,
    /// Whether, when asked to reason, it refuses a tool loop that does not begin with sealed reasoning. True for
    /// models that reason within a fixed budget; those that choose for themselves do not mind.
    pub leading_reasoning: bool,
    /// Media types a person may show it: `image/png`, or `audio/*` for all of a kind.
    pub user_media: Vec<String>,
    /// Media types a tool may show it.
    pub result_media: Vec<String>,
    /// The provider's own tools with calls and outcomes that may be sent back unchanged.
    pub replays: Vec<String>,
    /// When it takes `temperature`, `top_p` and `top_k`.
    pub takes_sampling: TakesSampling,
    /// Whether it takes `top_k` then.
    pub takes_top_k: bool,
    /// Whether it takes a seed.
    pub takes_seed: bool,
    /// Whether it takes stop sequences.
    pub takes_stop: bool,
}

const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const GEMINI_MEDIA: [&str; 8] =
    ["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf", "audio/*", "video/*"];

impl Target {
    /// What a model of `provider` behind `wire` can be trusted to take when nothing more is known about it.
    #[must_use]
    pub fn new(wire: WireFormat, provider: impl Into<String>) -> Self {
        let pdf = ["application/pdf"];
        let (user_media, result_media, replays): (Vec<&str>, Vec<&str>, &[&str]) = match wire {
            WireFormat::Anthropic => ([&IMAGES[..], &pdf].concat(), [&IMAGES[..], &pdf].concat(), &["web_search"]),
            WireFormat::OpenAiResponses => ([&IMAGES[..], &pdf].concat(), vec![], &[]),
            WireFormat::OpenAiChat => (IMAGES.to_vec(), vec![], &[]),
            WireFormat::Gemini => (GEMINI_MEDIA.to_vec(), vec![], &[]),
        };
        Self {
            wire,
            provider: provider.into(),
            prefill: false,
            background: wire == WireFormat::OpenAiResponses,
            reasoning: wire != WireFormat::OpenAiChat,
            leading_reasoning: false,
            user_media: owned(&user_media),
            result_media: owned(&result_media),
            replays: owned(replays),
            takes_sampling: TakesSampling::Always,
            takes_top_k: matches!(wire, WireFormat::Anthropic | WireFormat::Gemini),
            takes_seed: matches!(wire, WireFormat::OpenAiChat | WireFormat::Gemini),
            takes_stop: wire != WireFormat::OpenAiResponses,
        }
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

/// Whether one of `accepted` names `media_type`.
pub(super) fn accepts(accepted: &[String], media_type: &str) -> bool {
    accepted.iter().any(|pattern| match pattern.strip_suffix("/*") {
        Some(kind) => media_type.split_once('/').is_some_and(|(top, sub)| top == kind && !sub.is_empty()),
        None => pattern == media_type,
    })
}

/// What a wire format demands of the entries.
pub(super) struct Rules {
    /// What becomes of two replies with nothing between them.
    pub replies: AdjacentReplies,
    /// Whether a reply with reasoning must begin with reasoning.
    pub reasoning_leads: bool,
    /// What must come after reasoning.
    pub follower: Follower,
    /// Which metadata points at other parts, and is wrong once those are gone.
    pub links: Links,
    /// Whether a tool's name must begin with a letter or an underscore.
    pub name_begins_with_letter: bool,
    /// How the provider's own call ids begin.
    pub hosted_id_prefix: &'static str,
    /// Whether a request that begins the answer may not ask for reasoning, nor hold any in that beginning.
    pub prefill_without_reasoning: bool,
    /// Whether a request that forces a tool may not ask for reasoning.
    pub forced_without_reasoning: bool,
    /// Whether the beginning of an answer must not end with white space.
    pub prefill_trimmed: bool,
    /// Whether tools must be offered when the entries hold calls.
    pub calls_need_tools: bool,
    /// Whether it takes cache markers.
    pub marks: bool,
    /// Whether a request can be chained to a response the provider keeps.
    pub chains: bool,
    /// Whether an answer in which the provider's own tools had the last word can be sent back for it to go on.
    pub echoes: bool,
}

/// What becomes of two replies with nothing between them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AdjacentReplies {
    /// They stay two.
    Free,
    /// They become one.
    Merge,
    /// They become one, unless reasoning is in either: it is signed together with what was around it.
    MergeUnsealed,
}

/// What must come after reasoning.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Follower {
    /// Nothing need.
    None,
    /// Anything that is not reasoning.
    Any,
    /// The very part that came after it.
    Own,
}

/// Which metadata points at other parts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// None.
    None,
    /// A text's, at what the provider's tools found.
    Citations,
    /// Every part's, at the reasoning and the provider's tools before it.
    Items,
}

const COMMON: Rules = Rules {
    replies: AdjacentReplies::Merge,
    reasoning_leads: false,
    follower: Follower::Any,
    links: Links::None,
    name_begins_with_letter: false,
    hosted_id_prefix: "",
    prefill_without_reasoning: false,
    forced_without_reasoning: false,
    prefill_trimmed: false,
    calls_need_tools: false,
    marks: false,
    chains: false,
    echoes: false,
};

static ANTHROPIC: Rules = Rules {
    replies: AdjacentReplies::MergeUnsealed,
    reasoning_leads: true,
    links: Links::Citations,
    hosted_id_prefix: "srvtoolu_",
    prefill_without_reasoning: true,
    forced_without_reasoning: true,
    prefill_trimmed: true,
    calls_need_tools: true,
    marks: true,
    echoes: true,
    ..COMMON
};

static OPENAI_RESPONSES: Rules =
    Rules { replies: AdjacentReplies::Free, follower: Follower::Own, links: Links::Items, chains: true, ..COMMON };

static OPENAI_CHAT: Rules = COMMON;

static GEMINI: Rules = Rules { follower: Follower::None, name_begins_with_letter: true, ..COMMON };

impl WireFormat {
    pub(super) const fn rules(self) -> &'static Rules {
        match self {
            Self::Anthropic => &ANTHROPIC,
            Self::OpenAiResponses => &OPENAI_RESPONSES,
            Self::OpenAiChat => &OPENAI_CHAT,
            Self::Gemini => &GEMINI,
        }
    }
}
