//! What one transaction has journalled of many chats.
//!
//! A row of a table costs more than what a delta says, so where the journal is one log of all chats, many appends share
//! one: `{"v":1,"is":[at,chat,step,first,gap,[…],chat,…],"sum":…}`. `at` is a point in time. Each append is five entries: the short
//! number of its chat, its step, the number of its first delta, how many milliseconds after `at` that came, and its deltas
//! with their gaps, as in [`rows`](super::rows).

use std::fmt;

use everturn_core::ids::{Seq, StepId, Timestamp};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::rows::{self, Rows};
use super::{BadShape, Stored, VERSION, envelope};

/// Chat and step of an append, and its first delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The chat, by its short number.
    pub chat: i64,
    /// The step.
    pub step: StepId,
    /// Its first delta.
    pub first: Seq,
}

/// A bundle that is being written.
#[derive(Debug, Default)]
pub struct Bundle {
    at: i64,
    json: Vec<u8>,
}

impl Bundle {
    /// How long it is.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.json.len()
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.json.is_empty()
    }

    /// Adds an append. Its bytes are stored elsewhere.
    pub fn add(&mut self, head: Head, at: Timestamp, deltas: &str) {
        if self.json.is_empty() {
            self.at = at.0;
            self.json.extend_from_slice(b"{\"v\":");
            rows::push(&mut self.json, &VERSION);
            self.json.extend_from_slice(b",\"is\":[");
            rows::push(&mut self.json, &at.0);
        }
        let gap = at.0.wrapping_sub(self.at); // Any two times, be the clock what it may.
        self.next(&head.chat);
        self.next(&head.step.0);
        self.next(&head.first.0);
        self.next(&gap);
        self.json.push(b',');
        self.json.extend_from_slice(deltas.as_bytes());
    }

    fn next(&mut self, number: &impl Serialize) {
        self.json.push(b',');
        rows::push(&mut self.json, number);
    }

    /// The text. What is left is empty.
    pub fn take(&mut self) -> String {
        self.json.push(b']');
        envelope::close(std::mem::take(&mut self.json))
    }
}

/// An append in a bundle.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The chat's number.
    pub head: Head,
    /// When its first delta came.
    pub at: Timestamp,
    deltas: &'a RawValue,
}

impl<'a> Entry<'a> {
    /// The deltas, as they were written.
    #[must_use]
    pub fn text(&self) -> &'a str {
        self.deltas.get()
    }

    /// The deltas.
    pub fn rows(&self) -> Result<Stored<Rows>, BadShape> {
        rows::parse_in(self.head.step, self.head.first, self.at, self.deltas.get())
    }
}

/// The appends of a bundle, in order.
pub fn parse(text: &str) -> Result<Vec<Entry<'_>>, BadShape> {
    let Entries(entries) = envelope::read(rows::KIND, text)?;
    Ok(entries)
}

/// Heads of the appends of a damaged bundle, as far as they can still be read.
#[must_use]
pub fn heads_of_damaged(text: &str) -> Vec<Head> {
    let entries = envelope::read_damaged::<Entries<'_>>(text);
    entries.map_or_else(Vec::new, |Entries(entries)| entries.into_iter().map(|entry| entry.head).collect())
}

struct Entries<'a>(Vec<Entry<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time, then appends")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Entries<'de>, A::Error> {
                let short = || A::Error::invalid_length(0, &"a time, and five for each append");
                let begun: i64 = seq.next_element()?.ok_or_else(short)?;
                let mut entries = Vec::new();
                while let Some(chat) = seq.next_element()? {
                    let step = StepId(seq.next_element()?.ok_or_else(short)?);
                    let first = Seq(seq.next_element()?.ok_or_else(short)?);
                    let gap: i64 = seq.next_element()?.ok_or_else(short)?;
                    let deltas = seq.next_element()?.ok_or_else(short)?;
                    let at = Timestamp(begun.wrapping_add(gap));
                    entries.push(Entry { head: Head { chat, step, first }, at, deltas });
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_seq(InOrder)
    }
}
