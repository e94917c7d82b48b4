//! Replies of the model, as they may be sent again.
//!
//! Replies are where transcripts go bad: reasoning that lost its seal, calls with input that is no object,
//! searches without an outcome, metadata that points at something no longer there. Each part is judged on its
//! own first; then the rules on what must stand before or after what are applied, in an order in which no
//! rule can undo another.

use std::collections::BTreeSet;

use serde_json::Map;

use super::clean::{is_foreign, own_meta, tool_name, words};
use super::entry::{HostedCall, HostedResult, PromptCall, PromptEntries, PromptPart, SealedReasoning};
use super::hosted::{Fate, ReplyOrigin, fates};
use super::target::{Follower, Links, Target};
use crate::ids::{CallUid, ModelId};
use crate::message::{Call, Meta, Part, Provided, Reasoning, RunBy, Seal};

/// The names given out so far in a prompt.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    /// How many calls were sent.
    pub calls: u64,
    /// The provider's ids of the provider's own calls that were sent.
    pub hosted: BTreeSet<String>,
}

impl Names {
    /// The names in these entries.
    pub(super) fn of(entries: &PromptEntries) -> Self {
        let parts = entries.iter().flat_map(|entry| &entry.parts);
        let hosted = parts.filter_map(|part| match part {
            PromptPart::HostedCall(call) => Some(call.id.clone()),
            _ => None,
        });
        Self { calls: 0, hosted: hosted.collect() }
    }
}

/// A call that needs an answer.
#[derive(Debug, Clone)]
pub(super) struct PendingCall {
    /// Our name for it, in the transcript.
    pub uid: CallUid,
    /// Whether its input arrived whole.
    pub whole: bool,
    /// Whether its input was an object.
    pub readable: bool,
    /// Its id in the prompt.
    pub id: String,
    /// The provider's.
    pub provider_id: String,
    /// The tool's name in the prompt.
    pub tool: String,
}

/// What can be sent of a reply.
#[derive(Debug, Default)]
pub(super) struct Spoken {
    /// Its parts; none if nothing can be sent.
    pub parts: Vec<PromptPart>,
    /// The calls among them that need an answer, in order.
    pub asked: Vec<PendingCall>,
    /// Whether a use of one of the provider's own tools that could have been sent back is broken.
    pub broken_hosted: bool,
}

/// What can be sent to `target` of what `by` said.
pub(super) fn spoken(parts: &[Part], by: &ModelId, target: &Target, names: &mut Names) -> Spoken {
    let origin = if by.provider() == target.provider { ReplyOrigin::Own } else { ReplyOrigin::Foreign };
    let fates = fates(parts, origin, target, &names.hosted);
    let mut said = Spoken::default();
    let mut kept: Vec<Option<PromptPart>> = Vec::with_capacity(parts.len());
    let mut lost_hosted = false;
    for (part, fate) in parts.iter().zip(&fates) {
        let lost = matches!(fate, Fate::Drop | Fate::Say(_));
        lost_hosted |= lost;
        said.broken_hosted |= lost && origin == ReplyOrigin::Own && is_replayable_kind(part, target);
        kept.push(match (part, fate) {
            (Part::Text(text), _) => words(&text.text, attached(&text.meta, origin, target)),
            (Part::Reasoning(reasoning), _) => sealed(reasoning, origin, target).map(PromptPart::Reasoning),
            (Part::Call(call), Fate::NotHosted) => Some(asked(call, origin, target, names, &mut said.asked)),
            (_, Fate::Say(text)) => words(text, Meta::new()),
            (Part::Call(call), Fate::Keep(id)) => Some(hosted_call(call, id, target)),
            (Part::Provided(provided), Fate::Keep(id)) => Some(hosted_result(provided, id, target)),
            (Part::Call(_) | Part::Provided(_), _) | (Part::Source(_) | Part::File(_) | Part::Other(_), _) => None,
        });
    }
    let lost_reasoning = place_reasoning(parts, &fates, &mut kept, target);
    unlink(&mut kept, lost_hosted, lost_reasoning, target);
    said.parts = kept.into_iter().flatten().collect();
    names.hosted.extend(said.parts.iter().filter_map(|part| match part {
        PromptPart::HostedCall(call) => Some(call.id.clone()),
        _ => None,
    }));
    said
}

fn is_replayable_kind(part: &Part, target: &Target) -> bool {
    match part {
        Part::Call(Call { tool, .. }) | Part::Provided(Provided { tool, .. }) => target.replays.contains(tool),
        _ => false,
    }
}

fn attached(meta: &Meta, origin: ReplyOrigin, target: &Target) -> Meta {
    match origin {
        ReplyOrigin::Own => own_meta(meta, target),
        ReplyOrigin::Foreign => Meta::new(),
    }
}

