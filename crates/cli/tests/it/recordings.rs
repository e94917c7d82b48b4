//! Recordings of chats in several stores, beside each other in one data directory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use everturn::core::ids::ChatId;
use reqwest::Method;
use serde_json::json;

use crate::daemon::{Daemon, Scratch};
use crate::operations::{KEY, files, indiscreet};
use crate::reader::Reader;

/// Starts a server on this database, has something recorded, and gives back where that is. If `gone` is where chats of the
/// same store were recorded before, waits until everything there was looked at.
async fn recorded(data: &Path, base: &str, url: &str, gone: Option<&Path>) -> PathBuf {
    let all = data.join("recordings");
    let known = || if all.exists() { BTreeSet::from_iter(files(&all)) } else { BTreeSet::new() };
    // The last by name, of a chat that nobody knows.
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
