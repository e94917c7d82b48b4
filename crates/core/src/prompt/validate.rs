//! What providers refuse, told before they do.
//!
//! A refused request is refused for ever, and the provider's message arrives too late to say which of our rules was
//! missing. This is a strict model of what each wire demands, taken from documents and from refusals people have met. It
//! is written without the preparation's code or its rules: the two agree because a test says so, not because they share
//! a mistake. It reads, and changes nothing.

mod entries;
mod law;
mod offer;
mod offerable;
mod pairs;
#[cfg(test)]
mod tests;

use law::Law;
pub use offerable::{NotOfferable, offerable};

use super::request::Request;
use super::target::Target;

/// Everything that `target` would refuse about `request`.
///
/// # Errors
/// All violations found, in the order of the request.
pub fn validate(request: &Request, target: &Target) -> Result<(), Vec<RequestViolation>> {
    let mut check = Check { request, target, law: Law::of(target.wire), found: Vec::new() };
    check.address();
    check.order();
    check.parts();
    check.calls();
    check.hosted();
    check.tools();
    check.options();
    check.sampling();
    check.marks();
    check.chain();
    if check.found.is_empty() { Ok(()) } else { Err(check.found) }
}

struct Check<'a> {
    request: &'a Request,
    target: &'a Target,
    law: &'static Law,
    found: Vec<RequestViolation>,
}

impl Check<'_> {
    fn expect(&mut self, holds: bool, violation: RequestViolation) {
        if !holds {
            self.found.push(violation);
        }
    }

    fn address(&mut self) {
        self.expect(self.request.wire == self.target.wire, RequestViolation::OtherWire);
        self.expect(self.request.model.provider() == self.target.provider, RequestViolation::OtherProvider);
    }
}

