use bytes::Bytes;
use proptest::prelude::*;
use sse_core::{SseDecoder, SseEvent};

use super::*;

const BOUNDS: SseBounds = SseBounds { line_bytes_max: 1 << 20, frame_bytes_max: 4 << 20, response_bytes_max: 32 << 20 };

/// An event that owns what it says: name, data, id.
type Seen = (String, String, String);

fn read<'b>(bounds: SseBounds, pieces: impl IntoIterator<Item = &'b [u8]>) -> Result<Vec<Seen>, Overlong> {
    let mut decoder = Decoder::new(bounds);
    let mut seen = Vec::new();
    for piece in pieces {
        decoder.push(piece, |event| {
            seen.push((event.name.to_owned(), event.data.to_owned(), event.id.to_owned()));
            Ok::<_, Overlong>(())
        })?;
    }
    Ok(seen)
}

/// The data of all events.
fn data(bytes: &[u8]) -> Vec<String> {
    read(BOUNDS, [bytes]).unwrap().into_iter().map(|(_, data, _)| data).collect()
}

/// P14: what the standard says about lines, fields and ends.
#[test]
fn the_standard_is_kept() {
    let cases: [(&[u8], &[&str]); 18] = [
        (b"data: a\n\n", &["a"]),
        (b"data:a\n\n", &["a"]),
        (b"data:  a\n\n", &[" a"]),
        (b"data: a\r\n\r\n", &["a"]),
        (b"data: a\r\rdata: b\r\r", &["a", "b"]),
        (b"data: a\n\rdata: b\r\n\n", &["a", "b"]),
        (b"\xef\xbb\xbfdata: a\n\n", &["a"]),
        (b"data: \xef\xbb\xbfa\n\n", &["\u{feff}a"]),
        (b"data: a\ndata: b\ndata\n\n", &["a\nb\n"]),
        (b"data\n\n", &[""]),
        (b"data: a", &[]),
        (b"data: a\n", &[]),
        (b"event: x\n\ndata: a\n\n", &["a"]),
        (b": a comment\n:\ndata: a\n\n", &["a"]),
        (b"datum: a\ndata : b\n\n", &[]),
        (b"data: a: b\nretry: 100\n\n", &["a: b"]),
        (b"data: \xff\xe2\x82\n\n", &["\u{fffd}\u{fffd}"]),
        (b"\n\n\n\ndata: a\n\n\n\n", &["a"]),
    ];
    for (bytes, expected) in cases {
        assert_eq!(data(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
    }
}

/// A name holds for one event, an id until the next; an id with U+0000 is none.
#[test]
fn names_end_and_ids_stay() {
    let bytes = b"id: 1\nevent: x\ndata: a\n\ndata: b\n\nid: 2\0\ndata: c\n\nid\ndata: d\n\n";
    let seen = read(BOUNDS, [&bytes[..]]).unwrap();
    let seen: Vec<_> = seen.iter().map(|(name, data, id)| [name.as_str(), data, id]).collect();
    assert_eq!(seen, [["x", "a", "1"], ["", "b", "1"], ["", "c", "1"], ["", "d", ""]]);
}

/// An error of the receiver ends the reading at once.
#[test]
fn a_receiver_can_stop() {
    let mut calls = 0;
    let stopped = Decoder::new(BOUNDS).push(b"data: a\n\ndata: b\n\n", |_| {
        calls += 1;
        Err(Overlong::Line(0))
    });
    assert_eq!((stopped, calls), (Err(Overlong::Line(0)), 1));
}

/// P15: a line, an event and an answer without an end are refused at their bounds, whatever pieces they come in.
#[test]
fn nothing_grows_without_a_bound() {
    let bounds = SseBounds { line_bytes_max: 10, frame_bytes_max: 20, response_bytes_max: 60 };
    let refused = |bytes: &[u8]| {
        let whole = read(bounds, [bytes]).unwrap_err();
        assert_eq!(read(bounds, bytes.chunks(1)).unwrap_err(), whole);
        whole
    };
    assert_eq!(refused(b"data: 12345"), Overlong::Line(10));
    assert_eq!(refused(b":comments count\n"), Overlong::Line(10));
    assert_eq!(refused(&b"data:12345\n".repeat(5)), Overlong::Frame(20));
    assert_eq!(refused(&b"data:1\n\n".repeat(8)), Overlong::Response(60));
    assert_eq!(read(bounds, [&b"data: 1234\n\n".repeat(5)[..]]).unwrap().len(), 5);
}

/// P15: a big event in small pieces is read in time that grows with its length, and keeps no more than itself.
#[test]
fn a_long_line_is_looked_at_once() {
    let long = [b"data: ".to_vec(), vec![b'x'; (1 << 20) - 6], b"\n\n".to_vec()].concat();
    let mut decoder = Decoder::new(BOUNDS);
    let mut len = 0;
    for piece in long.chunks(7) {
        let read = decoder.push(piece, |event| {
            len = event.data.len();
            Ok::<_, Overlong>(())
        });
        read.unwrap();
    }
    assert_eq!(len, (1 << 20) - 6);
    let room = decoder.line.capacity().max(decoder.data.capacity());
    assert!(room <= ROOM_BYTES_KEPT, "a long event takes its room along: {room}");
}

/// What an independent parser makes of the same bytes.
fn oracle(bytes: &[u8]) -> Vec<Seen> {
    let mut decoder = SseDecoder::new();
    let mut bytes = Bytes::copy_from_slice(bytes);
    let mut seen = Vec::new();
    while let Some(event) = decoder.next(&mut bytes) {
        if let SseEvent::Message(message) = event.unwrap() {
            let name = if message.event == "message" { String::new() } else { message.event.to_string() };
            let id = message.last_event_id.map(|id| id.to_string()).unwrap_or_default();
            seen.push((name, message.data, id));
        }
    }
    seen
}

/// Bytes that mean something to a parser more often than chance would have it.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "data",
        "event",
        "id",
        "retry",
        ":",
        " ",
        "\n",
        "\r",
        "\r\n",
        "\n\n",
        "data: x\n",
        "é",
        "\u{feff}",
        "\0",
        "a",
    ]);
    let word = word.prop_map(|word| word.as_bytes().to_vec());
    let stray = any::<u8>().prop_map(|byte| vec![byte]);
    prop::collection::vec(prop_oneof![9 => word, 1 => stray], 0..60).prop_map(|words| words.concat())
}

proptest! {
    /// P14: the same events as another parser, and the same for every chunking.
    #[test]
    fn another_parser_agrees(bytes in soup(), cuts in prop::collection::vec(0_usize..100, 0..8)) {
        let whole = read(BOUNDS, [&bytes[..]]).unwrap();
        prop_assert_eq!(&whole, &oracle(&bytes));
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
        prop_assert_eq!(&read(BOUNDS, pieces).unwrap(), &whole);
    }
}
