//! A client that believes nothing: it reads until the connection ends and says how it ended.

use std::net::SocketAddr;
use std::time::Duration;

use everturn_core::prompt::WireFormat;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::super::{KEY, UnderstudyOptions, UnderstudyServer};
use crate::Understudy;

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// As HTTP says it should.
    Whole,
    /// The connection was closed in the middle.
    Closed,
    /// The connection was reset.
    Reset,
    /// Nothing came for a while.
    Silent,
}

#[derive(Debug)]
pub(super) struct Got {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
    pub ended: Ended,
}

impl Got {
    pub(super) fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    /// The data of every event.
    pub(super) fn events(&self) -> Vec<Value> {
        let lines = self.text().lines().filter_map(|line| line.strip_prefix("data: "));
        lines.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

/// Longer than anything takes on a busy machine.
const LONG: Duration = Duration::from_secs(30);
/// Long enough to believe that nothing will come.
const SHORT: Duration = Duration::from_millis(700);

pub(super) async fn start(understudy: Understudy) -> UnderstudyServer {
    UnderstudyServer::start(understudy, UnderstudyOptions::default()).await.unwrap()
}

/// A simple request on this wire.
pub(super) fn question(wire: WireFormat, model: &str, words: &str) -> (String, Value) {
    match wire {
        WireFormat::Anthropic => {
            let said = json!([{"role": "user", "content": words}]);
            ("/v1/messages".into(), json!({"model": model, "max_tokens": 100, "stream": true, "messages": said}))
        }
        WireFormat::OpenAiResponses => {
            ("/v1/responses".into(), json!({"model": model, "stream": true, "input": words}))
        }
        WireFormat::OpenAiChat => {
            let said = json!([{"role": "user", "content": words}]);
            let options = json!({"include_usage": true});
            let body = json!({"model": model, "stream": true, "stream_options": options, "messages": said});
            ("/v1/chat/completions".into(), body)
        }
        WireFormat::Gemini => {
            let path = format!("/v1beta/models/{model}:streamGenerateContent?alt=sse");
            (path, json!({"contents": [{"role": "user", "parts": [{"text": words}]}]}))
        }
    }
}

pub(super) fn headers(wire: WireFormat, key: &str) -> String {
    match wire {
        WireFormat::Anthropic => format!("x-api-key: {key}\r\nanthropic-version: 2023-06-01\r\n"),
        WireFormat::OpenAiResponses | WireFormat::OpenAiChat => format!("authorization: Bearer {key}\r\n"),
        WireFormat::Gemini => format!("x-goog-api-key: {key}\r\n"),
    }
}

/// Asks a simple question.
pub(super) async fn ask(server: &UnderstudyServer, wire: WireFormat, model: &str, words: &str) -> Got {
    let (path, body) = question(wire, model, words);
    post(server, wire, &path, &body).await
}

/// Asks a simple question, and waits for the rest of the answer only if it is expected.
pub(super) async fn ask_until(server: &UnderstudyServer, wire: WireFormat, model: &str, ended: Ended) -> Got {
    let (path, body) = question(wire, model, "hi");
    post_until(server, wire, &path, &body, ended).await
}

pub(super) async fn post_until(
    server: &UnderstudyServer,
    wire: WireFormat,
    path: &str,
    body: &Value,
    ended: Ended,
) -> Got {
    let patience = if ended == Ended::Silent { SHORT } else { LONG };
    send_for(patience, server.address(), "POST", path, &headers(wire, KEY), &body.to_string()).await
}

pub(super) async fn post(server: &UnderstudyServer, wire: WireFormat, path: &str, body: &Value) -> Got {
    send(server.address(), "POST", path, &headers(wire, KEY), &body.to_string()).await
}

pub(super) async fn get(server: &UnderstudyServer, wire: WireFormat, path: &str) -> Got {
    send(server.address(), "GET", path, &headers(wire, KEY), "").await
}

pub(super) async fn send(to: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Got {
    send_for(LONG, to, method, path, headers, body).await
}

async fn send_for(patience: Duration, to: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Got {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {to}\r\n{headers}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    loop {
        if let Some(got) = parse(&bytes, Ended::Silent).filter(|got| got.ended == Ended::Whole) {
            return got;
        }
        let ended = match tokio::time::timeout(patience, stream.read_buf(&mut bytes)).await {
            Err(_) => Ended::Silent,
            Ok(Ok(0)) => Ended::Closed,
            Ok(Ok(_)) => continue,
            Ok(Err(error)) => {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
                Ended::Reset
            }
        };
        let nothing = Got { status: 0, head: String::new(), body: Vec::new(), ended };
        return parse(&bytes, ended).unwrap_or(nothing);
    }
}

/// What the bytes come to if they end this way, unless they are a whole response.
fn parse(bytes: &[u8], ended: Ended) -> Option<Got> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let rest = &bytes[end + 4..];
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map(|length| length.parse::<usize>().unwrap());
    let (body, is_whole) = match length {
        Some(length) => (rest.to_vec(), rest.len() == length),
        None => unchunked(rest),
    };
    Some(Got { status, head, body, ended: if is_whole { Ended::Whole } else { ended } })
}

fn unchunked(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(line) = rest.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        rest = &rest[line + 2..];
        if length == 0 {
            return (body, true);
        }
        body.extend(&rest[..length.min(rest.len())]);
        rest = rest.get(length + 2..).unwrap_or_default();
    }
    (body, false)
}
