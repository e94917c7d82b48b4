//! The only source of randomness in this crate: secrets, and delays that spread clients out.

use std::hash::{BuildHasher as _, RandomState};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use everturn::stores::TokenHash;

/// How a token begins, so that people and scanners of leaked secrets recognise one.
const PREFIX: &str = "evt_";

/// The secret of a token that is created under an idempotency key. Derived from the caller's own secret and the stored salt
/// of the request, so that a repeat gets the same token; one of the two alone reveals nothing of it.
pub fn derived(secret: &str, salt: &[u8; 32]) -> String {
    let mixed = TokenHash::of(&format!("everturn token {} {secret}", URL_SAFE_NO_PAD.encode(salt)));
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(mixed.0))
}

/// A random name for this process.
pub fn process() -> String {
    format!("{:08x}", RandomState::new().hash_one(0) as u32)
}

/// A number below `end`, to spread clients out; not for secrets.
pub fn below(end: u64) -> u64 {
    RandomState::new().hash_one(0) % end.max(1)
}

/// 256 bits of cryptographic randomness.
///
/// # Errors
/// The system's random number generator failed.
pub fn salt() -> std::io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(bytes)
}

/// The secret of a new token: 256 random bits.
///
/// # Errors
/// The system's random number generator failed.
pub fn secret() -> std::io::Result<String> {
    Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(salt()?)))
}

/// Half of a session: 256 random bits.
///
/// # Errors
/// The system's random number generator failed.
pub fn half() -> std::io::Result<String> {
    Ok(URL_SAFE_NO_PAD.encode(salt()?))
}

/// A login code: 128 random bits, because it is valid for a minute and may be typed.
///
/// # Errors
/// The system's random number generator failed.
pub fn code() -> std::io::Result<String> {
    Ok(URL_SAFE_NO_PAD.encode(&salt()?[..16]))
}
