use proptest::prelude::*;

use super::*;
use crate::error::{ErrorKind, ProviderError};
use crate::ids::Timestamp;

const SECOND: Duration = Duration::from_secs(1);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn tried(tries: u32) -> RetrySpent {
    RetrySpent { tries, attempts: tries, ..RetrySpent::default() }
}

/// CT01: spans grow 1, 2, 4… to 60 s and stay there, for any number of tries.
#[test]
fn spans_double_up_to_the_longest() {
    let limits = RetryLimits::default();
    let spans: Vec<_> = (0..9).map(|tries| limits.span(tries).as_secs()).collect();
    assert_eq!(spans, [1, 1, 2, 4, 8, 16, 32, 60, 60]);
    for tries in [32, 33, 64, 1_000, u32::MAX] {
        assert_eq!(limits.span(tries), secs(60));
    }
}

/// CT01, W28: the wait is drawn from the whole span; a number that is none takes the span itself.
#[test]
fn waits_are_drawn_from_the_whole_span() {
    let limits = RetryLimits::default();
    for (jitter, wait) in
        [(0.0, 0), (0.25, 2), (0.5, 4), (1.0, 8), (7.0, 8), (-1.0, 0), (f64::NAN, 8), (f64::INFINITY, 8)]
    {
        assert_eq!(decide(Retry::Backoff, &tried(4), &limits, jitter), RetryDecision::Wait(secs(wait)), "{jitter}");
    }
}

/// CT04, CE18: a Retry-After is a floor, spread by a second at most; one shorter than our own wait changes nothing.
#[test]
fn a_retry_after_is_a_floor() {
    let limits = RetryLimits::default();
    let wait = |floor, tries, jitter| decide(Retry::After(secs(floor)), &tried(tries), &limits, jitter);
    assert_eq!(wait(30, 1, 0.0), RetryDecision::Wait(secs(30)));
    assert_eq!(
        wait(30, 1, 0.5),
        RetryDecision::Wait(secs(30) + SECOND / 2),
        "those told the same do not return together"
    );
    assert_eq!(wait(3, 7, 1.0), RetryDecision::Wait(secs(60)), "our own wait is longer");
    assert_eq!(wait(120, 1, 0.0), RetryDecision::Wait(secs(120)));
}

/// P6: a Retry-After that is longer than we wait unseen is told to the person, with the time.
#[test]
fn a_long_retry_after_is_surfaced() {
    let verdict = decide(Retry::After(secs(1_000_000_000)), &tried(1), &RetryLimits::default(), 0.5);
    assert_eq!(verdict, RetryDecision::GiveUp(GiveUpReason::TooLong(secs(1_000_000_000))));
    assert_eq!(
        GiveUpReason::TooLong(secs(121)).to_string(),
        "the provider asks to wait 121 seconds; send again after that"
    );
}

/// CE08, CT02, CT04: what cannot be retried is given up at once; what can is tried until a bound, each with its
/// own reason. Our own deadline is one of them, and final.
#[test]
fn every_bound_ends_the_trying() {
    let limits = RetryLimits::default();
    let give_up = |retry, spent: RetrySpent| decide(retry, &spent, &limits, 0.5);
    let spent = tried(1);
    assert_eq!(give_up(Retry::Never, spent), RetryDecision::GiveUp(GiveUpReason::Permanent));
    let once = |times| RetrySpent { once: times, ..tried(2) };
    assert_eq!(give_up(Retry::Once, once(1)), RetryDecision::Wait(SECOND), "what failed before had another reason");
    assert_eq!(give_up(Retry::Once, once(2)), RetryDecision::GiveUp(GiveUpReason::Again));
    assert_eq!(give_up(Retry::Backoff, tried(7)), RetryDecision::Wait(secs(30)));
    assert_eq!(give_up(Retry::Backoff, tried(8)), RetryDecision::GiveUp(GiveUpReason::Tries));
    assert_eq!(
        give_up(Retry::Backoff, RetrySpent { attempts: 24, ..spent }),
        RetryDecision::GiveUp(GiveUpReason::Attempts)
    );
    assert_eq!(
        give_up(Retry::Backoff, RetrySpent { cost: Micros::units(11), ..spent }),
        RetryDecision::GiveUp(GiveUpReason::Cost)
    );
    assert_eq!(
        give_up(Retry::Backoff, RetrySpent { time: limits.time_max, ..spent }),
        RetryDecision::GiveUp(GiveUpReason::Time)
    );
    let nearly = RetrySpent { time: limits.time_max - secs(100), ..spent };
    assert_eq!(
        give_up(Retry::After(secs(110)), nearly),
        RetryDecision::GiveUp(GiveUpReason::Time),
        "the wait counts before it begins"
    );
    assert_eq!(give_up(Retry::After(secs(90)), nearly), RetryDecision::Wait(secs(90) + SECOND / 2));
    for whys in [
        GiveUpReason::Permanent,
        GiveUpReason::Again,
        GiveUpReason::Tries,
        GiveUpReason::Attempts,
        GiveUpReason::Time,
        GiveUpReason::Cost,
    ] {
        assert!(!whys.to_string().is_empty());
    }
}

