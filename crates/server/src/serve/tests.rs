//! Connections in paused time, without a socket: what would take minutes takes none.

use everturn::stores::{Memory, Scope, Token, TokenHash, Tokens as _};
use everturn::{Agent, Engine};
use everturn_understudy::{Manner, Understudy};
use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::time::Instant;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const SECRET: &str = "evt_of-whoever-the-tests-are-in-most-cases";
const HEAD: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// A server without a door.
async fn app(memory: &Arc<Memory>, bounds: Bounds) -> Shared {
    let provider = Understudy::company(Manner { pace: Duration::ZERO, seed: 7 });
    let agent = Agent::new("understudy/persona".parse().unwrap());
    let engine = Engine::builder().store(memory.clone()).provider(provider).agent("default", agent).start();
    let token = Token {
        hash: TokenHash::of(SECRET),
        name: "test".into(),
        owner: "me".into(),
        scopes: Scope::ALL.into_iter().collect(),
        made: engine.now(),
        expires: None,
        revoked: None,
    };
    memory.put(&token).await.unwrap();
    let (store, tokens, registry) = (memory.clone(), memory.clone(), Registry::default());
    let parts = Parts { engine, store, tokens, registry, agent: "default".into(), models: vec![], bounds };
    Arc::new(App::new(parts, Hosts::new(&[], &["localhost".into()]), vec![]))
}

/// Somebody who comes to it.
fn come(app: &Shared) -> DuplexStream {
    come_with(app, 64 * 1024)
}

/// The same, with so much room between the two.
fn come_with(app: &Shared, room: usize) -> DuplexStream {
    let ((ours, theirs), work) = (duplex(room), Work::default());
    let guest = Guest { peer: Peer::LOCAL, work: work.clone(), app: app.clone(), router: routes::router(app.clone()) };
    tokio::spawn(guest.talk(stalling(ours, &work, app), Wire::Either));
    theirs
}

/// What is read until the answer to a probe is whole.
async fn answered(stream: &mut DuplexStream) -> String {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\nok\n") {
        read.push(stream.read_u8().await.expect("an answer"));
    }
    String::from_utf8(read).unwrap()
}

/// S14: a proxy may keep a connection of HTTP/1.1 at hand for a minute and more, and use it; one that nobody uses is ended
/// in good order.
#[tokio::test(start_paused = true)]
async fn a_connection_may_rest_between_two_requests() {
    let bounds = Bounds::default();
    assert!(bounds.idle_max >= SECOND * 75, "longer than proxies rest: {:?}", bounds.idle_max);
    let app = app(&Arc::new(Memory::new()), bounds.clone()).await;
    let mut stream = come(&app);
    for _ in 0..3 {
        stream.write_all(HEAD.as_bytes()).await.unwrap();
        assert!(answered(&mut stream).await.starts_with("HTTP/1.1 200 OK"));
        sleep(SECOND * 75).await;
    }
    let rested = Instant::now() - SECOND * 75;
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "it is ended");
    assert_eq!(rested.elapsed(), bounds.idle_max);
}

/// S14: the second head has no more time than the first, however slowly it comes, and whatever came along with the first
/// request.
#[tokio::test(start_paused = true)]
async fn a_later_head_has_to_be_whole_in_time_too() {
    let app = app(&Arc::new(Memory::new()), Bounds::default()).await;
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
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "nobody waits for ever");
    assert_eq!(began.elapsed(), app.bounds.idle_max, "for what came before its turn: as long as for nothing");
}

/// A slow reader does not rest, though the last of its answer was handed on long ago.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_is_not_taken_for_one_that_rests() {
    let bounds = Bounds { idle_max: SECOND * 20, drain_max: SECOND, ..Bounds::default() };
    let app = app(&Arc::new(Memory::new()), bounds).await;
    let mut stream = come_with(&app, 1_000);
    let head = format!("GET /openapi.json HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {SECRET}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut read, mut some) = (Vec::new(), [0; 1_000]);
    while !read.ends_with(b"}}}") {
        sleep(SECOND).await;
        let len = stream.read(&mut some).await.unwrap();
        assert_ne!(len, 0, "it was cut after {} bytes", read.len());
        read.extend_from_slice(&some[..len]);
    }
    assert!(read.len() > 40_000, "{}", read.len());
}
