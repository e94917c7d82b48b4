//! Where chats are kept.
//!
//! A store is an inbox, a transcript and a journal per chat, and one rule: whoever writes the last two holds the chat's
//! lease, and a lease that was taken over changes nothing any more. [`Memory`] is the reference every other store is
//! compared with.

mod catchup;
#[cfg(feature = "postgres")]
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod heading;
mod ledger;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg_attr(
    not(any(feature = "postgres", all(test, feature = "conformance"))),
    expect(dead_code, reason = "stores on disk alone use it")
)]
mod shape;
mod store;

pub use everturn_core::command::Inbound;
pub use heading::{Heading, Query};
pub use memory::Memory;
#[cfg(feature = "postgres")]
pub use postgres::{Durability, Options, Postgres};
pub use store::{
    CallRecord, Hint, Lease, Loaded, News, Pen, Receipt, Store, StoreError, Submission, SubmitError, WriteError,
};
