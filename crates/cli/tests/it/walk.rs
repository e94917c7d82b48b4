//! Every endpoint, at a server that runs as its users run it.

use std::collections::BTreeSet;

use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

use crate::daemon::{Daemon, Scratch};
use crate::reader::Reader;

/// Walks through the document, and ticks off what has worked.
struct Walk {
    daemon: Daemon,
    left: BTreeSet<(String, String)>,
}

impl Walk {
    async fn begin(daemon: Daemon) -> Self {
        let document = daemon.get("/openapi.json").await;
        let paths = document["paths"].as_object().unwrap().iter();
        let left = paths.flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(move |method| (method.to_uppercase(), path.clone()))
        });
        Self { left: left.collect(), daemon }
    }

    /// Does one thing, named as the document does: `{…}` stand for what follows, in order.
    async fn go(&mut self, method: Method, named: &str, names: &[&str], body: Value) -> Value {
        let path = names.iter().fold(named.to_owned(), |path, name| {
            let (before, rest) = path.split_once('{').unwrap();
            format!("{before}{name}{}", rest.split_once('}').unwrap().1)
        });
        let (status, answer) = self.daemon.answer(method.clone(), &path, &body).await;
        assert!(status.is_success(), "{method} {path}: {status} {answer}");
        self.left.remove(&(method.to_string(), named.into()));
        answer
    }

    /// A new chat with an agent: its id, its path, and a watcher.
    async fn chat(&mut self, agent: &str) -> (String, Reader) {
        let made = self.go(Method::POST, "/v1/chats", &[], json!({ "agent": agent })).await;
        let id = made["id"].as_str().unwrap().to_owned();
        let reader = self.daemon.watch(&format!("/v1/chats/{id}")).await;
        self.left.remove(&("GET".into(), "/v1/chats/{id}/stream".into()));
        (id, reader)
    }

    async fn say(&mut self, id: &str, body: Value) -> u64 {
        self.go(Method::POST, "/v1/chats/{id}/messages", &[id], body).await["id"].as_u64().unwrap()
    }

    /// What can be done with a chat that rests.
    async fn rest(&mut self) {
        let (id, mut reader) = self.chat("default").await;
        let file = json!({"type": "file", "name": "a.txt", "media_type": "text/plain", "data": "aGk="});
        self.say(&id, json!({"text": "count to 2", "parts": [file]})).await;
        let turn = reader.until_rest().await;
        for named in ["", "/messages", "/usage", "/export", "/queue"] {
            self.go(Method::GET, &format!("/v1/chats/{{id}}{named}"), &[&id], Value::Null).await;
        }
        let file = "/v1/chats/{id}/messages/{number}/files/{place}";
        assert_eq!(self.go(Method::GET, file, &[&id, "1", "1"], Value::Null).await, "hi");
        self.go(Method::POST, "/v1/chats/{id}/fork", &[&id], json!({"at": 2})).await;
        self.go(Method::PUT, "/v1/chats/{id}/messages/{number}", &[&id, "1"], json!({"text": "count to 3"})).await;
        reader.until(|view| view.messages.len() == 2 && view.messages != turn.messages).await;
        reader.until_rest().await;
        self.go(Method::POST, "/v1/chats/{id}/compact", &[&id], json!({})).await;
        reader.until(|view| view.messages.len() == 3).await;
        let patched =
            self.go(Method::PATCH, "/v1/chats/{id}", &[&id], json!({"title": "Walk", "archived": true})).await;
        assert_eq!((&patched["title"], &patched["archived"]), (&json!("Walk"), &json!(true)));
        self.go(Method::DELETE, "/v1/chats/{id}", &[&id], Value::Null).await;
        reader.until_the_end().await;
    }

    /// What can be done with one that works.
    async fn work(&mut self) {
        let (id, mut reader) = self.chat("default").await;
        self.say(&id, json!({"text": "count to 100000"})).await;
        reader.until(|view| view.draft.is_some()).await;
        let (first, second) =
            (self.say(&id, json!({"text": "x"})).await, self.say(&id, json!({"text": "count to 2"})).await);
        let promote = "/v1/chats/{id}/queue/{number}/promote";
        self.go(Method::POST, promote, &[&id, &second.to_string()], json!({})).await;
        let unqueue = "/v1/chats/{id}/queue/{number}";
        self.go(Method::DELETE, unqueue, &[&id, &first.to_string()], Value::Null).await;
        self.go(Method::POST, "/v1/chats/{id}/interrupt", &[&id], json!({})).await;
        reader.until(|view| view.messages.len() == 4).await;
    }

    /// And with one that waits.
    async fn wait(&mut self) {
        let (id, mut reader) = self.chat("waits").await;
        for (text, answer) in
            [("map", "result"), ("launch", "approve"), ("launch", "deny"), ("map", "error"), ("launch", "grant")]
        {
            self.say(&id, json!({ "text": text })).await;
            let view = reader.until(|view| view.status.as_ref().is_some_and(|status| !status.asks.is_empty())).await;
            let ask = view.status.unwrap().asks[0].clone();
            let answer = match answer {
                "approve" | "grant" => json!({"kind": answer, "call": ask.call, "input_hash": ask.input_hash}),
                "deny" => json!({"kind": answer, "call": ask.call}),
                _ => json!({"kind": answer, "call": ask.call, "output": "here"}),
            };
            self.go(Method::POST, "/v1/chats/{id}/answers", &[&id], json!({ "answers": [answer] })).await;
            reader.until(|view| view.status.as_ref().is_some_and(|status| status.asks.is_empty())).await;
            reader.until_rest().await;
        }
        let granted = self.go(Method::GET, "/v1/chats/{id}/grants", &[&id], Value::Null).await;
        let call = granted["grants"][0]["call"].as_str().unwrap();
        self.go(Method::DELETE, "/v1/chats/{id}/grants/{call}", &[&id, call], Value::Null).await;
        let changed = self.go(Method::GET, "/v1/chats/{id}/changes", &[&id], Value::Null).await;
        assert_eq!(changed, json!({"changes": []}), "it has no workspace");
        let jobs = self.go(Method::GET, "/v1/chats/{id}/jobs", &[&id], Value::Null).await;
        assert_eq!(jobs, json!({"jobs": []}));
        let stop = format!("/v1/chats/{id}/jobs/1/stop");
        let (status, answer) = self.daemon.answer(Method::POST, &stop, &json!({})).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "there is no job to be stopped: {answer}");
        self.left.remove(&("POST".into(), "/v1/chats/{id}/jobs/{number}/stop".into()));
        self.go(Method::POST, "/v1/chats/{id}/undo", &[&id], json!({"calls": ["1.0"]})).await;
    }

    /// What concerns the house.
    async fn house(&mut self) {
        let v1 = ["/v1/models", "/v1/agents", "/v1/usage", "/v1/chats", "/v1/asks", "/v1/tokens", "/v1/mcp"];
        for path in ["/healthz", "/readyz", "/metrics"].into_iter().chain(v1) {
            self.go(Method::GET, path, &[], Value::Null).await;
        }
        let made = self.go(Method::POST, "/v1/tokens", &[], json!({"name": "walk", "scopes": ["read"]})).await;
        let id = made["info"]["id"].as_str().unwrap();
        self.go(Method::DELETE, "/v1/tokens/{id}", &[id], Value::Null).await;
        let mut all = self.daemon.ask(Method::GET, "/v1/stream").send().await.unwrap();
        assert_eq!(all.status(), StatusCode::OK);
        let mut said = String::new();
        while !said.contains("event: list\n") {
            said.push_str(std::str::from_utf8(&all.chunk().await.unwrap().expect("a list")).unwrap());
        }
        self.left.remove(&("GET".into(), "/v1/stream".into()));
    }

    /// What the web page does to log in, and out again.
    async fn sessions(&mut self) {
        let made = self.go(Method::POST, "/v1/codes", &[], json!({"scopes": ["read"]})).await;
        let (client, session) = (Client::new(), format!("{}/v1/session", self.daemon.base));
        let opened = client.post(&session).json(&json!({"code": made["code"]})).send().await.unwrap();
        assert_eq!(opened.status(), StatusCode::CREATED);
        let cookie = opened.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let key = opened.json::<Value>().await.unwrap()["key"].as_str().unwrap().to_owned();
        self.left.remove(&("POST".into(), "/v1/session".into()));
        self.go(Method::GET, "/v1/session", &[], Value::Null).await;
        let open = self.go(Method::GET, "/v1/sessions", &[], Value::Null).await;
        let closing = client.delete(&session).header("cookie", cookie).header("x-everturn-key", key);
        let closed = closing.header("origin", &self.daemon.base).send().await.unwrap();
        assert_eq!(closed.status(), StatusCode::NO_CONTENT);
        self.left.remove(&("DELETE".into(), "/v1/session".into()));
        let id = open["sessions"][0]["id"].as_str().unwrap();
        self.go(Method::DELETE, "/v1/sessions/{id}", &[id], Value::Null).await;
        let (status, answer) = self.daemon.answer(Method::POST, "/v1/drill", &json!({"what": "cut"})).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "it has a key, so nothing is broken for show: {answer}");
        self.left.remove(&("POST".into(), "/v1/drill".into()));
    }
}

/// Whatever the document describes can be done.
#[tokio::test]
async fn every_endpoint_does_what_it_is_for() {
    let scratch = Scratch::new();
    let mut walk = Walk::begin(Daemon::start_with_all(scratch.path(), "http://127.0.0.1:9").await).await;
    assert!(walk.left.len() > 25, "{:?}", walk.left);
    walk.rest().await;
    walk.work().await;
    walk.wait().await;
    walk.house().await;
    walk.sessions().await;
    assert_eq!(walk.left, BTreeSet::new(), "these were not tried");
}
