//! (being written on branch seam)

/// Where two attempts of one answer were joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seam {
    /// Bytes of text shown before the seam.
    pub at: usize,
    /// Bytes of the continuation that repeated what was shown, and were dropped.
    pub dropped: usize,
}
