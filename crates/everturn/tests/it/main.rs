//! The engine, seen from outside.

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
