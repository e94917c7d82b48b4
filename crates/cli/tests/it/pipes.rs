//! A reader that closes the pipe early is no failure.

use std::process::Stdio;

use reqwest::Method;
use serde_json::json;

use crate::daemon::{Daemon, Scratch, everturn};
use crate::reader::Reader;
use crate::stage::TOKEN;

/// Runs a command with a closed output pipe, and checks that it ends well.
async fn unread(arguments: &[&str]) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = everturn(arguments).env("EVERTURN_TOKEN", TOKEN).stdout(writer).stderr(Stdio::piped()).spawn();
    let output = child.unwrap().wait_with_output().await.unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
    assert!(!error.contains("panicked"), "{arguments:?}: {error}");
}

#[tokio::test]
async fn commands_end_well_when_nobody_reads() {
    let data = Scratch::new();
    let path = data.path().to_str().unwrap();
    let copy = format!("{path}/copy.db");
    let daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let chat = daemon.chat().await;
    let chat = chat.rsplit('/').next().unwrap();
    for arguments in [
        vec!["completions", "bash"],
        vec!["chats", "--data", path],
        vec!["tokens", "--data", path],
        vec!["tokens", "make", "phone", "--data", path],
        vec!["export", chat, "--data", path],
        vec!["config", "show", "--data", path],
        vec!["doctor", "--data", path],
        vec!["replay", chat, "--data", path],
        vec!["run", "count to 9", "--data", path],
        vec!["run", "count to 9", "--data", path, "--json"],
        vec!["backup", &copy, "--data", path],
    ] {
        unread(&arguments).await;
    }
}

#[tokio::test]
async fn the_demo_ends_well_when_nobody_reads() {
    for more in [vec![], vec!["--json"]] {
        unread(&[&["demo", "--quick", "--fault", "cut", "--wire", "chat"], more.as_slice()].concat()).await;
    }
}

/// A server with a closed standard error still hands its turns over when it is stopped.
#[tokio::test]
async fn a_server_ends_well_when_nobody_reads_its_log() {
    for signal in ["TERM", "INT"] {
        let data = Scratch::new();
        let loud = [("EVERTURN_DRAIN_SECONDS", "0"), ("EVERTURN_LOG", "debug")];
        let mut daemon = Daemon::start_with(data.path(), "understudy/numbered", &loud).await;
        let chat = daemon.chat().await;
        let mut reader = Reader::open(daemon.ask(Method::GET, &format!("{chat}/stream"))).await;
        daemon.post(&format!("{chat}/messages"), &json!({"text": "count to 100000"})).await;
        reader.until(|view| view.draft.as_ref().is_some_and(|draft| draft.n > 10)).await;
        daemon.deafen().await;
        daemon.signal(signal).await;
        reader.until_the_end().await;
        assert_eq!(daemon.child.wait().await.unwrap().code(), Some(0), "{signal}");
        assert!(reader.comments.last().is_some_and(|last| last.starts_with("bye")), "{:?}", reader.comments);
        assert!(!data.path().join("address").exists(), "no command is sent to it any more");
    }
}
