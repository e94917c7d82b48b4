//! A daemon that has not enough of something.

use std::path::Path;
use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;

use crate::crowd::{has_begun, words};
use crate::daemon::{Daemon, EVERTURN, Scratch, without_keys};
use crate::reader::{Came, reply, rests};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Enough for the daemon itself, its database and some clients.
const OPEN_MAX: usize = 96;
const TOKENS: usize = 400;
/// Log lines about connections that cannot be accepted: one per retry, ten times per second.
const COMPLAINTS_MAX: usize = 600;

fn complaints(log: &Path) -> usize {
    std::fs::read_to_string(log).unwrap().matches("cannot accept a connection").count()
}

/// The command with few file descriptors, and its log in a file.
fn with_few(data: &Path, log: &Path) -> Command {
    let mut shell = without_keys("sh");
    let serve = format!("ulimit -n {OPEN_MAX}; exec \"$0\" serve --listen 127.0.0.1:0 --data \"$1\" 2>\"$2\"");
    shell.arg("-c").arg(serve).arg(EVERTURN).arg(data).arg(log);
    shell.env("EVERTURN_MODEL", "understudy/numbered");
    shell
}

/// X7: when connections have taken all file descriptors, the turn under way goes on and the daemon does not spin; once some
/// are closed, others come in, and open streams see all of it.
#[tokio::test]
async fn without_file_descriptors_turns_go_on() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path()).unwrap();
    let (data, log) = (scratch.path().join("data"), scratch.path().join("log"));
    let daemon = Daemon::spawn(&data, with_few(&data, &log)).await;
    let chat = daemon.chat().await;
    let mut reader = daemon.watch(&chat).await;
    daemon.post(&format!("{chat}/messages"), &json!({"text": format!("count to {TOKENS}")})).await;
    reader.until(has_begun).await;
    let address = daemon.base.strip_prefix("http://").unwrap();
    let mut hoard = Vec::new();
    for _ in 0..2 * OPEN_MAX {
        hoard.push(TcpStream::connect(address).await.unwrap());
    }
    let taken = async {
        while complaints(&log) == 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, taken).await.expect("there are too few");
    assert!(reader.follower.view().draft.is_some(), "in the middle of the answer");
    // A stream that needs the store, and finds no descriptor for it, ends in good order.
    while !rests(reader.follower.view()) && !matches!(reader.next().await, Came::End | Came::Cut) {}
    drop(hoard);
    let asked = Client::new().get(format!("{}/v1/chats", daemon.base)).bearer_auth(&daemon.token).send();
    let answered = timeout(PATIENCE, asked).await.expect("there is room again").unwrap();
    assert_eq!(answered.status(), StatusCode::OK);
    assert_eq!(reply(&daemon.watch(&chat).await.until_rest().await), words(TOKENS));
    daemon.end().await;
    assert!(complaints(&log) < COMPLAINTS_MAX, "{} complaints", complaints(&log));
}
