//! Time and chance are arguments.
//!
//! A test can only pause a clock it is given, and a seed can only repeat dice it throws. So the wall clock and
//! randomness are read in `clock.rs` and `entropy.rs` alone, and the core reads nothing of the world at all.

use super::{Source, Violation};
use crate::rust::paths::Mention;

/// Calls that read the wall clock.
const CLOCKS: &[&str] =
    &["SystemTime::now", "Timestamp::now", "Zoned::now", "Utc::now", "Local::now", "OffsetDateTime::now_utc"];
/// Crates that throw dice.
const DICE: &[&str] = &["rand", "rand_core", "getrandom", "fastrand"];
/// What the core must not touch.
const WORLD: &[&str] = &[
    "tokio",
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::time::UNIX_EPOCH",
];

pub fn check(source: &Source<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut add = |line, what: String| {
        let violation = Violation::new(source.path, line, what);
        if !violations.contains(&violation) {
            violations.push(violation);
        }
    };
    let measures = source.names().any(|name| matches!(name, "benches" | "xtask" | "clock" | "entropy"));
    let is_core = source.path.starts_with("crates/core/src/");
    for mention in &source.mentions {
        if !measures && let Some(thing) = chance(mention) {
            add(
                mention.line,
                format!("{thing} outside clock.rs and entropy.rs: take the time or the number as an argument"),
            );
        }
        if is_core && let Some(world) = WORLD.iter().find(|world| mention.is_within(world)) {
            add(mention.line, format!("{world} in the core: the core is pure, let the engine do this"));
        }
    }
    if is_core {
        let tokens = &source.tokens;
        for token in tokens.iter().filter(|token| token.is_word("async") || token.is_word("await")) {
            add(token.line, format!("{} in the core: the core never waits, let the engine do this", token.text));
        }
    }
    violations
}

fn chance(mention: &Mention) -> Option<String> {
    // tokio's Instant is fine: tests pause it.
    if mention.path == "std::time::Instant::now" || CLOCKS.iter().any(|clock| mention.ends_with(clock)) {
        return Some(mention.path.clone());
    }
    if let Some(dice) = DICE.iter().find(|dice| mention.is_within(dice)) {
        return mention.path.contains("::").then(|| (*dice).to_owned());
    }
    let (before, last) = mention.path.rsplit_once("::")?;
    let makes_one = last.starts_with("new_v") || last.starts_with("now_v") || last == "new";
    let random = before.ends_with("RandomState") && last == "new" || before.ends_with("Uuid") && makes_one;
    random.then(|| mention.path.clone())
}

#[cfg(test)]
mod tests {
    use super::super::found;

    const IMPURE: &[&str] = &[
        "fn a() { std::time::SystemTime::now(); }",
        "use std::time::Instant; fn a() { Instant::now(); }",
        "use std::time; fn a() { time::Instant::now(); }",
        "fn a() { jiff::Timestamp::now(); }",
        "fn a() { rand::random::<u8>(); }",
        "use rand::Rng;",
        "fn a() { getrandom::fill(&mut b); }",
        "fn a() { fastrand::u8(..); }",
        "fn a() { Uuid::new_v4(); }",
        "fn a() { uuid::Uuid::now_v7(); }",
        "use std::hash::RandomState; fn a() { RandomState::new(); }",
    ];

    #[test]
    fn clocks_and_dice_are_found() {
        for source in IMPURE {
            let found = found("crates/everturn/src/drive.rs", source);
            assert_eq!(found.len(), 1, "{source}: {found:?}");
            assert!(found[0].contains("outside clock.rs and entropy.rs"), "{found:?}");
        }
    }

    #[test]
    fn their_own_files_and_benches_may() {
        for source in IMPURE {
            for path in [
                "crates/everturn/src/util/clock.rs",
                "crates/everturn/src/util/entropy.rs",
                "crates/core/benches/core.rs",
            ] {
                assert!(found(path, source).is_empty(), "{path}: {source}");
            }
        }
    }

    #[test]
    fn time_that_tests_can_pause_is_fine() {
        for source in [
            "use tokio::time::Instant; fn a() { Instant::now(); }",
            "fn a() { tokio::time::Instant::now(); }",
            "use std::time::{Duration, Instant}; fn a(now: Instant) {}",
            "fn operand(strand: u8) { let brand = strand; }",
            "fn a(rand: u8) { let jitter = rand; }",
        ] {
            assert!(found("crates/everturn/src/drive.rs", source).is_empty(), "{source}");
        }
    }

    #[test]
    fn the_core_touches_nothing() {
        for source in [
            "use tokio::sync::Notify;",
            "use std::{fmt, fs};",
            "fn a() { std::env::var(\"A\"); }",
            "use std::thread;",
            "use std::net::TcpStream;",
            "use std::time::{Duration, Instant};",
            "async fn a() {}",
        ] {
            let found = found("crates/core/src/plan.rs", source);
            assert_eq!(found.len(), 1, "{source}: {found:?}");
            assert!(found[0].contains("in the core"), "{found:?}");
        }
    }

    #[test]
    fn the_core_may_compute_and_others_may_touch() {
        assert!(found("crates/core/src/plan.rs", "use std::{fmt, time::Duration};").is_empty());
        assert!(found("crates/core/tests/it/main.rs", "use std::fs;").is_empty());
        assert!(found("crates/everturn/src/process.rs", "use std::fs; use tokio::sync::Notify;").is_empty());
    }
}
