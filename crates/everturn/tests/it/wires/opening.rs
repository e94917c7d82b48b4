//! Faults before an answer has begun.

use std::time::Duration;

use everturn::core::error::{Cause, ErrorKind};
use everturn_understudy::{fail, refuse, reset, script, stop, text, usage, words};

use super::Row;
use super::case::{Case, HALF, Place, numbers};
use super::way::Way;

pub fn unreachable() -> Row {
    Row::new(
        "connection refused, connect hang",
        [
            Case::new("the server is not there yet").place(Place::Later),
            Case::new("no server").place(Place::Gone),
            Case::new("the connection is not accepted")
                .place(Place::Full)
                .limits(|limits| limits.connect_max = Duration::from_millis(80)),
        ],
    )
}

pub fn nameless() -> Row {
    Row::new("the name has no address", [Case::new("no such name").place(Place::Nameless)])
}

/// Certificates are judged in `providers::http::tests`; the wires do not see them.
pub fn not_secure() -> Row {
    Row::new("no secure connection", [Case::new("plain text where TLS should be").place(Place::Secure)])
}

pub fn refused_keys() -> Row {
    Row::new("401, 403", [Case::new("401").first(|| refuse(401)), Case::new("403").first(|| refuse(403))])
}

pub fn refused_requests() -> Row {
    let too_long = |_| {
        vec![
            script([text("Hello."), usage(10, 2), stop(everturn::core::message::Stop::End)]),
            script([refuse(413)]),
            script([text("They said hello."), usage(10, 4), stop(everturn::core::message::Stop::End)]),
        ]
    };
    Row::new(
        "400, 404, too long",
        [
            Case::new("400").first(|| refuse(400)),
            Case::new("404").first(|| refuse(404)),
            Case::new("too long, with something to summarise").scripts(too_long).after_a_turn(),
            Case::new("too long, with nothing to summarise").first(|| refuse(413)),
        ],
    )
}

/// A response with a status, some headers and a body.
fn response(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

pub fn told_to_wait() -> Row {
    let limited = |after: &'static str| {
        move |_: Way| response("429 Too Many Requests", &format!("retry-after: {after}\r\n"), r#"{"error": {}}"#)
    };
    Row::new(
        "408, 409, 425, 429 with all kinds of Retry-After",
        [
            Case::new("408").first(|| refuse(408)),
            Case::new("409").first(|| refuse(409)),
            Case::new("425").first(|| refuse(425)),
            Case::new("429").first(|| refuse(429)),
            Case::new("429, after 0 seconds").first(|| refuse(429).retry_after(0)),
            Case::new("429, after 121 seconds").first(|| refuse(429).retry_after(121)),
            Case::new("429, after 1e9 seconds").first(|| refuse(429).retry_after(1_000_000_000)),
            Case::new("429, after -5 seconds").answered_with(limited("-5")),
            Case::new("429, after a date that is past").answered_with(limited("Wed, 21 Oct 2015 07:28:00 GMT")),
            Case::new("429, after no time at all").answered_with(limited("soon")),
        ],
    )
}

pub fn server_errors() -> Row {
    let once = |status: u16, name: &'static str| Case::new(name).first(move || refuse(status));
    let ever = |name| Case::new(name).fault("503");
    let busy = || script([refuse(503)]);
    let half = || script([words(&format!("{} ", numbers(1, HALF))), reset()]);
    Row::new(
        "500, 502, 503, 504, 529",
        [
            once(500, "500"),
            once(502, "502"),
            once(503, "503"),
            once(504, "504"),
            once(529, "529"),
            ever("503, again and again"),
            Case::new("503, again and again, and another model to ask")
                .scripts(move |_| vec![busy(); 3])
                .or_another_model(),
            Case::new("503, again and again, half-way, and another model to ask")
                .scripts(move |_| vec![half(), busy(), busy()])
                .or_another_model(),
            Case::new("said in the stream").half_way(|_| vec![fail(ErrorKind::Overloaded, Cause::ServerError)]),
            Case::new("said at the end of the stream")
                .half_way(|_| vec![fail(ErrorKind::Overloaded, Cause::ErrorFinish)]),
        ],
    )
}

pub fn something_else() -> Row {
    let json = |_| {
        response(
            "200 OK",
            "content-type: application/json\r\n",
            r#"{"error": {"message": "No.", "type": "server_error"}}"#,
        )
    };
    let plain = |_| response("200 OK", "content-type: text/plain\r\n", "data: {}\n\n");
    Row::new(
        "200 with a JSON error, a page, another type, nothing",
        [
            Case::new("a JSON error").answered_with(json),
            Case::new("a page").fault("htmlx1"),
            Case::new("a page, again and again").fault("html"),
            Case::new("another content type").answered_with(plain),
            Case::new("nothing").fault("emptyx1"),
        ],
    )
}

pub fn redirects() -> Row {
    let to =
        |place: &'static str| move |_: Way| response("307 Temporary Redirect", &format!("location: {place}\r\n"), "");
    Row::new(
        "3xx to this host or another",
        [
            Case::new("to another host").fault("redirectx1"),
            Case::new("to this host").answered_with(to("/v1/elsewhere")),
        ],
    )
}

pub fn vile_bodies() -> Row {
    let vile = |_| {
        let body = format!(
            r#"{{"error": {{"message": "\u001b[31mYour key understudy, sk-ant-0123456789abcdef0123 <script>alert(1)</script> {}"}}}}"#,
            "x".repeat(10 << 20)
        );
        response("500 Internal Server Error", "content-type: application/json\r\n", &body)
    };
    let short = |status: &'static str| {
        move |_: Way| {
            let body = r#"{"error": {"message": "\u001b[31mYour key understudy, sk-ant-0123456789abcdef0123 <script>alert(1)</script>"}}"#;
            response(status, "content-type: application/json\r\n", body)
        }
    };
    Row::new(
        "an error body of 10 MiB, with secrets, escape codes and a script",
        [
            Case::new("10 MiB").answered_with(vile),
            Case::new("a secret, said at once").answered_with(short("400 Bad Request")),
        ],
    )
}

pub fn no_headers() -> Row {
    Row::new(
        "headers never arrive",
        [Case::new("silence").fault("silentx1").limits(|limits| limits.open_max = Duration::from_secs(2))],
    )
}
