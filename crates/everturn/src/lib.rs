//! The agent loop that never loses a token, a tool result or a turn.
//!
//! An [`Engine`] runs chats. Tell it of its providers and [`Agent`]s, make a chat, and talk to it through a
//! [`ChatHandle`]: [`send`](ChatHandle::send), [`steer`](ChatHandle::steer), [`interrupt`](ChatHandle::interrupt). Watch
//! it with [`events`](ChatHandle::events), from any cursor and as often as you like: what you see is stored.
//!
//! ```
//! use everturn::core::message::Stop;
//! use everturn::core::view::{Event, View};
//! use everturn::{Agent, Engine};
//! use everturn_understudy::{Understudy, script, stop, text};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Understudy::new([script([text("Hello, "), text("you."), stop(Stop::End)])]);
//! let agent = Agent::new("understudy/any".parse()?).system("Be brief.");
//! let engine = Engine::builder().provider(model).agent("greeter", agent).start();
//! let chat = engine.create("greeter").await?;
//! let mut events = chat.events(None);
//! let mut view = View::default();
//! chat.send("Hi!").await?;
//! while view.messages.len() < 2 {
//!     view.fold(&events.next().await?)?;
//! }
//! assert_eq!(chat.newest_reply().await?.as_deref(), Some("Hello, you."));
//! # Ok(())
//! # }
//! ```
//!
//! The directory `examples` has one program for each thing an embedder does; a test runs them all:
//!
//! | to | example |
//! |---|---|
//! | give an agent a tool | `embed.rs` |
//! | say what running a tool twice means, show its progress | `tools.rs` |
//! | run code before each step | `hooks.rs` |
//! | write a provider, fall back to another | `providers.rs` |
//! | keep chats in SQLite, continue after a restart | `resume.rs` |
//! | show a growing answer, resume from a cursor | `cursors.rs` |
//! | tools that a client runs, and approvals | `approvals.rs` |
//! | tools that the provider runs | `hosted.rs` |
//! | metrics for Prometheus | `metrics.rs` |

// The public side: what an embedder holds.
mod agent; // A model with its instructions, tools and limits.
mod engine; // `Engine` and its builder: store, providers, agents.
mod handle; // `ChatHandle`: commands to one chat, and waiting for it.
mod tool; // The `Tool` trait, its policy, toolboxes.

// Inside: what happens to a chat.
mod admission; // May it work? Work slots, the governor per credential, budgets.
mod drive; // Advancing one chat: the loop, one reply of the model, tool calls, compaction, takeover.
mod observe; // What operators see: metrics, spans, log lines.
mod process; // What this process drives: hints from the store, drivers and their panics, damaged chats.
mod util; // Clock, randomness, polling on wake-up.
mod watch; // How readers hear of changes: signals, subscriptions, feeds.

// Crates whose types and macros are part of the public side.
pub use async_trait::async_trait;
pub use {prometheus_client, schemars, serde_json};

pub use agent::{Agent, Background, Chaining, Hook, HookedCall};
pub use drive::tools::AUDIT;
pub use engine::{Builder, CHATS_MAX, CreateError, Drivers, Engine};
pub use everturn_core as core;
pub use everturn_providers as providers;
pub use everturn_stores as stores;
pub use handle::{ChatHandle, Rest};
pub use observe::metrics::Metrics;
pub use observe::spans::{FINISH_REASONS, TARGET as SPANS};
pub use tool::toolbox::{BadTool, LiveToolbox, Toolbox};
pub use tool::{
    After, Approval, Beside, ErrorOutcome, FnTool, InnerCall, LookResult, Policy, QuestionAnswer, RestingCall,
    SharedTool, SubAgent, Tool, ToolContext, ToolError, ToolOutput, ToolQuestion, ToolReturn, tool,
};
pub use util::poll_on_wake::PollOnWake;
pub use watch::feed::{Changed, Feed};
pub use watch::hub::DeltaLog;
pub use watch::subscription::Subscription;

/// The example of this crate's README, run with the other documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The programs of the page for embedders.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/start/embed.md")]
struct EmbedPage;
