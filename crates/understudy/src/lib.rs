//! A stand-in for the model.
//!
//! It plays scripts: what is said, when, and how it breaks. A script is the one language all tests of Everturn speak, so
//! a new kind of trouble is a new cue and not a new kind of test. It is strict: a request that the real provider would
//! refuse is refused, and every request is kept for tests to read.
//!
//! ```
//! use everturn_understudy::{Understudy, call, script, stop, text};
//! use everturn_core::message::Stop;
//!
//! let understudy = Understudy::new([
//!     script([text("Let me look."), call("search", serde_json::json!({"q": "kelp"})), stop(Stop::ToolUse)]),
//!     script([text("Kelp is a seaweed."), stop(Stop::End)]),
//! ]);
//! # let _ = understudy;
//! ```

mod cue;
mod dice;
mod fault;
mod heard;
#[cfg(feature = "http")]
pub mod http;
mod persona;
mod play;
mod said;

pub use cue::{
    Cue, Script, begin_call, call, cut, ended, fail, hang, input, malformed, marked, part_meta, pause, ping, provided,
    raw, reasoning, redacted, refuse, reply_meta, reset, response_id, script, sealed, slow, source, stop, text, usage,
    wait, wait_ms, words,
};
pub use heard::{Heard, OfferedTool, ToolAnswer};
pub use persona::{DICE_TOOL, Manner, NOTE_TOOL};
pub use play::{Understudy, UnderstudyRequest};

/// The example of this crate's README, run with the other documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
