//! What cannot be read is an error that says so, and nothing else.

use std::sync::LazyLock;

use everturn_core::ids::{Seq, StepId};
use proptest::prelude::*;

use super::super::{BadShape, Bytes, attempted, bundle, chat, command, message, outcome, rows};
use super::{Kept as _, samples};

type Read = fn(&str) -> Result<(), BadShape>;

/// One reader for every kind there is.
const READERS: [Read; 7] = [
    |text| message::parse(text)?.build(&Bytes::new()).map(drop),
    |text| chat::parse(text)?.build(&Bytes::new()).map(drop),
    |text| command::parse(text)?.build(&Bytes::new()).map(drop),
    |text| rows::parse(StepId(1), Seq(1), text)?.build(&Bytes::new()).map(drop),
    |text| outcome::read(text).map(drop),
    |text| bundle::parse(text)?.iter().try_for_each(|entry| entry.rows()?.build(&Bytes::new()).map(drop)),
    |text| attempted::read(text).map(drop),
];

fn read_as_all(text: &str) -> [Result<(), BadShape>; 7] {
    READERS.map(|read| read(text))
}

/// A text of every kind, in the order of [`READERS`].
fn texts() -> [String; 7] {
    [
        message::write(&samples::messages("x")[4]).json,
        chat::write(samples::chats("x").last().unwrap()).json,
        command::write(&samples::commands("x")[3]).json,
        samples::journals("x")[30].text().json,
        outcome::write(samples::outcomes()[0]),
        samples::appends("x").last().unwrap().text().json,
        attempted::write(&samples::attempts("x")[3]),
    ]
}

#[test]
fn each_kind_reads_its_own() {
    for (text, own) in texts().iter().zip(0..) {
        for (read, kind) in read_as_all(text).into_iter().zip(0..) {
            assert_eq!(read.is_ok(), kind == own, "{kind}: {text}");
        }
    }
}

/// One bit that is flipped anywhere is noticed, but for those in the name of the checksum itself.
#[test]
fn a_flipped_bit_is_noticed() {
    for (text, read) in texts().iter().zip(READERS) {
        let bytes = text.as_bytes();
        let end = bytes.len() - SUM_LEN;
        for at in (0..end).chain(end + 8..end + 16) {
            for bit in 0..7 {
                let mut flipped = bytes.to_vec();
                flipped[at] ^= 1 << bit;
                let flipped = String::from_utf8(flipped).unwrap();
                let read = read(&flipped);
                let is_told = matches!(read, Err(BadShape::Damaged { .. } | BadShape::Newer { .. }));
                assert!(is_told, "bit {bit} of byte {at}: {read:?}: {flipped}");
            }
        }
    }
}

/// What was written before there were checksums is read as before.
#[test]
fn a_text_without_a_checksum_is_read() {
    for (text, read) in texts().iter().zip(READERS) {
        assert_eq!(read(&unsummed(text)), Ok(()), "{text}");
    }
}

/// A text as it was written before there were checksums.
pub(super) fn unsummed(text: &str) -> String {
    text[..text.len() - SUM_LEN].to_owned() + "}"
}

const SUM_LEN: usize = r#","sum":"12345678"}"#.len();

#[test]
fn a_text_that_was_cut_is_an_error() {
    for (text, read) in texts().iter().zip(READERS) {
        for cut in 0..text.len() {
            let read = read(&text[..cut]);
            assert!(matches!(read, Err(BadShape::Corrupt { .. })), "cut at byte {cut}: {text}");
        }
    }
}

/// PR18: what a later program wrote is refused, whatever it looks like, and the error names both versions.
#[test]
fn a_later_version_is_refused_by_number() {
    for text in texts().iter().map(|text| text.replacen("\"v\":1", "\"v\":2", 1)) {
        assert!(read_as_all(&text).iter().all(|read| matches!(read, Err(BadShape::Newer { found: 2, known: 1, .. }))));
    }
    for read in read_as_all(r#"{"new":{},"v":18446744073709551615}"#) {
        let error = read.unwrap_err().to_string();
        assert!(error.contains("version 18446744073709551615") && error.contains("up to 1:"), "{error}");
    }
}

#[test]
fn unknown_texts_are_errors() {
    let deep = "[".repeat(1_000_000);
    let long = format!(r#"{{"v":1,"is":"{}"}}"#, "secret ".repeat(1_000));
    for text in [
        "",
        "null",
        "[]",
        "{}",
        "1",
        r#"{"v":1}"#,
        r#"{"is":"done"}"#,
        r#"{"v":0,"is":"done"}"#,
        r#"{"v":"1","is":"done"}"#,
        r#"{"v":-1,"is":"done"}"#,
        r#"{"v":1,"is":null}"#,
        r#"{"v":1,"is":"unheard_of"}"#,
        r#"{"v":1,"is":{"unheard":[]}}"#,
        r#"{"v":1,"is":[0,1.5]}"#,
        r#"{"v":1,"is":[0,null]}"#,
        r#"{"v":1,"is":[0,{"unheard":1}]}"#,
        r#"{"v":1,"is":[0,["x"]]}"#,
        r#"{"v":1,"is":[0,{"r":"a","i":[0,"b"]}]}"#,
        r#"{"v":1,"is":[0,9223372036854775808]}"#,
        &deep,
        &long,
    ] {
        for read in read_as_all(text) {
            let Err(BadShape::Corrupt { why, .. }) = &read else { panic!("{read:?}: {text:.100}") };
            assert!(why.chars().count() <= 200, "{why}");
        }
    }
    let last = rows::parse(StepId(1), Seq(u64::MAX), r#"{"v":1,"is":[0,"a"]}"#);
    assert!(last.is_err(), "there is no number for it");
}

/// Fields of a neighbouring program are no reason to refuse, and fields from before they were there have their defaults.
#[test]
fn unknown_fields_are_ignored_and_missing_ones_have_defaults() {
    let odd = r#"{"w":{},"v":1,"is":{"at":2,"new":{"a":[1]},"id":1,"body":{"user":[{"text":{"text":"hi","b":null}}]}},"x":0}"#;
    let plain = r#"{"v":1,"is":{"id":1,"at":2,"body":{"user":[{"text":{"text":"hi"}}]}}}"#;
    let read = |text| message::parse(text).unwrap().build(&Bytes::new()).unwrap();
    assert_eq!(read(odd), read(plain));
    assert_eq!(unsummed(&message::write(&read(odd)).json), plain);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    /// Whatever is done to a text, reading it ends.
    #[test]
    fn damage_is_no_panic(kind in 0..7_usize, at in any::<prop::sample::Index>(), len in 0..9_usize, by in "[\\[\\]{}\":,0-9a-z\\\\.-]{0,5}") {
        static TEXTS: LazyLock<[String; 7]> = LazyLock::new(texts);
        let mut text = TEXTS[kind].clone();
        let from = at.index(text.len());
        let to = text.len().min(from + len);
        text.replace_range(from..to, &by);
        drop(read_as_all(&text));
    }
}
