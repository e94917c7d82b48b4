//! What each wire demands, once more.
//!
//! These are the providers' rules as the providers put them, not as the preparation found it easiest to obey them: it
//! may be stricter, never laxer. A new wire needs a row here and a row there, and the property test compares them.

use crate::prompt::target::WireFormat;

pub(super) struct Law {
    /// Which neighbours may have the same role.
    pub neighbours: AdjacencyRule,
    /// Whether reasoning, where there is any, comes first.
    pub reasoning_first: bool,
    /// Whether reasoning may come last.
    pub reasoning_last: bool,
    /// Which names tools may have.
    pub name: fn(&str) -> bool,
    /// Which ids the provider's own calls have.
    pub hosted_id: fn(&str) -> bool,
    /// Which names properties of a tool's input may have.
    pub property: fn(&str) -> bool,
    /// How many tools may be offered.
    pub tools_max: usize,
    /// Whether past calls need tools now.
    pub calls_need_tools: bool,
    /// Whether reasoning excludes forced tools and prefills.
    pub reasoning_is_free: bool,
    /// Whether a prefill may end with white space.
    pub prefill_ends_blank: bool,
    /// How many cache markers there may be.
    pub marks_max: usize,
    /// Whether requests can be chained.
    pub chains: bool,
    /// The highest temperature.
    pub temperature_max: f64,
    /// Whether `temperature` and `top_p` may be set together.
    pub both_samplers: bool,
    /// How many stop sequences there may be.
    pub stops_max: usize,
    /// Whether a stop sequence may be white space.
    pub stop_blank: bool,
    /// Whether there is a seed.
    pub seed: bool,
    /// Whether an answer may be sent back in the middle of which the provider's own tools were at work.
    pub echoes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AdjacencyRule {
    /// Any two.
    Any,
    /// Two replies, if one holds reasoning.
    Sealed,
    /// None.
    None,
}

static ANTHROPIC: Law = Law {
    neighbours: AdjacencyRule::Sealed,
    reasoning_first: true,
    reasoning_last: false,
    name: |name| name.len() <= 128 && word(name),
    hosted_id: |id| id.strip_prefix("srvtoolu_").is_some_and(|rest| word(rest) && !rest.contains('-')),
    property: |name| name.len() <= 64 && word(&name.replace('.', "_")),
    tools_max: usize::MAX,
    calls_need_tools: true,
    reasoning_is_free: false,
    prefill_ends_blank: false,
    marks_max: 4,
    chains: false,
    temperature_max: 1.0,
    both_samplers: false,
    stops_max: usize::MAX,
    stop_blank: false,
    seed: false,
    echoes: true,
};

static OPENAI_RESPONSES: Law = Law {
    neighbours: AdjacencyRule::Any,
    reasoning_first: false,
    reasoning_last: false,
    name: |name| name.len() <= 64 && word(name),
    hosted_id: word,
    property: |_| true,
    tools_max: 128,
    calls_need_tools: false,
    reasoning_is_free: true,
    prefill_ends_blank: true,
    marks_max: 0,
    chains: true,
    temperature_max: 2.0,
    both_samplers: true,
    stops_max: 0,
    stop_blank: true,
    seed: false,
    echoes: false,
};

static OPENAI_CHAT: Law = Law {
    neighbours: AdjacencyRule::None, // OpenAI itself does not mind, the chat templates of its imitators do.
    reasoning_first: false,
    reasoning_last: false,
    name: |name| name.len() <= 64 && word(name),
    hosted_id: word,
    property: |_| true,
    tools_max: 128,
    calls_need_tools: false,
    reasoning_is_free: true,
    prefill_ends_blank: true,
    marks_max: 0,
    chains: false,
    temperature_max: 2.0,
    both_samplers: true,
    stops_max: 4,
    stop_blank: true,
    seed: true,
    echoes: false,
};

static GEMINI: Law = Law {
    neighbours: AdjacencyRule::None,
    reasoning_first: false,
    reasoning_last: true,
    name: |name| {
        let plain = name.replace(['.', ':'], "_");
        name.len() <= 64 && word(&plain) && !plain.starts_with(|c: char| c.is_ascii_digit() || c == '-')
    },
    hosted_id: word,
    property: |_| true,
    tools_max: 512,
    calls_need_tools: false,
    reasoning_is_free: true,
    prefill_ends_blank: true,
    marks_max: 0,
    chains: false,
    temperature_max: 2.0,
    both_samplers: true,
    stops_max: 5,
    stop_blank: true,
    seed: true,
    echoes: false,
};

impl Law {
    pub(super) const fn of(wire: WireFormat) -> &'static Self {
        match wire {
            WireFormat::Anthropic => &ANTHROPIC,
            WireFormat::OpenAiResponses => &OPENAI_RESPONSES,
            WireFormat::OpenAiChat => &OPENAI_CHAT,
            WireFormat::Gemini => &GEMINI,
        }
    }
}

/// Ids of calls are `[A-Za-z0-9_-]{1,64}` everywhere.
pub(super) fn call_id(id: &str) -> bool {
    id.len() <= 64 && word(id)
}

fn word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-'))
}
