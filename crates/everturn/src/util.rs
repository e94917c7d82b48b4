//! Time, randomness, and a wrapper that polls a future only after it was woken.

pub(crate) mod clock;
pub(crate) mod entropy;
pub(crate) mod poll_on_wake;
