//! What is written is what is read.

mod corrupt;
mod fixtures;
mod generated;
mod samples;

use std::fmt::Debug;

use everturn_core::chat::Chat;
use everturn_core::command::{AnswerContent, CallAnswer, Command, Refusal};
use everturn_core::fact::AttemptRecord;
use everturn_core::ids::{CallUid, Seq, StepId, Timestamp};
use everturn_core::message::{Body, Media, Message, Output};
use everturn_core::view::JournalRow;
use everturn_testkit::conformance::samples::ODD;

use super::bundle::{self, Bundle};
use super::rows::Piece;
use super::{BadShape, BlobId, Bytes, Shape, Stored, Written, attempted, chat, command, message, outcome, rows};

/// Everything that is stored, as a text and back.
pub(super) trait Kept: PartialEq + Debug + Sized {
    fn text(&self) -> Written;
    fn back(&self, text: &str, bytes: &Bytes) -> Result<Self, BadShape>;
}

/// Asks for bytes first, as a store does.
fn build<S: Shape>(stored: Result<Stored<S>, BadShape>, bytes: &Bytes) -> Result<S::Core, BadShape> {
    let stored = stored?;
    let wanted = stored.wants();
    assert!(wanted.is_sorted(), "asked for twice: {wanted:?}");
    let found = bytes.iter().filter(|(id, _)| wanted.contains(id));
    stored.build(&found.map(|(id, bytes)| (*id, bytes.clone())).collect())
}

impl Kept for Message {
    fn text(&self) -> Written {
        message::write(self)
    }

    fn back(&self, text: &str, bytes: &Bytes) -> Result<Self, BadShape> {
        build(message::parse(text), bytes)
    }
}

impl Kept for Chat {
    fn text(&self) -> Written {
        chat::write(self)
    }

    fn back(&self, text: &str, bytes: &Bytes) -> Result<Self, BadShape> {
        build(chat::parse(text), bytes)
    }
}

impl Kept for Command {
    fn text(&self) -> Written {
        command::write(self)
    }

    fn back(&self, text: &str, bytes: &Bytes) -> Result<Self, BadShape> {
        build(command::parse(text), bytes)
    }
}

impl Kept for Result<(), Refusal> {
    fn text(&self) -> Written {
        Written { json: outcome::write(*self), blobs: Vec::new() }
    }

    fn back(&self, text: &str, _: &Bytes) -> Result<Self, BadShape> {
        outcome::read(text)
    }
}

impl Kept for AttemptRecord {
    fn text(&self) -> Written {
        Written { json: attempted::write(self), blobs: Vec::new() }
    }

    fn back(&self, text: &str, _: &Bytes) -> Result<Self, BadShape> {
        attempted::read(text)
    }
}

impl Kept for Vec<JournalRow> {
    fn text(&self) -> Written {
        let Piece { at, json, blobs } = Piece::of(self);
        Written { json: rows::alone(at, &json), blobs }
    }

    fn back(&self, text: &str, bytes: &Bytes) -> Result<Self, BadShape> {
        let (step, first) = self.first().map_or((StepId(0), Seq(0)), |row| (row.step, row.seq));
        build(rows::parse(step, first, text), bytes)
    }
}

/// Wherever rows are cut in two or more, the texts of the pieces make up the text of the whole.
fn is_joined(rows: &[JournalRow]) {
    for len in 1..=rows.len() {
        let pieces: Vec<_> = rows.chunks(len).map(Piece::of).map(|piece| (piece.at, piece.json)).collect();
        assert_eq!(rows::join(&pieces), Ok((Piece::of(rows).json, rows.len() as u64)), "pieces of {len}");
    }
}

#[test]
fn pieces_of_a_journal_are_joined_as_if_they_had_come_together() {
    for odd in ODD {
        samples::journals(odd).iter().for_each(|rows| is_joined(rows));
    }
    assert!(rows::join(&[(Timestamp(0), "[1")]).is_err());
}

/// Appends of some chats that share a text. None is empty.
#[derive(PartialEq, Debug)]
pub(super) struct Appends(pub(super) Vec<(i64, Vec<JournalRow>)>);

