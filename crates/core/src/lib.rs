//! The pure core of Everturn.
//!
//! Everything that decides lives here, and nothing that waits: no async, no IO, no clock, no randomness. What arrives
//! over time is folded by plain functions ; what to do next is a pure question; time and
//! chance are arguments. So a test can ask anything, and a crash can ask it again.

pub mod cost;
pub mod error;
pub mod ids;
pub mod message;
pub mod prompt;
pub mod seam;
