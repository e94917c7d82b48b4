//! Connections in paused time and without sockets, so that waits of minutes take no time.

mod revoked;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use everturn::core::ids::Timestamp;
use everturn::stores::{Memory, Scope, Token, TokenHash, TokenKind, Tokens};
use everturn::{Agent, Engine};
use everturn_understudy::{Manner, Understudy};
use http_body_util::BodyExt as _;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::time::Instant;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const SECRET: &str = "evt_of-whoever-the-tests-are-in-most-cases";
const HEAD: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// A server without a listener.
async fn app(memory: &Arc<Memory>, limits: ServerLimits) -> SharedApp {
    let app = app_with(memory, memory.clone(), limits);
    memory.put(&token(SECRET, None)).await.unwrap();
    app
}

/// The tests' token.
fn token(secret: &str, expires: Option<Timestamp>) -> Token {
    let (hash, scopes) = (TokenHash::of(secret), Scope::ALL.into_iter().collect());
    Token {
        hash,
        name: "test".into(),
        owner: "me".into(),
        scopes,
        made: Timestamp(0),
        expires,
        revoked: None,
        kind: TokenKind::Bearer,
    }
}

/// A server without a listener, with this token store.
fn app_with(memory: &Arc<Memory>, tokens: Arc<dyn Tokens>, limits: ServerLimits) -> SharedApp {
    app_at(memory, tokens, limits, |engine| engine.starting_at(Timestamp(1_000_000_000_000)))
}

/// [`app_with`] with another clock.
fn app_at(
    memory: &Arc<Memory>,
    tokens: Arc<dyn Tokens>,
    limits: ServerLimits,
    clock: impl FnOnce(everturn::Builder) -> everturn::Builder,
) -> SharedApp {
    let provider = Understudy::company(Manner { pace: Duration::ZERO, seed: 7 });
    let agent = Agent::new("understudy/persona".parse().unwrap());
    let engine = Engine::builder().store(memory.clone()).provider(provider).agent("default", agent);
    let engine = clock(engine).start();
    let (store, registry) = (memory.clone(), Registry::default());
    let parts = ServerParts {
        engine,
        store,
        tokens,
        registry,
        agent: "default".into(),
        models: vec![],
        mcp: std::sync::Arc::new(Vec::new),
        limits,
        workspaces: BTreeMap::new(),
        workspace_service: None,
        page: &[],
        drill: None,
    };
    Arc::new(App::new(parts, Hosts::new(&[], &["localhost".into()]), Reach::default()))
}

/// A new connection to the server.
fn come(app: &SharedApp) -> DuplexStream {
    come_with(app, 64 * 1024)
}

/// A new connection with a buffer of `room` bytes.
fn come_with(app: &SharedApp, room: usize) -> DuplexStream {
    let (ours, theirs) = duplex(room);
    let connection = Connection {
        peer: ClientPeer::LOCAL,
        activity: Activity::default(),
        app: app.clone(),
        router: routes::router(app.clone()),
        readers: SlowReaders::new(app.limits.stall_max, app.meter.readers_cut.clone()),
    };
    let stream = connection.timed(ours);
    tokio::spawn(connection.talk(stream, Protocol::Either));
    theirs
}

/// Waits for the condition, and panics if it never holds.
async fn until(is_so: impl Fn() -> bool) {
    for _ in 0..1_000 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(1)).await;
    }
    panic!("it never comes to that");
}

/// The head of a GET request.
fn head(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {SECRET}\r\n\r\n")
}

