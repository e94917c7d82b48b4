use proptest::prelude::*;
use serde_json::json;

use super::*;

const PRICE: Price = Price {
    input: Micros(3_000_000),
    output: Micros(15_000_000),
    cache_read: Micros(300_000),
    cache_write: Micros(3_750_000),
    above: None,
};

fn report(input: i64, output: i64) -> UsageReport {
    UsageReport { input: input.into(), output: output.into(), ..UsageReport::default() }
}

/// AW04: a count that cannot be one is unknown; it is neither zero nor a huge number.
#[test]
fn absurd_counts_are_unknown() {
    let known =
        [(json!(0), 0), (json!(17), 17), (json!(17.0), 17), (json!(TOKENS_PLAUSIBLE_MAX), TOKENS_PLAUSIBLE_MAX)];
    for (value, count) in known {
        assert_eq!(TokenCount::from_json(Some(&value)), TokenCount::Known(count), "{value}");
    }
    let absurd = [
        json!(-1),
        json!(-5.0),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e300),
        json!(-1e300),
        json!(0.5),
        json!(TOKENS_PLAUSIBLE_MAX + 1),
        json!("17"),
        json!(null),
        json!([17]),
    ];
    for value in absurd {
        assert_eq!(TokenCount::from_json(Some(&value)), TokenCount::Unknown, "{value}");
    }
    assert_eq!(TokenCount::from_json(None), TokenCount::Unknown);
    assert_eq!(TokenCount::from(u64::MAX), TokenCount::Unknown);
}

/// AW03: a later cumulative report of the same attempt replaces; attempts add up.
#[test]
fn reports_replace_within_an_attempt_and_add_between_attempts() {
    let mut first = UsageReport { cache_read: 900_u64.into(), ..report(100, 1) };
    first.update(&UsageReport { output: 40_i64.into(), ..UsageReport::default() });
    first.update(&UsageReport { output: 57_i64.into(), ..UsageReport::default() });
    let usage = Usage { input: 100, output: 57, cache_read: 900, ..Usage::default() };
    assert_eq!(first.usage(), Some(usage));

    let mut turn = Tally::default();
    turn.add(&first.settle(StreamEnd::Finished, 1_000, 300));
    turn.add(&report(20, 3).settle(StreamEnd::Finished, 20, 9));
    assert_eq!(turn.known, Usage { input: 120, output: 60, cache_read: 900, ..Usage::default() });
    assert_eq!(turn.estimated, Usage::default());
    assert_eq!((turn.known.prompt(), turn.total()), (1_020, 1_080));
}

/// AW04: an absurd later report changes nothing that was known.
#[test]
fn an_absurd_report_does_not_unsay_a_good_one() {
    let mut attempt = report(100, 50);
    for absurd in [report(-1, -1), report(i64::MAX, i64::MIN), UsageReport::default()] {
        attempt.update(&absurd);
    }
    assert_eq!(attempt, report(100, 50));
    assert_eq!(report(100, -3).usage(), None, "half a usage is none");
}

/// W8: an attempt that broke is costed. What it had reported is known, the rest is estimated from the bytes.
#[test]
fn a_broken_attempt_is_estimated_beyond_what_it_reported() {
    let settle = |report: UsageReport, end| report.settle(end, 500, 300);
    let told = |tally: Tally| (tally.known.input, tally.known.output, tally.estimated.input, tally.estimated.output);
    assert_eq!(told(settle(report(480, 77), StreamEnd::Finished)), (480, 77, 0, 0));
    // Anthropic opens with `output_tokens: 1`: true then, and not the end of it.
    assert_eq!(told(settle(report(480, 1), StreamEnd::Broken)), (480, 1, 0, 99));
    assert_eq!(told(settle(report(480, 200), StreamEnd::Broken)), (480, 200, 0, 0));
    assert_eq!(told(settle(UsageReport::default(), StreamEnd::Broken)), (0, 0, 500, 100));
    assert_eq!(told(settle(UsageReport::default(), StreamEnd::Finished)), (0, 0, 500, 100));
    // Twenty refusals of a long request would else spend the budget that is there to try again with.
    assert_eq!(
        told(UsageReport::default().settle(StreamEnd::Refused, 500, 0)),
        (0, 0, 0, 0),
        "a refusal costs nothing"
    );
    assert_eq!(told(report(480, 1).settle(StreamEnd::Refused, 500, 0)), (480, 1, 0, 0), "unless it says so");
    let cached = UsageReport { cache_read: 400_u64.into(), ..UsageReport::default() };
    assert_eq!(told(settle(cached, StreamEnd::Broken)), (0, 0, 100, 100), "the cached part is known already");
}

