//! Clients that repeat themselves and get into each other's way, at a server that runs as its users run it.

use std::collections::BTreeSet;
use std::sync::Arc;

use everturn_server::wire::{Body, Part, Status, View};
use futures_util::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::daemon::{Daemon, Scratch};
use crate::reader::Reader;

/// The last word of a problem's type.
pub fn kind(problem: &Value) -> &str {
    problem["type"].as_str().and_then(|kind| kind.strip_prefix("urn:everturn:problem:")).unwrap_or("no problem")
}

/// What people said, by its words.
fn heard(view: &View) -> Vec<String> {
    let said = view.messages.iter().filter_map(|message| match &message.body {
        Body::User { parts, .. } => Some(parts),
        _ => None,
    });
    let texts = said.map(|parts| {
        parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.text.as_str()),
            _ => None,
        })
    });
    texts.map(Iterator::collect).collect()
}

/// A thousand of the same request at once, all of which get one answer. Gives it.
async fn storm(daemon: &Arc<Daemon>, path: &str, body: &Value) -> (u16, Value) {
    const REPEATS: usize = 1_000;
    let repeats = (0..REPEATS).map(|_| {
        let (daemon, path, body) = (daemon.clone(), path.to_owned(), body.clone());
        tokio::spawn(async move {
            let request = daemon.ask(Method::POST, &path).header("idempotency-key", "storm").json(&body);
            let response = request.send().await.unwrap();
            (response.status().as_u16(), response.text().await.unwrap())
        })
    });
    // A chat goes on while it is asked for again, so of what is told of it only the name is the same.
    let told = |text: &str| serde_json::from_str::<Value>(text).unwrap()["id"].clone();
    let answers: Vec<(u16, String)> = join_all(repeats).await.into_iter().map(Result::unwrap).collect();
    let same: BTreeSet<(u16, String)> = answers.iter().map(|(code, text)| (*code, told(text).to_string())).collect();
    assert_eq!(same.len(), 1, "{same:?}");
    (answers[0].0, told(&answers[0].1))
}

/// I2: a thousand repeats at once of a chat to be made make one, and a thousand of a message to it say it once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_repeats_has_one_effect() {
    let scratch = Scratch::new();
    let daemon = Arc::new(Daemon::start(scratch.path(), "understudy/numbered").await);
    let (code, id) = storm(&daemon, "/v1/chats", &json!({"title": "Once"})).await;
    assert_eq!(code, 201);
    let listed = daemon.get("/v1/chats").await;
    assert_eq!(listed["chats"].as_array().unwrap().len(), 1);
    let chat = format!("/v1/chats/{}", id.as_str().unwrap());
    let mut reader = daemon.watch(&chat).await;
    let (code, seq) = storm(&daemon, &format!("{chat}/messages"), &json!({"text": "count to 5"})).await;
    assert_eq!((code, seq), (202, json!(1)));
    let view = reader.until_rest().await;
    assert_eq!(heard(&view), ["count to 5"]);
    assert_eq!(daemon.get(&format!("{chat}/messages")).await["messages"], json!(view.messages));
}

/// One client: sends, steers, deletes what waits, interrupts. What was accepted of it and not deleted.
async fn client(daemon: Arc<Daemon>, chat: String, name: &'static str) -> Vec<String> {
    let mut kept = Vec::new();
    for n in 0..12 {
        let text = format!("count to 3 {name}{n}");
        let when = ["queue", "steer", "now"][n % 3];
        let said = json!({"text": text, "when": when});
        let (code, receipt) = daemon.answer(Method::POST, &format!("{chat}/messages"), &said).await;
        assert_eq!(code, StatusCode::ACCEPTED, "{receipt}");
        kept.push(text);
        match n % 4 {
            1 => {
                let path = format!("{chat}/queue/{}", receipt["id"]);
                let (code, problem) = daemon.answer(Method::DELETE, &path, &json!({})).await;
                match code {
                    StatusCode::OK => drop(kept.pop()),
                    _ => assert_eq!((code, kind(&problem)), (StatusCode::NOT_FOUND, "not-found"), "it was heard"),
                }
            }
            2 => {
                let path = format!("{chat}/queue/{}/promote", receipt["id"]);
                let (code, problem) = daemon.answer(Method::POST, &path, &json!({})).await;
                assert!(code == StatusCode::OK || matches!(kind(&problem), "not-found" | "status"), "{problem}");
            }
            3 => {
                let (code, problem) = daemon.answer(Method::POST, &format!("{chat}/interrupt"), &json!({})).await;
                assert_eq!(code, StatusCode::OK, "{problem}");
            }
            _ => {}
        }
    }
    kept
}

fn rests(view: &View) -> bool {
    view.status.as_ref().is_some_and(|status| status.status == Status::Idle && status.queue.is_empty())
}

