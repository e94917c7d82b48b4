//! File contents, each stored once under its SHA-256.
//!
//! A file can be large and is in a command, in the queue and in a message. Beside the texts and named by its SHA-256 it
//! is written once, and a text stays small enough to rewrite.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::Arc;

use everturn_core::blob::Blob;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use super::BadShape;

/// File contents by name, loaded or not.
pub type Bytes = HashMap<BlobId, Blob>;

/// The name of some bytes: their SHA-256, as 64 hexadecimal digits in texts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId([u8; 32]);

impl BlobId {
    /// The name of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The name as bytes, for columns.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The name that [`Self::as_bytes`] gave.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobId({self})")
    }
}

/// A text that names no bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the name of bytes: expected 64 hexadecimal digits")]
pub struct BadBlobId;

impl FromStr for BlobId {
    type Err = BadBlobId;

    fn from_str(text: &str) -> Result<Self, BadBlobId> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(BadBlobId),
        };
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(BadBlobId) };
        let bytes = pairs.iter().map(|[high, low]| Ok(digit(*high)? << 4 | digit(*low)?));
        let bytes: Vec<u8> = bytes.collect::<Result<_, _>>()?;
        bytes.try_into().map(Self).map_err(|_| BadBlobId)
    }
}

impl Serialize for BlobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut hex = String::with_capacity(64);
        write!(hex, "{self}").expect("a string takes everything");
        serializer.serialize_str(&hex)
    }
}

impl<'de> Deserialize<'de> for BlobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The bytes met while a text is written.
#[derive(Debug, Default)]
pub(super) struct Blobs(pub(super) Vec<(BlobId, Arc<[u8]>)>);

impl Blobs {
    /// Takes bytes and returns their name. Bytes that were not read have no name and cannot be stored.
    pub(super) fn put(&mut self, blob: &Blob) -> Option<BlobId> {
        blob.here().map(|bytes| self.name(bytes))
    }

    fn name(&mut self, bytes: &Arc<[u8]>) -> BlobId {
        if let Some((id, _)) = self.0.iter().find(|(_, known)| Arc::ptr_eq(known, bytes)) {
            return *id; // A file that occurs twice in one text is hashed once.
        }
        let id = BlobId::of(bytes);
        if self.0.iter().all(|(known, _)| *known != id) {
            self.0.push((id, bytes.clone()));
        }
        id
    }
}

/// Bytes that were read under a name, if they are what it says.
pub fn checked(name: BlobId, bytes: Vec<u8>) -> Result<Blob, BadShape> {
    if BlobId::of(&bytes) == name { Ok(Blob::from(bytes)) } else { Err(BadShape::WrongBytes(name)) }
}

/// Bytes that something cannot do without.
pub(super) fn required(bytes: &Bytes, id: BlobId) -> Result<Blob, BadShape> {
    bytes.get(&id).cloned().ok_or(BadShape::NoBytes(id))
}
