//! Which result belongs to which call.
//!
//! A reply is followed by the results of its calls, and by nothing else before them. So a transcript is cut into segments
//! at its replies. Every result that is not among the first of its segment, or answers no open call of it, is looked up in
//! the whole stretch between two summaries, since a summary stands for everything before it. This is stricter than
//! preparing, which puts up with words in between: the providers themselves do not.

use std::collections::{BTreeMap, VecDeque};
use std::mem;

use super::{CallKnowledge, Flaw, Piece, TranscriptOrigin, Ward, note};
use crate::ids::{CallUid, Timestamp};
use crate::message::{Body, CallResult, CallVerdict, File, Meta, Output, Part};
use crate::prompt::words;

pub(super) fn mend(ward: &mut Ward, whose: TranscriptOrigin<'_>) {
    let mut stretch = Vec::new();
    let mut mended = Vec::new();
    for piece in mem::take(&mut ward.pieces) {
        if matches!(piece.body, Body::Summary(_)) {
            mended.extend(Stretch::new(mem::take(&mut stretch)).mend(ward, whose));
        }
        stretch.push(piece);
    }
    mended.extend(Stretch::new(stretch).mend(ward, whose));
    ward.pieces = mended;
}

/// A reply and what came after it; at the beginning, before any reply.
#[derive(Default)]
struct Segment {
    reply: Option<Piece>,
    /// Each with what takes its place.
    after: Vec<Vec<Piece>>,
    /// How many of them are the results that come first.
    leading: usize,
    /// The calls that have no result yet, in order.
    open: Vec<CallUid>,
    /// Results that were elsewhere.
    brought: Vec<Piece>,
}

/// What lies between two summaries.
struct Stretch {
    segments: Vec<Segment>,
    /// The segments in which a call is open, by its name.
    open_at: BTreeMap<CallUid, VecDeque<usize>>,
    /// The first result of every call that has one.
    first: BTreeMap<CallUid, CallResult>,
}

impl Stretch {
    fn new(pieces: Vec<Piece>) -> Self {
        let mut segments = vec![Segment::default()];
        for piece in pieces {
            if let Body::Reply(reply) = &piece.body {
                let open = reply.calls().map(|call| call.uid).collect();
                segments.push(Segment { reply: Some(piece), open, ..Segment::default() });
            } else if let Some(segment) = segments.last_mut() {
                segment.after.push(vec![piece]);
            }
        }
        Self { segments, open_at: BTreeMap::new(), first: BTreeMap::new() }
    }

    fn mend(mut self, ward: &mut Ward, whose: TranscriptOrigin<'_>) -> Vec<Piece> {
        let strays = self.answer_in_place();
        for (at, segment) in self.segments.iter().enumerate() {
            segment.open.iter().for_each(|uid| self.open_at.entry(*uid).or_default().push_back(at));
        }
        for (at, place) in strays {
            for piece in mem::take(&mut self.segments[at].after[place]) {
                self.segments[at].after[place] = self.stray(piece, ward);
            }
        }
        self.segments.into_iter().flat_map(|segment| segment.close(ward, whose)).collect()
    }

    /// Takes every call off its segment's list that is answered there, and tells where the other results are.
    fn answer_in_place(&mut self) -> Vec<(usize, usize)> {
        let mut strays = Vec::new();
        for (at, segment) in self.segments.iter_mut().enumerate() {
            let is_result = |pieces: &&Vec<Piece>| pieces.iter().all(|piece| matches!(piece.body, Body::Result(_)));
            segment.leading = segment.after.iter().take_while(is_result).count();
            for (place, pieces) in segment.after.iter().enumerate() {
                let Some(Body::Result(result)) = pieces.first().map(|piece| &piece.body) else { continue };
                if place < segment.leading && take(&mut segment.open, result.call) {
                    self.first.entry(result.call).or_insert_with(|| (**result).clone());
                } else {
                    strays.push((at, place));
                }
            }
        }
        strays
    }

