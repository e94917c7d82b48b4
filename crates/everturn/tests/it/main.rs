//! The engine, seen from outside.

mod ladder;
mod stage;
mod stepwise;
mod turns;
