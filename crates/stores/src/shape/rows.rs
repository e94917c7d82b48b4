//! The rows of one append to a journal.
//!
//! This is what is written while people watch, so it is small and made in one pass: `{"v":1,"is":[at,…],"sum":…}`, where `at` is
//! when the first row came and each further entry is one of three. A string is a delta of text. An object is any other
//! delta. A number is how many milliseconds the next row came after the one before; where it is missing, none. Step,
//! first number and count are columns.

use std::fmt;
use std::sync::Arc;

use everturn_core::delta;
use everturn_core::ids::{Seq, StepId, Timestamp};
use everturn_core::view::JournalRow;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::blob::{BlobId, Blobs, Bytes};
use super::delta::Delta;
use super::{BadShape, Shape, Stored, VERSION, envelope};

/// Rows that follow each other, as a text that stands inside another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// When the first one came.
    pub at: Timestamp,
    /// Deltas and gaps, between brackets.
    pub json: String,
    /// The bytes they refer to, each once.
    pub blobs: Vec<(BlobId, Arc<[u8]>)>,
}

impl Piece {
    /// The rows, but for step, first number and count.
    #[must_use]
    pub fn of(rows: &[JournalRow]) -> Self {
        let mut blobs = Blobs::default();
        let first = rows.first().map_or(Timestamp(0), |row| row.at);
        let mut at = first.0;
        let len = rows.iter().map(|row| row.delta.bytes() + 16).sum::<usize>();
        let mut json = Vec::with_capacity(len + 16);
        json.push(b'[');
        for row in rows {
            if json.len() > 1 {
                json.push(b',');
            }
            if row.at.0 != at {
                push(&mut json, &row.at.0.wrapping_sub(at)); // Any two times, be the clock what it may.
                json.push(b',');
                at = row.at.0;
            }
            match &*row.delta {
                delta::Delta::Text(text) => push(&mut json, text),
                other => push(&mut json, &Delta::of(other, &mut blobs)),
            }
        }
        json.push(b']');
        let json = String::from_utf8(json).expect("JSON of texts is text");
        Self { at: first, json, blobs: blobs.0 }
    }
}

/// The text of pieces that follow each other, each with its time, as that of one, and how many deltas it has. No delta is
/// read for it.
pub fn join(pieces: &[(Timestamp, impl AsRef<str>)]) -> Result<(String, u64), BadShape> {
    let mut json = Vec::with_capacity(pieces.iter().map(|(_, text)| text.as_ref().len() + 8).sum());
    let mut count = 0;
    let mut at = pieces.first().map_or(0, |(begun, _)| begun.0);
    json.push(b'[');
    for (begun, text) in pieces {
        let text = text.as_ref();
        let entries: Vec<&RawValue> = envelope::read_inner(KIND, text)?;
        if json.len() > 1 {
            json.push(b',');
        }
        if begun.0 != at {
            push(&mut json, &begun.0.wrapping_sub(at));
            json.push(b',');
        }
        json.extend_from_slice(&text.as_bytes()[1..text.len() - 1]);
        at = begun.0;
        for entry in entries {
            match entry.get().parse::<i64>() {
                Ok(gap) => at = at.wrapping_add(gap),
                Err(_) => count += 1,
            }
        }
    }
    json.push(b']');
    Ok((String::from_utf8(json).expect("JSON of texts is text"), count))
}

/// The text of a piece, or of joined ones, that stands by itself.
#[must_use]
pub fn alone(at: Timestamp, piece: &str) -> String {
    let comma = if piece == "[]" { "" } else { "," };
    envelope::close(format!("{{\"v\":{VERSION},\"is\":[{}{comma}{}", at.0, &piece[1..]).into_bytes())
}

pub(super) fn push(json: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(json, value).expect("keys are texts, and memory takes everything");
}

/// What cannot be read is called so.
pub(super) const KIND: &str = "journal row";

