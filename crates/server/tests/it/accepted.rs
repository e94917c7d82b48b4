//! An accepted message is visible to every read from the moment of acceptance, with whether it is answered.

use std::process::{Command, Stdio};
use std::time::Duration;

use everturn_server::ServerLimits;
use everturn_server::wire::{Body, Status, View};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::reader::{Reader, reply};
use crate::stage::{Stage, TOKEN, answer};

/// What a view shows of accepted messages: the status, the queue (id and key), and the unanswered ids.
type Told = (Status, Vec<(u64, Option<String>)>, Vec<u64>);

fn told(view: &View) -> Told {
    let status = view.status.as_ref().unwrap();
    let queue = status.queue.iter().map(|queued| (queued.id, queued.key.clone())).collect();
    (status.status, queue, status.unanswered.clone())
}

async fn opened(stage: &Stage, chat: &str) -> (Reader, View) {
    let mut reader = stage.watch(chat).await;
    let view = reader.until(|view| view.status.is_some()).await;
    (reader, view)
}

/// While no driver can commit, as on a full disk, every read on every replica shows the accepted message.
#[tokio::test]
async fn every_read_shows_what_was_accepted() {
    let (stage, store) = Stage::sluggish(ServerLimits::default()).await;
    let replica = Stage::on(store.store(), store.memory.clone(), ServerLimits::default(), Duration::ZERO).await;
    let chat = stage.talk("numbered", &["count to 2"]).await;
    let (mut earlier, before) = opened(&stage, &chat).await;
    assert_eq!(told(&before), (Status::Idle, vec![], vec![]));
    store.commits.shut();
    let send = stage.ask(Method::POST, &format!("{chat}/messages")).header("idempotency-key", "mine");
    let (status, accepted) = answer(send.json(&json!({"text": "count to 5"})).send().await.unwrap()).await;
    assert_eq!((status, &accepted["id"]), (StatusCode::ACCEPTED, &json!(2)));
    let waiting = (Status::Running, vec![(2, Some("mine".to_owned()))], vec![2]);
    for stage in [&stage, &replica] {
        let (_, now) = stage.get(&chat).await;
        assert_eq!((&now["status"], &now["received"], &now["unanswered"]), (&json!("running"), &json!(2), &json!([2])));
        assert!(now.get("ended").is_none(), "a turn is about to begin: {now}");
        let (_, queue) = stage.get(&format!("{chat}/queue")).await;
        assert_eq!(
            (&queue[0]["id"], &queue[0]["key"], &queue[0]["parts"][0]["text"]),
            (&json!(2), &json!("mine"), &json!("count to 5"))
        );
        for list in ["/v1/chats", "/v1/chats?text=count"] {
            assert_eq!(stage.get(list).await.1["chats"][0]["status"], "running", "{list}");
        }
        assert_eq!(told(&opened(stage, &chat).await.1), waiting, "a stream begins with it");
    }
    let shown = earlier.until(|view| told(view) == waiting).await;
    assert_eq!(shown.messages.len(), 2, "a stream that was open before gets it before anything is committed");
    store.commits.open();
    let done = earlier.until(|view| view.messages.len() == 4 && told(view).0 == Status::Idle).await;
    assert_eq!(told(&done), (Status::Idle, vec![], vec![]));
    let sent = |index: usize| match &done.messages[index].body {
        Body::User { receipt, key, .. } => (*receipt, key.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!((sent(0), sent(2)), ((Some(1), None), (Some(2), Some("mine".into()))));
    replica.server.stop().await;
    stage.server.stop().await;
}

/// A fork does not repeat the receipts of the messages it copied.
#[tokio::test]
async fn receipts_of_a_fork_are_its_own() {
    let stage = Stage::new().await;
    let chat = stage.talk("numbered", &["count to 2", "count to 3"]).await;
    let (_, fork) = stage.post(&format!("{chat}/fork"), json!({"at": 2})).await;
    let fork = format!("/v1/chats/{}", fork["id"].as_str().unwrap());
    assert_eq!(stage.say(&fork, "count to 4").await, 3);
    let mut reader = stage.watch(&fork).await;
    let view = reader.until(|view| view.messages.len() == 4 && told(view).0 == Status::Idle).await;
    let receipts: Vec<Option<u64>> = view
        .messages
        .iter()
        .filter_map(|message| match &message.body {
            Body::User { receipt, .. } => Some(*receipt),
            _ => None,
        })
        .collect();
    assert_eq!((receipts, reply(&view).as_str()), (vec![Some(1), Some(3)], "t1 t2 t3 t4"));
    stage.server.stop().await;
}

/// The example client, cut out of the documentation page.
fn client() -> &'static str {
    let page = include_str!("../../../../docs/http-api.md");
    let (_, behind) = page.split_once("```python\n").expect("the page has a client");
    behind.split_once("```").expect("and its end").0
}

/// With many clients in one chat at once, the documented example client gets the answer to its own message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_of_the_page_gets_its_own_answer() {
    let source = client();
    assert!(source.lines().filter(|line| !line.is_empty()).count() <= 20, "it is small");
    let stage = Stage::with(ServerLimits::default(), Duration::from_millis(1)).await;
    let chat = stage.chat("numbered").await;
    let id = chat.rsplit('/').next().unwrap().to_owned();
    let clients = [3, 9, 1, 7, 5, 2].map(|n: usize| {
        let (id, base) = (id.clone(), stage.base.clone());
        tokio::task::spawn_blocking(move || {
            let mut python = Command::new("python3");
            python.args(["-c", source, &id, &format!("count to {n}")]).stderr(Stdio::inherit());
            let out = python.env("EVERTURN_URL", base).env("EVERTURN_TOKEN", TOKEN).output();
            let out = out.expect("python3 runs the client of the page");
            (n, out.status.success(), String::from_utf8(out.stdout).unwrap())
        })
    });
    for client in clients {
        let (n, is_good, said) = client.await.unwrap();
        let expected: Vec<String> = (1..=n).map(|word| format!("t{word}")).collect();
        assert_eq!((is_good, said.trim_end()), (true, expected.join(" ").as_str()));
    }
    let now: Value = stage.get(&chat).await.1;
    assert_eq!((&now["unanswered"], &now["received"]), (&json!([]), &json!(6)));
    stage.server.stop().await;
}
