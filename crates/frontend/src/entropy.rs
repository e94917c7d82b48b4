//! The only source of randomness.

/// A unique name: 128 random bits in hexadecimal.
///
/// # Errors
/// The system's random number generator failed.
pub fn name() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A uniform number below `bound`: the remainder of 64 bits, whose bias is negligible for small bounds.
///
/// # Errors
/// The system's random number generator failed.
pub fn below(bound: u64) -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(u64::from_le_bytes(bytes) % bound.max(1))
}

/// A random seed, short enough to type.
///
/// # Errors
/// The system's random number generator failed.
pub fn seed() -> std::io::Result<u64> {
    let mut bytes = [0; 2];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(u64::from(u16::from_le_bytes(bytes)))
}
