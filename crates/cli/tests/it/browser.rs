//! The web page in a real browser, against the real server.
//!
//! The truth is what the API says is stored; what is shown is the text on screen. The server is killed by its process id.

mod access;
mod asks;
mod drill;
mod driver;
mod login;
mod recovery;
mod safety;
mod sending;
mod turns;
mod typing;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::daemon::{Daemon, Scratch, everturn};
use driver::Browser;

/// How long a turn may take on a busy machine.
const TURN_MAX: Duration = Duration::from_secs(120);

/// A server on a port that stays the same over restarts, and a browser with its page.
struct Stand {
    scratch: Scratch,
    daemon: Daemon,
    browser: Browser,
}

impl Stand {
    /// A browser that is logged in.
    async fn new(model: &str) -> Self {
        let scratch = Scratch::new();
        let daemon = serve(&scratch, model, "127.0.0.1:0").await;
        let mut browser = Browser::start(&daemon.base).await;
        browser.log_in(&daemon).await;
        Self { scratch, daemon, browser }
    }

    /// Kills the server as a power cut would, and starts another one in its place.
    async fn kill_and_restart(&mut self, model: &str) {
        self.daemon.signal("KILL").await;
        self.daemon.child.wait().await.unwrap();
        let at = self.daemon.base.strip_prefix("http://").unwrap().to_owned();
        self.daemon = serve(&self.scratch, model, &at).await;
    }

    /// Waits until the chat rests, and returns the words of its newest reply, as they are stored.
    async fn stored(&self, chat: &str) -> Vec<String> {
        let mut watcher = self.daemon.watch(chat).await;
        let rests = watcher.until(|view| {
            let status = view.status.as_ref().map(|now| json!(now.status));
            !view.messages.is_empty() && status.is_some_and(|status| status == "idle" || status == "failed")
        });
        timeout(TURN_MAX, rests).await.expect("the turn ends");
        let page = self.daemon.get(&format!("{chat}/messages")).await;
        let messages = page["messages"].as_array().unwrap();
        let reply = messages.iter().rev().find(|message| message["kind"] == "reply").expect("a reply");
        words(reply)
    }

    async fn end(self) {
        self.browser.end().await;
        self.daemon.end().await;
    }
}

/// The words of a message's text parts.
fn words(message: &Value) -> Vec<String> {
    let parts = message["parts"].as_array().unwrap().iter();
    let texts = parts.filter(|part| part["type"] == "text").map(|part| part["text"].as_str().unwrap());
    texts.flat_map(str::split_whitespace).map(String::from).collect()
}

async fn serve(scratch: &Scratch, model: &str, at: &str) -> Daemon {
    let data = scratch.path();
    Daemon::spawn(data, everturn(&["serve", "--listen", at, "--data", data.to_str().unwrap(), "--model", model])).await
}

/// The words `t1`, `t2`, … that the numbered stand-in says.
fn counted(to: usize) -> Vec<String> {
    (1..=to).map(|number| format!("t{number}")).collect()
}

/// Complains unless the words on screen count on without a gap or a repetition. The last one may be on its way. A page that
/// lost or doubled a delta would be put right by the message that replaces the draft, so this is asked while it grows.
fn counts(shown: &[String]) {
    let is_counted = |word: &&String| word.strip_prefix('t').is_some_and(|number| number.parse::<u32>().is_ok());
    let shown: Vec<_> = shown.iter().filter(is_counted).cloned().collect();
    let whole = shown.len().saturating_sub(1);
    assert!(whole > 0, "nothing is shown");
    assert_eq!(shown[..whole], counted(whole));
}
