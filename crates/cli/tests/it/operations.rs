//! What an operator relies on.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::daemon::{Daemon, Scratch, everturn};
use crate::reader::{Reader, reply};

const TOKENS: usize = 400;

/// X2, I24: an end without any grace in the middle of an answer, and the next start goes on: every token
/// once.
#[tokio::test]
async fn an_end_in_the_middle_of_an_answer_loses_nothing() {
    let scratch = Scratch::new();
    let at_once = [("EVERTURN_DRAIN_SECONDS", "0")];
    let daemon = Daemon::start_with(scratch.path(), "understudy/numbered", &at_once).await;
    let chat = daemon.chat().await;
    let mut reader = Reader::open(daemon.ask(Method::GET, &format!("{chat}/stream"))).await;
    daemon.post(&format!("{chat}/messages"), &json!({"text": format!("count to {TOKENS}")})).await;
    reader.until(|view| view.draft.as_ref().is_some_and(|draft| draft.n > 10)).await;
    daemon.signal("TERM").await;
    reader.until_the_end().await;
    daemon.end().await;
    let shown = reader.follower.view().draft.clone().expect("it was cut in the middle");
    let daemon = Daemon::start_with(scratch.path(), "understudy/numbered", &at_once).await;
    let mut reader = Reader::resume(daemon.ask(Method::GET, &format!("{chat}/stream")), reader.follower).await;
    let words: Vec<String> = (1..=TOKENS).map(|n| format!("t{n}")).collect();
    assert_eq!(reply(&reader.until_rest().await), words.join(" "), "after {} deltas", shown.n);
}

/// A second signal ends the server without waiting for steps that are nearly done.
#[tokio::test]
async fn a_second_signal_hands_over_at_once() {
    let scratch = Scratch::new();
    let patient = [("EVERTURN_DRAIN_SECONDS", "600")];
    let mut daemon = Daemon::start_with(scratch.path(), "understudy/numbered", &patient).await;
    let chat = daemon.chat().await;
    let mut reader = Reader::open(daemon.ask(Method::GET, &format!("{chat}/stream"))).await;
    daemon.post(&format!("{chat}/messages"), &json!({"text": "count to 100000"})).await;
    reader.until(|view| view.draft.as_ref().is_some_and(|draft| draft.n > 10)).await;
    daemon.signal("TERM").await;
    reader.until_the_end().await;
    daemon.signal("TERM").await;
    assert_eq!(daemon.child.wait().await.unwrap().code(), Some(0));
}

pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// The stall monitor runs on a thread of its own.
#[tokio::test]
async fn the_threads_are_watched() {
    let scratch = Scratch::new();
    let daemon = Daemon::start(scratch.path(), "understudy/numbered").await;
    let threads = std::fs::read_dir(format!("/proc/{}/task", daemon.child.id().unwrap())).unwrap();
    // One may end while it is looked at.
    let names = threads.flatten().flat_map(|thread| std::fs::read_to_string(thread.path().join("comm")));
    assert!(names.collect::<String>().lines().any(|name| name == "stall-monitor"));
    daemon.end().await;
}

/// S27: whatever makes the data directory, it and everything in it is its owner's alone, and `serve` takes
/// it.
#[tokio::test]
async fn what_is_made_is_its_owners_alone() {
    let scratch = Scratch::new();
    let data = scratch.path().join("new").join("data");
    let ran = everturn(&["run", "hello", "--data", data.to_str().unwrap()]).output().await.unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let daemon = Daemon::start_with(&data, "understudy/persona", &[("EVERTURN_RECORD", "all")]).await;
    daemon.chat().await;
    assert_eq!(mode(&data), 0o700);
    let files = files(&data);
    assert!(files.iter().any(|file| file.ends_with("everturn.db-wal")), "{files:?}");
    for file in files {
        assert_eq!(mode(&file) & 0o077, 0, "{}", file.display());
    }
}

