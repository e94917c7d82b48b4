//! Reports what a request leaves out of a healthy transcript.
//!
//! No wire format takes everything that another one made. This report lists what is left out per wire format,
//! and so explains why a model does not know something that is in the transcript.

use std::fmt;

use crate::message::{Body, Message, Part, RunBy};
use crate::prompt::{Prompt, PromptEntries, PromptPart, Repair, Target, WireFormat};

/// What preparing a transcript for one wire changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PromptChanges {
    /// Messages that a summary stands for.
    pub summarised: usize,
    /// Parts of reasoning that are not sent: never sealed, of another provider, or where the wire will not have them.
    pub reasoning: usize,
    /// Calls and outcomes of the providers' own tools that are not sent as they came, but in words or not at all.
    pub hosted: usize,
    /// Files and media that are not sent as they are.
    pub media: usize,
    /// Calls of tools with a name the wire format does not take.
    pub renamed: usize,
    /// Messages of which nothing can be sent.
    pub blank: usize,
    /// What is mended each time.
    pub mended: Vec<Repair>,
}

impl PromptChanges {
    /// What is changed of this transcript for a model of `target`.
    #[must_use]
    pub fn of<'a>(transcript: impl IntoIterator<Item = &'a Message>, target: &Target) -> Self {
        let (mut prompt, mut changes, mut has) = (Prompt::new(target.clone()), Self::default(), Counts::default());
        for (before, message) in transcript.into_iter().enumerate() {
            if matches!(message.body, Body::Summary(_)) {
                (changes, has) = (Self { summarised: before, ..Self::default() }, Counts::default());
            }
            has.add(&message.body);
            changes.blank += usize::from(is_blank(&message.body));
            prompt.push(message);
        }
        changes.mended.extend(prompt.repairs());
        changes.mended.extend(prompt.unanswered());
        let sent = Counts::of(&prompt.entries());
        changes.reasoning = has.reasoning.saturating_sub(sent.reasoning);
        changes.hosted = has.hosted.saturating_sub(sent.hosted);
        changes.media = has.media.saturating_sub(sent.media);
        let is_sent = |name: &String| sent.tools.contains(name);
        changes.renamed = has.tools.iter().filter(|name| !is_sent(name)).count();
        changes
    }

    /// Whether everything is sent as it is.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The report for the default model of every wire format.
    #[must_use]
    pub fn on_all_wires<'a>(transcript: impl IntoIterator<Item = &'a Message> + Clone) -> Vec<(WireFormat, Self)> {
        WireFormat::ALL.map(|wire| (wire, Self::of(transcript.clone(), &Target::new(wire, usual(wire))))).to_vec()
    }
}

/// The usual provider of a wire format.
const fn usual(wire: WireFormat) -> &'static str {
    match wire {
        WireFormat::Anthropic => "anthropic",
        WireFormat::OpenAiResponses | WireFormat::OpenAiChat => "openai",
        WireFormat::Gemini => "gemini",
    }
}

/// What is there, to be compared.
#[derive(Default)]
struct Counts {
    reasoning: usize,
    hosted: usize,
    media: usize,
    tools: Vec<String>,
}

impl Counts {
    fn add(&mut self, body: &Body) {
        let parts = match body {
            Body::User(parts) => parts,
            Body::Reply(reply) => &reply.parts,
            Body::Result(result) => return self.media += result.output.media.len(),
            Body::Summary(summary) => &summary.newest_user,
            Body::Context(_) => return,
        };
        let by_model = matches!(body, Body::Reply(_));
        for part in parts {
            match part {
                Part::Reasoning(_) if by_model => self.reasoning += 1,
                Part::Call(call) if by_model && call.run_by == RunBy::Us => self.tools.push(call.tool.clone()),
                Part::Call(_) | Part::Provided(_) if by_model => self.hosted += 1,
                Part::File(_) => self.media += 1,
                _ => {}
            }
        }
    }

    fn of(entries: &PromptEntries) -> Self {
        let mut sent = Self::default();
        for part in entries.iter().flat_map(|entry| &entry.parts) {
            match part {
                PromptPart::Reasoning(_) => sent.reasoning += 1,
                PromptPart::HostedCall(_) | PromptPart::HostedResult(_) => sent.hosted += 1,
                PromptPart::File(_) => sent.media += 1,
                PromptPart::Result(result) => sent.media += result.media.len(),
                PromptPart::Call(call) => sent.tools.push(call.tool.clone()),
                PromptPart::Text(_) => {}
            }
        }
        sent
    }
}

fn is_blank(body: &Body) -> bool {
    let is_silent = |part: &Part| match part {
        Part::Text(text) => text.text.trim().is_empty(),
        Part::File(file) => file.bytes.as_ref().is_some_and(|bytes| bytes.is_empty()),
        Part::Reasoning(_) | Part::Source(_) | Part::Other(_) => true,
        Part::Call(_) | Part::Provided(_) => false,
    };
    match body {
        Body::User(parts) => parts.iter().all(is_silent),
        Body::Context(text) => text.trim().is_empty(),
        Body::Reply(reply) => reply.parts.iter().all(is_silent),
        Body::Result(_) | Body::Summary(_) => false,
    }
}

impl fmt::Display for PromptChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = [
            (self.summarised, "before the summary"),
            (self.reasoning, "of reasoning not sent"),
            (self.hosted, "of the provider's own tools told in words"),
            (self.media, "of media not sent as they are"),
            (self.renamed, "with another tool name"),
            (self.blank, "with nothing to send"),
            (self.mended.len(), "mended each time"),
        ];
        let told: Vec<String> =
            told.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        f.write_str(&if told.is_empty() { "nothing".into() } else { told.join(", ") })
    }
}
