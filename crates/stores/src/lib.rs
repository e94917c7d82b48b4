//! Durable storage of chats.
//!
//! A store has an inbox, a transcript and a journal per chat. Only the holder of a chat's lease writes the last two; a
//! lease that was taken over changes nothing any more. [`Memory`] is the reference that the other stores are compared
//! with.

mod ack;
mod call_log;
mod chat_snapshot;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod clock;
#[cfg(feature = "postgres")]
mod entropy;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod failpoint;
mod heading;
mod idempotency;
mod memory;
mod new_chat;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod newest_rows;
#[cfg(feature = "postgres")]
pub mod postgres;
mod search;
#[cfg_attr(
    not(all(feature = "sqlite", feature = "postgres")),
    allow(dead_code, reason = "not every store uses all of it")
)]
mod shape;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod store;
#[cfg_attr(
    not(all(feature = "sqlite", feature = "postgres")),
    allow(dead_code, reason = "only stores with tables use it")
)]
mod tables;
mod tokens;

// Unit tests compile the testkit's `Witness` anew: the stores that they test are not those that the testkit is built with.
#[cfg(test)]
extern crate self as everturn_stores;
#[cfg(test)]
#[path = "../../testkit/src/conformance/witness.rs"]
pub mod witness;

pub use ack::{Ack, Stored};
pub use chat_snapshot::ChatSnapshot;
pub use everturn_core::command::InboxCommand;
pub use heading::{ChatQuery, Heading, SubAgentChats};
pub use idempotency::{IDEMPOTENCY_AGE_MAX, IdempotencyRecord};
pub use memory::Memory;
pub use new_chat::{Chosen, Fork, MakeError, NewChat};
#[cfg(feature = "postgres")]
pub use postgres::Postgres;
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;
pub use store::{
    AppendRight, CallRecord, CommandRef, Hint, Lease, LoadPart, Loaded, MessageRange, MessageReader, News, NewsRead,
    NewsResult, Receipt, Store, StoreError, StoreExt, Submission, SubmitError, Submitted, Unsettled, WriteError,
};
pub use tables::{Durability, PAGE_BYTES_MAX, PAGE_LEN_MAX};
pub use tokens::{Scope, Scopes, Token, TokenHash, TokenKind, Tokens};