pub(super) fn sealed(reasoning: &Reasoning, origin: ReplyOrigin, target: &Target) -> Option<SealedReasoning> {
    let seal = reasoning.seal.as_ref()?;
    let (Seal::Signature(token) | Seal::Redacted(token)) = seal;
    if origin == ReplyOrigin::Foreign
        || !target.reasoning
        || token.trim().is_empty()
        || is_foreign(&reasoning.meta, target)
    {
        return None;
    }
    Some(SealedReasoning {
        provider: target.provider.clone(),
        text: reasoning.text.clone(),
        seal: seal.clone(),
        meta: own_meta(&reasoning.meta, target),
    })
}

fn asked(
    call: &Call,
    origin: ReplyOrigin,
    target: &Target,
    names: &mut Names,
    open: &mut Vec<PendingCall>,
) -> PromptPart {
    names.calls += 1;
    let id = format!("call_{}", names.calls);
    let tool = tool_name(&call.tool, target.wire.rules());
    let provider_id = match origin {
        ReplyOrigin::Own => call.provider_id.clone(),
        ReplyOrigin::Foreign => String::new(),
    };
    let object = if call.whole { call.object() } else { None };
    open.push(PendingCall {
        uid: call.uid,
        whole: call.whole,
        readable: object.is_some(),
        id: id.clone(),
        provider_id: provider_id.clone(),
        tool: tool.clone(),
    });
    let input = object.unwrap_or_else(Map::new);
    PromptPart::Call(PromptCall { id, provider_id, tool, input, meta: attached(&call.meta, origin, target) })
}

pub(super) fn hosted_call(call: &Call, id: &str, target: &Target) -> PromptPart {
    PromptPart::HostedCall(HostedCall {
        id: id.into(),
        provider: target.provider.clone(),
        tool: call.tool.clone(),
        input: call.object().unwrap_or_default(),
        meta: own_meta(&call.meta, target),
    })
}

pub(super) fn hosted_result(provided: &Provided, id: &str, target: &Target) -> PromptPart {
    PromptPart::HostedResult(HostedResult {
        id: id.into(),
        provider: target.provider.clone(),
        tool: provided.tool.clone(),
        output: provided.output.clone(),
        meta: own_meta(&provided.meta, target),
    })
}

/// Drops reasoning that stands where the wire will not have it, and tells whether any is now missing. The kept parts
/// are never changed or moved: what a signature covers must be as it was.
fn place_reasoning(parts: &[Part], fates: &[Fate], kept: &mut [Option<PromptPart>], target: &Target) -> bool {
    let rules = target.wire.rules();
    let is_reasoning = |part: &Option<PromptPart>| matches!(part, Some(PromptPart::Reasoning(_)));
    if rules.reasoning_leads && !kept.iter().find(|part| part.is_some()).is_some_and(is_reasoning) {
        kept.iter_mut().filter(|part| is_reasoning(part)).for_each(|part| *part = None);
    }
    let (mut any_after, mut own_after) = (false, false);
    for at in (0..kept.len()).rev() {
        let followed = match rules.follower {
            Follower::None => true,
            Follower::Any => any_after,
            Follower::Own => own_after,
        };
        if is_reasoning(&kept[at]) && !followed {
            kept[at] = None;
        }
        any_after |= kept[at].is_some() && !is_reasoning(&kept[at]);
        if !matches!(parts[at], Part::Reasoning(_) | Part::Source(_)) {
            own_after = kept[at].is_some() && !matches!(fates[at], Fate::Say(_));
        }
    }
    if kept.iter().flatten().all(|part| matches!(part, PromptPart::Reasoning(_))) {
        kept.fill(None); // Thoughts alone are not an answer, on any wire.
    }
    parts.iter().zip(kept).any(|(part, kept)| matches!(part, Part::Reasoning(_)) && kept.is_none())
}

/// Drops metadata that may point at what is gone: a citation of a search, an item that names its reasoning.
fn unlink(kept: &mut [Option<PromptPart>], lost_hosted: bool, lost_reasoning: bool, target: &Target) {
    let links = target.wire.rules().links;
    for part in kept.iter_mut().flatten() {
        match (part, links) {
            (PromptPart::Text(text), Links::Citations) if lost_hosted => text.meta.clear(),
            (PromptPart::Text(text), Links::Items) if lost_hosted || lost_reasoning => text.meta.clear(),
            (PromptPart::Call(call), Links::Items) if lost_hosted || lost_reasoning => call.meta.clear(),
            _ => {}
        }
    }
}

/// The parts of an unfinished answer, without calls of ours: they have no results yet.
pub(super) fn unfinished(parts: &[Part], by: &ModelId, target: &Target, names: &mut Names) -> Vec<PromptPart> {
    let is_ours = |part: &Part| matches!(part, Part::Call(Call { run_by: RunBy::Us, .. }));
    let parts: Vec<Part> = parts.iter().filter(|part| !is_ours(part)).cloned().collect();
    spoken(&parts, by, target, names).parts
}
