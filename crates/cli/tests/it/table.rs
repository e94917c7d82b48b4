//! The table of statuses and verbs, as clients of a server see it that runs as its users run it.
//!
//! The page `docs/states.md` is written by the core from its own table. Here a real server is brought to
//! every status, and asked for everything there.

use std::collections::BTreeSet;
use std::sync::Arc;

use everturn_server::wire::{Status, View};
use futures_util::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::{Barrier, watch};

use crate::daemon::{Daemon, Scratch};
use crate::reader::Reader;
use crate::storms::kind;

const PAGE: &str = include_str!("../../../../docs/states.md");
/// What the driver does by itself.
const DRIVERS: [&str; 7] = ["Begin", "Commit", "Ask", "Resume", "Settle", "Finish", "Fail"];

/// The page's cell, in small letters; empty if the verb is refused there.
fn cell(verb: &str, column: &str) -> String {
    let row = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = PAGE.lines().map(row).collect();
    let head = rows.iter().find(|row| row[0] == "verb").unwrap();
    let place = head.iter().position(|name| name.eq_ignore_ascii_case(column)).unwrap();
    rows.iter().find(|row| row[0] == verb).unwrap()[place].to_lowercase()
}

/// The statuses a chat can reach from this one without further commands.
fn from(status: String) -> BTreeSet<String> {
    let mut reached = vec![status];
    let mut i = 0;
    while i < reached.len() {
        let next: Vec<String> = DRIVERS.iter().map(|verb| cell(verb, &reached[i])).collect();
        for status in next {
            if !status.is_empty() && !reached.contains(&status) {
                reached.push(status);
            }
        }
        i += 1;
    }
    reached.into_iter().collect()
}

/// A provider that takes its time, and refuses the key once it may.
async fn refusing(may: watch::Receiver<bool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut may = may.clone();
            tokio::spawn(async move {
                let mut request = vec![0; 64 * 1024];
                let _ = stream.read(&mut request).await; // A small request comes at once.
                let _ = may.wait_for(|may| *may).await; // The sender is gone once the test ends.
                let body = r#"{"type":"error","error":{"type":"authentication_error","message":"no"}}"#;
                let head = "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\nconnection: close\r\n";
                let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
                let _ = stream.write_all(answer.as_bytes()).await; // It may have been given up.
            });
        }
    });
    format!("http://{address}")
}

/// When the provider refuses: as soon as all waiting chats have come far enough.
struct Gate {
    may_fail: watch::Sender<bool>,
    together: Barrier,
}

/// Where a chat is to be brought.
#[derive(Debug, Clone, Copy)]
struct Place {
    status: Status,
    two_wait: bool,
    archived: bool,
}

/// A chat that was brought there.
struct Stood {
    chat: String,
    /// Id of the newest queued message; 99 if there is none.
    waits: u64,
    /// What it asks, or nothing.
    ask: String,
    _reader: Reader,
}

fn is(view: &View, status: Status) -> bool {
    view.status.as_ref().is_some_and(|standing| standing.status == status)
}

fn version(view: &View) -> u64 {
    view.status.as_ref().map_or(0, |status| status.version)
}

async fn stand(daemon: &Daemon, gate: &Gate, place: Place) -> Stood {
    let (agent, text) = match place.status {
        Status::Idle => ("default", "count to 1"),
        Status::Running => ("default", "count to 100000"),
        Status::Awaiting => ("waits", "map"),
        Status::Interrupting => ("waits", "linger"),
        Status::Failed => ("fails", "hello"),
    };
    let chat = daemon.chat_with(agent).await;
    let mut reader = daemon.watch(&chat).await;
    let messages = format!("{chat}/messages");
    daemon.post(&messages, &json!({ "text": text })).await;
    match place.status {
        Status::Idle => drop(reader.until_rest().await),
        Status::Running => drop(reader.until(|view| view.draft.is_some()).await),
        Status::Failed => drop(reader.until(|view| is(view, Status::Running)).await),
        Status::Awaiting => drop(reader.until(|view| is(view, Status::Awaiting)).await),
        // The turn began, its call was said, and has started.
        Status::Interrupting => drop(reader.until(|view| version(view) >= 3).await),
    }
    let mut waits = 99;
    if place.two_wait {
        for text in ["first", "second"] {
            waits = daemon.post(&messages, &json!({ "text": text })).await["id"].as_u64().unwrap();
        }
        reader.until(|view| view.status.as_ref().is_some_and(|status| status.queue.len() == 2)).await;
    }
    if place.status == Status::Interrupting {
        let stop = daemon.ask(Method::POST, &format!("{chat}/interrupt")).json(&json!({}));
        tokio::spawn(stop.send()); // It is answered when the turn has ended, which takes a while.
    }
    if place.status == Status::Failed {
        gate.together.wait().await;
        gate.may_fail.send_replace(true);
    }
    let view = reader.until(|view| is(view, place.status)).await;
    if place.archived {
        assert_eq!(daemon.answer(Method::PATCH, &chat, &json!({"archived": true})).await.0, StatusCode::OK);
    }
    let asks = view.status.map(|status| status.asks).unwrap_or_default();
    let ask = asks.first().map_or("9.0".into(), |ask| ask.call.clone());
    Stood { chat, waits, ask, _reader: reader }
}

