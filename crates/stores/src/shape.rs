//! What is written to disk, and how it is read again.
//!
//! Domain types change freely; what was stored last year does not. So every stored text is made from a mirror of its own
//! in here, with conversions both ways and no wildcard: a field or variant that is new to the core does not compile until
//! it has a shape. Nothing here reads or writes a store.
//!
//! A stored text is JSON of the form `{"v":1,"is":…,"sum":"9f86d081"}`. What holds for all of them:
//!
//! - It holds no NUL and is kept in a column of type text. `jsonb` would refuse the escaped one, and sort the keys.
//! - A version above [`VERSION`] is refused, with both numbers. It grows when an earlier program would misread the text.
//!   A field that may be missing needs no new version: it has its default then, and is left out when it has it.
//! - Unknown fields are ignored, and lost when the text is written again. An unknown variant is an
//!   error.
//! - `sum` is the CRC-32 of everything before it, as [`envelope`] says. A text whose checksum does not match is damaged and is
//!   not used; one without a checksum was written before there were any.
//! - Lengths of time are whole nanoseconds, points in time milliseconds since 1970, a call is `[step, ordinal]`.
//! - Bytes are not in it but beside it, by their hash: see [`Written::blobs`] and [`Stored::wants`].
//! - What providers attached comes back as it was: strings to the byte, numbers to the bit.

pub mod attempted;
mod blob;
pub mod bundle;
pub mod chat;
pub mod command;
mod count;
mod delta;
mod envelope;
mod grant;
pub mod message;
mod name;
pub mod outcome;
mod output;
mod parent;
mod part;
mod reply;
pub mod rows;
mod setup;
#[cfg(test)]
mod tests;
mod turn;
mod turn_settings;
mod value;

use std::sync::Arc;

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use blob::checked;
pub use blob::{BlobId, Bytes};
pub use envelope::VERSION;

use crate::StoreError;

/// A text to store, and the bytes it refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The text.
    pub json: String,
    /// The bytes, each once.
    pub blobs: Vec<(BlobId, Arc<[u8]>)>,
}

/// A stored text that was read and may still lack its bytes.
#[derive(Debug)]
pub struct Stored<S>(S);

/// What a mirror can do once it was read.
pub trait Shape {
    /// What it mirrors.
    type Core;

    /// Adds the bytes it refers to.
    fn wants(&self, wanted: &mut Vec<BlobId>);

    /// What it mirrors, with its bytes.
    fn build(self, bytes: &Bytes) -> Result<Self::Core, BadShape>;
}

impl<S: Shape> Stored<S> {
    /// The bytes it refers to. Mostly none.
    #[must_use]
    pub fn wants(&self) -> Vec<BlobId> {
        let mut wanted = Vec::new();
        self.0.wants(&mut wanted);
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    /// What was stored. A file may have lost its bytes. Media and outputs without bytes are an error: the core cannot mark
    /// them as lost, so the model would be sent incomplete data without notice.
    pub fn build(self, bytes: &Bytes) -> Result<S::Core, BadShape> {
        self.0.build(bytes)
    }
}

/// A stored text that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadShape {
    /// A later program wrote it.
    #[error("a stored {kind} has version {found}, and this program reads up to {known}: upgrade it")]
    Newer {
        /// What it should be.
        kind: &'static str,
        /// Its version.
        found: u64,
        /// The newest that can be read.
        known: u64,
    },
    /// It is no such thing.
    #[error("a stored {kind} cannot be read: {why}")]
    Corrupt {
        /// What it should be.
        kind: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// It is not what was written: its checksum is another.
    #[error("a stored {kind} is damaged: its checksum does not match")]
    Damaged {
        /// What it should be.
        kind: &'static str,
    },
    /// Bytes it refers to are not those that were stored.
    #[error("bytes that a stored text refers to are damaged: {0}")]
    WrongBytes(BlobId),
    /// Bytes it cannot do without are not there.
    #[error("bytes that a stored text refers to are gone: {0}")]
    NoBytes(BlobId),
}

impl From<BadShape> for StoreError {
    fn from(error: BadShape) -> Self {
        match error {
            BadShape::Damaged { .. } | BadShape::WrongBytes(_) => Self::Damaged(error.to_string()),
            BadShape::Newer { .. } | BadShape::Corrupt { .. } | BadShape::NoBytes(_) => {
                Self::Unreadable(error.to_string())
            }
        }
    }
}
