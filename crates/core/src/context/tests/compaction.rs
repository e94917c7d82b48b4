use proptest::prelude::*;

use crate::context::{
    Compaction, CompactionFallback, CompactionInput, CompactionThreshold, CompactionTrigger, PromptTooLong, compaction,
};

use Compaction::{Hopeless, Needed, NotNeeded, StillOver};

const SEVENTY: i64 = 70;

fn fresh() -> CompactionInput {
    CompactionInput { foldable: 10, compactions_left: 3, ..CompactionInput::default() }
}

fn measured(next: u64, threshold: i64, slack: &CompactionInput) -> Compaction {
    compaction(CompactionTrigger::Measured, next, Some(1_000), CompactionThreshold::percent(threshold), slack)
}

/// MC16, W13: the next request decides, at the threshold and above.
#[test]
fn the_next_request_is_held_against_the_threshold() {
    for (next, expected) in [(0, NotNeeded), (699, NotNeeded), (700, Needed), (1_000, Needed), (9_000, Needed)] {
        assert_eq!(measured(next, SEVENTY, &fresh()), expected, "{next}");
    }
    assert_eq!(
        compaction(CompactionTrigger::Measured, u64::MAX, None, CompactionThreshold::default(), &fresh()),
        NotNeeded,
        "no limit known"
    );
    assert_eq!(
        compaction(CompactionTrigger::Measured, u64::MAX, Some(u64::MAX), CompactionThreshold::default(), &fresh()),
        Needed,
        "no overflow"
    );
}

/// 0 to 100 is legal, 100 is off, anything else is 70.
#[test]
fn thresholds_out_of_range_are_the_default() {
    for setting in [-1, 101, 255, 256, 326, i64::MIN, i64::MAX] {
        assert_eq!(CompactionThreshold::percent(setting), CompactionThreshold::default(), "{setting}");
    }
    assert_eq!(CompactionThreshold::percent(100), CompactionThreshold::OFF);
    assert_eq!(measured(5_000, 100, &fresh()), NotNeeded, "off");
    assert_eq!(measured(0, 0, &fresh()), Needed);
    assert_eq!((measured(989, 99, &fresh()), measured(990, 99, &fresh())), (NotNeeded, Needed));
}

/// A requested compaction runs below the threshold, without any usage, with automatic compaction off, and
/// beyond the turn's share; but not when there is nothing to fold.
#[test]
fn asking_bypasses_the_gates() {
    let spent = CompactionInput { compactions_left: 0, ..fresh() };
    for (next, limit, threshold) in [(1, Some(1_000), SEVENTY), (0, None, SEVENTY), (1, Some(1_000), 100)] {
        for slack in [fresh(), spent] {
            let verdict =
                compaction(CompactionTrigger::Asked, next, limit, CompactionThreshold::percent(threshold), &slack);
            assert_eq!(verdict, Needed);
        }
    }
    let folded = CompactionInput { foldable: 0, ..fresh() };
    assert_eq!(
        compaction(CompactionTrigger::Asked, 900, Some(1_000), CompactionThreshold::default(), &folded),
        NotNeeded
    );
}

/// With nothing new to fold, or the turn's share used up, a request that fits is sent as it is.
#[test]
fn compaction_that_gains_nothing_is_not_made() {
    let just_folded = CompactionInput { foldable: 0, summary_tokens: 5, ..fresh() };
    let used_up = CompactionInput { compactions_left: 0, summary_tokens: 5, ..fresh() };
    for slack in [just_folded, used_up] {
        assert_eq!(measured(999, SEVENTY, &slack), NotNeeded);
        assert_eq!(measured(1_000, SEVENTY, &slack), NotNeeded);
        assert_eq!(measured(1_001, SEVENTY, &slack), StillOver(CompactionFallback::StrongerSummary));
    }
}

/// W18, #26377: where compaction cannot get below the threshold, it is not tried after every step, only at the limit.
#[test]
fn a_threshold_out_of_reach_gives_way_to_the_limit() {
    let heavy = CompactionInput { after_last: Some(750), ..fresh() };
    for (next, expected) in [(700, NotNeeded), (760, NotNeeded), (1_000, NotNeeded), (1_001, Needed)] {
        assert_eq!(measured(next, SEVENTY, &heavy), expected, "{next}");
    }
    let light = CompactionInput { after_last: Some(699), ..fresh() };
    assert_eq!(measured(700, SEVENTY, &light), Needed);
}

