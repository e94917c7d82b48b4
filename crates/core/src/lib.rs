//! The pure core of Everturn.
//!
//! Everything that decides lives here, and nothing that waits: no async, no IO, no clock, no randomness. What arrives
//! over time is folded by plain functions ([`draft`], [`view`]); what to do next is a pure question ([`plan`]); time and
//! chance are arguments. So a test can ask anything, and a crash can ask it again.

pub mod alive;
pub mod blob;
pub mod budget;
pub mod change;
pub mod chat;
pub mod command;
pub mod context;
pub mod cost;
pub mod delta;
pub mod doctor;
pub mod draft;
pub mod error;
pub mod fact;
pub mod fork;
pub mod governor;
pub mod ids;
pub mod limits;
pub mod message;
pub mod parent;
pub mod permission;
pub mod plan;
pub mod prompt;
pub mod quarantine;
pub mod recovery;
pub mod retry;
pub mod seam;
pub mod setup;
pub mod status;
pub mod surrogates;
pub mod takeover;
mod title;
pub mod truncate;
pub mod turn_settings;
pub mod view;

// Unit tests compile the testkit's rehearsal anew: the core that they test is not the one that the testkit is built with.
#[cfg(test)]
extern crate self as everturn_core;
#[cfg(test)]
#[path = "../../testkit/src/rehearsal/mod.rs"]
pub mod rehearsal;