    /// Brings a result that answers no open call of its segment where it belongs, or tells what takes its place.
    fn stray(&mut self, mut piece: Piece, ward: &mut Ward) -> Vec<Piece> {
        let Body::Result(result) = &mut piece.body else { return vec![piece] };
        let (call, tool) = (result.call, result.tool.clone());
        if let Some(home) = self.open_at.get_mut(&call).and_then(VecDeque::pop_front) {
            note(&mut result.meta, "moved behind its call");
            self.first.entry(call).or_insert_with(|| (**result).clone());
            piece.whole = None;
            ward.found(piece.of, Flaw::MisplacedResult { tool });
            take(&mut self.segments[home].open, call);
            self.segments[home].brought.push(piece);
            return Vec::new();
        }
        let (flaw, told) = match self.first.get(&call) {
            Some(first) if says_the_same(first, result) => (Flaw::RepeatedResult { tool, same: true }, Vec::new()),
            Some(_) => (Flaw::RepeatedResult { tool, same: false }, told(result)),
            None => (Flaw::OrphanResult { tool }, told(result)),
        };
        ward.found(piece.of, flaw);
        told.into_iter().map(|body| Piece::made(piece.of, piece.at, body)).collect()
    }
}

/// Takes one of these away, if it is there.
fn take(open: &mut Vec<CallUid>, call: CallUid) -> bool {
    let place = open.iter().position(|uid| *uid == call);
    place.map(|place| open.remove(place)).is_some()
}

impl Segment {
    /// The segment with a result for every call. What was brought or made comes behind the results that are there.
    fn close(self, ward: &mut Ward, whose: TranscriptOrigin<'_>) -> Vec<Piece> {
        let mut made = self.brought;
        let mut open = self.open;
        if let Some(piece) = &self.reply
            && let Body::Reply(reply) = &piece.body
        {
            for call in reply.calls().filter(|call| take(&mut open, call.uid)) {
                let known = match whose {
                    _ if !call.whole => CallKnowledge::CutOff,
                    TranscriptOrigin::Ours(known) => known(call.uid),
                    TranscriptOrigin::Foreign => CallKnowledge::Nothing,
                };
                ward.found(piece.of, Flaw::UnansweredCall { tool: call.tool.clone(), known });
                let result = CallResult { ended: piece.at, ..unknown(call.uid, &call.tool, known) };
                made.push(Piece::made(piece.of, piece.at, Body::Result(Box::new(result))));
            }
        }
        // What was a result and is a note now must not stand between the results.
        let mut after = self.after.into_iter();
        let leading = after.by_ref().take(self.leading).flatten();
        let (results, notes): (Vec<Piece>, Vec<Piece>) =
            leading.partition(|piece| matches!(piece.body, Body::Result(_)));
        let mut closed: Vec<Piece> = self.reply.into_iter().chain(results).collect();
        closed.extend(made);
        closed.extend(notes);
        closed.extend(after.flatten());
        closed
    }
}

/// What a call without a result is answered with.
fn unknown(call: CallUid, tool: &str, known: CallKnowledge) -> CallResult {
    let (verdict, text) = match known {
        CallKnowledge::Nothing => (CallVerdict::Unknown, words::LOST_RESULT),
        CallKnowledge::Started => (CallVerdict::Unknown, words::silent(CallVerdict::Unknown)),
        CallKnowledge::CutOff => (CallVerdict::Interrupted, words::CUT_OFF),
    };
    let mut meta = Meta::new();
    note(&mut meta, "made in place of a result that was missing");
    let (tool, output, ended) = (tool.into(), Output::text(text), Timestamp::default());
    CallResult { call, tool, verdict, output, began: None, ended, meta }
}

fn says_the_same(one: &CallResult, other: &CallResult) -> bool {
    one.verdict == other.verdict && one.output == other.output
}

/// A result as a note: the words, and what was shown with them.
fn told(result: &CallResult) -> Vec<Body> {
    let blank = result.output.text.trim().is_empty();
    let text = if blank { words::silent(result.verdict) } else { &result.output.text };
    let shown = result.output.media.iter().map(|media| {
        let (name, media_type, bytes) = (String::new(), media.media_type.clone(), Some(media.bytes.clone()));
        Part::File(File { name, media_type, bytes, meta: Meta::new() })
    });
    let shown: Vec<Part> = shown.collect();
    let note = Body::Context(words::orphan(&result.tool, text));
    [note].into_iter().chain((!shown.is_empty()).then_some(Body::User(shown))).collect()
}
