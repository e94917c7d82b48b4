//! Memory over a socket, and with a reader that does not read.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use allocation_counter::measure;
use everturn_core::error::ErrorKind;
use everturn_core::limits::Limits;
use everturn_core::prompt::{PromptEntries, PromptEntry, PromptPart, Request, Role};
use everturn_providers::anthropic::{Anthropic, USUAL};
use everturn_providers::catalogue::Catalogue;
use everturn_providers::endpoint::Endpoint;
use everturn_providers::http::Http;
use everturn_providers::{Frame, FrameStream, Provider as _};
use futures_util::StreamExt as _;

use super::{MIB, PEAK_MAX, PIECE_BYTES, answers};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

/// A server on a thread of its own: answers one request with the beginning of an answer, then with `piece` over and over,
/// until 100 MiB are written, or it cannot write. Gives back how many bytes it wrote.
fn server(piece: &'static str, stalled: tokio::sync::oneshot::Sender<()>) -> (String, JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut request = [0; 64 * 1024];
        let mut len = 0;
        while !request[..len].ends_with(b"}") {
            len += socket.read(&mut request[len..]).unwrap();
        }
        socket.write_all(HEAD.as_bytes()).unwrap();
        socket.write_all(answers::ANTHROPIC.head.as_bytes()).unwrap();
        let written = flood(&mut socket, piece.repeat(PIECE_BYTES.div_ceil(piece.len())).as_bytes());
        let _ = stalled.send(());
        written
    });
    (url, served)
}

fn flood(socket: &mut TcpStream, block: &[u8]) -> usize {
    // A write that blocks this long means that nothing is read at all.
    socket.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut written = 0;
    while written < 100 << 20 {
        match socket.write(block) {
            Ok(len) => written += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    written
}

async fn ask(url: &str) -> FrameStream {
    let set = |name: &str| match name {
        "ANTHROPIC_API_KEY" => Some("sk-ant-0123456789".to_owned()),
        "ANTHROPIC_BASE_URL" => Some(url.to_owned()),
        _ => None,
    };
    let endpoint = Endpoint::usual("anthropic", &USUAL, set).unwrap();
    let provider = Anthropic::new(endpoint, Http::direct(&Limits::default()), Arc::new(Catalogue::embedded()));
    let entries: PromptEntries = vec![PromptEntry::new(Role::User, vec![PromptPart::text("Hi")])].into();
    let model = "claude-opus-5-5";
    let request = Request::new(format!("anthropic/{model}").parse().unwrap(), &provider.facts(model).target, entries);
    provider.open(request).await.unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// How an answer that is read as it comes ends, and the most memory that took.
fn taken(piece: &'static str) -> (String, u64) {
    let (url, served) = server(piece, tokio::sync::oneshot::channel().0);
    let mut end = String::new();
    let counted = measure(|| {
        runtime().block_on(async {
            let mut frames = ask(&url).await;
            while let Some(frame) = frames.next().await {
                if let Err(error) = frame {
                    assert_eq!(error.kind, ErrorKind::Malformed, "{error:?}");
                    end = error.detail;
                }
            }
        });
    });
    // What was on its way when the socket was closed comes on top.
    let written = served.join().unwrap();
    assert!(written < 64 << 20, "the server could write {written} bytes");
    (end, counted.bytes_max)
}

/// P15: over a socket, a line, an event and an answer without an end are cut at their bounds, too.
#[test]
fn an_endless_answer_over_a_socket() {
    for (piece, says) in [
        ("x", "a line of more than 8388608 bytes"),
        ("data: xxxxxxxx\n", "an event of more than 8388608 bytes"),
        ("data: {}\n\n", "an answer of more than 33554432 bytes"),
        (answers::ANTHROPIC.piece, "an answer of more than 33554432 bytes"),
    ] {
        let (end, peak) = taken(piece);
        assert_eq!(end, says, "{piece}");
        assert!(peak <= PEAK_MAX / 3, "{piece}: {peak} bytes at a time");
    }
}

/// Without a reader there is no read-ahead: the server has to wait.
#[test]
fn a_reader_that_waits_makes_the_server_wait() {
    let (stalled, is_stalled) = tokio::sync::oneshot::channel();
    let (url, served) = server(answers::ANTHROPIC.piece, stalled);
    let counted = measure(|| {
        runtime().block_on(async {
            let mut frames = ask(&url).await;
            assert!(matches!(frames.next().await, Some(Ok(Frame::Delta(_)))));
            is_stalled.await.unwrap(); // The connection could read on all the while.
            drop(frames);
        });
    });
    let written = served.join().unwrap() as u64;
    assert!(written < 32 * MIB, "the server could write {written} bytes that were not read");
    assert!(counted.bytes_max <= PEAK_MAX / 6, "{} bytes at a time", counted.bytes_max);
}
