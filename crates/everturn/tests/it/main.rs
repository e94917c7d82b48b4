//! The engine, seen from outside.

mod asks;
mod bounds;
mod commands;
mod crash;
mod crashes;
#[path = "../../examples/embed.rs"]
mod embed;
mod interrupts;
mod ladder;
mod metrics;
mod outcomes;
mod panics;
mod retries;
mod silence;
mod stage;
mod stepwise;
mod tools;
mod turns;

#[test]
fn the_example_runs() {
    embed::main().unwrap();
}
