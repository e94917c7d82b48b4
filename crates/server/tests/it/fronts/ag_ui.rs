//! The front of AG-UI over HTTP.

use std::collections::BTreeSet;
use std::time::Duration;

use everturn::stores::Scope;
use everturn_server::{ServerLimits, front_routes};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::stage::{Stage, answer};

/// A client, as far as tests need one: it folds events into messages, and refuses what the stock client refuses.
#[derive(Default)]
struct Agent {
    thread: String,
    messages: Vec<Value>,
    tools: Vec<Value>,
    is_old: bool,
    /// What is open: messages, reasoning and calls.
    open: BTreeSet<(String, String)>,
    /// The last event of a run.
    end: Value,
    events: Vec<String>,
}

impl Agent {
    fn new(thread: &str) -> Self {
        Self { thread: thread.into(), ..Self::default() }
    }

    fn says(&mut self, id: &str, text: &str) {
        self.messages.push(json!({"id": id, "role": "user", "content": text}));
    }

    fn input(&self, run: &str, resume: &Value) -> Value {
        let mut input = json!({"threadId": self.thread, "runId": run, "messages": self.messages, "tools": self.tools,
            "context": [], "state": {}, "forwardedProps": {}});
        if !self.is_old {
            input["protocolVersion"] = json!("1.0");
        }
        if !resume.is_null() {
            input["resume"] = resume.clone();
        }
        input
    }

    async fn open(&self, stage: &Stage, agent: &str, run: &str, resume: Value) -> Response {
        let request = stage.ask(Method::POST, &format!("/ag-ui/{agent}")).json(&self.input(run, &resume));
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        response
    }

    async fn run(&mut self, stage: &Stage, agent: &str, run: &str) {
        let response = self.open(stage, agent, run, Value::Null).await;
        assert!(self.read(response, usize::MAX).await, "the run ends with its last event");
    }

    /// Reads so many events; whether the last event came.
    async fn read(&mut self, mut response: Response, len: usize) -> bool {
        (self.end, self.events) = (Value::Null, Vec::new());
        self.open.clear();
        let mut rest = String::new();
        while let Ok(Some(bytes)) = response.chunk().await {
            rest.push_str(str::from_utf8(&bytes).unwrap());
            while let Some((event, behind)) = rest.split_once("\n\n") {
                let (event, behind) = (event.to_owned(), behind.to_owned());
                rest = behind;
                if let Some(data) = event.strip_prefix("data: ") {
                    self.fold(serde_json::from_str(data).unwrap());
                    if self.events.len() == len {
                        return false;
                    }
                }
            }
        }
        !self.end.is_null()
    }