/// W18: stages come in order, those that would gain nothing are skipped, and after the last come the numbers.
#[test]
fn stages_are_taken_in_order() {
    let stuck = |summary_tokens, media_tokens, result_tokens, taken| CompactionInput {
        foldable: 0,
        summary_tokens,
        media_tokens,
        result_tokens,
        taken,
        ..fresh()
    };
    let unheard = |slack| CompactionInput { earlier_tokens: 9, cut_tokens: 9, ..slack };
    let hopeless = Hopeless(PromptTooLong { tokens: 1_500, fixed: 0, limit: Some(1_000) });
    let cases = [
        (stuck(9, 9, 9, None), StillOver(CompactionFallback::StrongerSummary)),
        (stuck(9, 9, 9, Some(CompactionFallback::StrongerSummary)), StillOver(CompactionFallback::DropMedia)),
        (stuck(9, 9, 9, Some(CompactionFallback::DropMedia)), StillOver(CompactionFallback::DropResults)),
        (stuck(9, 9, 9, Some(CompactionFallback::DropResults)), hopeless),
        (stuck(0, 9, 9, None), StillOver(CompactionFallback::DropMedia)),
        (stuck(0, 0, 9, None), StillOver(CompactionFallback::DropResults)),
        (stuck(9, 0, 9, Some(CompactionFallback::StrongerSummary)), StillOver(CompactionFallback::DropResults)),
        (stuck(9, 0, 0, Some(CompactionFallback::StrongerSummary)), hopeless),
        (stuck(0, 0, 0, None), hopeless),
        (unheard(stuck(0, 0, 9, None)), StillOver(CompactionFallback::DropResults)),
        (unheard(stuck(0, 0, 9, Some(CompactionFallback::DropResults))), StillOver(CompactionFallback::CutEarlier)),
        (unheard(stuck(9, 9, 9, Some(CompactionFallback::CutEarlier))), StillOver(CompactionFallback::DropEarlier)),
        (unheard(stuck(9, 9, 9, Some(CompactionFallback::DropEarlier))), hopeless),
    ];
    for (slack, expected) in cases {
        assert_eq!(measured(1_500, SEVENTY, &slack), expected, "{slack:?}");
    }
}

/// W14: a refusal counts whatever we measured, and whether or not the limit is known.
#[test]
fn a_refused_request_is_compacted_whatever_was_measured() {
    let refused = |limit, slack: &CompactionInput| {
        compaction(CompactionTrigger::Refused, 100, limit, CompactionThreshold::OFF, slack)
    };
    assert_eq!(refused(Some(1_000), &fresh()), Needed);
    assert_eq!(refused(None, &fresh()), Needed);
    let folded = CompactionInput { foldable: 0, result_tokens: 50, ..fresh() };
    assert_eq!(refused(None, &folded), StillOver(CompactionFallback::DropResults));
    let empty = CompactionInput { foldable: 0, ..fresh() };
    assert_eq!(refused(None, &empty), Hopeless(PromptTooLong { tokens: 100, fixed: 0, limit: None }));
}

#[test]
fn the_last_word_has_the_numbers() {
    let told = |fixed, limit| PromptTooLong { tokens: 203_000, fixed, limit }.to_string();
    for (fixed, limit, advice) in [
        (2_000, Some(4_096), "and the model reads 4096; edit the newest message to about 3144 bytes, or choose"),
        (5_000, Some(4_096), "and the model reads 4096; 5000 are instructions and tools: shorten those, or choose"),
        (0, None, "203000 tokens; edit the newest message to be shorter, use fewer tools, or choose a model"),
    ] {
        assert!(told(fixed, limit).contains(advice), "{}", told(fixed, limit));
    }
}

proptest! {
    /// Measuring and doing what is said, over and over, comes to an end: the loop of #26377 cannot happen.
    #[test]
    fn doing_what_is_said_ends(
        next in 0..5_000_u64, foldable in 0..5_u64, left in 0..4_u32, after in proptest::option::of(0..2_000_u64),
        tokens in (0..3_u64, 0..3_u64, 0..3_u64, 0..3_u64, 0..3_u64), refused in any::<bool>(),
    ) {
        let trigger = if refused { CompactionTrigger::Refused } else { CompactionTrigger::Measured };
        let mut slack = CompactionInput {
            foldable, compactions_left: left, after_last: after,
            summary_tokens: tokens.0, media_tokens: tokens.1, result_tokens: tokens.2, earlier_tokens: tokens.3,
            cut_tokens: tokens.4, fixed_tokens: 0, taken: None,
        };
        for _ in 0..10 {
            match compaction(trigger, next, Some(1_000), CompactionThreshold::default(), &slack) {
                NotNeeded | Hopeless(_) => return Ok(()),
                Needed => {
                    slack.foldable = 0;
                    slack.compactions_left -= 1;
                    slack.after_last = Some(next);
                }
                StillOver(stage) => slack.taken = Some(stage),
            }
        }
        prop_assert!(false, "still going: {slack:?}");
    }
}
