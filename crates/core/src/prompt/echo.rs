//! An answer that is sent back as it came, for its provider to go on.
//!
//! A provider with long-running tools of its own stops in the middle of its answer: it wants the answer back,
//! to the byte, and continues there. So here nothing is left out and nothing is put into words, as in a reply
//! that is over; what cannot be sent as it came is not sent this way at all. A call of those tools that has
//! no outcome yet may stand at the end, and only there: the provider runs it then.

use super::clean::{own_meta, words};
use super::entry::PromptPart;
use super::hosted::{ReplyOrigin, answers, is_whole};
use super::reply::{Names, hosted_call, hosted_result, sealed};
use super::request::UnfinishedAnswer;
use super::target::Target;
use crate::message::{Call, Part};

/// Whether `target` goes on from this answer, sent back as it came.
#[must_use]
pub fn echoes(unfinished: UnfinishedAnswer<'_>, target: &Target) -> bool {
    echo(unfinished, target, &Names::default()).is_some()
}

/// The answer as it came, if all of it can be sent so, and the provider's own tools had the last word.
pub(super) fn echo(unfinished: UnfinishedAnswer<'_>, target: &Target, names: &Names) -> Option<Vec<PromptPart>> {
    let rules = target.wire.rules();
    if !rules.echoes || unfinished.by.provider() != target.provider {
        return None;
    }
    let mut sent = Vec::new();
    let mut calls: Vec<&Call> = Vec::new();
    let mut waiting: Vec<&Call> = Vec::new();
    for part in unfinished.parts {
        let is_hosted = matches!(part, Part::Call(_) | Part::Provided(_) | Part::Source(_));
        if !is_hosted && !waiting.is_empty() {
            return None; // It was gone on without its outcome: whatever that means, the provider will not have it.
        }
        match part {
            Part::Text(text) => sent.extend(words(&text.text, own_meta(&text.meta, target))),
            Part::Reasoning(reasoning) => {
                sent.push(PromptPart::Reasoning(sealed(reasoning, ReplyOrigin::Own, target)?));
            }
            Part::Call(call) => {
                let is_new = calls.iter().all(|other| other.provider_id != call.provider_id);
                if !is_new || !is_whole(call, target) || names.hosted.contains(&call.provider_id) {
                    return None;
                }
                calls.push(call);
                waiting.push(call);
                sent.push(hosted_call(call, &call.provider_id, target));
            }
            Part::Provided(provided) => {
                let asked = waiting.iter().position(|call| provided.uid == Some(call.uid))?;
                let call = waiting.remove(asked);
                if !answers(provided, call, target) {
                    return None;
                }
                sent.push(hosted_result(provided, &call.provider_id, target));
            }
            Part::Source(_) => {} // Told beside the words that cite it.
            Part::File(_) | Part::Other(_) => return None,
        }
    }
    let is_reasoning = |part: &PromptPart| matches!(part, PromptPart::Reasoning(_));
    let led = sent.first().is_some_and(is_reasoning) || !sent.iter().any(is_reasoning);
    let at_work = matches!(sent.last(), Some(PromptPart::HostedCall(_) | PromptPart::HostedResult(_)));
    (at_work && (led || !rules.reasoning_leads)).then_some(sent)
}