/// Plays failures until one is final or the script ends; says how many attempts were made and how it ended.
fn play(failures: &[(Retry, AttemptProgress)], limits: &RetryLimits) -> (u32, Option<GiveUpReason>) {
    let mut spent = RetrySpent::default();
    for &(retry, progress) in failures {
        spent = spent.failed(progress, SECOND, Micros(1), limits).leaving(retry);
        match decide(retry, &spent, limits, 0.5) {
            RetryDecision::Wait(wait) => spent = spent.waited(wait),
            RetryDecision::GiveUp(why) => return (spent.attempts, Some(why)),
        }
    }
    (spent.attempts + 1, None) // The one after the script succeeds.
}

/// CT02: success at once, success after some failures, failure after the first permanent error.
#[test]
fn a_step_ends_with_its_first_success_or_its_first_final_failure() {
    let limits = RetryLimits::default();
    let transient = (Retry::Backoff, AttemptProgress::None);
    assert_eq!(play(&[], &limits), (1, None));
    assert_eq!(play(&[transient], &limits), (2, None));
    assert_eq!(play(&[transient; 7], &limits), (8, None));
    assert_eq!(play(&[transient; 8], &limits), (8, Some(GiveUpReason::Tries)));
    assert_eq!(play(&[(Retry::Never, AttemptProgress::None), transient], &limits), (1, Some(GiveUpReason::Permanent)));
}

/// Design §4: output earns tries back, so a long answer over a bad line gets there; a total ends even that.
#[test]
fn progress_refills_the_budget_but_not_the_totals() {
    let limits = RetryLimits::default();
    let (stuck, onward) = ((Retry::Backoff, AttemptProgress::None), (Retry::Backoff, AttemptProgress::Output));
    let mixed: Vec<_> = [[stuck; 4].as_slice(), &[onward], &[stuck; 4], &[onward]].concat();
    assert_eq!(play(&mixed, &limits), (11, None), "more than eight failures, and still going");
    assert_eq!(play(&[onward; 100], &limits), (24, Some(GiveUpReason::Attempts)));
    let mut spent = tried(6);
    spent = spent.failed(AttemptProgress::Output, SECOND, Micros(5), &limits);
    assert_eq!((spent.tries, spent.attempts, spent.cost), (3, 7, Micros(5)));
}

/// I24: an attempt that its process took with it costs no try and no wait. It is one of all attempts all the same.
#[test]
fn a_lost_process_is_nobodys_failure() {
    let limits = RetryLimits::default();
    let spent = tried(7).resumed(Micros(5));
    assert_eq!(spent, RetrySpent { attempts: 8, cost: Micros(5), ..tried(7) });
    assert_eq!(decide(Retry::Now, &spent, &limits, 1.0), RetryDecision::Wait(Duration::ZERO));
    let often = (0..17).fold(spent, |spent, _| spent.resumed(Micros(0)));
    assert_eq!(decide(Retry::Now, &often, &limits, 1.0), RetryDecision::GiveUp(GiveUpReason::Attempts));
    assert_eq!(spent.paid(Micros(2)), RetrySpent { cost: Micros(7), ..spent });
}

/// CE18, P6: milliseconds win over seconds, dates work in all three forms, nonsense counts as not said.
#[test]
fn retry_after_headers() {
    let now = Timestamp(784_111_770_000); // 1994-11-06 08:49:30 UTC
    let cases = [
        (None, None, None),
        (Some("1500"), None, Some(1_500)),
        (Some("250.5"), Some("9"), Some(250)),
        (Some("nonsense"), Some("9"), Some(9_000)),
        (Some("-3"), Some("9"), Some(9_000)),
        (Some("0"), Some("0"), None),
        (None, Some(" 7 "), Some(7_000)),
        (None, Some("0.25"), Some(250)),
        (None, Some("-7"), None),
        (None, Some("NaN"), None),
        (None, Some("inf"), None),
        (None, Some("1e400"), None),
        (None, Some(""), None),
        (None, Some("soon"), None),
        (None, Some("Sun, 06 Nov 1994 08:49:37 GMT"), Some(7_000)),
        (None, Some("Sunday, 06-Nov-94 08:49:37 GMT"), Some(7_000)),
        (None, Some("Sun Nov  6 08:49:37 1994"), Some(7_000)),
        (None, Some("Sun, 06 Nov 1994 08:49:29 GMT"), None),
        (None, Some("Sun, 99 Nov 1994 08:49:29 GMT"), None),
    ];
    for (millis, seconds, wait) in cases {
        let parsed = retry_after(millis, seconds, now).map(|wait| wait.as_millis());
        assert_eq!(parsed, wait, "{millis:?} {seconds:?}");
    }
    assert_eq!(retry_after(None, Some("1e9"), now), Some(RETRY_AFTER_PLAUSIBLE_MAX), "absurd, and bounded");
    assert_eq!(retry_after(Some("1e300"), None, now), Some(RETRY_AFTER_PLAUSIBLE_MAX));
    assert_eq!(retry_after(None, Some("Sun, 06 Nov 2994 08:49:37 GMT"), now), Some(RETRY_AFTER_PLAUSIBLE_MAX));
}

