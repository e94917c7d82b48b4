//! Faults of HTTP itself.

use everturn::core::error::{Cause, ErrorKind};
use everturn_understudy::{fail, script, stop, text};

use super::Row;
use super::case::{Case, Place};
use super::front::First;

/// Without TLS there is no HTTP/2, so here the connection is closed; its own ways to go are played to the client in
/// `providers::http::tests`, for all wires at once: none of them sees the difference.
pub fn farewells() -> Row {
    Row::new(
        "the connection is given up",
        [Case::new("half-way").half_way(|_| vec![fail(ErrorKind::Timeout, Cause::GoAway)])],
    )
}

pub fn half_open() -> Row {
    let hello = || script([text("Hello."), stop(everturn::core::message::Stop::End)]);
    Row::new(
        "a connection of the pool that is no longer one",
        [
            Case::new("closed after the last answer").fault("hangup").after_a_turn(),
            Case::new("reset by the next request")
                .scripts(move |_| vec![hello(), script([fail(ErrorKind::Timeout, Cause::Reset)])])
                .after_a_turn(),
        ],
    )
}

/// The head of a response that begins well.
fn head(headers: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{headers}\r\n")
}

pub fn odd_http() -> Row {
    let says = |headers: &'static str, body: &'static [u8]| move |_| [head(headers).as_bytes(), body].concat();
    let noise = "HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n".repeat(3);
    Row::new(
        "encodings, lengths, early hints and trailers",
        [
            Case::new("gzip without a request for it").answered_with(says(
                "content-encoding: gzip\r\nconnection: close\r\n",
                b"\x1f\x8b\x08\0\0\0\0\0\0\x03",
            )),
            Case::new("less than the length says").answered_with(says("content-length: 10000\r\n", b": hi\n\n")),
            Case::new("more than the length says").answered_with(says("content-length: 3\r\n", b": hi\n\n")),
            Case::new("no length at all").answered_with(says("connection: close\r\n", b": hi\n\n")),
            Case::new("a chunk that is none").answered_with(says("transfer-encoding: chunked\r\n", b"zz\r\n: hi\n\n")),
            Case::new("trailers")
                .answered_with(says("transfer-encoding: chunked\r\n", b"6\r\n: hi\n\n\r\n0\r\nx-checksum: 7\r\n\r\n")),
            Case::new("not HTTP").answered_with(|_| b"SSH-2.0-OpenSSH_9.9\r\n".to_vec()),
            Case::new("early hints").place(Place::Behind(Box::new(move |_| First::Hints(noise.clone().into_bytes())))),
        ],
    )
}