/// Reads what [`alone`] wrote of `step`, from the delta `first` on.
pub fn parse(step: StepId, first: Seq, text: &str) -> Result<Stored<Rows>, BadShape> {
    let Timed(entries) = envelope::read(KIND, text)?;
    numbered(step, first, entries)
}

/// Reads the text of a [`Piece`] that came at `at`.
pub(super) fn parse_in(step: StepId, first: Seq, at: Timestamp, text: &str) -> Result<Stored<Rows>, BadShape> {
    let Untimed(mut entries) = envelope::read_inner(KIND, text)?;
    entries.iter_mut().for_each(|(gap, _)| *gap = gap.wrapping_add(at.0));
    numbered(step, first, entries)
}

fn numbered(step: StepId, first: Seq, entries: Vec<(i64, Delta<'static>)>) -> Result<Stored<Rows>, BadShape> {
    if first.0.checked_add(entries.len() as u64).is_none() {
        return Err(envelope::corrupt(KIND, "its numbers are too large"));
    }
    Ok(Stored(Rows { step, first, entries }))
}

/// The mirror of some rows.
pub struct Rows {
    step: StepId,
    first: Seq,
    entries: Vec<(i64, Delta<'static>)>,
}

impl Stored<Rows> {
    /// How many deltas there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.entries.len() as u64
    }
}

impl Shape for Rows {
    type Core = Vec<JournalRow>;

    fn wants(&self, wanted: &mut Vec<BlobId>) {
        wanted.extend(self.entries.iter().filter_map(|(_, delta)| match delta {
            Delta::File(file) => file.bytes,
            _ => None,
        }));
    }

    fn build(self, bytes: &Bytes) -> Result<Vec<JournalRow>, BadShape> {
        let row = |((at, delta), seq): ((i64, Delta<'_>), u64)| {
            let (seq, at, delta) = (Seq(seq), Timestamp(at), Arc::new(delta.build(bytes)));
            JournalRow { step: self.step, seq, at, delta }
        };
        Ok(self.entries.into_iter().zip(self.first.0..).map(row).collect())
    }
}

/// A time, and deltas with theirs.
struct Timed(Vec<(i64, Delta<'static>)>);

/// Deltas, and how much later than the first they came.
struct Untimed(Vec<(i64, Delta<'static>)>);

fn entries<'de, A: SeqAccess<'de>>(mut seq: A, mut at: i64) -> Result<Vec<(i64, Delta<'static>)>, A::Error> {
    let mut entries = Vec::new();
    while let Some(entry) = seq.next_element()? {
        match entry {
            Entry::Gap(gap) => at = at.wrapping_add(gap),
            Entry::Delta(delta) => entries.push((at, delta)),
        }
    }
    Ok(entries)
}

impl<'de> Deserialize<'de> for Timed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Timed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time, then deltas and gaps")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Timed, A::Error> {
                let at = seq.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
                entries(seq, at).map(Timed)
            }
        }

        deserializer.deserialize_seq(InOrder)
    }
}

impl<'de> Deserialize<'de> for Untimed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Untimed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("deltas and gaps")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Untimed, A::Error> {
                entries(seq, 0).map(Untimed)
            }
        }

        deserializer.deserialize_seq(InOrder)
    }
}

enum Entry {
    Gap(i64),
    Delta(Delta<'static>),
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOfThree;

        impl<'de> Visitor<'de> for OneOfThree {
            type Value = Entry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, another delta or a gap")
            }

            fn visit_i64<E: Error>(self, gap: i64) -> Result<Entry, E> {
                Ok(Entry::Gap(gap))
            }

            fn visit_u64<E: Error>(self, gap: u64) -> Result<Entry, E> {
                i64::try_from(gap).map(Entry::Gap).map_err(|_| E::custom("too large a gap"))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Entry, E> {
                Ok(Entry::Delta(Delta::Text(text.to_owned().into())))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Entry, A::Error> {
                Delta::deserialize(MapAccessDeserializer::new(map)).map(Entry::Delta)
            }
        }

        deserializer.deserialize_any(OneOfThree)
    }
}
