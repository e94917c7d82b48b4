//! What is around every stored text.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::blob::Blobs;
use super::{BadShape, Stored, Written};

/// The version of everything written here. There is one directory of fixtures for each there ever was.
pub const VERSION: u64 = 1;

/// How deeply a text may be nested. What providers send is read to a depth of 128 and wrapped a few times.
const DEPTH_MAX: usize = 256;

#[derive(Serialize, Deserialize)]
struct Envelope<S> {
    v: u64,
    is: S,
}

/// What stands before the checksum of a text, which ends it: eight hexadecimal digits, a quote and a brace. The checksum is
/// the CRC-32 of everything before this. Texts of earlier programs have none.
const SUM: &[u8] = b",\"sum\":\"";
/// How long a checksum is with what is around it.
const SUM_LEN: usize = SUM.len() + 8 + 2;

/// Only the version, whatever else there is.
#[derive(Deserialize)]
struct Peek {
    v: u64,
}

/// Writes a mirror. Its bytes are in `blobs`.
pub(super) fn write<S: Serialize>(is: S, Blobs(blobs): Blobs) -> Written {
    let mut json = serde_json::to_vec(&Envelope { v: VERSION, is }).expect("keys are texts, and numbers are finite");
    json.pop(); // The last brace, which comes after the checksum.
    Written { json: close(json), blobs }
}

/// Ends a text that lacks its last brace, with its checksum.
pub(super) fn close(mut json: Vec<u8>) -> String {
    let sum = crc32fast::hash(&json);
    json.reserve_exact(SUM_LEN);
    json.extend_from_slice(SUM);
    json.extend_from_slice(format!("{sum:08x}\"}}").as_bytes());
    String::from_utf8(json).expect("JSON of texts is text")
}

/// Whether a text is what its checksum was made of. One without a checksum passes.
fn is_whole(text: &str) -> bool {
    let Some((is, ending)) = text.as_bytes().split_last_chunk::<SUM_LEN>() else { return true };
    let Some(digits) = ending.strip_prefix(SUM).and_then(|rest| rest.strip_suffix(b"\"}")) else { return true };
    digits == format!("{:08x}", crc32fast::hash(is)).as_bytes()
}

/// Reads a mirror that refers to no bytes.
pub(super) fn read<'a, S: Deserialize<'a>>(kind: &'static str, text: &'a str) -> Result<S, BadShape> {
    let newer = |found| BadShape::Newer { kind, found, known: VERSION };
    if !is_whole(text) {
        return Err(match parse::<Peek>(text) {
            Ok(Peek { v }) if v > VERSION => newer(v), // Which may have another way to check.
            Ok(_) | Err(_) => BadShape::Damaged { kind },
        });
    }
    match parse::<Envelope<S>>(text) {
        Ok(Envelope { v: VERSION, is }) => Ok(is),
        Ok(Envelope { v: 0, .. }) => Err(corrupt(kind, "there is no version 0")),
        Ok(Envelope { v, .. }) => Err(newer(v)),
        Err(error) => match parse::<Peek>(text) {
            Ok(Peek { v }) if v > VERSION => Err(newer(v)),
            Ok(_) | Err(_) => Err(corrupt(kind, error)),
        },
    }
}

/// Reads what can be read of a damaged text.
pub(super) fn read_damaged<'a, S: Deserialize<'a>>(text: &'a str) -> Option<S> {
    parse::<Envelope<S>>(text).ok().map(|envelope| envelope.is)
}

/// Reads a text that stands inside another one, which has the version.
pub(super) fn read_inner<'a, S: Deserialize<'a>>(kind: &'static str, text: &'a str) -> Result<S, BadShape> {
    parse(text).map_err(|error| corrupt(kind, error))
}

/// Reads a mirror that may refer to bytes.
pub(super) fn stored<S: DeserializeOwned>(kind: &'static str, text: &str) -> Result<Stored<S>, BadShape> {
    read(kind, text).map(Stored)
}

/// A text that is not what it should be. The reason may quote it, so it is kept short.
pub(super) fn corrupt(kind: &'static str, why: impl ToString) -> BadShape {
    BadShape::Corrupt { kind, why: why.to_string().chars().take(200).collect() }
}

/// As `serde_json` reads, but to our own depth: a value that was read from a wire must be readable inside a message.
fn parse<'a, S: Deserialize<'a>>(text: &'a str) -> Result<S, serde_json::Error> {
    match serde_json::from_str(text) {
        Err(_) if (100..=DEPTH_MAX).contains(&depth(text)) => {
            let mut reader = serde_json::Deserializer::from_str(text);
            reader.disable_recursion_limit();
            let shape = S::deserialize(&mut reader)?;
            reader.end().map(|()| shape)
        }
        result => result,
    }
}

/// How deeply brackets are nested outside strings.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
