//! What the stand-in server answers: both generations of the protocol, tools that work and tools that break.

use std::io::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

/// How long the tool `slow` takes.
const SLOW: std::time::Duration = std::time::Duration::from_millis(60);

/// Which generations of the protocol it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    Old,
    New,
    Both,
}

/// What is done about a message.
#[derive(Debug, PartialEq)]
pub enum Action {
    Send(Value),
    /// Sends text as it is.
    SendRaw(Vec<u8>),
    /// Ends the process at once.
    Die,
}

/// A server's behaviour.
pub struct ServerScript {
    pub generation: Generation,
    /// Where each message is noted, one per line.
    pub log: Option<PathBuf>,
    /// A JSON file with its list of tools, read anew for each list.
    pub list: Option<PathBuf>,
    /// A directory with its tasks, one file each, which outlive it. A test moves a task on by writing its file.
    pub tasks: Option<PathBuf>,
}

impl ServerScript {
    pub fn answer(&mut self, message: &Value) -> Vec<Action> {
        self.note(message);
        let Some(id) = message.get("id").cloned() else { return Vec::new() };
        let method = message["method"].as_str().unwrap_or_default();
        let is_new = message["params"]["_meta"].get("io.modelcontextprotocol/protocolVersion").is_some();
        match (method, self.generation) {
            ("server/discover", Generation::New | Generation::Both) => vec![result(id, discovered())],
            ("initialize", Generation::Old | Generation::Both) => vec![result(id, initialized())],
            ("tools/list", _) if self.speaks(is_new) => vec![result(id, self.tools())],
            ("tools/call", _) if self.speaks(is_new) => self.call(&id, &message["params"]),
            ("tasks/get" | "tasks/cancel" | "tasks/update", Generation::New | Generation::Both) => {
                vec![self.task(id, method, &message["params"])]
            }
            (method, _) => vec![error(id, -32601, &format!("no method {method} here"))],
        }
    }

    fn task(&self, id: Value, method: &str, params: &Value) -> Action {
        let path = self.tasks.as_ref().expect("it has tasks").join(params["taskId"].as_str().unwrap_or_default());
        let Ok(text) = std::fs::read_to_string(&path) else { return error(id, -32602, "no such task") };
        if method == "tasks/update" {
            let said = json!({"content": [{"type": "text", "text": params["inputResponses"].to_string()}]});
            let task = json!({"status": "completed", "result": said});
            std::fs::write(&path, task.to_string()).expect("a task can be written");
            return result(id, json!({"resultType": "complete"}));
        }
        if method == "tasks/cancel" {
            std::fs::write(&path, json!({"status": "cancelled"}).to_string()).expect("a task can be written");
            return result(id, json!({"resultType": "complete"}));
        }
        let mut task: Value = serde_json::from_str(&text).expect("a task is JSON");
        if let Some(code) = task["refused"].as_i64() {
            return error(id, code, "busy");
        }
        let about = json!({"taskId": params["taskId"], "createdAt": "2026-11-01T00:00:00Z", "ttlMs": null,
            "lastUpdatedAt": "2026-11-01T00:00:00Z", "pollIntervalMs": 100, "resultType": "complete"});
        task.as_object_mut().expect("a task is an object").extend(about.as_object().cloned().expect("it is one"));
        result(id, task)
    }

    fn speaks(&self, is_new: bool) -> bool {
        match self.generation {
            Generation::Old => !is_new,
            Generation::New => is_new,
            Generation::Both => true,
        }
    }

    fn note(&self, message: &Value) {
        let Some(log) = &self.log else { return };
        let mut file = std::fs::File::options().create(true).append(true).open(log).expect("the log can be opened");
        // In one piece: tests read it meanwhile.
        file.write_all(format!("{message}\n").as_bytes()).expect("the log can be written");
    }

    fn tools(&self) -> Value {
        if let Some(list) = &self.list {
            let text = std::fs::read_to_string(list).expect("the list can be read");
            return json!({"tools": serde_json::from_str::<Value>(&text).expect("the list is JSON"), "resultType": "complete"});
        }
        let any = json!({"type": "object"});
        let names = [
            "echo",
            "env",
            "pid",
            "fail",
            "parts",
            "structured",
            "die",
            "die_once",
            "big",
            "endless",
            "deep",
            "wrong_id",
            "doubled",
            "mute",
            "progress",
            "error",
            "question",
            "task",
            "noise",
            "slow",
        ];
        let mut tools: Vec<Value> = names
            .iter()
            .map(|name| json!({"name": name, "description": format!("The tool {name}."), "inputSchema": any}))
            .collect();
        for tool in &mut tools {
            if tool["name"] == "die_once" {
                tool["annotations"] = json!({"readOnlyHint": true});
            }
        }
        json!({"tools": tools, "resultType": "complete", "ttlMs": 1000, "cacheScope": "private"})
    }

