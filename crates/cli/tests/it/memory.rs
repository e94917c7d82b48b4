//! What requests may take, whatever was sent to the chat before.

use futures_util::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::daemon::{Daemon, Scratch};
use crate::reader::Reader;

const FILES: usize = 12;
const FILE_BYTES: usize = 3 << 18;
/// How often everything is asked at the same time.
const TIMES: usize = 12;
/// What all of that may take. Each request used to hold all files, nine mebibytes.
const MEMORY_MAX: usize = 24 << 20;

/// I19: files take memory when a request reads one of them or a model is shown them. Looking at a chat, reading it,
/// watching it from the beginning, renaming it and queueing messages take none, however often at once.
#[tokio::test]
async fn files_that_are_not_requested_take_no_memory() {
    let scratch = Scratch::new();
    let daemon = Daemon::start(scratch.path(), "understudy/persona").await;
    let chat = daemon.chat().await;
    let mut reader = Reader::open(daemon.ask(Method::GET, &format!("{chat}/stream"))).await;
    for n in 0..FILES {
        let data = format!("{n:04}{}", "AAAA".repeat(FILE_BYTES / 3 - 1));
        let file = json!({"type": "file", "name": "a.bin", "media_type": "application/zip", "data": data});
        daemon.post(&format!("{chat}/messages"), &json!({"parts": [file]})).await;
        reader.until(|view| view.messages.len() > 2 * n + 1).await;
        reader.until_rest().await;
    }
    daemon.end().await;

    let daemon = Daemon::start(scratch.path(), "understudy/persona").await;
    daemon.get("/v1/chats").await;
    let before = peak(&daemon);
    let ask = |path: &str| daemon.ask(Method::GET, &format!("{chat}{path}"));
    let mut requests = Vec::new();
    for n in 0..TIMES {
        requests.extend(["", "/queue", "/usage?each=true", "/messages?limit=200", "/export"].map(ask));
        requests.push(daemon.ask(Method::PATCH, &chat).json(&json!({"title": format!("{n}")})));
        requests.push(daemon.ask(Method::POST, &format!("{chat}/interrupt")).json(&json!({})));
    }
    let answered = join_all(requests.into_iter().map(|request| async {
        let response = request.send().await.unwrap();
        (response.status(), response.bytes().await.unwrap().len())
    }));
    let from = |after: &str| Reader::open(ask(&format!("/stream{after}")));
    let readers = join_all((0..TIMES).flat_map(|_| ["", "?after=1.1.0"]).map(from));
    let (answered, readers) = tokio::join!(answered, readers);
    assert!(answered.iter().all(|(status, len)| *status == StatusCode::OK && *len < 1 << 20), "{answered:?}");
    for mut reader in readers {
        reader.until(|view| view.messages.len() + 1 >= 2 * FILES).await; // The first may be in what they say they saw.
    }
    let after = peak(&daemon);
    assert!(after < before + MEMORY_MAX, "{after} bytes, and {before} before");
    let file = ask("/messages/1/files/0").send().await.unwrap().bytes().await.unwrap();
    assert_eq!(file.len(), FILE_BYTES, "it is there all the same");
}

/// The most memory that a server has ever had.
pub fn peak(daemon: &Daemon) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.child.id().unwrap())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches("kB").trim().parse::<usize>().unwrap() << 10
}