fn breaker() -> Breaker {
    Breaker::new(BreakerLimits { failures_max: 3, open_max: secs(30), probe_max: secs(60), behind_min: SECOND })
}

fn at(seconds: i64) -> Timestamp {
    Timestamp(seconds * 1_000)
}

fn broken_at_zero() -> Breaker {
    let mut breaker = breaker();
    for _ in 0..3 {
        assert_eq!(breaker.admit(at(0)), BreakerDecision::Go);
        breaker.report(ModelHealth::Fails, at(0));
    }
    breaker
}

#[test]
fn failures_in_a_row_close_the_door_and_one_probe_looks() {
    let mut door = broken_at_zero();
    assert_eq!(door.admit(at(29)), BreakerDecision::NotBefore(at(30)));
    assert_eq!(door.admit(at(30)), BreakerDecision::Probe);
    assert_eq!(door.admit(at(31)), BreakerDecision::NotBefore(at(32)), "one looks, the others wait");
    door.report(ModelHealth::Answers, at(32));
    assert_eq!(door, breaker(), "as new");

    let mut door = broken_at_zero();
    assert_eq!(door.admit(at(30)), BreakerDecision::Probe);
    door.report(ModelHealth::Fails, at(33));
    assert_eq!(door.admit(at(62)), BreakerDecision::NotBefore(at(63)));
}

/// I16: an attempt behind a probe returns after as long again as the probe has taken, so waits behind a short
/// probe are short.
#[test]
fn behind_a_probe_the_wait_is_as_long_as_the_look() {
    let mut door = broken_at_zero();
    assert_eq!(door.admit(at(30)), BreakerDecision::Probe);
    for (now, until) in [(30, 31), (31, 32), (34, 38), (50, 70), (89, 90)] {
        assert_eq!(door.admit(at(now)), BreakerDecision::NotBefore(at(until)), "{now}");
    }
    assert_eq!((door.spread(), broken_at_zero().spread()), (SECOND, Duration::ZERO));
}

/// I16: a probe's first words open the door, long before it has said all. If it breaks off after all, the door shuts
/// again at once; what an ordinary attempt says changes nothing.
#[test]
fn the_first_words_of_a_probe_open_the_door() {
    let probed = || {
        let mut door = broken_at_zero();
        assert_eq!(door.admit(at(30)), BreakerDecision::Probe);
        door.speaks();
        assert_eq!(door.admit(at(31)), BreakerDecision::Go);
        door
    };
    let mut door = probed();
    door.report(ModelHealth::Fails, at(40));
    assert_eq!(door.admit(at(41)), BreakerDecision::NotBefore(at(70)));
    let mut door = probed();
    door.report(ModelHealth::Answers, at(40));
    assert_eq!(door, breaker(), "as new");
    for mut door in [breaker(), broken_at_zero()] {
        let before = door.clone();
        door.speaks();
        assert_eq!(door, before);
    }
}

#[test]
fn an_answer_in_between_starts_the_count_again() {
    let mut door = breaker();
    for health in [
        ModelHealth::Fails,
        ModelHealth::Fails,
        ModelHealth::Answers,
        ModelHealth::Fails,
        ModelHealth::Fails,
        ModelHealth::Untold,
    ] {
        door.report(health, at(0));
    }
    assert_eq!(door.admit(at(0)), BreakerDecision::Go);
}