/// S26, S35: requests have a name in the log and in the answer; the audit has the token of each request and
/// decision; no secret is in either.
#[tokio::test]
async fn requests_are_logged_and_decisions_are_kept() {
    let scratch = Scratch::new();
    let daemon = Daemon::start_with(scratch.path(), "understudy/persona", &[("EVERTURN_LOG", "info")]).await;
    let named = daemon.ask(Method::GET, "/v1/chats").header("x-request-id", "from-the-client-7").send().await.unwrap();
    assert_eq!(named.headers()["x-request-id"], "from-the-client-7");
    let odd = daemon.ask(Method::GET, "/v1/chats").header("x-request-id", "a b").send().await.unwrap();
    assert!(odd.headers()["x-request-id"].to_str().unwrap().starts_with("req-"));
    let wrong = daemon.ask(Method::GET, "/v1/chats").bearer_auth("wrong-and-secret-0123456789abcdef");
    let mut wrong = wrong.build().unwrap();
    wrong.headers_mut().insert("authorization", "Bearer wrong-and-secret-0123456789abcdef".parse().unwrap());
    assert_eq!(reqwest::Client::new().execute(wrong).await.unwrap().status(), StatusCode::UNAUTHORIZED);
    let made = daemon.post("/v1/tokens", &json!({"name": "laptop", "scopes": ["read"]})).await;
    let (secret, id) = (made["token"].as_str().unwrap().to_owned(), made["info"]["id"].as_str().unwrap().to_owned());
    let token = std::fs::read_to_string(scratch.path().join("token")).unwrap().trim().to_owned();
    let logged = daemon.end().await;
    let line = logged.lines().find(|line| line.contains("from-the-client-7")).expect("the request is in the log");
    let line: Value = serde_json::from_str(line).expect("a log that is not on a terminal is JSON");
    assert_eq!((&line["request"], &line["status"]), (&json!("from-the-client-7"), &json!(200)));
    let audit = std::fs::read_to_string(scratch.path().join("audit.jsonl")).unwrap();
    let events: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["login_failed", "token_made"]);
    assert_eq!((&events[0]["peer"], &events[1]["name"]), (&json!("127.0.0.1"), &json!("laptop")));
    assert_eq!(events[1]["token"], json!(id));
    for secret in [secret.as_str(), token.as_str(), "wrong-and-secret"] {
        assert!(!audit.contains(secret) && !logged.contains(secret));
    }
}

/// S35: approvals, denials, answers and revocations are in the audit, each with its token and its subject.
#[tokio::test]
async fn decisions_are_in_the_audit() {
    let scratch = Scratch::new();
    let daemon = Daemon::start_with_all(scratch.path(), "http://127.0.0.1:9").await;
    let chat = daemon.chat_with("waits").await;
    let mut reader = daemon.watch(&chat).await;
    let mut expected = Vec::new();
    for (text, kind, event) in
        [("launch", "approve", "approved"), ("launch", "deny", "denied"), ("map", "result", "answered")]
    {
        daemon.post(&format!("{chat}/messages"), &json!({ "text": text })).await;
        let view = reader.until(|view| view.status.as_ref().is_some_and(|status| !status.asks.is_empty())).await;
        let ask = view.status.unwrap().asks[0].clone();
        let answer = match kind {
            "approve" => json!({"kind": kind, "call": ask.call, "input_hash": ask.input_hash}),
            "deny" => json!({"kind": kind, "call": ask.call}),
            _ => json!({"kind": kind, "call": ask.call, "output": "here"}),
        };
        daemon.post(&format!("{chat}/answers"), &json!({ "answers": [answer] })).await;
        expected.push((event.to_owned(), json!(ask.call)));
        reader.until(|view| view.status.as_ref().is_some_and(|status| status.asks.is_empty())).await;
        reader.until_rest().await;
    }
    let made = daemon.post("/v1/tokens", &json!({"name": "laptop", "scopes": ["read"]})).await;
    let id = made["info"]["id"].as_str().unwrap();
    for _ in 0..2 {
        let (status, _) = daemon.answer(Method::DELETE, &format!("/v1/tokens/{id}"), &json!({})).await;
        assert_eq!(status, StatusCode::OK);
    }
    expected.extend(["token_made", "token_revoked"].map(|event| (event.to_owned(), json!(id))));
    let audit = std::fs::read_to_string(scratch.path().join("data/audit.jsonl")).unwrap();
    let events = audit.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let events = events.filter(|event| !event["event"].as_str().unwrap().starts_with("tool_"));
    let about = |event: &Value| if event["call"].is_null() { event["token"].clone() } else { event["call"].clone() };
    let told: Vec<_> = events.map(|event| (event["event"].as_str().unwrap().to_owned(), about(&event))).collect();
    assert_eq!(told, expected);
    daemon.end().await;
}

pub const KEY: &str = "sk-ant-not-to-be-kept-0123456789";