    fn call(&self, id: &Value, params: &Value) -> Vec<Action> {
        let input = &params["arguments"];
        let text = |text: &str| json!({"content": [{"type": "text", "text": text}], "resultType": "complete"});
        match params["name"].as_str().unwrap_or_default() {
            "echo" => vec![result(id.clone(), text(&input.to_string()))],
            "slow" => {
                std::thread::park_timeout(SLOW); // So that a kill can come between a call and its result.
                vec![result(id.clone(), text(&input.to_string()))]
            }
            "env" => {
                let names: Vec<_> = std::env::vars().map(|(name, _)| name).collect();
                vec![result(id.clone(), text(&names.join(" ")))]
            }
            "pid" => vec![result(id.clone(), text(&std::process::id().to_string()))],
            "fail" => vec![result(
                id.clone(),
                json!({"content": [{"type": "text", "text": "no such city"}], "isError": true}),
            )],
            "parts" => vec![result(id.clone(), parts())],
            "structured" => vec![result(id.clone(), json!({"content": [], "structuredContent": {"n": 1}}))],
            "die" => vec![Action::Die],
            "die_once" => {
                let marker = PathBuf::from(input["marker"].as_str().unwrap_or_default());
                match std::fs::File::create_new(&marker) {
                    Ok(_) => vec![Action::Die],
                    Err(_) => vec![result(id.clone(), text("alive"))],
                }
            }
            "big" => vec![result(id.clone(), text(&"x".repeat(17 << 20)))],
            "endless" => vec![Action::SendRaw(vec![b'x'; 17 << 20])],
            "deep" => {
                let nested = "[".repeat(1000) + &"]".repeat(1000);
                vec![Action::SendRaw(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{nested}}}\n").into_bytes())]
            }
            "wrong_id" => vec![result(json!(4711), text("for another call"))],
            "doubled" => {
                let answer = || result(id.clone(), text("once or twice"));
                vec![answer(), answer()]
            }
            "mute" => Vec::new(),
            "progress" => {
                let token = &params["_meta"]["progressToken"];
                let progress = |n: u32| {
                    let params = json!({"progressToken": token, "progress": n, "total": 3, "message": "copying"});
                    Action::Send(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
                };
                vec![progress(1), progress(2), result(id.clone(), text("copied"))]
            }
            "question" => vec![result(id.clone(), question(params).unwrap_or_else(|answer| text(&answer)))],
            "noise" => vec![
                Action::SendRaw(b"{\"level\":\"info\",\"msg\":\"a log line\"}\nplain text\n\n".to_vec()),
                result(id.clone(), text("after noise")),
            ],
            "task" => {
                let path = self.tasks.as_ref().expect("it has tasks").join("task-1");
                std::fs::write(path, json!({"status": "working"}).to_string()).expect("a task can be written");
                let about = json!({"taskId": "task-1", "status": "working", "createdAt": "2026-11-01T00:00:00Z",
                    "lastUpdatedAt": "2026-11-01T00:00:00Z", "ttlMs": null, "pollIntervalMs": 100, "resultType": "task"});
                vec![result(id.clone(), about)]
            }
            "relist" => {
                let list = self.list.as_ref().expect("it has a file with its list");
                std::fs::write(list, input["tools"].to_string()).expect("the list can be written");
                let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                vec![Action::Send(changed), result(id.clone(), text("changed"))]
            }
            "error" => vec![error(id.clone(), -32603, "out of order")],
            other => vec![error(id.clone(), -32602, &format!("no tool {other} here"))],
        }
    }
}

/// What asks for a colour, or the answer if it was given.
fn question(params: &Value) -> Result<Value, String> {
    match &params["inputResponses"]["colour"] {
        answer if answer.is_object() && params["requestState"] == "s" => Err(answer.to_string()),
        _ => Ok(json!({"resultType": "input_required", "requestState": "s", "inputRequests": {"colour": colour()}})),
    }
}

/// A question for a person.
pub fn colour() -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": "Which colour?", "requestedSchema": schema}})
}

fn result(id: Value, result: Value) -> Action {
    Action::Send(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn error(id: Value, code: i64, message: &str) -> Action {
    Action::Send(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
}

fn initialized() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {"listChanged": true}},
        "serverInfo": {"name": "understudy", "version": "1"},
        "instructions": "Call echo first.",
    })
}

fn discovered() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "ttlMs": 1000,
        "cacheScope": "private",
        "instructions": "Call echo first.",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "understudy", "version": "1"}},
    })
}

fn parts() -> Value {
    json!({"content": [
        {"type": "text", "text": "one"},
        {"type": "image", "mimeType": "image/png", "data": "iVBORw0K"},
        {"type": "resource_link", "name": "report", "uri": "file:///report.pdf", "mimeType": "application/pdf"},
        {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "inside"}},
        {"type": "text", "text": "for people", "annotations": {"audience": ["user"]}},
    ]})
}
