//! Clients that act on the same chats at the same time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use everturn::core::command::{Command, Delivery};
use everturn::core::limits::Limits;
use everturn::stores::sqlite::{Sqlite, SqliteOptions};
use everturn::stores::{Memory, Store, Submission};
use everturn_server::ServerLimits;
use everturn_server::wire::{Body, Part, Status, View};
use everturn_testkit::rehearsal::sample::words;
use futures_util::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::stage::{Stage, answer, kind};

async fn on_sqlite(pace: Duration) -> (Stage, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(dir.path(), &SqliteOptions::default()).unwrap());
    (Stage::on(store, Arc::new(Memory::new()), ServerLimits::default(), pace).await, dir)
}

/// I2: on SQLite too, a thousand concurrent repeats of one keyed message create one row, and get one answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_repeats_has_one_effect_on_disk() {
    let (stage, _dir) = on_sqlite(Duration::ZERO).await;
    let stage = Arc::new(stage);
    let chat = stage.chat("numbered").await;
    let mut reader = stage.watch(&chat).await;
    let repeats = (0..1_000).map(|_| {
        let (stage, path) = (stage.clone(), format!("{chat}/messages"));
        tokio::spawn(async move {
            let request = stage.ask(Method::POST, &path).header("idempotency-key", "storm");
            answer(request.json(&json!({"text": "count to 3"})).send().await.unwrap()).await
        })
    });
    let answers: BTreeSet<(u16, String)> = join_all(repeats)
        .await
        .into_iter()
        .map(Result::unwrap)
        .map(|(code, body)| (code.as_u16(), body.to_string()))
        .collect();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!(answers.first().unwrap().0, 202);
    assert_eq!(reader.until_rest().await.messages.len(), 2);
}

/// The texts of the user messages.
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

/// A client that sends, steers, deletes queued messages and interrupts. Returns the accepted and the deleted texts.
async fn client(stage: Arc<Stage>, chat: String, name: &'static str) -> (Vec<String>, Vec<String>) {
    let (mut accepted, mut deleted) = (Vec::new(), Vec::new());
    for n in 0..12 {
        let text = format!("count to 8 {name}{n}");
        let when = ["queue", "steer", "now"][n % 3];
        let (code, receipt) = stage.post(&format!("{chat}/messages"), json!({"text": text, "when": when})).await;
        assert_eq!(code, StatusCode::ACCEPTED, "{receipt}");
        accepted.push(text.clone());
        match n % 4 {
            1 => {
                let path = format!("{chat}/queue/{}", receipt["id"]);
                let (code, problem) = stage.send(Method::DELETE, &path, Value::Null).await;
                match code {
                    StatusCode::OK => deleted.push(text),
                    _ => assert_eq!((code, kind(&problem)), (StatusCode::NOT_FOUND, "not-found"), "it was heard"),
                }
            }
            3 => assert_eq!(stage.post(&format!("{chat}/interrupt"), json!({})).await.0, StatusCode::OK),
            _ => {}
        }
    }
    (accepted, deleted)
}

/// I12: with two clients that send, steer, delete and interrupt at once, every message that was accepted and not
/// deleted is answered once; message numbers have no gap; every stream shows the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_accepted_message_is_answered_once() {
    for is_on_disk in [false, true] {
        let pace = Duration::from_micros(300);
        let (stage, _dir) = match is_on_disk {
            true => on_sqlite(pace).await,
            false => (Stage::with(ServerLimits::default(), pace).await, tempfile::tempdir().unwrap()),
        };
        let stage = Arc::new(stage);
        let chat = stage.chat("numbered").await;
        let mut watching = stage.watch(&chat).await;
        let clients = ["a", "b"].map(|name| tokio::spawn(client(stage.clone(), chat.clone(), name)));
        let mut expected = BTreeSet::new();
        for client in clients {
            let (accepted, deleted) = client.await.unwrap();
            expected.extend(accepted.into_iter().filter(|text| !deleted.contains(text)));
        }
        watching
            .until(|view| {
                let said = heard(view).into_iter().collect::<BTreeSet<_>>();
                let status = view.status.as_ref();
                said.len() >= expected.len()
                    && status.is_some_and(|status| {
                        status.queue.is_empty() && status.status == everturn_server::wire::Status::Idle
                    })
            })
            .await;
        let view = stage.caught_up(&mut watching, &chat).await;
        let said = heard(&view);
        assert_eq!(said.len(), expected.len(), "each of them once: {said:?}");
        assert_eq!(said.into_iter().collect::<BTreeSet<_>>(), expected);
        assert!(view.messages.is_sorted_by(|one, next| one.id + 1 == next.id), "numbers without a gap");
        assert_eq!(view, stage.view(&chat).await);
    }
}

