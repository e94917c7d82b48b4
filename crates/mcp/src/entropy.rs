//! Chance, for pauses that do not coincide.

/// A number from 0 up to 1.
pub(crate) fn fraction() -> f64 {
    fastrand::f64()
}
