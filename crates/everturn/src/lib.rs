//! The agent loop that never loses a token, a tool result or a turn.

mod agent;
mod attempt;
mod calls;
mod clock;
mod compact;
mod driver;
mod engine;
mod entropy;
mod handle;
mod hub;
mod metrics;
mod model;
mod outcome;
mod subscribe;
mod tool;
mod toolbox;

pub use agent::{Agent, Background, Chaining, Hook};
pub use engine::{Builder, CreateError, Drivers, Engine};
pub use everturn_core as core;
pub use everturn_providers as providers;
pub use everturn_stores as stores;
pub use handle::ChatHandle;
pub use metrics::Metrics;
pub use subscribe::Subscription;
pub use tool::{After, Approval, Beside, FnTool, Policy, Tool, ToolContext, ToolError, ToolOutput, tool};
pub use toolbox::{BadTool, Toolbox};