/// The forerunner's breaker was wedged for good by a permanent error on its probe (awaken P10).
#[test]
fn no_outcome_of_the_probe_wedges_the_door() {
    for kind in ErrorKind::ALL {
        let mut door = broken_at_zero();
        assert_eq!(door.admit(at(30)), BreakerDecision::Probe);
        let health = ModelHealth::of(&ProviderError::new("x", kind));
        door.report(health, at(31));
        let next = door.admit(at(61));
        match health {
            ModelHealth::Answers => assert_eq!(next, BreakerDecision::Go, "{kind:?}"),
            ModelHealth::Fails | ModelHealth::Untold => assert_eq!(next, BreakerDecision::Probe, "{kind:?}"),
        }
    }
    let mut door = broken_at_zero();
    assert_eq!(door.admit(at(30)), BreakerDecision::Probe);
    assert_eq!(door.admit(at(90)), BreakerDecision::Probe, "the first probe never came back");
    door.report(ModelHealth::Untold, at(91));
    assert_eq!(door.admit(at(91)), BreakerDecision::Probe, "an interrupted probe makes room at once");
}

/// Inv7: wall clocks are put back; a door must not stay shut for as long.
#[test]
fn a_clock_put_back_does_not_keep_the_door_shut() {
    let mut door = broken_at_zero();
    assert_eq!(door.admit(at(-86_400)), BreakerDecision::Probe);
}

/// A rate limit and a refusal are about us; an outage is about the model.
#[test]
fn health_is_about_the_model() {
    let health = |kind, retry| ModelHealth::of(&ProviderError::new("x", kind).with_retry(retry));
    assert_eq!(health(ErrorKind::RateLimit, Retry::Backoff), ModelHealth::Answers);
    assert_eq!(health(ErrorKind::Auth, Retry::Never), ModelHealth::Answers);
    assert_eq!(health(ErrorKind::Generic, Retry::Never), ModelHealth::Answers);
    assert_eq!(health(ErrorKind::Generic, Retry::Backoff), ModelHealth::Fails);
    assert_eq!(health(ErrorKind::Silence, Retry::Backoff), ModelHealth::Fails);
    assert_eq!(health(ErrorKind::Malformed, Retry::Backoff), ModelHealth::Fails);
    assert_eq!(health(ErrorKind::Malformed, Retry::Once), ModelHealth::Answers, "with more than we take");
    assert_eq!(health(ErrorKind::Truncated, Retry::Now), ModelHealth::Answers, "it only paused");
}

fn any_retry() -> impl Strategy<Value = Retry> {
    prop_oneof![
        Just(Retry::Never),
        Just(Retry::Once),
        Just(Retry::Now),
        Just(Retry::Backoff),
        any::<Duration>().prop_map(Retry::After),
        (0..200_u64).prop_map(|s| Retry::After(secs(s))),
    ]
}

proptest! {
    /// Whatever is asked, no wait exceeds its cap and no total is exceeded.
    #[test]
    fn no_wait_exceeds_its_cap(
        retry in any_retry(), tries in any::<u32>(), attempts in any::<u32>(), time in any::<Duration>(), jitter in any::<f64>(),
    ) {
        let limits = RetryLimits::default();
        let spent = RetrySpent { tries, attempts, time, ..RetrySpent::default() };
        if let RetryDecision::Wait(wait) = decide(retry, &spent, &limits, jitter) {
            prop_assert!(wait <= limits.delay_max.max(limits.retry_after_max + limits.delay_base));
            prop_assert!(time + wait <= limits.time_max);
            prop_assert!(tries < limits.tries_max && attempts < limits.attempts_max);
            if let Retry::After(floor) = retry {
                prop_assert!(wait >= floor);
            }
        }
    }

    /// Any run of failures ends within the total, with or without progress.
    #[test]
    fn every_run_of_failures_ends(outputs in prop::collection::vec(any::<bool>(), 30..40)) {
        let failures: Vec<_> = outputs
            .iter()
            .map(|&some| (Retry::Backoff, if some { AttemptProgress::Output } else { AttemptProgress::None }))
            .collect();
        let (attempts, why) = play(&failures, &RetryLimits::default());
        prop_assert!(attempts <= 24 && why.is_some());
    }

    /// Whatever happened to it, after its longest wait a breaker admits an attempt.
    #[test]
    fn a_breaker_never_stays_shut(events in prop::collection::vec((0..5_u8, 0..100_i64), 0..50)) {
        let mut door = breaker();
        let mut now = 0;
        for (event, seconds) in events {
            now += seconds;
            match event {
                0 => { door.admit(at(now)); }
                1 => door.report(ModelHealth::Answers, at(now)),
                2 => door.report(ModelHealth::Fails, at(now)),
                3 => door.speaks(),
                _ => door.report(ModelHealth::Untold, at(now)),
            }
        }
        let longest = at(now) + secs(60);
        prop_assert!(!matches!(door.admit(longest), BreakerDecision::NotBefore(_)));
    }
}
