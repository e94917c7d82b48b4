//! What the file says reaches the engine: each setting alone, on a server that runs as its users run it.

use std::time::Duration;

use everturn_server::wire::Ended;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::time::timeout;

use crate::crowd::has_begun;
use crate::daemon::{Daemon, Scratch, everturn};
use crate::reader::{Reader, reply};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that is told this by its file.
async fn told(scratch: &Scratch, text: &str) -> Daemon {
    let data = scratch.path().join("data");
    std::fs::create_dir_all(scratch.path()).unwrap();
    let file = scratch.path().join("config.toml");
    std::fs::write(&file, text).unwrap();
    let mut command = everturn(&["serve", "--listen", "127.0.0.1:0"]);
    command.arg("--config").arg(&file).arg("--data").arg(&data);
    Daemon::spawn(&data, command).await
}

/// How a turn of this daemon's owner ends.
async fn turn(daemon: &Daemon, text: &str) -> Ended {
    let chat = daemon.chat().await;
    let mut reader = daemon.watch(&chat).await;
    daemon.post(&format!("{chat}/messages"), &json!({ "text": text })).await;
    reader.until_rest().await.status.unwrap().ended.unwrap()
}

/// What it failed of, and how much of what was used.
fn failure(ended: Ended) -> (String, String) {
    let Ended::Failed(failure) = ended else { panic!("{ended:?}") };
    (failure.kind, failure.detail)
}

/// Each bound of the usual budget is that of its window and of what it counts.
#[tokio::test]
async fn a_budget_is_that_of_its_window() {
    let windows = [("chat", "in this chat"), ("day", "today"), ("month", "this month")];
    for (key, unit, window) in
        [("steps", "steps made"), ("minutes", "minutes worked"), ("tokens", "tokens used"), ("cost", "spent")]
            .into_iter()
            .flat_map(|(what, unit)| windows.map(|(window, when)| (format!("{window}_{what}_max"), unit, when)))
    {
        let scratch = Scratch::new();
        let daemon = told(&scratch, &format!("model = 'understudy/numbered'\n[budget]\n{key} = 0")).await;
        let (kind, detail) = failure(turn(&daemon, "count to 3").await);
        assert_eq!(kind, "budget", "{key}");
        assert!(detail.contains(unit) && detail.contains(window), "{key}: {detail}");
        daemon.end().await;
    }
}

/// A budget ends what is used up, and nothing before: the number counts.
#[tokio::test]
async fn a_budget_is_as_large_as_it_says() {
    let scratch = Scratch::new();
    let daemon = told(&scratch, "model = 'understudy/numbered'\n[budget]\nmonth_tokens_max = 5").await;
    assert_eq!(turn(&daemon, "count to 30").await, Ended::Done);
    let (kind, detail) = failure(turn(&daemon, "count to 3").await);
    assert!(kind == "budget" && detail.contains(" of 5 tokens used this month"), "{kind}: {detail}");
    daemon.end().await;
}

/// An owner with an entry has that budget instead, narrower or wider.
#[tokio::test]
async fn an_owner_has_a_budget_of_their_own() {
    let scratch = Scratch::new();
    let text = "model = 'understudy/numbered'
        [budget]
        day_tokens_max = 0
        [owners.alice]
        month_tokens_max = 1000000
        [owners.bob]
        month_cost_max = 0";
    let mut daemon = told(&scratch, text).await;
    let (_, detail) = failure(turn(&daemon, "count to 3").await);
    assert!(detail.contains("tokens used today"), "{detail}");
    let first = daemon.token.clone();
    for owner in ["alice", "bob"] {
        daemon.token.clone_from(&first);
        let new = json!({"name": owner, "owner": owner, "scopes": ["read", "chat"]});
        daemon.token = daemon.post("/v1/tokens", &new).await["token"].as_str().unwrap().to_owned();
        let ended = turn(&daemon, "count to 3").await;
        match owner {
            "alice" => assert_eq!(ended, Ended::Done),
            _ => assert!(failure(ended).1.contains("spent this month")),
        }
    }
    daemon.end().await;
}

/// Usage of all chats of an owner is shown with its limits, to that owner only.
#[tokio::test]
async fn what_was_used_is_told_beside_what_may_be() {
    let scratch = Scratch::new();
    let text = "model = 'understudy/numbered'
        [budget]
        chat_minutes_max = 30
        day_steps_max = 3
        month_cost_max = 2.5";
    let mut daemon = told(&scratch, text).await;
    for _ in 0..2 {
        assert_eq!(turn(&daemon, "count to 3").await, Ended::Done);
    }
    let account = daemon.get("/v1/usage").await;
    let chat = daemon.get("/v1/chats").await["chats"][0]["id"].as_str().unwrap().to_owned();
    let usage = daemon.get(&format!("/v1/chats/{chat}/usage")).await;
    assert_eq!((&usage["steps"], &usage["attempts"]), (&json!(1), &json!(1)), "{usage}");
    for window in ["day", "month"] {
        assert_eq!(account[window]["steps"], 2, "{account}");
        assert!(account[window]["tokens"].as_u64() > usage["known"]["output"].as_u64(), "{account} {usage}");
    }
    let bounds = (&account["chat_max"], &account["day_max"], &account["month_max"]);
    assert_eq!(bounds, (&json!({"time_ms": 1_800_000}), &json!({"steps": 3}), &json!({"cost_micros": 2_500_000})));
    let new = json!({"name": "bob", "owner": "bob", "scopes": ["read"]});
    daemon.token = daemon.post("/v1/tokens", &new).await["token"].as_str().unwrap().to_owned();
    let theirs = daemon.get("/v1/usage").await;
    let nothing = json!({"steps": 0, "time_ms": 0, "alive_ms": 0, "tokens": 0, "cost_micros": 0});
    assert_eq!((&theirs["day"], &theirs["month"]), (&nothing, &nothing));
    daemon.end().await;
}

