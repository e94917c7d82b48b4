//! Streams that are cut anywhere and resumed.

use std::sync::Arc;
use std::time::Duration;

use everturn_server::ServerLimits;
use everturn_server::wire::Follower;
use futures_util::future::join_all;
use reqwest::Method;

use crate::reader::{Reader, reply};
use crate::stage::Stage;

/// Pseudo-random numbers, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// Follows a chat until its turn is over, through cuts at random bytes.
async fn cut_again_and_again(stage: Arc<Stage>, chat: String, seed: u64) -> (Follower, usize) {
    let (mut dice, mut follower, mut cuts) = (Dice(seed), Follower::default(), 0);
    loop {
        let request = stage.ask(Method::GET, &format!("{chat}/stream"));
        let reader = Reader::resume(request, follower).await;
        let bytes = 1 + dice.below(3_000);
        follower = reader.cut_after(bytes).await;
        let rests = follower.view().status.as_ref().is_some_and(|status| status.ended.is_some());
        if rests {
            return (follower, cuts);
        }
        cuts += 1;
    }
}

/// Clients that are cut at random bytes and resume with their cursor end with the server's view.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_and_resumed_streams_end_with_the_servers_view() {
    let stage = Arc::new(Stage::with(ServerLimits::default(), Duration::from_millis(1)).await);
    let chat = stage.chat("numbered").await;
    let clients = (0..40).map(|seed| tokio::spawn(cut_again_and_again(stage.clone(), chat.clone(), seed)));
    let clients: Vec<_> = clients.collect();
    stage.say(&chat, "count to 300").await;
    let mut cuts_all = 0;
    for client in join_all(clients).await {
        let (follower, cuts) = client.unwrap();
        cuts_all += cuts;
        let words: Vec<String> = (1..=300).map(|n| format!("t{n}")).collect();
        assert_eq!(reply(follower.view()), words.join(" "));
        assert_eq!(*follower.view(), stage.view(&chat).await);
    }
    assert!(cuts_all > 200, "only {cuts_all} cuts");
}

/// A cursor that is too old, never was given out, or belongs to another chat gets a snapshot.
#[tokio::test]
async fn a_cursor_that_cannot_be_used_gets_a_snapshot() {
    let stage = Stage::new().await;
    let chat = stage.chat("numbered").await;
    let mut reader = stage.watch(&chat).await;
    stage.say(&chat, "count to 20").await;
    let view = reader.until_rest().await;
    let other = stage.chat("numbered").await;
    let mut aside = stage.watch(&other).await;
    stage.say(&other, "count to 20").await;
    aside.until_rest().await;
    let [own, others] = [reader, aside].map(|mut reader| reader.follower.cut().unwrap().to_owned());
    let counted = |cursor: &str| cursor.rsplit_once('.').unwrap().0.to_owned();
    assert_eq!(counted(&own), counted(&others), "both count alike");
    let ahead = format!("ffff.ffff.ffff.{}", own.rsplit_once('.').unwrap().1);
    for cursor in ["", "nonsense", "ffff.ffff.ffff", "-1.0.0", "1.1.1.1", &ahead, &counted(&own), &others] {
        let request = stage.ask(Method::GET, &format!("{chat}/stream?after={cursor}"));
        let mut late = Reader::open(request).await;
        assert_eq!(late.until_rest().await, view, "{cursor}");
        let request = stage.ask(Method::GET, &format!("{chat}/stream")).header("last-event-id", cursor);
        assert_eq!(Reader::open(request).await.until_rest().await, view, "{cursor}");
    }
    stage.server.stop().await;
}

/// The Last-Event-ID header of a reconnecting browser takes precedence over the cursor in the URL.
#[tokio::test]
async fn the_header_beats_the_address() {
    let stage = Stage::new().await;
    let chat = stage.chat("numbered").await;
    let mut reader = stage.watch(&chat).await;
    reader.until(|view| view.status.is_some()).await;
    let old = reader.follower.clone().cut().unwrap().to_owned();
    stage.say(&chat, "count to 5").await;
    reader.until_rest().await;
    let mut follower = reader.follower.clone();
    stage.say(&chat, "count to 6").await;
    let before = follower.view().messages.len();
    let cursor = follower.cut().unwrap().to_owned();
    let request = stage.ask(Method::GET, &format!("{chat}/stream?after={old}")).header("last-event-id", cursor);
    let mut resumed = Reader::resume(request, follower).await;
    let view = resumed.until(|view| view.messages.len() == before + 2 && reply(view) == "t1 t2 t3 t4 t5 t6").await;
    assert_eq!(view.messages.len(), 4);
    stage.server.stop().await;
}