/// One thing a provider would refuse. Entries, parts and tools are counted from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are positions, and each variant's message says what they point at")]
pub enum RequestViolation {
    /// Built for another wire.
    #[error("the request is for another wire than its target's")]
    OtherWire,
    /// Built for another provider.
    #[error("the request is for a model of another provider than its target's")]
    OtherProvider,
    /// Nothing to answer.
    #[error("there are no entries")]
    NoEntries,
    /// The model speaks first.
    #[error("the first entry is not the user's")]
    FirstNotUser,
    /// The model spoke last, and cannot go on from there.
    #[error("the last entry is the assistant's, and this is no prefill the target would take")]
    LastNotUser,
    /// Two in a row.
    #[error("entry {entry} has the role of the entry before it")]
    SameRole { entry: usize },
    /// Nothing said.
    #[error("entry {entry} is empty")]
    EmptyEntry { entry: usize },
    /// Not that role's to say.
    #[error("part {part} of entry {entry} is of a kind its role cannot say")]
    WrongRole { entry: usize, part: usize },
    /// Only white space.
    #[error("part {part} of entry {entry} is blank")]
    BlankText { entry: usize, part: usize },
    /// U+0000 in a text.
    #[error("part {part} of entry {entry} holds U+0000")]
    Nul { entry: usize, part: usize },
    /// A result without content.
    #[error("part {part} of entry {entry} is a result that says and shows nothing")]
    EmptyResult { entry: usize, part: usize },
    /// Metadata of another provider.
    #[error("part {part} of entry {entry} carries metadata of another provider")]
    ForeignMeta { entry: usize, part: usize },
    /// A file or medium without bytes.
    #[error("part {part} of entry {entry} has media without bytes")]
    EmptyMedia { entry: usize, part: usize },
    /// A media type the target does not take there.
    #[error("part {part} of entry {entry} has media of a type the target does not take there")]
    MediaType { entry: usize, part: usize },
    /// The target takes no reasoning back.
    #[error("part {part} of entry {entry} is reasoning, which the target does not take back")]
    ReasoningUnwanted { entry: usize, part: usize },
    /// Reasoning another provider sealed.
    #[error("part {part} of entry {entry} is reasoning another provider sealed")]
    ReasoningForeign { entry: usize, part: usize },
    /// A seal with nothing in it.
    #[error("part {part} of entry {entry} is reasoning with a blank seal")]
    ReasoningUnsealed { entry: usize, part: usize },
    /// Something came before the reasoning.
    #[error("entry {entry} holds reasoning and does not begin with it")]
    ReasoningNotFirst { entry: usize },
    /// Nothing comes after the reasoning.
    #[error("entry {entry} ends with reasoning")]
    ReasoningLast { entry: usize },
    /// Reasoning and nothing else.
    #[error("entry {entry} is reasoning alone")]
    ReasoningAlone { entry: usize },
    /// A tool loop that reasoning does not lead.
    #[error("reasoning is asked for in a tool loop whose first reply, entry {entry}, does not begin with it")]
    ReasoningMissing { entry: usize },
    /// An id with odd characters, or none.
    #[error("part {part} of entry {entry} has an id the wire does not take")]
    BadId { entry: usize, part: usize },
    /// An id used before.
    #[error("part {part} of entry {entry} has the id of an earlier call")]
    RepeatedId { entry: usize, part: usize },
    /// A tool name with odd characters, or none, or too many.
    #[error("part {part} of entry {entry} has a tool name the wire does not take")]
    BadName { entry: usize, part: usize },
    /// Calls without their results right after them.
    #[error("entry {entry} has calls, and the next entry is not their results in their order")]
    Unanswered { entry: usize },
    /// Results without their calls right before them.
    #[error("entry {entry} has results, and the entry before it has no calls")]
    Unasked { entry: usize },
    /// A result under another name than its call.
    #[error("part {part} of entry {entry} is a result under another name than its call")]
    NameDiffers { entry: usize, part: usize },
    /// A provider's own tool, of another provider.
    #[error("part {part} of entry {entry} is of another provider's own tool")]
    HostedForeign { entry: usize, part: usize },
    /// A provider's own tool that cannot be sent back.
    #[error("part {part} of entry {entry} is of a tool of the provider that cannot be sent back")]
    HostedUnwanted { entry: usize, part: usize },
    /// A provider's own tool, without its other half.
    #[error("part {part} of entry {entry} is half of a use of the provider's own tool")]
    HostedUnpaired { entry: usize, part: usize },
    /// A system prompt with a blank piece.
    #[error("piece {piece} of the system prompt is blank")]
    BlankSystem { piece: usize },
    /// More tools than the wire takes.
    #[error("there are more tools than the wire takes")]
    TooManyTools,
    /// A tool's name with odd characters, or none, or too many.
    #[error("tool {tool} has a name the wire does not take")]
    BadToolName { tool: usize },
    /// Two tools of one name.
    #[error("tool {tool} has the name of an earlier one")]
    RepeatedTool { tool: usize },
    /// A schema the wire refuses.
    #[error("tool {tool} has an input schema the wire does not take: {why}")]
    BadSchema { tool: usize, why: &'static str },
    /// Past calls, and no tools.
    #[error("there are calls in the entries, and no tools are offered")]
    NoTools,
    /// A choice among nothing.
    #[error("a tool is demanded that is not offered")]
    UnknownChoice,
    /// Reasoning and a forced tool.
    #[error("a tool is demanded while reasoning is asked for")]
    ForcedWhileReasoning,
    /// No room for an answer.
    #[error("the output limit is zero")]
    NoOutput,
    /// A sampling parameter that the target has not, or not with this reasoning.
    #[error("the target does not take `{name}` with this request")]
    Sampling { name: &'static str },
    /// The target cannot answer in the background.
    #[error("the target cannot answer in the background")]
    NoBackground,
    /// Cache markers where there are none, or too many.
    #[error("there are more cache markers than the wire takes")]
    TooManyMarks,
    /// A cache marker on nothing, or the same twice.
    #[error("a cache marker is on no entry, on no system prompt, or on the same entry as another")]
    MisplacedMark,
    /// The wire cannot chain.
    #[error("the wire cannot build upon an earlier response")]
    NoChains,
    /// A chain to nothing, or with nothing to add.
    #[error("the chain names no response, or there is no entry after it")]
    EmptyChain,
    /// What the provider kept would be sent again, or lost.
    #[error("the chain does not begin right after the last reply")]
    MisplacedChain,
    /// A result the provider could not match.
    #[error("part {part} of entry {entry} answers a call the provider kept, without the provider's id for it")]
    ChainLosesId { entry: usize, part: usize },
}
