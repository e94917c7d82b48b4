//! The engine, seen from outside.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod asks;
mod bounds;
mod commands;
mod crashes;
mod interrupts;
mod ladder;
mod outcomes;
mod stage;
mod stepwise;
mod tools;
mod turns;
