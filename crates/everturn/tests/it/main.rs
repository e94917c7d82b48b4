//! The engine, seen from outside.

mod crash;
mod ladder;
mod retries;
mod silence;
mod stage;
mod stepwise;
mod turns;
