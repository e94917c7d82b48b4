//! The engine, seen from outside.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod asks;
mod away;
mod bounds;
mod budgets;
mod chaining;
mod choosing;
mod clock;
mod commands;
mod compaction;
mod cost;
mod crash;
mod crashes;
mod draining;
#[path = "../../examples/embed.rs"]
mod embed;
mod endings;
mod fallback;
mod governor;
mod handles;
#[path = "../../examples/hosted.rs"]
mod hosted;
mod interrupts;
mod kept;
mod ladder;
mod long;
mod looks;
mod metrics;
mod orphans;
mod outcomes;
mod overflow;
mod panics;
mod pauses;
mod places;
#[cfg(feature = "sqlite")]
mod power;
mod progress;
mod quarantine;
mod read;
mod retries;
mod seams;
mod sharing;
mod silence;
mod stage;
mod steers;
mod stepwise;
mod tools;
mod trouble;
mod turns;
mod unseen;
mod unsummarised;
mod wires;
mod wishes;

#[test]
fn the_examples_run() {
    embed::main().unwrap();
    hosted::main().unwrap();
}