/// The response to a request without a connection.
async fn ask(app: &SharedApp, method: &str, path: &str, body: serde_json::Value) -> (u16, serde_json::Value) {
    let request = axum::http::Request::builder().method(method).uri(path).header("host", "localhost");
    let request =
        request.header("authorization", format!("Bearer {SECRET}")).header("content-type", "application/json");
    let request = request.body(Body::from(body.to_string())).unwrap();
    let response = routes::router(app.clone()).oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// A new chat with this message and its answer.
async fn chat_with(app: &SharedApp, said: serde_json::Value) -> String {
    let (_, chat) = ask(app, "POST", "/v1/chats", json!({})).await;
    let chat = format!("/v1/chats/{}", chat["id"].as_str().unwrap());
    let (status, told) = ask(app, "POST", &format!("{chat}/messages"), said).await;
    assert_eq!(status, 202, "{told}");
    while ask(app, "GET", &chat, json!({})).await.1["status"] != "idle" {
        sleep(SECOND).await;
    }
    chat
}

/// An HTTP/2 client that reads no bodies.
async fn come_mute(app: &SharedApp) -> (h2::client::SendRequest<Bytes>, JoinHandle<()>) {
    let mut client = h2::client::Builder::new();
    let (client, connection) = client.initial_window_size(0).handshake(come(app)).await.unwrap();
    (client, tokio::spawn(async move { drop(connection.await) }))
}

/// The response to a GET of such a client.
async fn get(client: &h2::client::SendRequest<Bytes>, path: &str) -> axum::http::Response<h2::RecvStream> {
    let request = axum::http::Request::get(format!("http://localhost{path}"));
    let request = request.header("authorization", format!("Bearer {SECRET}")).body(()).unwrap();
    let mut client = client.clone().ready().await.unwrap();
    client.send_request(request, true).unwrap().0.await.unwrap()
}

/// Reads until the response to a probe is complete.
async fn answered(stream: &mut DuplexStream) -> String {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\nok\n") {
        read.push(stream.read_u8().await.expect("an answer"));
    }
    String::from_utf8(read).unwrap()
}

/// A proxy may keep an idle HTTP/1.1 connection for a minute and more, and use it again; a longer idle one is closed
/// gracefully.
#[tokio::test(start_paused = true)]
async fn a_connection_may_rest_between_two_requests() {
    let limits = ServerLimits::default();
    assert!(limits.idle_max >= SECOND * 75, "longer than proxies rest: {:?}", limits.idle_max);
    let app = app(&Arc::new(Memory::new()), limits.clone()).await;
    let mut stream = come(&app);
    for _ in 0..3 {
        stream.write_all(HEAD.as_bytes()).await.unwrap();
        assert!(answered(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
        sleep(SECOND * 75).await;
    }
    let rested = Instant::now() - SECOND * 75;
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "it is ended");
    assert_eq!(rested.elapsed(), limits.idle_max);
}

/// The second head has the same time limit as the first, however slowly it comes, and whatever bytes came with the first
/// request.
#[tokio::test(start_paused = true)]
async fn a_later_head_has_to_be_whole_in_time_too() {
    let app = app(&Arc::new(Memory::new()), ServerLimits::default()).await;
    let mut stream = come(&app);
    stream.write_all(HEAD.as_bytes()).await.unwrap();
    answered(&mut stream).await;
    sleep(SECOND * 60).await;
    let began = Instant::now();
    for letter in HEAD.bytes() {
        if stream.write_all(&[letter]).await.is_err() {
            break;
        }
        sleep(SECOND * 4).await;
    }
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "it is cut");
    assert_eq!(began.elapsed(), SECOND * 12, "and was before the fourth letter");
    let mut stream = come(&app);
    stream.write_all(format!("{HEAD}GET /").as_bytes()).await.unwrap();
    answered(&mut stream).await;
    let began = Instant::now();
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "the connection is closed");
    assert_eq!(began.elapsed(), app.limits.idle_max, "for what came before its turn: as long as for nothing");
}

/// Whether a response has as many bytes as its Content-Length says.
fn is_whole(read: &[u8]) -> bool {
    let text = String::from_utf8_lossy(read);
    let length =
        |head: &str| head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    text.split_once("\r\n\r\n")
        .is_some_and(|(head, _)| length(head).is_some_and(|len| head.len() + 4 + len == read.len()))
}