/// A running chat and its watcher.
async fn busy(daemon: &Daemon) -> (String, Reader) {
    let chat = daemon.chat().await;
    let mut reader = daemon.watch(&chat).await;
    daemon.post(&format!("{chat}/messages"), &json!({"text": "count to 100000"})).await;
    reader.until(has_begun).await;
    (chat, reader)
}

/// So many chats work at once; the next waits for a place, and gets it.
#[tokio::test]
async fn so_many_chats_work_at_once() {
    let scratch = Scratch::new();
    let daemon = told(&scratch, "model = 'understudy/numbered'\nchats_max = 1").await;
    let (first, _first_reader) = busy(&daemon).await;
    let second = daemon.chat().await;
    let mut reader = daemon.watch(&second).await;
    daemon.post(&format!("{second}/messages"), &json!({"text": "count to 3"})).await;
    let waits = async {
        loop {
            let (_, metrics) = daemon.answer(Method::GET, "/metrics", &json!({})).await;
            if metrics.as_str().unwrap().contains("everturn_chats_waiting 1\n") {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, waits).await.expect("the second waits in line");
    daemon.post(&format!("{first}/interrupt"), &json!({})).await;
    assert_eq!(reply(&reader.until_rest().await), "t1 t2 t3");
    daemon.end().await;
}

/// So many chats of one owner work at once; the next is refused, until one rests.
#[tokio::test]
async fn so_many_chats_of_an_owner_work_at_once() {
    let scratch = Scratch::new();
    let daemon = told(&scratch, "model = 'understudy/numbered'\nrunning_max = 1").await;
    let (first, _reader) = busy(&daemon).await;
    let messages = format!("{}/messages", daemon.chat().await);
    let (status, problem) = daemon.answer(Method::POST, &messages, &json!({"text": "count to 3"})).await;
    assert_eq!((status, &problem["type"]), (StatusCode::TOO_MANY_REQUESTS, &json!("urn:everturn:problem:too-many")));
    daemon.post(&format!("{first}/interrupt"), &json!({})).await;
    daemon.post(&messages, &json!({"text": "count to 3"})).await;
    daemon.end().await;
}

/// So many streams of one token are open at once; the next is refused.
#[tokio::test]
async fn so_many_streams_of_a_token_are_open_at_once() {
    let scratch = Scratch::new();
    let daemon = told(&scratch, "streams_max = 2").await;
    let chat = daemon.chat().await;
    let mut readers = [daemon.watch(&chat).await, daemon.watch(&chat).await];
    for reader in &mut readers {
        reader.until(|view| view.status.is_some()).await;
    }
    let third = daemon.ask(Method::GET, &format!("{chat}/stream")).send().await.unwrap();
    assert_eq!(third.status(), StatusCode::TOO_MANY_REQUESTS);
    drop(readers);
    daemon.end().await;
}

/// A stream ends in good order before a proxy would cut it.
#[tokio::test]
async fn a_stream_lasts_as_long_as_it_is_told() {
    let scratch = Scratch::new();
    let daemon = told(&scratch, "stream_seconds_max = 1").await;
    let chat = daemon.chat().await;
    let streamed = daemon.ask(Method::GET, &format!("{chat}/stream")).send().await.unwrap().text().await.unwrap();
    assert!(streamed.ends_with(": bye, time to reconnect\n\n"), "{streamed}");
    daemon.end().await;
}

/// The agent of chats that name none falls back, and has bounds, as the file says at the top.
#[tokio::test]
async fn the_default_agent_has_fallbacks_and_bounds() {
    let scratch = Scratch::new();
    let text = "model = 'understudy/persona'
        fallbacks = ['understudy/numbered']
        steps_max = 1
        [tools.map]
        description = 'Shows a map.'";
    let daemon = told(&scratch, text).await;
    let models = daemon.get("/v1/models").await;
    let asks = |id: &str| {
        let model = models["models"].as_array().unwrap().iter().find(|model| model["id"] == id).unwrap();
        model["agents"] == json!(["default"])
    };
    assert!(asks("understudy/persona") && asks("understudy/numbered"), "{models}");
    let chat = daemon.chat().await;
    let mut reader = daemon.watch(&chat).await;
    daemon.post(&format!("{chat}/messages"), &json!({"text": "Show me Oslo"})).await;
    let view = reader.until(|view| view.status.as_ref().is_some_and(|status| !status.asks.is_empty())).await;
    let answer = json!({"kind": "result", "call": view.status.unwrap().asks[0].call, "output": "here"});
    daemon.post(&format!("{chat}/answers"), &json!({ "answers": [answer] })).await;
    assert_eq!(reader.until_rest().await.status.unwrap().ended, Some(Ended::StepsMax));
    daemon.end().await;
}

/// An unknown variable stops the start with a suggestion, as an unknown key of the file does.
#[tokio::test]
async fn a_misspelt_variable_is_refused() {
    let scratch = Scratch::new();
    let data = scratch.path().to_str().unwrap();
    for arguments in [["serve", "--data", data].as_slice(), &["config", "show", "--data", data]] {
        let mut command = everturn(arguments);
        let output = command.env("EVERTURN_STREAM_MAX", "9").output().await.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("`EVERTURN_STREAM_MAX`: did you mean `EVERTURN_STREAMS_MAX`?"), "{said}");
    }
}