    fn fold(&mut self, event: Value) {
        let kind = event["type"].as_str().unwrap().to_owned();
        assert!(self.end.is_null(), "{event} behind the end");
        assert_eq!(self.events.is_empty(), kind == "RUN_STARTED", "{event}");
        self.events.push(kind.clone());
        let id = event["messageId"].as_str().or(event["toolCallId"].as_str()).unwrap_or_default().to_owned();
        let key = |kind: &str| (kind.to_owned(), id.clone());
        match kind.as_str() {
            "RUN_STARTED" => {}
            "MESSAGES_SNAPSHOT" => self.messages = event["messages"].as_array().unwrap().clone(),
            "TEXT_MESSAGE_START" => {
                assert!(self.open.insert(key("text")), "{event}");
                self.message(&id, "assistant");
            }
            "TEXT_MESSAGE_CONTENT" => {
                assert!(self.open.contains(&key("text")) && event["delta"] != "", "{event}");
                self.append(&id, &event);
            }
            "TEXT_MESSAGE_END" => assert!(self.open.remove(&key("text")), "{event}"),
            "REASONING_START" => assert!(self.open.insert(key("reasoning")), "{event}"),
            "REASONING_MESSAGE_START" => {
                assert!(self.open.insert(key("thought")), "{event}");
                self.message(&id, "reasoning");
            }
            "REASONING_MESSAGE_CONTENT" => {
                assert!(self.open.contains(&key("thought")), "{event}");
                self.append(&id, &event);
            }
            "REASONING_MESSAGE_END" => assert!(self.open.remove(&key("thought")), "{event}"),
            "REASONING_END" => assert!(self.open.remove(&key("reasoning")), "{event}"),
            "TOOL_CALL_START" => {
                assert!(self.open.insert(key("call")), "{event}");
                let parent = event["parentMessageId"].as_str().unwrap().to_owned();
                let call = json!({"id": id, "type": "function",
                    "function": {"name": event["toolCallName"], "arguments": ""}});
                let message = self.message(&parent, "assistant");
                match message["toolCalls"].as_array_mut() {
                    Some(calls) => calls.push(call),
                    None => message["toolCalls"] = json!([call]),
                }
            }
            "TOOL_CALL_ARGS" => {
                assert!(self.open.contains(&key("call")), "{event}");
                let calls =
                    self.messages.iter_mut().filter_map(|message| message["toolCalls"].as_array_mut()).flatten();
                let call = calls.into_iter().find(|call| call["id"] == id).unwrap();
                let more =
                    call["function"]["arguments"].as_str().unwrap().to_owned() + event["delta"].as_str().unwrap();
                call["function"]["arguments"] = json!(more);
            }
            "TOOL_CALL_END" => assert!(self.open.remove(&key("call")), "{event}"),
            "TOOL_CALL_RESULT" => {
                let id = event["messageId"].as_str().unwrap();
                let (call, content) = (event["toolCallId"].clone(), event["content"].clone());
                self.messages.push(json!({"id": id, "role": "tool", "toolCallId": call, "content": content}));
            }
            "RUN_FINISHED" => {
                assert!(self.open.is_empty(), "{:?} is open at the end", self.open);
                self.end = event;
            }
            "RUN_ERROR" => self.end = event,
            other => panic!("{other} is not in the protocol"),
        }
    }

    fn message(&mut self, id: &str, role: &str) -> &mut Value {
        let place = self.messages.iter().position(|message| message["id"] == id).unwrap_or_else(|| {
            self.messages.push(json!({"id": id, "role": role}));
            self.messages.len() - 1
        });
        &mut self.messages[place]
    }

    fn append(&mut self, id: &str, event: &Value) {
        let message = self.messages.iter_mut().find(|message| message["id"] == id).unwrap();
        let text = message["content"].as_str().unwrap_or_default().to_owned();
        message["content"] = json!(text + event["delta"].as_str().unwrap());
    }

    fn last_text(&self) -> &str {
        self.messages.last().unwrap()["content"].as_str().unwrap()
    }
}

/// What a client has that joins now: the transcript.
async fn joined(stage: &Stage, agent: &str, thread: &str) -> Vec<Value> {
    let mut client = Agent::new(thread);
    client.run(stage, agent, "join").await;
    client.messages
}

/// FE01: text, reasoning and ids of a run are those of the transcript, over several runs, without a snapshot.
#[tokio::test]
async fn a_run_tells_the_transcript() {
    let stage = Stage::new().await;
    for agent in ["numbered", "default"] {
        let mut client = Agent::new(&format!("thread-{agent}"));
        for (number, words) in ["count to 12", "hello", "count to 3"].into_iter().enumerate() {
            client.says(&format!("m{number}x"), words);
            client.run(&stage, agent, &format!("run-{number}")).await;
            assert_eq!(client.end["outcome"], json!({"type": "success"}));
            assert!(!client.events.contains(&"MESSAGES_SNAPSHOT".to_owned()), "{agent}: it has all of it");
        }
        assert_eq!(client.messages, joined(&stage, agent, &client.thread).await, "{agent}");
    }
    stage.server.stop().await;
}

