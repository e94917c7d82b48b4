//! A reply and what came after it.
//!
//! Results are committed when they are known, people speak when they like, and providers want neither: after a reply
//! with calls they want all results, in order, at once, and only then anything else. A segment puts things in that
//! order. It begins with a reply (several, when nothing came between them) and ends before the next one, and it is
//! prepared from itself alone. So a long chat is never prepared again, and what was sent before is sent again unchanged.

use super::clean::{own_meta, tool_name, without_nul, words};
use super::entry::{PromptEntry, PromptMedia, PromptPart, PromptResult, Role};
use super::reply::{PendingCall, Spoken};
use super::target::{AdjacentReplies, Target, accepts};
use super::user::{essence, shown, true_type};
use super::words as say;
use crate::ids::MessageId;
use crate::message::{CallResult, CallVerdict, Meta};

/// The messages since the last reply, that reply included; at the beginning of a prompt, before any reply.
#[derive(Debug, Default)]
pub(super) struct Segment {
    steps: Vec<Step>,
    after: Vec<PromptPart>,
}

/// One reply with its results.
#[derive(Debug)]
struct Step {
    message: MessageId,
    parts: Vec<PromptPart>,
    slots: Vec<Slot>,
    note: Option<PromptPart>,
}

/// A call and, once it is known, its answer.
#[derive(Debug)]
struct Slot {
    asked: PendingCall,
    answer: Option<Answer>,
}

#[derive(Debug)]
struct Answer {
    result: PromptResult,
    aside: Vec<PromptPart>,
}

/// Where a result belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultFit {
    /// To a call of this segment.
    Answer,
    /// To a call of this segment that has its answer.
    Repeated,
    /// To no call of this segment.
    Orphan,
}

impl Segment {
    /// Whether no reply is in it yet.
    pub fn is_prelude(&self) -> bool {
        self.steps.is_empty()
    }

    /// Adds a reply of which something can be sent.
    pub fn reply(&mut self, message: MessageId, spoken: Spoken, retracted: &[String], target: &Target) {
        let slots = spoken.asked.into_iter().map(|asked| Slot { asked, answer: None }).collect();
        self.steps.push(Step { message, parts: spoken.parts, slots, note: retraction(retracted, target) });
    }

    /// Adds what is said by the person, or on their behalf.
    pub fn say(&mut self, parts: impl IntoIterator<Item = PromptPart>) {
        self.after.extend(parts);
    }

    /// Adds a result: to the first call it answers, else as a note, because what a tool did must not go unsaid.
    pub fn answer(&mut self, result: &CallResult, target: &Target) -> ResultFit {
        let slots = || self.steps.iter().flat_map(|step| &step.slots);
        if !slots().any(|slot| slot.asked.uid == result.call) {
            self.after.extend(orphan(result, target));
            return ResultFit::Orphan;
        }
        let mut slots = self.steps.iter_mut().flat_map(|step| &mut step.slots);
        match slots.find(|slot| slot.asked.uid == result.call && slot.answer.is_none()) {
            Some(slot) => {
                slot.answer = Some(answer(&slot.asked, result, target));
                ResultFit::Answer
            }
            None => ResultFit::Repeated,
        }
    }

    /// The replies with calls that have no answer.
    pub fn unanswered(&self) -> impl Iterator<Item = MessageId> {
        let open = |step: &&Step| step.slots.iter().any(|slot| slot.answer.is_none());
        self.steps.iter().filter(open).map(|step| step.message)
    }

