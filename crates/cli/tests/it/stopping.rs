//! A turn for scripts can always be left, and never waits for what cannot come.

use std::process::Stdio;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::daemon::{Daemon, Scratch, everturn};
use crate::stage::{Stage, TOKEN};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

async fn signal(child: &Child, name: &str) {
    let pid = child.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-s", name, &pid]).status().await.unwrap().success());
}

async fn code(mut child: Child) -> Option<i32> {
    timeout(PATIENCE, child.wait()).await.expect("it does not end").unwrap().code()
}

/// Reads until these words have come.
async fn heard(from: &mut (impl AsyncRead + Unpin), words: &str) -> String {
    let mut said = String::new();
    while !said.contains(words) {
        let byte = timeout(PATIENCE, from.read_u8()).await.unwrap_or_else(|_| panic!("only {said:?}"));
        said.push(char::from(byte.unwrap_or_else(|_| panic!("only {said:?}"))));
    }
    said
}

/// Stops the server of a turn under way: a first signal cannot interrupt the turn then, and a second one ends
/// the command.
#[tokio::test]
async fn a_second_signal_leaves_even_a_daemon_that_is_gone() {
    for arguments in [vec!["run", "count to 50000"], vec!["chat"]] {
        let data = Scratch::new();
        let mut daemon = Daemon::start(data.path(), "understudy/numbered").await;
        let mut command = everturn(&arguments);
        command.args(["--url", &daemon.base]).env("EVERTURN_TOKEN", &daemon.token);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"count to 50000\n").await.unwrap();
        heard(child.stdout.as_mut().unwrap(), "t30 ").await;
        daemon.child.kill().await.unwrap();
        let mut errors = child.stderr.take().unwrap();
        heard(&mut errors, "reconnecting").await;
        signal(&child, "INT").await;
        heard(&mut errors, "signal again to leave at once").await;
        signal(&child, "INT").await;
        assert_eq!(code(child).await, Some(130), "{arguments:?}");
    }
}

/// One signal stops the turn of a piped chat, keeps what was said, and ends it.
#[tokio::test]
async fn a_piped_chat_can_be_stopped() {
    let data = Scratch::new();
    let daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let path = data.path().to_str().unwrap();
    let mut command = everturn(&["chat", "--data", path]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"count to 50000\ncount to 2\n").await.unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut said = heard(&mut out, "t30 ").await;
    signal(&child, "INT").await;
    out.read_to_string(&mut said).await.unwrap();
    assert_eq!(code(child).await, Some(130));
    let chats = daemon.get("/v1/chats").await;
    let id = chats["chats"][0]["id"].as_str().unwrap();
    let page = daemon.get(&format!("/v1/chats/{id}/messages")).await;
    assert_eq!(page["messages"].as_array().unwrap().len(), 2, "what was not said is not said");
    assert_eq!(page["messages"][1]["parts"][0]["text"].as_str().unwrap().trim(), said.trim());
    // No message was sent yet, and nothing is typed.
    let mut child = everturn(&["chat", "--data", path]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take();
    while daemon.get("/v1/chats").await["chats"].as_array().unwrap().len() < 2 {}
    signal(&child, "TERM").await;
    assert!(matches!(code(child).await, Some(130) | None), "it ends, whether or not it listened yet");
    drop(input);
}

/// What is said to a chat that waits for a person waits too, and says so.
#[tokio::test]
async fn a_chat_that_awaits_is_not_waited_for() {
    let stage = Stage::launching().await;
    let told = |arguments: Vec<String>, input: &'static str| {
        let mut command = everturn(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        command.args(["--url", &stage.base]).env("EVERTURN_TOKEN", TOKEN);
        async move {
            let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
            let mut child = spawned.unwrap();
            child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
            let output = timeout(PATIENCE, child.wait_with_output()).await.expect("it waits").unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        }
    };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let (code, error) = told(words(&["run", "go"]), "").await;
    assert_eq!(code, Some(4), "{error}");
    let id = error.split("this was chat ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    for (arguments, input) in [(vec!["run", "--resume", &id, "and?"], ""), (vec!["chat", "--resume", &id], "well?\n")] {
        let (code, error) = told(words(&arguments), input).await;
        assert_eq!(code, Some(4), "{error}");
        assert!(error.contains("launch waits for approval, and your message waits for that"), "{error}");
    }
    stage.server.stop().await;
}

/// A message that another client takes out of the queue is not waited for.
#[tokio::test]
async fn a_message_that_is_dropped_ends_the_command() {
    let data = Scratch::new();
    let daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let chat = daemon.chat().await;
    daemon.post(&format!("{chat}/messages"), &json!({"text": "count to 50000"})).await;
    let id = chat.rsplit('/').next().unwrap();
    let mut command =
        everturn(&["run", "--data", data.path().to_str().unwrap(), "--json", "--resume", id, "count to 2"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It has to see its message wait before that can be taken away.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let queued = loop {
        let line = timeout(PATIENCE, lines.next_line()).await.expect("it is silent").unwrap().expect("it goes on");
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        if let Some(queued) = event["data"]["queue"][0]["id"].as_u64() {
            break queued;
        }
    };
    let dropped = daemon.ask(Method::DELETE, &format!("{chat}/queue/{queued}")).send().await.unwrap();
    assert!(dropped.status().is_success());
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let mut errors = child.stderr.take().unwrap();
    heard(&mut errors, "another client removed the message from the queue").await;
    assert_eq!(code(child).await, Some(1));
}
