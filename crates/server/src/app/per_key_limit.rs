//! Concurrent uses per key, such as open streams per token.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts by key.
#[derive(Debug)]
pub struct PerKeyLimit<K>(Arc<Mutex<HashMap<K, usize>>>);

/// One counted use; given back when dropped.
pub struct PerKeyPermit<K: Eq + Hash> {
    taken: Arc<Mutex<HashMap<K, usize>>>,
    whose: K,
}

impl<K> Default for PerKeyLimit<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Eq + Hash + Clone> PerKeyLimit<K> {
    /// Counts one use, if there are fewer than `max`.
    pub fn enter(&self, whose: K, max: usize) -> Option<PerKeyPermit<K>> {
        let mut taken = lock(&self.0);
        let count = taken.entry(whose.clone()).or_default();
        if *count >= max {
            return None;
        }
        *count += 1;
        Some(PerKeyPermit { taken: self.0.clone(), whose })
    }
}

impl<K: Eq + Hash> Drop for PerKeyPermit<K> {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        if let Some(count) = taken.get_mut(&self.whose) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.whose);
            }
        }
    }
}

fn lock<K>(taken: &Mutex<HashMap<K, usize>>) -> MutexGuard<'_, HashMap<K, usize>> {
    taken.lock().unwrap_or_else(PoisonError::into_inner) // Valid after a panic: every statement leaves the counts consistent.
}
