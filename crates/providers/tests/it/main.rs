//! The providers, seen from outside.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../../../../fuzz/src/lib.rs"]
mod fuzz;
mod replay;
