//! Recordings: of chats in several stores, beside each other in one data directory; and of one chat alone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use everturn::core::ids::ChatId;
use everturn_understudy::http;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::daemon::{Daemon, Scratch};
use crate::operations::{KEY, files, indiscreet};
use crate::providers::understudy;
use crate::reader::{Reader, rests};

/// Starts a server on this database, has something recorded, and gives back where that is. If `gone` is where
/// chats of the same store were recorded before, waits until everything there was looked at.
async fn recorded(data: &Path, base: &str, url: &str, gone: Option<&Path>) -> PathBuf {
    let all = data.join("recordings");
    let known = || if all.exists() { BTreeSet::from_iter(files(&all)) } else { BTreeSet::new() };
    // The last by name, of an unknown chat.
    let last = gone.map(|dir| dir.join(ChatId::from_u128(u128::MAX).to_string()));
    last.iter().for_each(|last| std::fs::create_dir(last).unwrap());
    let before = known();
    let variables = [
        ("ANTHROPIC_API_KEY", KEY),
        ("ANTHROPIC_BASE_URL", base),
        ("EVERTURN_RECORD", "errors"),
        ("DATABASE_URL", url),
    ];
    let daemon = Daemon::start_with(data, "anthropic/claude-sonnet-4-5", &variables).await;
    while last.as_ref().is_some_and(|last| last.exists()) {
        tokio::task::yield_now().await;
    }
    let chat = daemon.chat().await;
    let mut reader = Reader::open(daemon.ask(Method::GET, &format!("{chat}/stream"))).await;
    daemon.post(&format!("{chat}/messages"), &json!({"text": "hello"})).await;
    reader.until_rest().await;
    daemon.end().await;
    let after = known();
    assert!(before.is_subset(&after), "{before:#?} was there, and now {after:#?}");
    let file = after.difference(&before).next().expect("it was recorded");
    assert!(file.parent().unwrap().ends_with(chat.rsplit('/').next().unwrap()), "{}", file.display());
    file.ancestors().nth(2).unwrap().to_owned()
}

/// A start with another database takes nothing for gone that is another's.
#[tokio::test]
async fn a_start_on_another_database_deletes_no_recordings() {
    let (scratch, base) = (Scratch::new(), indiscreet().await);
    let (data, urls) = (scratch.path(), [(); 2].map(|()| everturn_props::database().unwrap()));
    let ours = recorded(data, &base, "", None).await;
    for url in &urls {
        let theirs = recorded(data, &base, url, None).await;
        assert_eq!(recorded(data, &base, url, Some(&theirs)).await, theirs);
    }
    assert_eq!(recorded(data, &base, "", Some(&ours)).await, ours);
}

/// What was recorded, by chat and number.
fn names(data: &Path) -> Vec<String> {
    let all = data.join("recordings");
    let mut names: Vec<String> = if all.exists() {
        files(&all).iter().map(|file| file.strip_prefix(&all).unwrap().to_str().unwrap().to_owned()).collect()
    } else {
        Vec::new()
    };
    names.sort();
    names
}

async fn set(daemon: &Daemon, chat: &str, debug: bool) -> Value {
    let (status, chat) = daemon.answer(Method::PATCH, chat, &json!({ "debug": debug })).await;
    assert_eq!(status, StatusCode::OK, "{chat}");
    chat
}

/// I23: of two chats the one that is debugged is recorded, whole and without the key. It stays so over
/// restarts, until `debug` is switched off; and `debug` can be switched on for a chat that exists.
#[tokio::test]
async fn a_chat_that_is_debugged_is_recorded_and_others_are_not() {
    let (scratch, understudy) = (Scratch::new(), understudy().await);
    let (data, url) = (scratch.path(), understudy.url());
    let variables = [("ANTHROPIC_API_KEY", http::KEY), ("ANTHROPIC_BASE_URL", url.as_str())];
    let start = || Daemon::start_with(data, "anthropic/numbered", &variables);
    let daemon = start().await;
    let made = daemon.post("/v1/chats", &json!({"debug": true})).await;
    assert_eq!(made["debug"], true);
    let chats = [format!("/v1/chats/{}", made["id"].as_str().unwrap()), daemon.chat().await];
    let name = |chat: usize, number| format!("{}/{number:08}.json", chats[chat].rsplit('/').next().unwrap());
    // Each has a turn, and what was recorded by then is told.
    let turns = async |daemon: Daemon, before: usize| {
        for chat in &chats {
            let mut reader = daemon.watch(chat).await;
            daemon.post(&format!("{chat}/messages"), &json!({"text": "count to 3"})).await;
            reader.until(|view| rests(view) && view.messages.len() == 2 * before + 2).await;
        }
        daemon.end().await;
        names(data)
    };
    assert_eq!(turns(daemon, 0).await, [name(0, 1)]);
    assert_eq!(turns(start().await, 1).await, [name(0, 1), name(0, 2)]);
    let daemon = start().await;
    assert_eq!(set(&daemon, &chats[0], false).await.get("debug"), None);
    assert_eq!(set(&daemon, &chats[1], true).await["debug"], true);
    let mut expected = [name(0, 1), name(0, 2), name(1, 1)];
    expected.sort();
    assert_eq!(turns(daemon, 2).await, expected);
    for file in files(&data.join("recordings")) {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("count to 3") && text.contains("message_stop"), "it went well, and is there: {text}");
        assert!(text.contains("x-api-key") && !text.contains(http::KEY), "{text}");
    }
}
