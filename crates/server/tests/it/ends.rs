//! Keep-alive and end of streams.

use std::time::Duration;

use everturn::stores::{Scope, TokenHash, Tokens as _};
use everturn_server::ServerLimits;
use reqwest::{Method, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::reader::{Came, Reader};
use crate::stage::{Stage, TOKEN, answer, kind};

const SOON: Duration = Duration::from_millis(20);

/// A stream without events sends keep-alive comments.
#[tokio::test]
async fn a_quiet_stream_says_that_it_lives() {
    let stage = Stage::with(ServerLimits { heartbeat: SOON, ..ServerLimits::default() }, Duration::ZERO).await;
    let chat = stage.chat("default").await;
    let mut reader = stage.watch(&chat).await;
    while reader.comments.iter().filter(|comment| *comment == "still here").count() < 3 {
        assert_ne!(reader.next().await, Came::End);
    }
    stage.server.stop().await;
}

/// A server that shuts down ends every stream cleanly and at once.
#[tokio::test]
async fn a_server_that_goes_down_says_good_bye() {
    let stage = Stage::new().await;
    let chat = stage.chat("default").await;
    let mut readers = Vec::new();
    for _ in 0..5 {
        let mut reader = stage.watch(&chat).await;
        reader.until(|view| view.status.is_some()).await;
        readers.push(reader);
    }
    let stopped = timeout(Duration::from_secs(5), stage.server.stop());
    let read = async {
        for reader in &mut readers {
            reader.until_the_end().await;
            assert_eq!(reader.comments.last().unwrap(), "bye, the server is going down");
        }
    };
    tokio::join!(async { stopped.await.unwrap() }, read);
}

/// A stream ends before proxies would cut it, and is resumed without a lost event.
#[tokio::test]
async fn a_long_stream_ends_in_good_order() {
    let stage = Stage::with(ServerLimits { stream_time_max: SOON, ..ServerLimits::default() }, Duration::ZERO).await;
    let chat = stage.chat("default").await;
    let mut reader = stage.watch(&chat).await;
    reader.until_the_end().await;
    assert_eq!(reader.comments.last().unwrap(), "bye, time to reconnect");
    stage.server.stop().await;
}

/// Revoking a token ends its open streams, and not those of other tokens.
#[tokio::test]
async fn a_revoked_token_loses_its_streams() {
    let stage = Stage::with(ServerLimits { recheck: SOON, ..ServerLimits::default() }, Duration::ZERO).await;
    let secret = "evt_of-a-device-that-will-be-lost-soon";
    stage.grant(secret, "me", &[Scope::Read]).await;
    let chat = stage.chat("default").await;
    let mut mine = stage.watch(&chat).await;
    let url = format!("{}{chat}/stream", stage.base);
    let mut lost = Vec::new();
    for _ in 0..3 {
        let mut reader = Reader::open(stage.client.get(&url).bearer_auth(secret)).await;
        reader.until(|view| view.status.is_some()).await;
        lost.push(reader);
    }
    stage.memory.revoke(&TokenHash::of(secret), stage.engine.now()).await.unwrap();
    for mut reader in lost {
        reader.until_the_end().await;
        assert_eq!(reader.comments.last().unwrap(), "bye, the token is not good any more");
    }
    stage.say(&chat, "Still there?").await;
    mine.until_rest().await;
    stage.server.stop().await;
}

/// The number of concurrent streams per token is limited; a stream that ends makes room.
#[tokio::test]
async fn a_token_has_only_so_many_streams() {
    let stage = Stage::with(ServerLimits { streams_max: 2, ..ServerLimits::default() }, Duration::ZERO).await;
    let chat = stage.chat("default").await;
    let first = stage.watch(&chat).await;
    let _second = stage.watch(&chat).await;
    let third = async || stage.ask(Method::GET, &format!("{chat}/stream")).send().await.unwrap();
    for path in ["/stream", "/export"] {
        let refused = stage.ask(Method::GET, &format!("{chat}{path}")).send().await.unwrap();
        assert_eq!(refused.headers()["retry-after"], "10", "{path}");
        let (status, problem) = answer(refused).await;
        assert_eq!((status, kind(&problem)), (StatusCode::TOO_MANY_REQUESTS, "too-many"), "{path}");
    }
    drop(first);
    while third().await.status() != StatusCode::OK {
        tokio::task::yield_now().await;
    }
    stage.server.stop().await;
}

/// A client that stops reading is cut, and delays no other client meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stops_reading_is_cut() {
    let limits = ServerLimits { stall_max: Duration::from_secs(3), ..ServerLimits::default() };
    let stage = Stage::with(limits, Duration::ZERO).await;
    let chat = stage.chat("numbered").await;
    let mut stuck = TcpStream::connect(stage.server.address()).await.unwrap();
    let host = stage.base.strip_prefix("http://").unwrap();
    let head = format!("GET {chat}/stream HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {TOKEN}\r\n\r\n");
    stuck.write_all(head.as_bytes()).await.unwrap();
    let mut reader = stage.watch(&chat).await;
    // More than all socket buffers on the way hold.
    let long = format!("count to 1 {}", "x".repeat(1_000_000));
    for turn in 1..=16 {
        stage.say(&chat, &long).await;
        reader.until(|view| view.messages.len() == 2 * turn).await;
    }
    let streams = async || stage.get("/metrics").await.1.as_str().unwrap().contains("everturn_http_streams 1\n");
    timeout(Duration::from_secs(30), async {
        while !streams().await {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the stuck one is gone");
    let mut rest = Vec::new();
    let _ = stuck.read_to_end(&mut rest).await; // A clean end and a reset are both fine.
    stage.server.stop().await;
}

/// A stream ends when its token expires.
#[tokio::test]
async fn a_token_that_ends_loses_its_streams() {
    let stage = Stage::with(ServerLimits { recheck: SOON, ..ServerLimits::default() }, Duration::ZERO).await;
    let secret = "evt_of-a-guest-who-has-to-leave-soon";
    stage.grant_until(secret, "me", &[Scope::Read], Some(stage.engine.now() + Duration::from_secs(3))).await;
    let chat = stage.chat("default").await;
    let url = format!("{}{chat}/stream", stage.base);
    let mut guest = Reader::open(stage.client.get(url).bearer_auth(secret)).await;
    guest.until_the_end().await;
    assert_eq!(guest.comments.last().unwrap(), "bye, the token is not good any more");
    stage.server.stop().await;
}