/// Two clients edit the same message while a third interrupts: one transcript is left, and every stream shows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_that_race_leave_one_transcript() {
    let stage = Stage::with(ServerLimits::default(), Duration::from_micros(200)).await;
    for round in 0..15 {
        let chat = stage.chat("numbered").await;
        let mut watching = stage.watch(&chat).await;
        stage.say(&chat, "count to 40").await;
        watching.until(|view| !view.messages.is_empty()).await;
        let message = format!("{chat}/messages/1");
        let edit = |n: u32| stage.send(Method::PUT, &message, json!({"text": format!("count to {n}")}));
        let interrupt = format!("{chat}/interrupt");
        let (one, two, three) = tokio::join!(edit(3), edit(4), stage.post(&interrupt, json!({})));
        let edited = [&one, &two].into_iter().filter(|(code, _)| *code == StatusCode::OK).count();
        assert!(edited >= 1, "round {round}: {one:?} {two:?}");
        assert_eq!(three.0, StatusCode::OK, "{three:?}");
        for (code, problem) in [&one, &two] {
            assert!(
                *code == StatusCode::OK || kind(problem) == "not-editable" || kind(problem) == "status",
                "{problem}"
            );
        }
        stage.caught_up(&mut watching, &chat).await; // An interrupt before the edits leaves the chat idle too.
        let view = watching.until_rest().await;
        assert_eq!(heard(&view).len(), 1, "round {round}: one question is left");
        assert_eq!(view, stage.view(&chat).await);
    }
    stage.server.stop().await;
}

/// Running turns per owner are limited: a request above the limit gets Retry-After, and other owners are not affected.
#[tokio::test]
async fn an_owner_has_only_so_many_chats_at_work() {
    let limits = ServerLimits { running_max: 2, ..ServerLimits::default() };
    let stage = Stage::with(limits, Duration::from_millis(1)).await;
    let other = "evt_of-somebody-else-who-has-work-to-do";
    stage.grant(other, "you", &everturn::stores::Scope::ALL).await;
    let mut chats = Vec::new();
    for _ in 0..8 {
        chats.push(stage.chat("numbered").await);
    }
    let say = |chat: &String| {
        let request = stage.ask(Method::POST, &format!("{chat}/messages")).json(&json!({"text": "count to 100000"}));
        async move { request.send().await.unwrap() }
    };
    let answers = join_all(chats.iter().map(say)).await;
    let accepted = answers.iter().filter(|answer| answer.status() == StatusCode::ACCEPTED).count();
    assert_eq!(accepted, 2);
    let refused = answers.into_iter().find(|answer| answer.status() == StatusCode::TOO_MANY_REQUESTS).unwrap();
    assert_eq!(refused.headers()["retry-after"], "10");
    let works = async || -> Vec<String> {
        let (_, list) = stage.get("/v1/chats").await;
        let running = list["chats"].as_array().unwrap().iter().filter(|chat| chat["status"] == "running");
        running.map(|chat| format!("/v1/chats/{}", chat["id"].as_str().unwrap())).collect()
    };
    while works().await.len() < 2 {
        tokio::task::yield_now().await; // Accepted; the drivers have yet to apply them.
    }
    let works = works().await;
    assert_eq!(say(&works[0]).await.status(), StatusCode::ACCEPTED, "one that works takes more");
    let theirs = stage.client.post(format!("{}/v1/chats", stage.base)).bearer_auth(other).json(&json!({}));
    let theirs = answer(theirs.send().await.unwrap()).await.1["id"].as_str().unwrap().to_owned();
    let path = format!("{}/v1/chats/{theirs}/messages", stage.base);
    let request = stage.client.post(path).bearer_auth(other).json(&json!({"text": "Hello"}));
    assert_eq!(request.send().await.unwrap().status(), StatusCode::ACCEPTED);
    assert_eq!(stage.ask(Method::DELETE, &works[1]).send().await.unwrap().status(), StatusCode::NO_CONTENT);
    let rests = chats.iter().find(|chat| !works.contains(chat)).unwrap();
    assert_eq!(say(rests).await.status(), StatusCode::ACCEPTED);
    stage.server.stop().await;
}

/// Admitting a turn uses a counter and reads no list, whose cost would grow with the number of running chats.
#[tokio::test]
async fn a_message_asks_for_no_list() {
    let (stage, store) = Stage::sluggish(ServerLimits::default()).await;
    let chat = stage.chat("numbered").await;
    store.lists.shut();
    let said = tokio::time::timeout(Duration::from_secs(30), stage.say(&chat, "count to 3")).await;
    said.expect("the message waits for no list");
    store.lists.open();
    stage.server.stop().await;
}

/// A server that allows one running turn, and a chat to run it.
async fn taken() -> (Stage, String) {
    let stage = Stage::with(ServerLimits { running_max: 1, ..ServerLimits::default() }, Duration::from_millis(1)).await;
    let works = stage.chat("numbered").await;
    (stage, works)
}

async fn work(stage: &Stage, chat: &str) {
    let mut reader = stage.watch(chat).await;
    stage.say(chat, "count to 100000").await;
    reader.until(|view| view.draft.is_some()).await;
}

