use super::*;
use crate::delta::{AttemptBegan, CallBegan, Delta, Rung};
use crate::ids::{StepId, Timestamp};
use crate::message::{Meta, RunBy, Seal};

const NOTHING: Capabilities = Capabilities { reattach: Reattach::No, prefill: Prefill::No, echo: Echo::No };
const EVERYTHING: Capabilities = Capabilities { reattach: Reattach::Yes, prefill: Prefill::Yes, echo: Echo::No };
const CAUSES: [Cause; 9] = [
    Cause::Refused,
    Cause::Reset,
    Cause::GoAway,
    Cause::IdleStall,
    Cause::ServerError,
    Cause::Truncated,
    Cause::ErrorFinish,
    Cause::Malformed,
    Cause::Resumed,
];

fn draft(deltas: &[Delta]) -> Draft {
    let mut draft = Draft::new(StepId(1));
    let began = AttemptBegan { number: 1, model: "understudy/one".parse().unwrap(), rung: Rung::First };
    for delta in [&[Delta::Attempt(Box::new(began))], deltas].concat() {
        draft.push(Timestamp(0), &delta).unwrap();
    }
    draft
}

fn words() -> Delta {
    Delta::Text("The quick brown".into())
}

fn call(slot: u32, json: &str, run_by: RunBy) -> Vec<Delta> {
    let (provider_id, tool, meta) = ("id".into(), "search".into(), Meta::new());
    let began = CallBegan { slot, provider_id, tool, run_by, meta };
    vec![Delta::CallBegan(Box::new(began)), Delta::CallInput { slot, json: json.into() }]
}

fn closed(slot: u32, json: &str) -> Vec<Delta> {
    [call(slot, json, RunBy::Us), vec![Delta::CallEnded { slot }]].concat()
}

fn handle() -> GenerationHandle {
    GenerationHandle { id: "resp_1".into(), cursor: "17".into() }
}

/// AW11–AW16: what each kind of draft climbs to, with nothing but another try to hope for.
#[test]
fn each_draft_has_its_rung() {
    let reasoning = Delta::Reasoning("hm".into());
    let sealed = Delta::Sealed(Seal::Signature("sig".into()));
    let go_on = |retract: &[u16]| Recovery::Continue { retract: retract.into(), how: Continuation::Instruct };
    let salvage = |retract: &[u16]| Recovery::Salvage { retract: retract.into() };
    let cases = [
        ("nothing", vec![], Recovery::Restart),
        ("blank text", vec![Delta::Text(" \n".into())], Recovery::Restart),
        ("text", vec![words()], go_on(&[])),
        ("unsigned reasoning", vec![reasoning.clone()], Recovery::Restart),
        ("signed reasoning", vec![reasoning.clone(), sealed.clone()], Recovery::Restart),
        ("signed reasoning and text", vec![reasoning, sealed, Delta::Ended, words()], go_on(&[])),
        ("an open call", call(0, "{\"q", RunBy::Us), Recovery::Restart),
        ("a call of valid JSON that was not closed", call(0, "{}", RunBy::Us), Recovery::Restart),
        ("a closed call that is no object", closed(0, "[1]"), Recovery::Restart),
        ("text and an open call", [vec![words()], call(0, "{\"q", RunBy::Us)].concat(), go_on(&[0])),
        ("a complete call", closed(0, "{}"), salvage(&[])),
        ("a complete call without input", closed(0, ""), salvage(&[])),
        ("a complete and an open call", [closed(0, "{}"), call(1, "{", RunBy::Us)].concat(), salvage(&[1])),
        (
            "two open calls and text",
            [vec![words()], call(0, "", RunBy::Us), call(1, "{", RunBy::Us)].concat(),
            go_on(&[0, 1]),
        ),
        ("the provider's own call", [vec![words()], call(0, "{}", RunBy::Provider)].concat(), go_on(&[])),
    ];
    for (name, deltas, expected) in cases {
        for cause in CAUSES {
            assert_eq!(plan(&draft(&deltas), cause, NOTHING, RetryBudget::Left), expected, "{name}, {cause:?}");
        }
    }
}