/// FE02: a tool of the client is pending; its result comes with the next run, and the turn goes on.
#[tokio::test]
async fn a_client_runs_its_tool() {
    let stage = Stage::new().await;
    let mut client = Agent::new("t");
    client.tools = vec![json!({"name": "place", "description": "Shows a place.",
        "parameters": {"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]}})];
    client.says("m", "Where is it?");
    client.run(&stage, "default", "one").await;
    let call = client.messages.last().unwrap()["toolCalls"][0].clone();
    assert_eq!(client.end["outcome"], json!({"type": "success", "pendingToolCallIds": [call["id"]]}));
    assert_eq!(call["function"]["name"], "place");
    client.messages.push(json!({"id": "mine", "role": "tool", "toolCallId": call["id"], "content": "kelp"}));
    let before = client.messages.len();
    client.run(&stage, "default", "two").await;
    assert_eq!(client.end["outcome"], json!({"type": "success"}));
    assert!(client.last_text().contains("kelp"), "{}", client.last_text());
    assert!(client.messages[before..].iter().all(|message| message["role"] != "tool"), "it has its own result");
    let other = json!({"threadId": "t", "runId": "three", "messages": [], "tools": [{"name": "other"}]});
    let (status, why) = stage.post("/ag-ui/default", other).await;
    assert_eq!((status, &why["code"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("invalid")), "{why}");
    stage.server.stop().await;
}

/// FE03: an approval is an interrupt; it is answered with the next run, for this call and this input, once.
#[tokio::test]
async fn an_approval_interrupts_the_run() {
    for (answered, said) in [
        (json!({"status": "resolved", "payload": {"approved": true}}), "launched"),
        (json!({"status": "resolved", "payload": {"approved": false, "reason": "not today"}}), "not today"),
        (json!({"status": "cancelled"}), "did not allow"),
    ] {
        let stage = Stage::new().await;
        let mut client = Agent::new("t");
        client.says("m", "Launch it");
        client.run(&stage, "launches", "one").await;
        let interrupt = client.end["outcome"]["interrupts"][0].clone();
        assert_eq!((&client.end["outcome"]["type"], &interrupt["reason"]), (&json!("interrupt"), &json!("approval")));
        let wrong =
            json!([{"interruptId": "1.0-0000000000000000", "status": "resolved", "payload": {"approved": true}}]);
        let (status, why) = stage.post("/ag-ui/launches", client.input("bad", &wrong)).await;
        assert_eq!(status, StatusCode::CONFLICT, "{why}");
        let mut resume = answered.clone();
        resume["interruptId"] = interrupt["id"].clone();
        let resume = json!([resume]);
        let response = client.open(&stage, "launches", "two", resume.clone()).await;
        assert!(client.read(response, usize::MAX).await);
        assert_eq!(client.end["outcome"], json!({"type": "success"}));
        let result = client.messages.iter().find(|message| message["role"] == "tool").unwrap();
        assert!(result["content"].as_str().unwrap().contains(said), "{result}");
        let before = client.messages.clone();
        let response = client.open(&stage, "launches", "two", resume).await;
        assert!(client.read(response, usize::MAX).await, "answered twice is answered once");
        let ids = |messages: &[Value]| messages.iter().map(|message| message["id"].clone()).collect::<Vec<_>>();
        assert_eq!(ids(&client.messages), ids(&before));
        stage.server.stop().await;
    }
}

/// FE04, FE05: a second client that joins in the middle, and the same run again, end with the same messages, and nothing
/// runs twice.
#[tokio::test]
async fn a_client_may_join_and_repeat() {
    let stage = Stage::with(ServerLimits::default(), Duration::from_millis(2)).await;
    for cut in [1, 2, 5, 20, 60] {
        let thread = format!("t{cut}");
        let mut client = Agent::new(&thread);
        client.says("m", "count to 50");
        let response = client.open(&stage, "numbered", "one", Value::Null).await;
        client.read(response, cut).await;
        let (mut other, mut again) = (Agent::new(&thread), Agent::new(&thread));
        again.says("m", "count to 50");
        tokio::join!(other.run(&stage, "numbered", "join"), again.run(&stage, "numbered", "one"));
        assert_eq!(other.messages, again.messages, "cut after {cut}");
        assert_eq!(other.messages.len(), 2);
        assert_eq!(other.messages, joined(&stage, "numbered", &thread).await);
    }
    stage.server.stop().await;
}

/// FE08, FE09: a stop keeps the partial reply and cancels the run; a shutdown breaks the stream, and the run fails.
#[tokio::test]
async fn a_stop_is_told_and_a_shutdown_is_not() {
    let stage = Stage::with(ServerLimits::default(), Duration::from_millis(2)).await;
    let mut client = Agent::new("t");
    client.says("m", "count to 100000");
    let response = client.open(&stage, "numbered", "one", Value::Null).await;
    let stop = async {
        let mut other = Agent::new("t");
        let joins = other.open(&stage, "numbered", "join", Value::Null).await;
        other.read(joins, 8).await;
        for _ in 0..2 {
            let stopped = stage.post("/ag-ui/numbered/threads/t/stop", json!({})).await;
            assert_eq!(stopped, (StatusCode::OK, json!({"success": true})));
        }
    };
    let (is_over, ()) = tokio::join!(client.read(response, usize::MAX), stop);
    assert!(is_over);
    assert_eq!(client.end["outcome"], json!({"type": "cancelled"}));
    assert_eq!(client.messages, joined(&stage, "numbered", "t").await);
    client.says("m2", "count to 100000");
    let response = client.open(&stage, "numbered", "two", Value::Null).await;
    let (is_over, ()) = tokio::join!(client.read(response, usize::MAX), stage.server.stop());
    assert!(!is_over, "a stream that breaks is no end");
}

/// FE11, FE12: a history that differs from ours is replaced; clients before 1.0 get no outcome and no reasoning.
#[tokio::test]
async fn ours_wins_and_old_clients_are_spared() {
    let stage = Stage::new().await;
    let mut client = Agent::new("t");
    client.says("m", "hello");
    client.run(&stage, "default", "one").await;
    let right = client.messages.clone();
    client.messages = vec![json!({"id": "made-up", "role": "assistant", "content": "I was never said."})];
    client.says("m2", "count to 2");
    client.run(&stage, "default", "two").await;
    assert_eq!(client.messages[..right.len()], right);
    assert_eq!(client.messages, joined(&stage, "default", "t").await);
    let mut old = Agent { is_old: true, ..Agent::new("old") };
    old.says("m", "hello");
    old.run(&stage, "default", "one").await;
    assert!(old.end.get("outcome").is_none() && !old.events.iter().any(|event| event.starts_with("REASONING")));
    stage.server.stop().await;
}

/// A failed turn is an error of the run, and the next one works.
#[tokio::test]
async fn a_failed_turn_fails_the_run() {
    let stage = Stage::new().await;
    let mut client = Agent::new("t");
    client.says("m", "hello");
    client.run(&stage, "fails", "one").await;
    assert_eq!(client.end["type"], "RUN_ERROR");
    assert!(!client.end["message"].as_str().unwrap().is_empty());
    stage.server.stop().await;
}

/// Every route × every token, and chats of another owner.
#[tokio::test]
async fn every_route_asks_for_its_scope() {
    let stage = Stage::new().await;
    let secret = |name: &str| format!("evt_ag-ui-matrix-{name}");
    for scope in Scope::ALL {
        stage.grant(&secret(scope.name()), "me", &[scope]).await;
    }
    stage.grant(&secret("other"), "you", &Scope::ALL).await;
    let mut client = Agent::new("mine");
    client.says("m", "count to 2");
    client.run(&stage, "numbered", "one").await;
    let routes: Vec<_> = front_routes().into_iter().filter(|(_, path)| path.starts_with("/ag-ui/")).collect();
    assert_eq!(routes.len(), 2);
    for (method, path) in routes {
        let ask = async |token: Option<&str>| {
            let url = format!("{}{}", stage.base, path.replace("{agent}", "numbered").replace("{id}", "mine"));
            let request = stage.client.request(method.clone(), url).json(&client.input("two", &Value::Null));
            match token {
                Some(token) => request.bearer_auth(token).send().await.unwrap(),
                None => request.send().await.unwrap(),
            }
        };
        assert_eq!(ask(None).await.status(), StatusCode::UNAUTHORIZED, "{method} {path}");
        for scope in Scope::ALL {
            let refused = ask(Some(&secret(scope.name()))).await.status() == StatusCode::FORBIDDEN;
            let allowed = path.ends_with("/stop") && scope == Scope::Chat; // A run needs `chat` and `read`.
            assert_eq!(refused, !allowed, "{method} {path} with {scope:?}");
        }
        if path.ends_with("/stop") {
            assert_eq!(answer(ask(Some(&secret("other"))).await).await.0, StatusCode::NOT_FOUND);
        }
    }
    stage.server.stop().await;
}
