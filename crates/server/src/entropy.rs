//! The one place that leaves things to chance: secrets, and what should not happen to all at once.

use std::hash::{BuildHasher as _, RandomState};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use everturn::stores::TokenHash;

/// How a token begins, so that people and scanners of leaked secrets recognise one.
const PREFIX: &str = "evt_";

/// The token that somebody has made under a request id: the same again for whoever has the secret they came with, and the
/// salt of the request, which is kept elsewhere. One alone tells nothing of it.
pub fn derived(secret: &str, salt: &[u8; 32]) -> String {
    let mixed = TokenHash::of(&format!("everturn token {} {secret}", URL_SAFE_NO_PAD.encode(salt)));
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(mixed.0))
}

/// A name for this process, which another is unlikely to have.
pub fn process() -> String {
    format!("{:08x}", RandomState::new().hash_one(0) as u32)
}

/// A number below another, where it matters only that not everybody has the same.
pub fn below(end: u64) -> u64 {
    RandomState::new().hash_one(0) % end.max(1)
}

/// Bits that nobody can foretell.
///
/// # Errors
/// The system has no chance to give.
pub fn salt() -> std::io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(bytes)
}

/// A new token: 256 bits that nobody can foretell.
///
/// # Errors
/// The system has no chance to give.
pub fn secret() -> std::io::Result<String> {
    Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(salt()?)))
}