/// Reads until all is seen that has happened in the chat by now.
async fn caught_up(daemon: &Daemon, reader: &mut Reader, chat: &str) -> View {
    let now = daemon.get(chat).await["version"].as_u64();
    reader.until(|view| view.status.as_ref().map(|status| status.version) >= now).await
}

/// I12: of two clients that send, steer, promote, delete and interrupt at once, what was accepted and not deleted is heard
/// once, and both see the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_accepted_message_is_heard_once() {
    let scratch = Scratch::new();
    let daemon = Arc::new(Daemon::start(scratch.path(), "understudy/numbered").await);
    let chat = daemon.chat().await;
    let (mut one, mut two) = (daemon.watch(&chat).await, daemon.watch(&chat).await);
    let clients = ["a", "b"].map(|name| tokio::spawn(client(daemon.clone(), chat.clone(), name)));
    let mut expected = BTreeSet::new();
    for client in clients {
        expected.extend(client.await.unwrap());
    }
    one.until(|view| heard(view).len() >= expected.len() && rests(view)).await;
    let view = caught_up(&daemon, &mut one, &chat).await; // A late interrupt is one more, and says nothing.
    let said = heard(&view);
    assert_eq!(said.len(), expected.len(), "each of them once: {said:?}");
    assert_eq!(said.into_iter().collect::<BTreeSet<_>>(), expected);
    assert!(view.messages.is_sorted_by(|one, next| one.id + 1 == next.id), "numbers without a gap");
    assert_eq!(two.until(|other| *other == view).await, view);
}

/// Two clients edit the same message while a third interrupts: one transcript is left, and everybody sees it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_that_race_leave_one_transcript() {
    let scratch = Scratch::new();
    let daemon = Daemon::start(scratch.path(), "understudy/numbered").await;
    for round in 0..5 {
        let chat = daemon.chat().await;
        let mut watching = daemon.watch(&chat).await;
        daemon.post(&format!("{chat}/messages"), &json!({"text": "count to 40"})).await;
        watching.until(|view| !view.messages.is_empty()).await;
        let (message, interrupt, nothing) = (format!("{chat}/messages/1"), format!("{chat}/interrupt"), json!({}));
        let (three, four) = (json!({"text": "count to 3"}), json!({"text": "count to 4"}));
        let (one, two, stopped) = tokio::join!(
            daemon.answer(Method::PUT, &message, &three),
            daemon.answer(Method::PUT, &message, &four),
            daemon.answer(Method::POST, &interrupt, &nothing)
        );
        assert_eq!(stopped.0, StatusCode::OK, "{stopped:?}");
        let edited = [&one, &two].into_iter().filter(|(code, _)| *code == StatusCode::OK).count();
        assert!(edited >= 1, "round {round}: {one:?} {two:?}");
        for (code, problem) in [&one, &two] {
            assert!(*code == StatusCode::OK || matches!(kind(problem), "not-editable" | "status"), "{problem}");
        }
        caught_up(&daemon, &mut watching, &chat).await; // An interrupt before the edits is a rest too.
        let view = watching.until(rests).await;
        assert_eq!(heard(&view).len(), 1, "round {round}: one question is left");
        assert_eq!(daemon.get(&format!("{chat}/messages")).await["messages"], json!(view.messages));
    }
}

/// S13: a token that is taken back over HTTP loses its open streams within five seconds, and others keep theirs.
#[tokio::test]
async fn a_revoked_token_loses_its_streams() {
    let scratch = Scratch::new();
    let daemon = Daemon::start(scratch.path(), "understudy/numbered").await;
    let made = daemon.post("/v1/tokens", &json!({"name": "phone", "scopes": ["read"]})).await;
    let (secret, id) = (made["token"].as_str().unwrap(), made["info"]["id"].as_str().unwrap());
    let chat = daemon.chat().await;
    let theirs = |path: &str| reqwest::Client::new().get(format!("{}{path}", daemon.base)).bearer_auth(secret);
    let mut lost = Reader::open(theirs(&format!("{chat}/stream"))).await;
    let mut kept = daemon.watch(&chat).await;
    lost.until(|view| view.status.is_some()).await;
    let (code, _) = daemon.answer(Method::DELETE, &format!("/v1/tokens/{id}"), &json!({})).await;
    let revoked = Instant::now();
    assert_eq!(code, StatusCode::OK);
    lost.until_the_end().await;
    assert_eq!(lost.comments.last().unwrap(), "bye, the token is not good any more");
    assert!(revoked.elapsed().as_secs() <= 5, "{:?}", revoked.elapsed());
    assert_eq!(theirs(&chat).send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    daemon.post(&format!("{chat}/messages"), &json!({"text": "count to 2"})).await;
    kept.until_rest().await;
}
