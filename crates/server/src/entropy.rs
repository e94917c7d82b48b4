//! The one place that makes secrets.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// How a token begins, so that people and scanners of leaked secrets recognise one.
const PREFIX: &str = "evt_";

/// A new token: 256 bits that nobody can foretell.
///
/// # Errors
/// The system has no chance to give.
pub fn secret() -> std::io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
}
