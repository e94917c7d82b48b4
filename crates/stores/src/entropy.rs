//! The one place of the stores that makes chance.

use std::hash::{BuildHasher as _, RandomState};

/// A number nobody can foretell well enough to collide with; not for secrets.
pub(crate) fn number() -> u64 {
    RandomState::new().hash_one("everturn")
}
