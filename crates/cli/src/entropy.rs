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
