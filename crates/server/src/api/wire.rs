//! Every JSON shape of the API.
//!
//! These are the shapes for clients, not the stored ones: no provider metadata, no signatures, no keys. Both directions are
//! here, so that the command-line client and the tests use the same types. Times are milliseconds since 1970; numbers
//! beyond JavaScript's range are text. `docs/http-api.md` is the reference.

mod account;
mod all;
mod ask;
mod change;
mod chat;
pub(crate) mod cursor;
mod draft;
mod event;
mod export;
mod fold;
mod grant;
mod job;
pub(crate) mod line;
mod mcp;
mod message;
mod name;
mod part;
mod problem;
mod session;
mod token;
mod usage;

pub use account::{Account, Bounds, Used};
pub use all::{BadEvent, Followers, Lines, Listed, Told};
pub use ask::{
    Accepted, Answer, Answers, ClientTool, Create, Edit, Fork, NewPart, Nothing, Patch, Said, Send, call_uid,
};
pub use change::{ChangeKind, ChangeState, ChangedFile, ChangedFiles, UndoCalls};
pub use chat::{
    AgentInfo, AgentTool, AgentWorkspace, AgentsList, Ask, AskBelow, Chat, Chats, Ended, Failure, Heading, Model,
    Models, Queued, Retry, Standing, Summarising,
};
pub use draft::Draft;
pub use event::{Began, Counts, Delta, Event, Increment, Rewound, Snapshot};
pub use export::Export;
pub(crate) use export::text;
pub use fold::{BadFold, Follower, View};
pub use grant::{ChatAsks, GrantInfo, GrantsList, OpenAsks};
pub use job::{JobInfo, JobStatus, JobsList};
pub use mcp::{McpServer, McpServerList, McpState, McpTool, ToolEffect};
pub use message::{Body, Media, Message, Messages, Reply, ResultOf, Stop, Summary};
pub use name::{AskKind, RunBy, Rung, SourceOfSummary, Status, Verdict, When};
pub use part::{Call, File, Part, Provided, Reasoning, Source, Text};
pub use problem::ProblemBody;
pub use session::{
    DrillKind, DrillOrder, Drilled, LoggedIn, Login, LoginCode, NewCode, RequestBounds, Session, SessionInfo,
    SessionsList,
};
pub use token::{NewToken, ScopeName, Secret, TokenInfo, TokensList};
pub use usage::{Attempt, Currency, Money, SubAgentUsage, Tokens, Usage};
