//! The engine, seen from outside.

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