/// Everything that can be asked: a name, the verb, and the request.
fn asked(stood: &Stood) -> Vec<(&'static str, &'static str, Method, String, Value)> {
    let Stood { chat, waits, ask, .. } = stood;
    let (said, answers) = (format!("{chat}/messages"), json!([{"kind": "result", "call": ask, "output": "here"}]));
    let (queue, edit) = (format!("{chat}/queue"), json!({"text": "edited"}));
    let patch = |body| (Method::PATCH, chat.clone(), body);
    let cells = [
        ("send", "Send", (Method::POST, said.clone(), json!({"text": "new"}))),
        ("steer", "Steer", (Method::POST, said.clone(), json!({"text": "new", "when": "steer"}))),
        ("send now", "SendNow", (Method::POST, said.clone(), json!({"text": "new", "when": "now"}))),
        ("send nothing", "Send", (Method::POST, said.clone(), json!({"text": " "}))),
        ("promote", "Promote", (Method::POST, format!("{queue}/{waits}/promote"), json!({}))),
        ("promote a gone one", "Promote", (Method::POST, format!("{queue}/98/promote"), json!({}))),
        ("unqueue", "Unqueue", (Method::DELETE, format!("{queue}/{waits}"), json!({}))),
        ("interrupt", "Interrupt", (Method::POST, format!("{chat}/interrupt"), json!({}))),
        ("answer", "Answer", (Method::POST, format!("{chat}/answers"), json!({ "answers": answers }))),
        ("edit", "Edit", (Method::PUT, format!("{said}/1"), edit.clone())),
        ("edit a reply", "Edit", (Method::PUT, format!("{said}/2"), edit)),
        ("compact", "Compact", (Method::POST, format!("{chat}/compact"), json!({}))),
        ("archive", "Archive", patch(json!({"archived": true}))),
        ("unarchive", "Unarchive", patch(json!({"archived": false}))),
        ("rename", "Rename", patch(json!({"title": "another"}))),
        ("rename and archive", "Archive", patch(json!({"title": "another", "archived": true}))),
        ("rename and unarchive", "Unarchive", patch(json!({"title": "another", "archived": false}))),
    ];
    cells.into_iter().map(|(name, verb, (method, path, body))| (name, verb, method, path, body)).collect()
}

/// What the page and the arguments say: where it leads, or which problem it is.
fn expected(place: Place, name: &str, verb: &str) -> Result<String, &'static str> {
    let status = format!("{:?}", place.status);
    let next = cell(verb, &status);
    if name == "interrupt" && (place.archived || matches!(place.status, Status::Idle | Status::Failed)) {
        return Ok(status.to_lowercase()); // A chat that rests is stopped already.
    }
    match name {
        _ if place.archived && cell(verb, "archived").is_empty() => Err("archived"),
        _ if next.is_empty() => Err("status"),
        "compact" if place.status == Status::Failed => Err("status"), // The model has said nothing yet.
        "send nothing" => Err("invalid"),
        "edit a reply" => Err("not-editable"),
        "promote a gone one" => Err("not-found"),
        "promote" | "unqueue" if !place.two_wait => Err("not-found"),
        "answer" => Ok(cell("Resume", &status)),
        _ => Ok(next),
    }
}

/// Asks, and asks again while it is kept and was not done yet: a machine may be busy with other tests.
async fn patiently(daemon: &Daemon, chat: &str, method: &Method, path: &str, body: &Value) -> (StatusCode, Value) {
    for _ in 0..5 {
        let request = daemon.ask(method.clone(), path).header("idempotency-key", "the-only-one").json(body);
        let response = request.send().await.unwrap();
        if response.status() != StatusCode::SERVICE_UNAVAILABLE {
            return (response.status(), response.json().await.unwrap());
        }
    }
    panic!("{method} {path} is never done: {}", daemon.get(chat).await);
}

async fn check(daemon: Arc<Daemon>, gate: Arc<Gate>, place: Place, number: usize) {
    let stood = stand(&daemon, &gate, place).await;
    let status = format!("{:?}", place.status).to_lowercase();
    let (name, verb, method, path, body) = asked(&stood).swap_remove(number);
    let (code, answer) = patiently(&daemon, &stood.chat, &method, &path, &body).await;
    let said = format!("{name} at {place:?}: {code} {answer}");
    match expected(place, name, verb) {
        Err(problem) => {
            assert_eq!(kind(&answer), problem, "{said}");
            assert!(code.is_client_error(), "{said}");
            if code != StatusCode::UNPROCESSABLE_ENTITY {
                assert_eq!(answer["chat"]["status"], json!(status), "{said}");
            }
        }
        Ok(next) => {
            assert!(code.is_success(), "{said}");
            let now = daemon.get(&stood.chat).await["status"].as_str().unwrap().to_owned();
            assert!(from(next).contains(&now), "{said}, and is {now}");
        }
    }
}

/// CS09, CS10: every command in every status, archived or not, with others waiting or without, is taken or
/// refused as the page says, and leads where it says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_in_every_status_does_what_the_page_says() {
    const COMMANDS: usize = 17;
    let scratch = Scratch::new();
    let all = |status| [false, true].map(|two_wait| Place { status, two_wait, archived: false });
    let put_away = |status| Place { status, two_wait: false, archived: true };
    let places = [Status::Running, Status::Interrupting, Status::Awaiting, Status::Failed].map(all).concat();
    let idle = Place { status: Status::Idle, two_wait: false, archived: false };
    let rest = [idle, put_away(Status::Idle), put_away(Status::Failed)];
    let (may_fail, is_told) = watch::channel(false);
    let gate = Arc::new(Gate { may_fail, together: Barrier::new(COMMANDS) });
    let daemon = Arc::new(Daemon::start_with_all(scratch.path(), &refusing(is_told).await).await);
    for place in places.into_iter().chain(rest) {
        gate.may_fail.send_replace(false);
        let cells = (0..COMMANDS).map(|number| tokio::spawn(check(daemon.clone(), gate.clone(), place, number)));
        for cell in join_all(cells).await {
            cell.unwrap();
        }
    }
}