/// A provider that refuses the key, and repeats it.
pub async fn indiscreet() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 64 * 1024];
            let _ = stream.read(&mut request).await; // A small request comes at once.
            let body =
                format!(r#"{{"type":"error","error":{{"type":"authentication_error","message":"bad key {KEY}"}}}}"#);
            let head =
                format!("HTTP/1.1 401 Unauthorized\r\nset-cookie: s={KEY}\r\ncontent-type: application/json\r\n");
            let answer = format!(
                "{head}request-id: req_42\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    format!("http://{address}")
}

/// I23: what went over the wire is recorded on demand, whole, and without the key, wherever it stood.
#[tokio::test]
async fn exchanges_are_recorded_without_keys() {
    let (scratch, base) = (Scratch::new(), indiscreet().await);
    let variables = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", &base), ("EVERTURN_RECORD", "errors")];
    let daemon = Daemon::start_with(scratch.path(), "anthropic/claude-sonnet-4-5", &variables).await;
    let chat = daemon.chat().await;
    let mut reader = Reader::open(daemon.ask(Method::GET, &format!("{chat}/stream"))).await;
    daemon.post(&format!("{chat}/messages"), &json!({"text": "a secret of mine"})).await;
    reader.until_rest().await;
    let recorded = files(&scratch.path().join("recordings"));
    assert_eq!(recorded.len(), 1, "{recorded:?}");
    assert!(recorded[0].parent().unwrap().ends_with(chat.rsplit('/').next().unwrap()));
    let text = std::fs::read_to_string(&recorded[0]).unwrap();
    let sheet: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&sheet["status"], &sheet["path"]), (&json!(401), &json!("/v1/messages")), "{text}");
    assert!(sheet["request_body"].to_string().contains("a secret of mine"), "{text}");
    assert!(text.contains("req_42") && text.contains("bad key [key]"), "{text}");
    for file in files(scratch.path()) {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes()), "{}", file.display());
    }
    // They go with the chat; and those of one that was deleted elsewhere, at the next start, recording or
    // not.
    assert_eq!(daemon.ask(Method::DELETE, &chat).send().await.unwrap().status(), StatusCode::NO_CONTENT);
    assert!(files(&scratch.path().join("recordings")).is_empty());
    let elsewhere = scratch.path().join("recordings").join(chat.rsplit('/').next().unwrap());
    std::fs::create_dir(&elsewhere).unwrap();
    let logged = daemon.end().await;
    assert!(!logged.contains(KEY));
    let daemon = Daemon::start(scratch.path(), "understudy/persona").await;
    daemon.get("/v1/chats").await;
    while elsewhere.exists() {
        tokio::task::yield_now().await;
    }
    daemon.end().await;
    for file in files(scratch.path()) {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes()), "{}", file.display());
    }
}

/// An unknown key is an error with a suggestion.
#[tokio::test]
async fn a_misspelt_key_gets_a_suggestion() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path()).unwrap();
    let file = scratch.path().join("config.toml");
    for (text, meant) in [
        ("modle = \"understudy/numbered\"", "model"),
        ("[agents.a]\nmodel = \"a/b\"\nstep_max = 3", "steps_max"),
        ("[owners.bob]\nday_token_max = 3", "day_tokens_max"),
    ] {
        std::fs::write(&file, text).unwrap();
        let output = everturn(&["config", "show", "--config", file.to_str().unwrap()]).output().await.unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(&format!("did you mean `{meant}`?")), "{error}");
    }
}

/// A filter that means nothing is said, not silently taken for another.
#[tokio::test]
async fn a_log_filter_that_means_nothing_is_said() {
    let scratch = Scratch::new();
    let odd = [("EVERTURN_LOG", "verbose"), ("EVERTURN_LOG_FORMAT", "xml")];
    let logged = Daemon::start_with(scratch.path(), "understudy/persona", &odd).await.end().await;
    for said in ["EVERTURN_LOG: `verbose` is not a level", "EVERTURN_LOG_FORMAT must be json or text", "stopping: "] {
        assert!(logged.contains(said), "{logged}");
    }
    assert!(is_all_json(&logged), "{logged}");
}

/// Whether every line is an object in JSON.
pub fn is_all_json(logged: &str) -> bool {
    logged.lines().all(|line| serde_json::from_str::<serde_json::Map<_, Value>>(line).is_ok())
}

/// What keeps a server from starting is said as its log is.
#[tokio::test]
async fn a_start_that_fails_is_logged_in_json_too() {
    let scratch = Scratch::new();
    let data = scratch.path().to_str().unwrap();
    let failed = async |arguments: &[&str], form| {
        let mut command = everturn(&[&["serve", "--listen", "127.0.0.1:0", "--data", data], arguments].concat());
        let output = command.env("EVERTURN_LOG_FORMAT", form).output().await.unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    for arguments in [["--model", "nobody/here"], ["--tls-cert", "/nowhere"], ["--config", "/nowhere"]] {
        let logged = failed(&arguments, "json").await;
        let line: Value = serde_json::from_str(logged.trim_end().lines().last().unwrap()).unwrap();
        assert!(is_all_json(&logged) && line["level"] == "ERROR", "{logged}");
        assert!(failed(&arguments, "text").await.starts_with("everturn: "));
    }
}