/// A proxy that does not count says 0: then the attempt is estimated, as if nothing had been said.
#[test]
fn a_count_of_zero_for_what_was_there_is_no_count() {
    let told = |tally: Tally| (tally.known.input, tally.known.output, tally.estimated.input, tally.estimated.output);
    for end in [StreamEnd::Finished, StreamEnd::Broken] {
        assert_eq!(told(report(0, 0).settle(end, 500, 300)), (0, 0, 500, 100), "{end:?}");
        assert_eq!(told(report(480, 0).settle(end, 500, 300)), (480, 0, 0, 100), "{end:?}");
    }
    assert_eq!(told(report(0, 77).settle(StreamEnd::Finished, 500, 300)), (0, 77, 500, 0));
    assert_eq!(told(report(480, 0).settle(StreamEnd::Finished, 500, 0)), (480, 0, 0, 0), "nothing was said");
    assert_eq!(told(report(0, 0).settle(StreamEnd::Refused, 500, 0)), (0, 0, 0, 0));
    let cached = UsageReport { cache_read: 480_u64.into(), ..report(0, 77) };
    assert_eq!(told(cached.settle(StreamEnd::Finished, 500, 300)), (0, 77, 0, 0), "all of the prompt was cached");
    assert_eq!((report(0, 0).usage(), report(0, 7).usage()), (None, None));
    assert!(cached.usage().is_some());
    let mut counted = report(480, 77);
    counted.update(&report(0, 0));
    assert_eq!(counted, report(480, 77), "what was counted stays counted");
}

#[test]
fn reasoning_never_exceeds_the_output_it_is_part_of() {
    let odd = UsageReport { reasoning: 90_u64.into(), ..report(1, 50) };
    assert_eq!(odd.usage().map(|usage| usage.reasoning), Some(50));
}

#[test]
fn a_cost_is_exact_and_rounded_up_once() {
    let usage = Usage { input: 1_000, output: 200, reasoning: 150, cache_read: 10_000, cache_write: 40 };
    assert_eq!(cost(&usage, &PRICE), Micros(3_000 + 3_000 + 3_000 + 150), "reasoning is paid as output, once");
    assert_eq!(cost(&Usage { cache_read: 1, ..Usage::default() }, &PRICE), Micros(1), "0.3 rounds up");
    assert_eq!(cost(&Usage::default(), &PRICE), Micros(0));
    let huge = Usage { input: u64::MAX, output: u64::MAX, ..Usage::default() };
    assert_eq!(cost(&huge, &Price { input: Micros(u64::MAX), output: Micros(u64::MAX), ..PRICE }), Micros(u64::MAX));
    for (micros, shown) in [(12_000_345, "$12.000345"), (0, "$0.00"), (1_250_000, "$1.25"), (2_500_100, "$2.5001")] {
        assert_eq!(Micros(micros).to_string(), shown);
    }
    assert_eq!(Micros::units(u64::MAX), Micros(u64::MAX));
}

#[test]
fn known_and_estimated_money_stay_apart() {
    let tally = report(480, 1).settle(StreamEnd::Broken, 500, 300);
    let spend = tally.cost(&PRICE);
    assert_eq!((spend.known, spend.estimated), (Micros(480 * 3 + 15), Micros(99 * 15)));
    assert_eq!(spend.total(), Micros(480 * 3 + 1_500));
}

fn any_usage() -> impl Strategy<Value = Usage> {
    (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
        |(input, output, reasoning, cache_read, cache_write)| Usage {
            input,
            output,
            reasoning,
            cache_read,
            cache_write,
        },
    )
}

/// Some charge more for the whole request once its prompt is long, and what came from the cache is part of the prompt.
#[test]
fn long_prompts_have_their_own_price() {
    let above = LongPromptPrice {
        prompt: 200_000,
        input: Micros::units(6),
        output: Micros::units(22),
        cache_read: Micros(600_000),
        cache_write: Micros(7_500_000),
    };
    let price = Price { above: Some(above), ..PRICE };
    let at = |input, cache_read| Usage { input, output: 1_000, cache_read, ..Usage::default() };
    assert_eq!(cost(&at(200_000, 0), &price), cost(&at(200_000, 0), &PRICE), "the line itself is not above it");
    assert_eq!(cost(&at(200_001, 0), &price), Micros(200_001 * 6 + 22_000), "all of it, not what is above");
    assert_eq!(cost(&at(1, 200_000), &price), Micros(6 + 120_000 + 22_000), "cached tokens count");
    let tally = Tally { known: at(150_000, 0), estimated: Usage { input: 50_001, ..Usage::default() } };
    let spend = tally.cost(&price);
    assert_eq!(spend.known, Micros(150_000 * 6 + 22_000), "known and estimated are one prompt");
    assert_eq!(spend.estimated, Micros(50_001 * 6));
}

proptest! {
    /// AW04: whatever numbers come, totals never shrink.
    #[test]
    fn no_report_reduces_a_total(counts in prop::collection::vec((any::<i64>(), any::<i64>(), any::<u64>()), 0..20)) {
        let mut turn = Tally::default();
        for (input, output, bytes) in counts {
            let before = turn;
            turn.add(&report(input, output).settle(StreamEnd::Broken, bytes, bytes));
            prop_assert!(turn.total() >= before.total());
            prop_assert!(turn.known.total() >= before.known.total());
        }
    }

    #[test]
    fn more_tokens_never_cost_less(a in any_usage(), b in any_usage()) {
        prop_assert!(cost(&a.plus(&b), &PRICE) >= cost(&a, &PRICE));
        prop_assert!(cost(&a.plus(&b), &PRICE) <= cost(&a, &PRICE).plus(cost(&b, &PRICE)));
    }
}
