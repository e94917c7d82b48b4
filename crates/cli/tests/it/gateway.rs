//! The gateway of a server that is killed.

use std::time::Duration;

use reqwest::{Client, Response};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::daemon::{Daemon, Scratch};

const PATIENCE: Duration = Duration::from_secs(60);

/// The text so far, the generation's name, and whether the last line was there.
#[derive(Default)]
struct Heard {
    text: String,
    id: String,
    is_done: bool,
    rest: Vec<u8>,
}

impl Heard {
    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8(line).unwrap();
            let Some(data) = line.trim_end().strip_prefix("data: ") else { continue };
            self.is_done |= data == "[DONE]";
            let chunk: Value = serde_json::from_str(data).unwrap_or_default();
            self.text.push_str(chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
            if let Some(id) = chunk["id"].as_str() {
                self.id = id.into();
            }
        }
    }

    /// Reads on until these words have come, or the stream is over.
    async fn until(&mut self, response: &mut Response, words: &str) {
        while !self.text.contains(words) {
            match timeout(PATIENCE, response.chunk()).await.expect("the stream is silent") {
                Ok(Some(bytes)) => self.take(&bytes),
                Ok(None) | Err(_) => return,
            }
        }
    }
}

async fn ask(daemon: &Daemon, body: &Value) -> Response {
    let request = Client::new().post(format!("{}/openai/v1/chat/completions", daemon.base));
    request.bearer_auth(&daemon.token).json(body).send().await.unwrap()
}

/// FC03: a server that was killed in the middle of an answer tells it from its first byte to the client that asks again, and
/// goes on with it: no word is missing and none is said twice.
#[tokio::test]
async fn an_answer_goes_on_after_a_kill() {
    let data = Scratch::new();
    let mut daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let messages = json!([{"role": "user", "content": "count to 300"}]);
    let body = json!({"model": "understudy/numbered", "stream": true, "messages": messages});
    let (mut cut, mut response) = (Heard::default(), ask(&daemon, &body).await);
    cut.until(&mut response, "t40 ").await;
    daemon.child.kill().await.unwrap();
    cut.until(&mut response, "never").await;
    assert!(!cut.is_done);
    let daemon = Daemon::start(data.path(), "understudy/numbered").await;
    let (mut again, mut response) = (Heard::default(), ask(&daemon, &body).await);
    again.until(&mut response, "never").await;
    let whole: Vec<String> = (1..=300).map(|number| format!("t{number}")).collect();
    assert_eq!(again.text, whole.join(" "));
    assert!(again.is_done && again.text.starts_with(&cut.text), "{}", cut.text);
    assert_eq!(again.id, cut.id);
    let chats = daemon.get("/v1/chats").await;
    assert_eq!(chats["chats"], json!([]), "no list shows it");
}
