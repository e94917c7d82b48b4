//! The one place that throws dice.

/// A name that nobody else has given: 128 bits in hexadecimal.
///
/// # Errors
/// The system has no chance to give.
pub fn name() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A number below `bound`, each as likely as the others: 64 bits are divided by bounds that are small beside them.
///
/// # Errors
/// The system has no chance to give.
pub fn below(bound: u64) -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(u64::from_le_bytes(bytes) % bound.max(1))
}

/// A number to begin a run of chance with, short enough to be typed again.
///
/// # Errors
/// The system has no chance to give.
pub fn seed() -> std::io::Result<u64> {
    let mut bytes = [0; 2];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(u64::from(u16::from_le_bytes(bytes)))
}
