//! The engine, seen from outside.

#![allow(clippy::unwrap_used, reason = "clippy excuses tests, but not the helpers they share")]

mod chaining;
mod compaction;
mod cost;
mod crash;
#[path = "../../examples/embed.rs"]
mod embed;
mod endings;
mod fallback;
mod ladder;
mod metrics;
mod overflow;
mod panics;
mod read;
mod retries;
mod silence;
mod stage;
mod stepwise;
mod turns;
mod unsummarised;

#[test]
fn the_example_runs() {
    embed::main().unwrap();
}