    /// Whether the last reply can be built upon by a provider that kept it: its calls arrived whole, are told apart by
    /// the provider's ids and have true answers, and there is something new to say.
    pub fn is_chainable(&self) -> bool {
        let Some(Step { slots, .. }) = self.steps.last() else { return false };
        let known =
            |slot: &Slot| slot.asked.whole && slot.answer.is_some() && !slot.asked.provider_id.trim().is_empty();
        let mut ids: Vec<&str> = slots.iter().map(|slot| slot.asked.provider_id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.len() == slots.len() && slots.iter().all(known) && !(slots.is_empty() && self.after.is_empty())
    }

    /// The segment as it is sent. It always ends with the person or with tools, so the next reply can follow.
    pub fn entries(&self, target: &Target) -> Vec<PromptEntry> {
        let mut entries = Vec::new();
        for step in &self.steps {
            speak(&mut entries, step.parts.clone(), target.wire.rules().replies);
            if !step.slots.is_empty() {
                let result = |slot: &Slot| PromptPart::Result(slot.result());
                entries.push(PromptEntry::new(Role::Tool, step.slots.iter().map(result).collect()));
            }
            let asides = step.slots.iter().filter_map(|slot| slot.answer.as_ref()).flat_map(|answer| &answer.aside);
            listen(&mut entries, asides.chain(&step.note).cloned());
        }
        listen(&mut entries, self.after.iter().cloned());
        match entries.last() {
            None => listen(&mut entries, [PromptPart::text(say::BEGINNING)]),
            Some(PromptEntry { role: Role::Assistant, .. }) => listen(&mut entries, [PromptPart::text(say::GO_ON)]),
            Some(PromptEntry { role: Role::User | Role::Tool, .. }) => {}
        }
        entries
    }
}

impl Slot {
    fn result(&self) -> PromptResult {
        let PendingCall { id, provider_id, tool, whole, .. } = &self.asked;
        self.answer.as_ref().map_or_else(
            || PromptResult {
                id: id.clone(),
                provider_id: provider_id.clone(),
                tool: tool.clone(),
                text: if *whole { say::NO_RESULT } else { say::CUT_OFF }.into(),
                media: Vec::new(),
                is_error: true,
                meta: Meta::new(),
            },
            |answer| answer.result.clone(),
        )
    }
}

/// What the model is told about calls that were taken back.
pub(super) fn retraction(tools: &[String], target: &Target) -> Option<PromptPart> {
    let names: Vec<String> = tools.iter().map(|tool| tool_name(tool, target.wire.rules())).collect();
    (!names.is_empty()).then(|| PromptPart::text(say::retracted(&names)))
}

fn answer(asked: &PendingCall, result: &CallResult, target: &Target) -> Answer {
    let (mut media, mut aside, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    if !result.output.text.trim().is_empty() {
        lines.push(without_nul(&result.output.text));
    }
    for shot in result.output.media.iter().filter(|shot| !shot.bytes.is_empty()) {
        let media_type = essence(&shot.media_type);
        let Some(bytes) = shot.bytes.here() else {
            lines.push(without_nul(&say::gone("", &media_type)));
            continue;
        };
        let media_type = true_type(media_type, bytes);
        if accepts(&target.result_media, &media_type) {
            media.push(PromptMedia { media_type, bytes: bytes.clone() });
        } else if accepts(&target.user_media, &media_type) {
            aside.extend(shown(shot, target));
        } else {
            lines.push(without_nul(&say::unreadable("", &media_type, bytes.len())));
        }
    }
    if !aside.is_empty() {
        aside.insert(0, PromptPart::text(say::media_of(&asked.tool)));
    }
    if lines.is_empty() && media.is_empty() {
        lines.push(say::silent(result.verdict).into());
    }
    let result = PromptResult {
        id: asked.id.clone(),
        provider_id: asked.provider_id.clone(),
        tool: asked.tool.clone(),
        text: lines.join("\n"),
        media,
        is_error: result.verdict != CallVerdict::Done || !asked.whole,
        meta: own_meta(&result.meta, target),
    };
    Answer { result, aside }
}

fn orphan(result: &CallResult, target: &Target) -> Vec<PromptPart> {
    let blank = result.output.text.trim().is_empty();
    let text = if blank { say::silent(result.verdict) } else { &result.output.text };
    let note = words(&say::orphan(&tool_name(&result.tool, target.wire.rules()), text), Meta::new());
    note.into_iter().chain(result.output.media.iter().filter_map(|media| shown(media, target))).collect()
}

/// Adds a reply, as one entry with the reply before it where the wire wants that.
fn speak(entries: &mut Vec<PromptEntry>, parts: Vec<PromptPart>, replies: AdjacentReplies) {
    let is_sealed = |parts: &[PromptPart]| parts.iter().any(|part| matches!(part, PromptPart::Reasoning(_)));
    if let Some(PromptEntry { role: Role::Assistant, parts: before }) = entries.last_mut() {
        let merge = match replies {
            AdjacentReplies::Free => false,
            AdjacentReplies::Merge => true,
            AdjacentReplies::MergeUnsealed => !is_sealed(before) && !is_sealed(&parts),
        };
        if merge {
            return before.extend(parts);
        }
    }
    entries.push(PromptEntry::new(Role::Assistant, parts));
}

/// Adds what the person said, to the same entry if they were speaking already.
fn listen(entries: &mut Vec<PromptEntry>, parts: impl IntoIterator<Item = PromptPart>) {
    let parts: Vec<PromptPart> = parts.into_iter().collect();
    match entries.last_mut() {
        _ if parts.is_empty() => {}
        Some(PromptEntry { role: Role::User, parts: before }) => before.extend(parts),
        _ => entries.push(PromptEntry::new(Role::User, parts)),
    }
}
