//! The engine, seen from outside.

mod crash;
mod ladder;
mod stage;
mod stepwise;
mod turns;
