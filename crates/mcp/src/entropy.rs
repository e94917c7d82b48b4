//! Chance: for pauses that do not coincide, and for secrets.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A number from 0 up to 1. Not for secrets.
pub(crate) fn fraction() -> f64 {
    fastrand::f64()
}

/// 256 bits that cannot be guessed, as 43 characters that addresses may have.
///
/// # Errors
/// The system has no randomness.
pub(crate) fn secret() -> std::io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
