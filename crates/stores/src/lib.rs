//! Where chats are kept.
//!
//! A store is an inbox, a transcript and a journal per chat, and one rule: whoever writes the last two holds the chat's
//! lease, and a lease that was taken over changes nothing any more. [`Memory`] is the reference every other store is
//! compared with.

#[cfg(feature = "conformance")]
pub mod conformance;
mod heading;
mod ledger;
mod memory;
#[cfg_attr(
    not(all(test, feature = "conformance")),
    expect(dead_code, reason = "the stores on disk that use it are still to come")
)]
mod shape;
mod store;

pub use everturn_core::command::Inbound;
pub use heading::{Heading, Query};
pub use memory::Memory;
pub use store::{
    CallRecord, Hint, Lease, Loaded, News, Pen, Receipt, Store, StoreError, Submission, SubmitError, WriteError,
};
