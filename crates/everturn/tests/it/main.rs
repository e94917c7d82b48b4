//! The engine, seen from outside.

mod crash;
#[path = "../../examples/embed.rs"]
mod embed;
mod governor;
mod ladder;
mod metrics;
mod panics;
mod retries;
mod silence;
mod stage;
mod stepwise;
mod turns;

#[test]
fn the_example_runs() {
    embed::main().unwrap();
}
