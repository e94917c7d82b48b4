//! Limits on connections and requests, whatever a client sends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use everturn::core::ids::Timestamp;
use everturn::stores::{IdempotencyRecord, Memory, StoreError, Token, TokenHash, Tokens};
use everturn_server::ServerLimits;
use reqwest::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::entrances::Inn;
use crate::frames::{self, PREFACE};
use crate::reader::{Came, Reader};
use crate::stage::{Stage, TOKEN, answer, kind};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_millis(50);

async fn connect(stage: &Stage) -> TcpStream {
    TcpStream::connect(stage.server.address()).await.unwrap()
}

/// All bytes until the connection ends; a connection that stays open fails the test.
async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    let end = timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("it ends");
    let _ = end; // A clean end and a reset are both fine.
    rest
}

/// How many connections are open, as the server counts them.
pub async fn open(stage: &Stage) -> usize {
    let (_, text) = stage.get("/metrics").await;
    let line = text.as_str().unwrap().lines().find_map(|line| line.strip_prefix("everturn_http_connections "));
    line.unwrap().parse().unwrap()
}

/// Waits until exactly `count` connections are open.
pub async fn until_open(stage: &Stage, count: usize) {
    let looked = async {
        while open(stage).await != count {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, looked).await.expect("the others are gone");
}

/// A connection without a complete request is closed after ten seconds.
#[tokio::test]
async fn silence_holds_no_place() {
    let stage = Stage::with(ServerLimits { head_time_max: SOON, ..ServerLimits::default() }, Duration::ZERO).await;
    let half = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n", stage.base);
    let settled = frames::join(&[PREFACE, &frames::settings()]);
    for said in [b"".as_slice(), b"PRI", b"PRI * HTTP/2.0\r\n", PREFACE, &settled, b"G", half.as_bytes()] {
        let mut stream = connect(&stage).await;
        stream.write_all(said).await.unwrap();
        rest(&mut stream).await;
    }
    until_open(&stage, 1).await; // The test's own connection, which reads the metrics.
    stage.server.stop().await;
}

/// A connection without a further request is closed, in HTTP/1.1 as in HTTP/2.
#[tokio::test]
async fn a_connection_that_rests_is_ended() {
    let stage = Stage::with(ServerLimits { idle_max: SOON, ..ServerLimits::default() }, Duration::ZERO).await;
    let mut stream = connect(&stage).await;
    let host = stage.base.strip_prefix("http://").unwrap();
    stream.write_all(format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).await.unwrap();
    let answered = rest(&mut stream).await;
    assert!(answered.starts_with(b"HTTP/1.1 200 OK") && answered.ends_with(b"ok\n"));
    stage.server.stop().await;
}

/// An HTTP/2 connection that only answers pings is closed; one with an open stream of events is not.
#[tokio::test]
async fn a_connection_that_only_answers_pings_is_ended() {
    let limits = ServerLimits { idle_max: SOON * 4, stall_max: SOON, heartbeat: SOON, ..ServerLimits::default() };
    let stage = Stage::with(limits, Duration::ZERO).await;
    let chat = stage.chat("default").await;
    let ask = async |path: &str| {
        let (client, connection) = h2::client::handshake(connect(&stage).await).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = axum::http::Request::get(format!("{}{path}", stage.base));
        let request = request.header("authorization", format!("Bearer {TOKEN}")).body(()).unwrap();
        let mut client = client.ready().await.unwrap();
        let response = client.send_request(request, true).unwrap().0.await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        (client, connection, response)
    };
    let (_client, connection, response) = ask("/healthz").await;
    assert_eq!(response.headers()["content-length"], "3");
    drop(response);
    timeout(PATIENCE, connection).await.expect("it is ended").unwrap().unwrap();
    let (_client, _connection, response) = ask(&format!("{chat}/stream")).await;
    let mut body = response.into_body();
    let began = Instant::now();
    while began.elapsed() < SOON * 12 {
        let piece = timeout(PATIENCE, body.data()).await.unwrap().expect("it goes on").unwrap();
        body.flow_control().release_capacity(piece.len()).unwrap();
    }
    drop(body);
    stage.server.stop().await;
}

/// Connections above the limit get 503 with Retry-After, and a closed connection makes room. The number that gets
/// the 503 at the same time is bounded too.
#[tokio::test]
async fn there_are_only_so_many_connections() {
    let stage = Stage::with(ServerLimits { connections_max: 3, ..ServerLimits::default() }, Duration::ZERO).await;
    assert_eq!(open(&stage).await, 1); // The test's own connection.
    let (first, _second) = (connect(&stage).await, connect(&stage).await);
    until_open(&stage, 3).await;
    let host = stage.base.strip_prefix("http://").unwrap();
    let head = format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\n\r\n");
    let mut late = connect(&stage).await;
    late.write_all(head.as_bytes()).await.unwrap();
    let told = String::from_utf8(rest(&mut late).await).unwrap();
    assert!(told.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{told}");
    assert!(told.contains("\r\nretry-after: 5\r\n") && told.contains("urn:everturn:problem:unavailable"), "{told}");
    assert!(told.contains("\r\nconnection: close\r\n"), "a rejected connection is closed: {told}");
    let mut silent = Vec::new();
    for _ in 0..64 {
        silent.push(connect(&stage).await);
    }
    until_open(&stage, 3 + 64).await;
    assert_eq!(rest(&mut connect(&stage).await).await, b"");
    drop((silent, first));
    until_open(&stage, 2).await;
    let mut next = connect(&stage).await;
    next.write_all(head.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n").as_bytes()).await.unwrap();
    assert!(rest(&mut next).await.starts_with(b"HTTP/1.1 200 OK"));
    stage.server.stop().await;
}

/// An HTTP/2 connection has at most 128 concurrent requests; further ones are refused.
#[tokio::test]
async fn requests_at_once_are_bounded() {
    let stage = Stage::with(ServerLimits { streams_max: 1_000, ..ServerLimits::default() }, Duration::ZERO).await;
    let (chat, host) = (stage.chat("default").await, stage.base.strip_prefix("http://").unwrap());
    let mut stream = connect(&stage).await;
    let head = |number| frames::get(number, host, &format!("{chat}/stream"), TOKEN);
    let heads: Vec<Vec<u8>> = (0..140).map(head).collect();
    let heads: Vec<&[u8]> = heads.iter().map(Vec::as_slice).collect();
    stream.write_all(&frames::join(&[PREFACE, &frames::settings(), &frames::join(&heads)])).await.unwrap();
    let mut refused = 0;
    while refused < 140 - 128 {
        let (kind, payload) = timeout(PATIENCE, frames::read(&mut stream)).await.expect("an answer").unwrap();
        assert_ne!(kind, frames::GOAWAY, "{payload:?}");
        if kind == frames::RESET {
            assert_eq!(payload, [0, 0, 0, 7], "it was refused");
            refused += 1;
        }
    }
    let (_, metrics) = stage.get("/metrics").await;
    assert!(metrics.as_str().unwrap().contains("everturn_http_streams 128\n"));
    drop(stream);
    stage.server.stop().await;
}

/// A client that opens requests only to reset them (rapid reset) loses its connection.
#[tokio::test]
async fn rapid_resets_end_the_connection() {
    let stage = Stage::new().await;
    let host = stage.base.strip_prefix("http://").unwrap();
    let mut stream = connect(&stage).await;
    let taken_back = |number| frames::join(&[&frames::get(number, host, "/v1/chats", TOKEN), &frames::reset(number)]);
    let all: Vec<Vec<u8>> = (0..400).map(taken_back).collect();
    let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    stream.write_all(&frames::join(&[PREFACE, &frames::settings(), &frames::join(&all)])).await.unwrap();
    loop {
        let (kind, payload) = timeout(PATIENCE, frames::read(&mut stream)).await.expect("an answer").unwrap();
        if kind == frames::GOAWAY {
            assert_eq!(payload[4..8], [0, 0, 0, 0xb], "it should calm down");
            break;
        }
    }
    stage.server.stop().await;
}

/// A body that does not arrive in time is answered with 408.
#[tokio::test]
async fn a_body_has_to_arrive() {
    let stage = Stage::with(ServerLimits { arrival_max: SOON, ..ServerLimits::default() }, Duration::ZERO).await;
    let mut stream = connect(&stage).await;
    let host = stage.base.strip_prefix("http://").unwrap();
    let head = format!("POST /v1/chats HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {TOKEN}\r\n");
    let half = format!("{head}content-type: application/json\r\ncontent-length: 100\r\n\r\n{{\"title\":");
    stream.write_all(half.as_bytes()).await.unwrap();
    let answered = String::from_utf8(rest(&mut stream).await).unwrap();
    assert!(answered.starts_with("HTTP/1.1 408 ") && answered.contains("problem:slow"), "{answered}");
    stage.server.stop().await;
}

/// I19: large bodies share one budget. A request above it gets 503 with Retry-After; a closed connection frees its part.
#[tokio::test]
async fn large_bodies_have_one_bound_together() {
    let stage =
        Stage::with(ServerLimits { bodies_bytes_max: 600_000, ..ServerLimits::default() }, Duration::ZERO).await;
    let (chat, host) = (stage.chat("numbered").await, stage.base.strip_prefix("http://").unwrap());
    let large = serde_json::json!({"text": "x".repeat(200_000)});
    let mut stream = connect(&stage).await;
    let head = format!("POST {chat}/messages HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {TOKEN}\r\n");
    let head =
        format!("{head}content-type: application/json\r\ncontent-length: 200000\r\nexpect: 100-continue\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut said = [0; 12];
    timeout(PATIENCE, stream.read_exact(&mut said)).await.expect("it is asked to go on").unwrap();
    assert_eq!(&said, b"HTTP/1.1 100");
    let request = stage.ask(reqwest::Method::POST, &format!("{chat}/messages")).json(&large);
    let refused = request.send().await.unwrap();
    assert_eq!(refused.headers()["retry-after"], "1");
    let (status, problem) = answer(refused).await;
    assert_eq!((status, kind(&problem)), (StatusCode::SERVICE_UNAVAILABLE, "unavailable"));
    stage.say(&chat, "count to 3").await; // Small bodies do not count.
    drop(stream);
    let taken = async {
        while stage.post(&format!("{chat}/messages"), large.clone()).await.0 != StatusCode::ACCEPTED {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, taken).await.expect("there is room again");
    stage.server.stop().await;
}

/// A request with `Expect: 100-continue` and a too large Content-Length is refused without a `100 Continue`.
#[tokio::test]
async fn a_too_large_body_is_refused_before_it_is_sent() {
    let stage = Stage::new().await;
    let (chat, host) = (stage.chat("numbered").await, stage.base.strip_prefix("http://").unwrap());
    for (path, len) in [("/v1/chats".to_owned(), 1024 * 1024 + 1), (format!("{chat}/messages"), usize::MAX / 2)] {
        let mut stream = connect(&stage).await;
        let head = format!("POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {TOKEN}\r\n");
        let head = format!("{head}content-type: application/json\r\ncontent-length: {len}\r\n");
        stream.write_all(format!("{head}expect: 100-continue\r\n\r\n").as_bytes()).await.unwrap();
        let told = String::from_utf8(rest(&mut stream).await).unwrap();
        assert!(told.starts_with("HTTP/1.1 413 ") && told.contains("urn:everturn:problem:too-long"), "{told}");
    }
    stage.server.stop().await;
}

/// A token store that panics at the n-th lookup, or hangs and counts the lookups that hang.
struct Fragile {
    memory: Arc<Memory>,
    left: AtomicUsize,
    hangs: Option<Notify>,
    /// Lookups without an answer so far.
    hung: AtomicUsize,
}

impl Fragile {
    fn new(left: usize, hangs: Option<Notify>) -> (Arc<Memory>, Arc<Self>) {
        let memory = Arc::new(Memory::new());
        (memory.clone(), Arc::new(Self { memory, left: AtomicUsize::new(left), hangs, hung: AtomicUsize::new(0) }))
    }
}

#[async_trait]
impl Tokens for Fragile {
    async fn put(&self, token: &Token) -> Result<(), StoreError> {
        self.memory.put(token).await
    }

    async fn find(&self, hash: &TokenHash) -> Result<Option<Token>, StoreError> {
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if let (Err(_), Some(hangs)) = (left, &self.hangs) {
            self.hung.fetch_add(1, Ordering::SeqCst);
            hangs.notify_one();
            std::future::pending().await
        }
        assert!(left.is_ok(), "this store is broken, as it should be");
        self.memory.find(hash).await
    }

    async fn list(&self) -> Result<Vec<Token>, StoreError> {
        self.memory.list().await
    }

    async fn revoke(&self, hash: &TokenHash, at: Timestamp) -> Result<(), StoreError> {
        self.memory.revoke(hash, at).await
    }

    async fn exchange(&self, code: &TokenHash, session: &Token) -> Result<bool, StoreError> {
        self.memory.exchange(code, session).await
    }

    async fn forget(&self, before: Timestamp) -> Result<(), StoreError> {
        self.memory.forget(before).await
    }

    async fn remember(&self, asked: &IdempotencyRecord) -> Result<IdempotencyRecord, StoreError> {
        self.memory.remember(asked).await
    }

    async fn recall(&self, owner: &str, key: &str) -> Result<Option<IdempotencyRecord>, StoreError> {
        self.memory.recall(owner, key).await
    }
}

/// A panic in a request is answered as a problem, and the connection goes on.
#[tokio::test]
async fn a_panic_is_told() {
    let (memory, fragile) = Fragile::new(1, None);
    let inn = Inn::with(memory, fragile.clone(), ServerLimits::default()).await;
    let ask = async || inn.client.get(format!("{}/v1/models", inn.base)).bearer_auth(TOKEN).send().await.unwrap();
    assert_eq!(ask().await.status(), StatusCode::OK);
    let broken = ask().await;
    assert_eq!(broken.headers()["x-content-type-options"], "nosniff");
    let (status, problem) = answer(broken).await;
    assert_eq!((status, kind(&problem)), (StatusCode::INTERNAL_SERVER_ERROR, "internal"));
    fragile.left.store(1, Ordering::Relaxed);
    assert_eq!(ask().await.status(), StatusCode::OK);
    inn.server.stop().await;
}

/// A new chat, and a reader of its stream.
async fn watched(inn: &Inn) -> (String, Reader) {
    let made = inn.client.post(format!("{}/v1/chats", inn.base)).bearer_auth(TOKEN).json(&serde_json::json!({}));
    let (_, made) = answer(made.send().await.unwrap()).await;
    let chat = format!("{}/v1/chats/{}", inn.base, made["id"].as_str().unwrap());
    let reader = Reader::open(inn.client.get(format!("{chat}/stream")).bearer_auth(TOKEN)).await;
    (chat, reader)
}

/// A stream goes on while its token is being checked again, which may take long on a busy machine.
#[tokio::test]
async fn events_do_not_wait_for_a_check() {
    let (memory, fragile) = Fragile::new(2, Some(Notify::new()));
    let inn = Inn::with(memory, fragile.clone(), ServerLimits { recheck: SOON, ..ServerLimits::default() }).await;
    let (chat, mut reader) = watched(&inn).await;
    reader.until(|view| view.status.is_some()).await;
    timeout(PATIENCE, fragile.hangs.as_ref().unwrap().notified()).await.expect("it is asked");
    fragile.left.store(1, Ordering::Relaxed);
    let renamed = inn.client.patch(chat).bearer_auth(TOKEN).json(&serde_json::json!({ "title": "Meanwhile" }));
    assert_eq!(renamed.send().await.unwrap().status(), StatusCode::OK);
    let seen = reader.until(|view| view.status.as_ref().is_some_and(|status| status.title == "Meanwhile"));
    timeout(PATIENCE, seen).await.expect("it is told");
    inn.server.stop().await;
}

/// A panic in the check of a token ends the token's streams, rather than let them go on unchecked.
#[tokio::test]
async fn a_panic_in_a_check_ends_the_streams() {
    let (memory, fragile) = Fragile::new(2, None);
    let inn = Inn::with(memory, fragile, ServerLimits { recheck: SOON, ..ServerLimits::default() }).await;
    let (_, mut reader) = watched(&inn).await;
    timeout(PATIENCE, reader.until_the_end()).await.expect("it ends");
    inn.server.stop().await;
}

/// One check of a token covers all of its streams.
#[tokio::test]
async fn a_token_is_checked_once_for_all_its_streams() {
    let (memory, fragile) = Fragile::new(1_000, Some(Notify::new()));
    let limits = ServerLimits { recheck: SOON, heartbeat: SOON, ..ServerLimits::default() };
    let inn = Inn::with(memory, fragile.clone(), limits).await;
    let (chat, reader) = watched(&inn).await;
    let mut readers = vec![reader];
    for _ in 1..20 {
        readers.push(Reader::open(inn.client.get(format!("{chat}/stream")).bearer_auth(TOKEN)).await);
    }
    fragile.left.store(0, Ordering::SeqCst);
    timeout(PATIENCE, fragile.hangs.as_ref().unwrap().notified()).await.expect("it is asked");
    for reader in &mut readers {
        let before = reader.comments.len();
        while reader.comments.len() < before + 5 {
            timeout(PATIENCE, reader.next()).await.expect("it lives"); // The next check falls into this time.
        }
    }
    assert_eq!(fragile.hung.load(Ordering::SeqCst), 1, "one for all of them");
    inn.server.stop().await;
}

/// A panic in a stream ends that connection and gives back its place in the connection limit.
#[tokio::test]
async fn a_panic_gives_its_place_back() {
    let (stage, store) = Stage::sluggish(ServerLimits::default()).await;
    let mut reader = stage.watch(&stage.chat("default").await).await;
    reader.until(|view| view.status.is_some()).await;
    store.panics.store(true, Ordering::SeqCst);
    while !matches!(reader.next().await, Came::Cut | Came::End) {}
    let counted = async {
        loop {
            let request = reqwest::Client::new().get(format!("{}/metrics", stage.base)).bearer_auth(TOKEN);
            let text = request.send().await.unwrap().text().await.unwrap();
            if text.contains("everturn_http_connections 1\n") && text.contains("everturn_http_streams 0\n") {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, counted).await.expect("the broken one is gone");
    stage.server.stop().await;
}