impl Kept for Appends {
    fn text(&self) -> Written {
        let (mut bundle, mut blobs) = (Bundle::default(), Vec::new());
        for (chat, rows) in &self.0 {
            let piece = Piece::of(rows);
            let head = bundle::Head { chat: *chat, step: rows[0].step, first: rows[0].seq };
            bundle.add(head, piece.at, &piece.json);
            blobs.extend(piece.blobs);
        }
        blobs.sort_unstable();
        blobs.dedup();
        Written { json: bundle.take(), blobs }
    }

    fn back(&self, text: &str, bytes: &Bytes) -> Result<Self, BadShape> {
        let entries = bundle::parse(text)?;
        let rows = entries.iter().map(|entry| Ok((entry.head.chat, build(entry.rows(), bytes)?)));
        rows.collect::<Result<_, BadShape>>().map(Appends)
    }
}

/// Writes and reads, as two processes would.
fn comes_back<T: Kept>(value: &T) {
    let Written { json, blobs } = value.text();
    assert!(!json.contains('\0') && !json.contains('\n'), "one line without a NUL: {json}");
    assert!(blobs.iter().all(|(id, bytes)| *id == BlobId::of(bytes)));
    for (id, _) in &blobs {
        assert_eq!((id.to_string().parse(), BlobId::from_bytes(*id.as_bytes())), (Ok(*id), *id));
    }
    let bytes: Bytes = blobs.iter().map(|(id, bytes)| (*id, bytes.clone().into())).collect();
    assert_eq!(bytes.len(), blobs.len(), "the same bytes twice");
    assert_eq!(value.back(&json, &bytes).as_ref(), Ok(value), "{json}");
}

/// PR13: NUL and every other odd text is in no way special.
#[test]
fn every_kind_comes_back_with_every_odd_text() {
    for odd in ODD {
        samples::messages(odd).iter().for_each(comes_back);
        samples::chats(odd).iter().for_each(comes_back);
        samples::commands(odd).iter().for_each(comes_back);
        samples::attempts(odd).iter().for_each(comes_back);
        samples::journals(odd).iter().for_each(comes_back);
        samples::appends(odd).iter().for_each(comes_back);
    }
    samples::outcomes().iter().for_each(comes_back);
}

/// A file can outlive its bytes.
#[test]
fn a_file_may_lose_its_bytes() {
    for value in samples::messages("x").into_iter().filter(|value| !matches!(value.body, Body::Result(_))) {
        let Written { json, .. } = message::write(&value);
        let read = message::parse(&json).unwrap().build(&Bytes::new()).unwrap();
        assert_eq!(message::write(&read).blobs, []);
    }
}

/// A tool's output cannot: whatever of it is missing is asked for, and named when it is not there.
#[test]
fn an_output_may_not_lose_any() {
    let media = [b"first", b"other"].map(|bytes| Media { media_type: "x/y".into(), bytes: (*bytes).into() });
    let output = Output { text: "short".into(), media: media.into(), full: Some((*b"long").into()) };
    let call = CallUid { step: StepId(1), ordinal: 0 };
    let command = Command::Answer([CallAnswer { call, what: AnswerContent::Output(output) }].into());
    comes_back(&command);
    let Written { json, blobs } = command::write(&command);
    assert_eq!(blobs.len(), 3);
    for (gone, _) in &blobs {
        let rest = blobs.iter().filter(|(id, _)| id != gone).map(|(id, bytes)| (*id, bytes.clone().into()));
        assert_eq!(command.back(&json, &rest.collect()), Err(BadShape::NoBytes(*gone)));
    }
}

#[test]
fn the_same_bytes_are_written_once() {
    let everything = &samples::messages("x")[0];
    let Written { json, blobs } = message::write(everything);
    assert_eq!(blobs.len(), 2, "some bytes, and none at all");
    assert!(blobs.iter().all(|(id, _)| json.contains(&id.to_string())));
    assert_eq!(
        BlobId::of(b"").to_string(),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "as everybody else hashes"
    );
}
