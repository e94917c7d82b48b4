//! How much of an answer is worth keeping, and how much of a result is missing.

use everturn_core::blob::Blob;
use everturn_core::message::{Output, Part};

/// Bytes of an answer that can be gone on from.
pub(super) fn worth(part: &Part) -> usize {
    match part {
        Part::Text(text) => text.text.len(),
        Part::Reasoning(reasoning) => reasoning.text.len(),
        Part::Call(call) if call.whole => call.input.len(),
        Part::Call(_) | Part::Provided(_) | Part::Source(_) | Part::File(_) | Part::Other(_) => 0,
    }
}

/// Whether some of an output was left out. The full bytes are also kept where they are no text, and then what the model
/// is shown is as long as they are when written as text.
pub(super) fn is_cut(output: &Output) -> bool {
    let Some(full) = output.full.as_ref().and_then(Blob::here) else { return false };
    let readable = |chunk: std::str::Utf8Chunk<'_>| {
        const REPLACED: usize = '\u{fffd}'.len_utf8();
        const NUL_SHOWN: usize = '␀'.len_utf8();
        let nuls = chunk.valid().bytes().filter(|byte| *byte == 0).count();
        chunk.valid().len() + nuls * (NUL_SHOWN - 1) + if chunk.invalid().is_empty() { 0 } else { REPLACED }
    };
    full.utf8_chunks().map(readable).sum::<usize>() > output.text.len()
}
