//! The one place of the stores that makes chance.

use std::hash::{BuildHasher as _, RandomState};

/// A random number, good enough to avoid collisions; not for secrets.
pub(crate) fn number() -> u64 {
    RandomState::new().hash_one("everturn")
}
