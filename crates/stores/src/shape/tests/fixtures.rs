//! What was written once is read for ever.
//!
//! One directory a version, one file a kind, one stored text a line. A text of an earlier version must be read to the
//! same value by every later program, so those files are never changed. The newest version's are what today's program
//! writes, to the byte; `UPDATE_EXPECT=1` adds to them while no release has that version, and not after.

use std::fmt::Write as _;

use expect_test::{ExpectFile, expect_file};

use super::corrupt::unsummed;
use super::{Bytes, Kept, samples};

const ODD: &str = "a\0b \"é\" \\ \u{2028}👩\u{200d}👧";

fn reads_and_writes<T: Kept>(values: &[T], fixture: &str, file: &ExpectFile) {
    let mut today = String::new();
    for value in values {
        writeln!(today, "{}", value.text().json).unwrap();
    }
    file.assert_eq(&today);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        return; // What was compiled in is not what is there now.
    }
    assert_eq!(fixture.lines().count(), values.len(), "a line for each");
    for (line, value) in fixture.lines().zip(values) {
        let bytes: Bytes = value.text().blobs.into_iter().map(|(id, bytes)| (id, bytes.into())).collect();
        assert_eq!(value.back(line, &bytes).as_ref(), Ok(value), "{line}");
        assert_eq!(value.back(&unsummed(line), &bytes).as_ref(), Ok(value), "as it was written at first: {line}");
    }
}

macro_rules! reads_and_writes {
    ($values:expr, $file:literal) => {
        reads_and_writes(&$values, include_str!($file), &expect_file![$file])
    };
}

/// PR18: version 1, the first.
#[test]
fn version_1_is_read_and_written() {
    reads_and_writes!(samples::messages(ODD), "../../../fixtures/v1/message.jsonl");
    reads_and_writes!(samples::chats(ODD), "../../../fixtures/v1/chat.jsonl");
    reads_and_writes!(samples::commands(ODD), "../../../fixtures/v1/command.jsonl");
    reads_and_writes!(samples::outcomes(), "../../../fixtures/v1/outcome.jsonl");
    reads_and_writes!(samples::attempts(ODD), "../../../fixtures/v1/attempted.jsonl");
    reads_and_writes!(samples::journals(ODD), "../../../fixtures/v1/rows.jsonl");
    reads_and_writes!(samples::appends(ODD), "../../../fixtures/v1/bundle.jsonl");
}
