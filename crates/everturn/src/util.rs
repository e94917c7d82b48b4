//! Time, randomness, and a wrapper that polls a future only after it was woken.

pub(crate) mod clock;
pub(crate) mod entropy;
pub(crate) mod poll_on_wake;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. For content that is valid after every statement, so that a panic elsewhere does not matter.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
