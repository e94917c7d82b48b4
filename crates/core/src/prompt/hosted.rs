//! Tools that ran at the provider.
//!
//! A provider takes its own searches back only as it made them: the call, then its outcome, in one reply,
//! once. After a cut, a change of provider or a bug in a decoder that is not what the transcript holds, and a
//! single stray half makes every later request fail. So each half is kept as part of a perfect pair or not at
//! all. The call is then dropped, since no result is expected for it; what an outcome says in plain words is
//! kept as words, because the answer after it leans on them. No outcome is ever invented.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::clean::{is_foreign, tool_name};
use super::target::Target;
use super::words as say;
use crate::ids::CallUid;
use crate::message::{Call, Part, Provided, RunBy};

/// How much of an outcome is kept as words.
const FOUND_BYTES_MAX: usize = 4 * 1024;

/// What becomes of a part.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fate {
    /// Nothing to decide here: not a tool of the provider's.
    NotHosted,
    /// Sent as it came, under the provider's id.
    Keep(String),
    /// Left out.
    Drop,
    /// Sent as words.
    Say(String),
}

/// Whether the target made a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyOrigin {
    /// It did.
    Own,
    /// Another provider did.
    Foreign,
}

/// What becomes of each part of a reply. `used` holds the provider's ids that earlier replies were sent with.
pub(super) fn fates(parts: &[Part], origin: ReplyOrigin, target: &Target, used: &BTreeSet<String>) -> Vec<Fate> {
    let pairs = match origin {
        ReplyOrigin::Own => pairs(parts, target, used),
        ReplyOrigin::Foreign => BTreeMap::new(),
    };
    let fate = |(at, part): (usize, &Part)| match (part, pairs.get(&at)) {
        (Part::Call(Call { run_by: RunBy::Us, .. }), _) => Fate::NotHosted,
        (Part::Call(_) | Part::Provided(_), Some(id)) => Fate::Keep(id.clone()),
        (Part::Call(_), None) => Fate::Drop,
        (Part::Provided(provided), None) => in_words(provided, target).map_or(Fate::Drop, Fate::Say),
        (Part::Text(_) | Part::Reasoning(_) | Part::Source(_) | Part::File(_) | Part::Other(_), _) => Fate::NotHosted,
    };
    parts.iter().enumerate().map(fate).collect()
}

/// The places of both halves of every perfect pair, with the id they share.
fn pairs(parts: &[Part], target: &Target, used: &BTreeSet<String>) -> BTreeMap<usize, String> {
    let mut uids: BTreeMap<CallUid, usize> = BTreeMap::new();
    let mut ids: BTreeMap<&str, usize> = BTreeMap::new();
    let mut outcomes: BTreeMap<CallUid, Vec<(usize, &Provided)>> = BTreeMap::new();
    for (at, part) in parts.iter().enumerate() {
        if let Part::Call(call) = part {
            *uids.entry(call.uid).or_default() += 1;
            *ids.entry(&call.provider_id).or_default() += usize::from(call.run_by == RunBy::Provider);
        }
        if let Part::Provided(provided @ Provided { uid: Some(uid), .. }) = part {
            outcomes.entry(*uid).or_default().push((at, provided));
        }
    }
    let mut pairs = BTreeMap::new();
    for (at, part) in parts.iter().enumerate() {
        let Part::Call(call) = part else { continue };
        let alone = uids[&call.uid] == 1 && ids[call.provider_id.as_str()] == 1 && !used.contains(&call.provider_id);
        if let Some([(outcome, provided)]) = outcomes.get(&call.uid).map(Vec::as_slice)
            && alone
            && *outcome > at
            && replayable(call, target)
            && answers(provided, call, target)
        {
            pairs.insert(at, call.provider_id.clone());
            pairs.insert(*outcome, call.provider_id.clone());
        }
    }
    pairs
}

fn replayable(call: &Call, target: &Target) -> bool {
    is_whole(call, target) && target.replays.contains(&call.tool)
}

/// Whether a call of the provider's own tools arrived as the provider would take it back.
pub(super) fn is_whole(call: &Call, target: &Target) -> bool {
    call.run_by == RunBy::Provider
        && call.whole
        && call.object().is_some()
        && !is_foreign(&call.meta, target)
        && well_formed(&call.provider_id, target.wire.rules().hosted_id_prefix)
}

/// Whether an outcome is one of this call's, in the shape it may be sent back in.
pub(super) fn answers(provided: &Provided, call: &Call, target: &Target) -> bool {
    let has_shape = match &provided.output {
        Value::Array(found) => found.iter().all(Value::is_object),
        Value::Object(found) => !found.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    has_shape && provided.tool == call.tool && !is_foreign(&provided.meta, target)
}

fn well_formed(id: &str, prefix: &str) -> bool {
    let dash = prefix.is_empty();
    id.strip_prefix(prefix).is_some_and(|rest| {
        !rest.is_empty() && rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || (dash && c == '-'))
    })
}

fn in_words(provided: &Provided, target: &Target) -> Option<String> {
    let mut found = Vec::new();
    readable(&provided.output, &mut found);
    let text = found.join("\n");
    let text = text[..text.floor_char_boundary(FOUND_BYTES_MAX)].trim_end();
    (!text.trim().is_empty()).then(|| say::hosted(&tool_name(&provided.tool, target.wire.rules()), text))
}

/// What a person could read of an outcome. The rest is ciphers, ids and page ages.
fn readable<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    const READABLE: [&str; 9] =
        ["title", "url", "text", "content", "output", "stdout", "stderr", "error", "error_code"];
    match value {
        Value::String(text) => found.push(text),
        Value::Array(values) => values.iter().for_each(|value| readable(value, found)),
        Value::Object(map) => {
            READABLE.iter().filter_map(|key| map.get(*key)).for_each(|value| readable(value, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
