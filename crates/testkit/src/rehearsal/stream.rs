//! Answers made of dice.

use everturn_core::chat::Chat;
use everturn_core::cost::{TokenCount, UsageReport};
use everturn_core::delta::{AttemptBegan, CallBegan, Delta, GenerationHandle, ProvidedDelta, Rung};
use everturn_core::draft::Draft;
use everturn_core::ids::Timestamp;
use everturn_core::message::{Meta, RunBy, Seal, Stop};
use everturn_core::seam::Seam;

use super::{Dice, model};

/// Whether the draft's newest attempt is still under way: no row says what became of it.
pub(super) fn is_open(draft: &Draft, chat: &Chat) -> bool {
    draft.current().is_some_and(|began| began.number > chat.tried.attempts)
}

/// The deltas with which the next attempt begins.
pub(super) fn begin(draft: Option<&Draft>, chat: &Chat, dice: &mut Dice) -> Vec<Delta> {
    let began = |rung| Delta::Attempt(Box::new(AttemptBegan { number: chat.tried.attempts + 1, model: model(), rung }));
    match (draft, dice.below(4)) {
        (None, _) => vec![began(Rung::First)],
        (Some(_), 0) => vec![Delta::RetractAll, began(Rung::Restart)],
        (Some(_), 1) => vec![began(Rung::Reattach)],
        (Some(draft), _) => {
            let open = draft.open_calls().map(|call| Delta::RetractCall { ordinal: call.uid.ordinal });
            let shown = draft.tail_text().map_or(0, str::len);
            let seam = Delta::Seam(Seam { at: shown, dropped: 1, inserted: 0, unmatched: 0 });
            open.chain([began(Rung::Continue), seam]).collect()
        }
    }
}

/// A few deltas that fit behind `draft`.
pub(super) fn more(draft: &Draft, dice: &mut Dice) -> Vec<Delta> {
    let mut grown = draft.clone();
    let drawn: Vec<Delta> = match dice.below(3) {
        0 => vec![delta(draft, dice)],
        1 => (0..1 + dice.below(3)).map(|_| delta(draft, dice)).collect(),
        _ => (0..1 + dice.below(3) as u32).flat_map(|slot| whole_call(slot, dice)).collect(),
    };
    drawn.into_iter().filter(|delta| grown.push(Timestamp(0), delta).is_ok()).collect()
}

fn whole_call(slot: u32, dice: &mut Dice) -> [Delta; 3] {
    let input = Delta::CallInput { slot, json: format!("{{\"n\":{}}}", dice.below(2)) };
    [call(slot, dice.below(5)), input, Delta::CallEnded { slot }]
}

fn delta(draft: &Draft, dice: &mut Dice) -> Delta {
    let slot = dice.below(2) as u32;
    let meta = || Meta::from([("understudy".to_string(), serde_json::json!({ "n": 1 }))]);
    match dice.below(14) {
        0 | 1 => Delta::Text("word ".into()),
        2 | 3 => call(slot, dice.below(5)),
        4 => Delta::CallInput { slot, json: "{}".into() },
        5 | 6 => Delta::CallEnded { slot },
        7 => Delta::Reasoning("hm".into()),
        8 => Delta::Sealed(Seal::Signature("seal".into())),
        9 => Delta::Usage(Box::new(UsageReport { output: TokenCount::Known(draft.seq().0), ..UsageReport::default() })),
        10 => Delta::PartMeta(Box::new(meta())),
        11 => Delta::Handle(Box::new(GenerationHandle { id: "resp".into(), cursor: draft.seq().to_string() })),
        12 => Delta::Provided(Box::new(ProvidedDelta {
            slot: Some(slot),
            tool: "web".into(),
            output: serde_json::json!("sunny"),
            meta: Meta::new(),
        })),
        _ => Delta::Ended,
    }
}

fn call(slot: u32, kind: u64) -> Delta {
    let run_by = if kind == 4 { RunBy::Provider } else { RunBy::Us };
    let (provider_id, tool) = ("call_0".into(), ["look", "write", "ask"][kind as usize % 3].into());
    Delta::CallBegan(Box::new(CallBegan { slot, provider_id, tool, run_by, meta: Meta::new() }))
}

/// A stop that a provider could give for this draft.
pub(super) fn stop(draft: &Draft, dice: &mut Dice) -> Stop {
    match dice.below(6) {
        4 => Stop::Length,
        5 => Stop::Filtered { category: "odd".into(), detail: "too odd".into() },
        _ if draft.complete_calls().next().is_some() => Stop::ToolUse,
        _ => Stop::End,
    }
}