/// An answer in which the provider's own tools had the last word goes on from there, with words in it or without; our
/// own complete calls come first, and another model has no use for it.
#[test]
fn an_answer_that_can_be_sent_back_is() {
    let can = Capabilities { echo: Echo::Yes, ..NOTHING };
    let searched = [call(0, "{}", RunBy::Provider), vec![Delta::CallEnded { slot: 0 }]].concat();
    for deltas in [searched.clone(), [vec![words()], searched.clone()].concat()] {
        for cause in CAUSES {
            let echo = Recovery::Continue { retract: vec![], how: Continuation::Echo };
            assert_eq!(plan(&draft(&deltas), cause, can, RetryBudget::Left), echo, "{cause:?}");
        }
    }
    let called = draft(&[closed(1, "{}"), searched.clone()].concat());
    assert_eq!(plan(&called, Cause::Reset, can, RetryBudget::Left), Recovery::Salvage { retract: vec![] });
    let elsewhere = plan(&draft(&searched), Cause::Reset, can, RetryBudget::SpentHere);
    assert_eq!(elsewhere, Recovery::FallBack);
}

/// AW15: re-attaching comes first, whatever the draft holds; but not after malformed bytes, not to a
/// generation that failed, and not without end.
#[test]
fn reattaching_comes_first() {
    let with_handle = |deltas: Vec<Delta>| draft(&[deltas, vec![Delta::Handle(Box::new(handle()))]].concat());
    for deltas in [vec![], vec![words()], closed(0, "{}")] {
        let draft = with_handle(deltas);
        assert_eq!(plan(&draft, Cause::Reset, EVERYTHING, RetryBudget::Left), Recovery::Reattach(handle()));
        for over in [Cause::Malformed, Cause::ErrorFinish] {
            assert_ne!(plan(&draft, over, EVERYTHING, RetryBudget::Left), Recovery::Reattach(handle()));
        }
        assert_ne!(plan(&draft, Cause::Reset, NOTHING, RetryBudget::Left), Recovery::Reattach(handle()));
        assert_ne!(plan(&draft, Cause::Reset, EVERYTHING, RetryBudget::Spent), Recovery::Reattach(handle()));
    }
    assert_eq!(plan(&draft(&[]), Cause::Reset, EVERYTHING, RetryBudget::Left), Recovery::Restart, "no handle, no way");
}

/// A generation that is there and says nothing more is gone on with elsewhere, before the budget is spent on it.
#[test]
fn a_silent_generation_is_not_reattached_twice() {
    let again = AttemptBegan { number: 2, model: "understudy/one".parse().unwrap(), rung: Rung::Reattach };
    let found = [words(), Delta::Handle(Box::new(handle())), Delta::Attempt(Box::new(again))];
    for cause in CAUSES {
        let recovery = plan(&draft(&found), cause, EVERYTHING, RetryBudget::Left);
        let is_given_up = matches!(recovery, Recovery::Continue { .. });
        let proves_nothing = matches!(cause, Cause::Refused | Cause::Reset | Cause::GoAway | Cause::Resumed);
        assert_eq!(is_given_up, !proves_nothing, "{cause:?}");
        let spoke = draft(&[found.as_slice(), &[words()]].concat());
        let recovery = plan(&spoke, cause, EVERYTHING, RetryBudget::Left);
        let is_over = matches!(cause, Cause::Malformed | Cause::ErrorFinish);
        assert_eq!(recovery == Recovery::Reattach(handle()), !is_over, "{cause:?}, after some words");
        let alive = Capabilities { reattach: Reattach::Alive, ..EVERYTHING };
        let recovery = plan(&draft(&found), cause, alive, RetryBudget::Left);
        let is_over = is_over || cause == Cause::ServerError;
        assert_eq!(recovery == Recovery::Reattach(handle()), !is_over, "{cause:?}, of one that lives");
    }
}

#[test]
fn a_prefill_is_used_where_the_model_takes_it() {
    let recovery = plan(&draft(&[words()]), Cause::Reset, EVERYTHING, RetryBudget::Left);
    assert_eq!(recovery, Recovery::Continue { retract: vec![], how: Continuation::Prefill });
}

/// AW16: complete calls cost nothing and are kept even then; else the next model, with the text if there is any; else
/// the end.
#[test]
fn a_spent_budget_keeps_complete_calls() {
    let cases = [
        (vec![], Recovery::FallBack),
        (vec![words()], Recovery::FallBack),
        (closed(0, "{}"), Recovery::Salvage { retract: vec![] }),
    ];
    for (deltas, here) in cases {
        let spent = if matches!(here, Recovery::Salvage { .. }) { here.clone() } else { Recovery::GiveUp };
        assert_eq!(plan(&draft(&deltas), Cause::Reset, NOTHING, RetryBudget::SpentHere), here);
        assert_eq!(plan(&draft(&deltas), Cause::Reset, NOTHING, RetryBudget::Spent), spent);
    }
}