/// A slow client is not idle, although hyper took the last of its response long ago.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_not_idle() {
    let limits = ServerLimits { idle_max: SECOND * 20, drain_max: SECOND, ..ServerLimits::default() };
    let app = app(&Arc::new(Memory::new()), limits).await;
    let mut stream = come_with(&app, 1_000);
    stream.write_all(head("/openapi.json").as_bytes()).await.unwrap();
    let (mut read, mut some) = (Vec::new(), [0; 1_000]);
    while !is_whole(&read) {
        sleep(SECOND).await;
        let len = stream.read(&mut some).await.unwrap();
        assert_ne!(len, 0, "it was cut after {} bytes", read.len());
        read.extend_from_slice(&some[..len]);
    }
    assert!(read.len() > 40_000, "{}", read.len());
}

/// I14, I19: clients that request large files and read nothing share one byte budget; it is given back when they
/// disconnect, and when they are cut.
#[tokio::test(start_paused = true)]
async fn readers_that_take_nothing_share_a_budget() {
    let file_bytes = 1024 * 1024;
    let limits = ServerLimits { answers_bytes_max: 3 * file_bytes + 100, ..ServerLimits::default() };
    let (app, room) = (app(&Arc::new(Memory::new()), limits.clone()).await, limits.answers_bytes_max);
    let file = json!({"type": "file", "media_type": "image/png", "data": STANDARD.encode(vec![7; file_bytes])});
    let file = format!("{}/messages/1/files/0", chat_with(&app, json!({ "parts": [file] })).await);
    let (client, connection) = come_mute(&app).await;
    let mut answers = Vec::new();
    for _ in 0..100 {
        answers.push(get(&client, &file).await);
    }
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status().as_u16()).collect();
    assert_eq!(statuses, [[200; 3].as_slice(), &[503; 97]].concat());
    assert_eq!(answers[3].headers()["retry-after"], "1");
    assert_eq!(app.answers.free(), 100);
    sleep(limits.stall_max * 2 + SECOND * 70).await;
    assert_eq!(app.answers.free(), room, "no client has taken anything");
    let again = get(&client, &file).await;
    assert_eq!((again.status().as_u16(), app.answers.free()), (200, room - file_bytes));
    connection.abort();
    let _ = connection.await; // The connection is dropped on both ends.
    until(|| app.answers.free() == room).await;
}

/// I14: a stream with a large first event needs the budget too; without room it ends, and the client resumes. Pages and
/// exports need it as well.
#[tokio::test(start_paused = true)]
async fn large_responses_wait_for_the_budget() {
    let limits = ServerLimits { answers_bytes_max: 500_000, ..ServerLimits::default() };
    let app = app(&Arc::new(Memory::new()), limits).await;
    let chat = chat_with(&app, json!({"text": "x".repeat(300_000)})).await;
    let head = head(&format!("{chat}/stream"));
    let (mut mute, mut reader) = (come_with(&app, 1_000), come_with(&app, 1024 * 1024));
    mute.write_all(head.as_bytes()).await.unwrap();
    until(|| app.answers.free() < 200_000).await;
    let mut watch = async || {
        reader.write_all(head.as_bytes()).await.unwrap();
        let (mut read, mut some) = (String::new(), [0; 10_000]);
        while !read.contains("too much is being read") && !read.contains("event: reset") {
            let len = reader.read(&mut some).await.unwrap();
            read.push_str(std::str::from_utf8(&some[..len]).unwrap());
        }
        read
    };
    assert!(watch().await.contains(": bye, too much is being read at once"));
    let (pages, whole) = (format!("{chat}/messages"), format!("{chat}/export"));
    assert_eq!(ask(&app, "GET", &pages, json!({})).await.0, 503);
    let export = tokio::spawn({
        let app = app.clone();
        async move { ask(&app, "GET", &whole, json!({})).await }
    });
    sleep(SECOND).await;
    assert!(!export.is_finished(), "it waits, with nothing in hand");
    drop(mute);
    assert_eq!(export.await.unwrap().1["messages"].as_array().unwrap().len(), 2);
    until(|| app.answers.free() == 500_000).await;
    assert_eq!(ask(&app, "GET", &pages, json!({})).await.0, 200);
    assert!(watch().await.contains("event: reset"));
}
