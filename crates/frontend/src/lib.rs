//! What the `everturn` command and its demo share: the client of the HTTP API, and plain output to a terminal.

#![warn(clippy::print_stdout, clippy::print_stderr, reason = "they panic on a closed pipe; `output` does not")]

pub mod client;
pub mod entropy;
pub mod output;
pub mod terminal;
