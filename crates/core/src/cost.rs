//! Tokens and money, in whole numbers.

/// Tokens as one attempt reported them, cumulative: a later report of the same attempt replaces an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Prompt tokens that were neither read from nor written to a cache.
    pub input: u64,
    /// Tokens the model produced, reasoning included.
    pub output: u64,
    /// Of those, reasoning.
    pub reasoning: u64,
    /// Prompt tokens read from the provider's cache.
    pub cache_read: u64,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: u64,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
/// stub
pub struct Micros(pub u64);
impl Micros {
    /// stub
    pub const fn plus(self, o: Self) -> Self {
        Self(self.0.saturating_add(o.0))
    }
}
impl Usage {
    /// stub
    pub const fn plus(self, _o: Self) -> Self {
        self
    }
    /// stub
    pub const fn total(self) -> u64 {
        self.input
    }
}
