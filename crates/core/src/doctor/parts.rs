//! What is wrong within replies.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Flaw, MARK, Piece, TranscriptOrigin, Ward, change_reply};
use crate::ids::CallUid;
use crate::message::{Body, Call, Part, Reasoning, Reply, RunBy, Seal};

/// From this length on a seal can be a real one, so its shape is checked.
const SEAL_LEN_MIN: usize = 32;

pub(super) fn mend(ward: &mut Ward, whose: TranscriptOrigin<'_>) {
    drop_copies(ward);
    for at in 0..ward.pieces.len() {
        drop_repeated_reasoning(ward, at);
        break_false_seals(ward, at);
        match whose {
            TranscriptOrigin::Ours(_) => {}
            TranscriptOrigin::Foreign => mend_inputs(ward, at),
        }
    }
}

/// Leaves out replies that were stored again in the same turn. What answers a copy's calls answers the first one's.
fn drop_copies(ward: &mut Ward) {
    let mut said: Vec<usize> = Vec::new();
    let mut copied: BTreeMap<CallUid, CallUid> = BTreeMap::new();
    let mut dropped = vec![false; ward.pieces.len()];
    for (at, gone) in dropped.iter_mut().enumerate() {
        match &ward.pieces[at].body {
            Body::User(_) | Body::Summary(_) => said.clear(),
            Body::Context(_) => {}
            Body::Reply(reply) => {
                let first = said.iter().copied().find(|first| is_copy(reply, &ward.pieces[*first]));
                let Some(first) = first else {
                    said.push(at);
                    continue;
                };
                if let Body::Reply(original) = &ward.pieces[first].body {
                    copied.extend(reply.calls().zip(original.calls()).map(|(copy, first)| (copy.uid, first.uid)));
                }
                *gone = true;
            }
            Body::Result(result) => {
                // Calls of a copy that has the first one's names need no new ones.
                if let Some(first) = copied.get(&result.call).filter(|first| **first != result.call).copied() {
                    let mut result = result.clone();
                    result.call = first;
                    ward.pieces[at].body = Body::Result(result);
                    ward.pieces[at].whole = None;
                }
            }
        }
    }
    for (at, _) in dropped.iter().enumerate().filter(|(_, gone)| **gone) {
        ward.found(ward.pieces[at].of, Flaw::RepeatedReply);
    }
    let mut gone = dropped.into_iter();
    ward.pieces.retain(|_| !gone.next().unwrap_or_default());
}

fn is_copy(reply: &Reply, earlier: &Piece) -> bool {
    let Body::Reply(earlier) = &earlier.body else { return false };
    let name = |reply: &Reply| reply.response_id.clone().filter(|id| !id.trim().is_empty()).or_else(|| sealed(reply));
    reply.model == earlier.model
        && name(reply).is_some_and(|own| name(earlier) == Some(own))
        && reply.parts.len() == earlier.parts.len()
        && reply.parts.iter().zip(&earlier.parts).all(|(one, other)| is_same(one, other))
}

/// The first seal of a reply: no two answers have the same.
fn sealed(reply: &Reply) -> Option<String> {
    reply.parts.iter().find_map(|part| match part {
        Part::Reasoning(reasoning) => long_seal(reasoning).map(Into::into),
        _ => None,
    })
}

/// A seal that is long enough to be given out once.
fn long_seal(reasoning: &Reasoning) -> Option<&str> {
    let (Seal::Signature(token) | Seal::Redacted(token)) = reasoning.seal.as_ref()?;
    (token.len() >= SEAL_LEN_MIN).then_some(token)
}

/// Whether two parts say the same. Our own names and times say nothing.
fn is_same(one: &Part, other: &Part) -> bool {
    match (one, other) {
        (Part::Call(one), Part::Call(other)) => {
            (&one.provider_id, &one.tool, &one.input, one.run_by)
                == (&other.provider_id, &other.tool, &other.input, other.run_by)
        }
        (Part::Reasoning(one), Part::Reasoning(other)) => (&one.text, &one.seal) == (&other.text, &other.seal),
        (Part::Provided(one), Part::Provided(other)) => (&one.tool, &one.output) == (&other.tool, &other.output),
        (one, other) => one == other,
    }
}