/// I2: a repeat under a key gets the first answer even at the limit of running turns; a new request is refused there.
#[tokio::test]
async fn a_repeat_is_answered_at_the_limit_of_turns() {
    let (stage, works) = taken().await;
    let chat = stage.talk("numbered", &["count to 2"]).await;
    let mut reader = stage.watch(&chat).await;
    let ask = async |method: &Method, path: &str, key: &str, body: &Value| {
        let request = stage.ask(method.clone(), &format!("{chat}{path}")).header("idempotency-key", key);
        answer(request.json(body).send().await.unwrap()).await
    };
    let asked = [
        (Method::POST, "/messages", json!({"text": "count to 3"})),
        (Method::PUT, "/messages/1", json!({"text": "count to 4"})),
        (Method::POST, "/compact", json!({})),
    ];
    let mut answers = Vec::new();
    for (method, path, body) in &asked {
        let (status, accepted) = ask(method, path, path, body).await;
        assert!(status.is_success(), "{accepted}");
        let version = stage.view(&chat).await.status.unwrap().version;
        reader.until(|view| view.status.as_ref().is_some_and(|status| status.version >= version)).await;
        reader.until_rest().await;
        answers.push((status, accepted));
    }
    work(&stage, &works).await;
    for ((method, path, body), answered) in asked.iter().zip(answers) {
        assert_eq!(ask(method, path, path, body).await, answered);
        let (status, problem) = ask(method, path, "another", body).await;
        assert_eq!((status, kind(&problem)), (StatusCode::TOO_MANY_REQUESTS, "too-many"), "{path}");
    }
    stage.server.stop().await;
}

/// Interrupting a chat that waits for answers starts the next queued message, so it counts as a new turn. Without a
/// queued message it only stops.
#[tokio::test]
async fn an_interrupt_that_begins_a_turn_counts_as_one() {
    let (stage, works) = taken().await;
    let mut asking = Vec::new();
    for queued in [&["and Rome"][..], &[]] {
        let chat = stage.chat("asks").await;
        let mut watching = stage.watch(&chat).await;
        stage.say(&chat, "Show me Oslo").await;
        watching.until(|view| view.status.as_ref().is_some_and(|status| !status.asks.is_empty())).await;
        for text in queued {
            stage.say(&chat, text).await;
            watching.until(|view| view.status.as_ref().is_some_and(|status| !status.queue.is_empty())).await;
        }
        asking.push(chat);
    }
    work(&stage, &works).await;
    let (status, problem) = stage.post(&format!("{}/interrupt", asking[0]), json!({})).await;
    assert_eq!((status, kind(&problem)), (StatusCode::TOO_MANY_REQUESTS, "too-many"));
    assert_eq!(stage.view(&asking[0]).await.status.unwrap().status, Status::Awaiting, "it goes on waiting");
    let (status, now) = stage.post(&format!("{}/interrupt", asking[1]), json!({})).await;
    assert_eq!((status, &now["status"]), (StatusCode::OK, &json!("idle")), "{now}");
    stage.post(&format!("{works}/interrupt"), json!({})).await;
    let (status, now) = stage.post(&format!("{}/interrupt", asking[0]), json!({})).await;
    assert_eq!(status, StatusCode::OK, "{now}");
    stage.server.stop().await;
}

/// Answering a call and promoting a message can begin a turn, so they count too; a refused one stays as it was.
#[tokio::test]
async fn answers_and_promotions_count_as_turns() {
    let (stage, works) = taken().await;
    let asks = stage.chat("asks").await;
    let mut asking = stage.watch(&asks).await;
    stage.say(&asks, "Show me Oslo").await;
    let view = asking.until(|view| view.status.as_ref().is_some_and(|status| !status.asks.is_empty())).await;
    let call = view.status.unwrap().asks[0].call.clone();
    let fails = stage.chat("fails").await;
    let id = fails.rsplit('/').next().unwrap().parse().unwrap();
    for text in ["first", "second"] {
        let command = Command::Send { parts: words(text), when: Delivery::Queue };
        let submission = Submission { command, key: None, at: stage.engine.now() };
        stage.memory.submit(id, submission, &Limits::default()).await.unwrap();
    }
    stage.send(Method::PATCH, &fails, json!({"title": "Wake up"})).await;
    let mut failing = stage.watch(&fails).await;
    let view = failing.until(|view| view.status.as_ref().is_some_and(|status| status.status == Status::Failed)).await;
    let queued = view.status.unwrap().queue[0].id;
    work(&stage, &works).await;
    let answer = json!({"answers": [{"kind": "result", "call": call, "output": "a map"}]});
    let asked = [(format!("{asks}/answers"), answer), (format!("{fails}/queue/{queued}/promote"), json!({}))];
    for (path, body) in &asked {
        let response = stage.ask(Method::POST, path).json(body).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS, "{path}");
        assert_eq!(response.headers()["retry-after"], "10");
    }
    stage.post(&format!("{works}/interrupt"), json!({})).await;
    for (path, body) in &asked {
        let (status, accepted) = stage.post(path, body.clone()).await;
        assert_eq!(status, StatusCode::OK, "{accepted}");
        asking.until_rest().await;
    }
    stage.server.stop().await;
}
