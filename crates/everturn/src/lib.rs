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

mod agent;
mod attempt;
mod budgets;
mod calls;
mod chime;
mod climb;
mod clock;
mod compact;
mod damage;
mod dormant;
mod driver;
mod ear;
mod engine;
mod entropy;
mod feed;
mod governor;
mod handle;
mod hub;
mod inherit;
mod insist;
mod kept;
mod metrics;
mod model;
mod outcome;
mod places;
mod poll;
mod quarantine;
mod spans;
mod storing;
mod subscribe;
mod summarise;
mod tool;
mod toolbox;
mod unseen;
mod worker;

pub use agent::{Agent, Background, Chaining, Hook};
pub use calls::AUDIT;
pub use dormant::Dormant;
pub use engine::{Builder, CHATS_MAX, CreateError, Drivers, Engine};
pub use everturn_core as core;
pub use everturn_providers as providers;
pub use everturn_stores as stores;
pub use feed::{Changed, Feed};
pub use handle::ChatHandle;
pub use metrics::Metrics;
pub use spans::{FINISH_REASONS, TARGET as SPANS};
pub use subscribe::Subscription;
pub use tool::{After, Approval, Beside, FnTool, Policy, Tool, ToolContext, ToolError, ToolOutput, tool};
pub use toolbox::{BadTool, Toolbox};

/// The README's example, run with the other documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