fn drop_repeated_reasoning(ward: &mut Ward, at: usize) {
    let Body::Reply(reply) = &ward.pieces[at].body else { return };
    let mut seen: Vec<&Reasoning> = Vec::new();
    let mut is_copy = Vec::with_capacity(reply.parts.len());
    for part in &reply.parts {
        let Part::Reasoning(reasoning) = part else {
            is_copy.push(false);
            continue;
        };
        let told = |before: &&Reasoning| before.seal == reasoning.seal && before.text == reasoning.text;
        let copy = long_seal(reasoning).is_some() && seen.iter().any(told);
        if !copy {
            seen.push(reasoning);
        }
        is_copy.push(copy);
    }
    let copies = is_copy.iter().filter(|copy| **copy).count();
    if copies == 0 {
        return;
    }
    let of = ward.pieces[at].of;
    let done = format!("left out {copies} copies of reasoning");
    change_reply(&mut ward.pieces[at], &done, |body| {
        let mut copy = is_copy.iter();
        body.parts.retain(|_| !copy.next().copied().unwrap_or_default());
    });
    ward.found(of, Flaw::RepeatedReasoning { copies });
}

fn break_false_seals(ward: &mut Ward, at: usize) {
    let Body::Reply(reply) = &ward.pieces[at].body else { return };
    let provider = reply.model.provider().to_owned();
    let is_false = |part: &Part| matches!(part, Part::Reasoning(reasoning) if is_false_seal(reasoning, &provider));
    if !reply.parts.iter().any(is_false) {
        return;
    }
    let of = ward.pieces[at].of;
    change_reply(&mut ward.pieces[at], "took a broken seal off reasoning", |body| {
        for part in &mut body.parts {
            if let Part::Reasoning(reasoning) = part
                && is_false_seal(reasoning, &provider)
            {
                reasoning.seal = None;
            }
        }
    });
    ward.found(of, Flaw::BrokenSeal);
}

/// Whether a seal cannot be what its provider gave out. Empty text says nothing: it may be withheld.
fn is_false_seal(reasoning: &Reasoning, provider: &str) -> bool {
    let Some(Seal::Signature(token) | Seal::Redacted(token)) = &reasoning.seal else { return false };
    let is_odd = token.is_empty() || token.chars().any(|c| c.is_whitespace() || c.is_control() || !c.is_ascii());
    // Anthropic's are base64 with padding, so that most cuts show. Others' alphabets are their own affair.
    let is_cut = provider == "anthropic" && token.len() >= SEAL_LEN_MIN && !is_base64(token);
    is_odd || is_cut
}

fn is_base64(text: &str) -> bool {
    let bare = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && text.len() - bare.len() <= 2
        && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte))
}

fn mend_inputs(ward: &mut Ward, at: usize) {
    let Body::Reply(reply) = &ward.pieces[at].body else { return };
    let is_flawed = |call: &Call| call.run_by == RunBy::Us && call.whole && call.object().is_none();
    let flaws: Vec<Flaw> = reply
        .calls()
        .filter(|call| is_flawed(call))
        .map(|call| Flaw::UnreadableInput { tool: call.tool.clone(), recovered: escaped(&call.input).is_some() })
        .collect();
    if flaws.is_empty() {
        return;
    }
    let of = ward.pieces[at].of;
    change_reply(&mut ward.pieces[at], "made the input of a call a JSON object", |body| {
        for part in &mut body.parts {
            if let Part::Call(call) = part
                && is_flawed(call)
            {
                let input = escaped(&call.input).unwrap_or_else(|| "{}".into());
                let raw = std::mem::replace(&mut call.input, input);
                call.meta.insert(MARK.into(), json!({ "input": raw }));
            }
        }
    });
    flaws.into_iter().for_each(|flaw| ward.found(of, flaw));
}

/// The input with control characters in its strings escaped, if that makes it an object. Nothing is guessed.
fn escaped(input: &str) -> Option<String> {
    let (mut text, mut in_string, mut after_backslash) = (String::with_capacity(input.len()), false, false);
    for c in input.chars() {
        if in_string && c.is_ascii_control() {
            if after_backslash {
                text.pop(); // A backslash before a raw control character escapes nothing.
            }
            text.push_str(&format!("\\u{:04x}", u32::from(c)));
            after_backslash = false;
            continue;
        }
        in_string ^= c == '"' && !after_backslash;
        after_backslash = in_string && c == '\\' && !after_backslash;
        text.push(c);
    }
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).ok()?;
    drop(object);
    Some(text)
}
