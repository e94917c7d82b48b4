//! The formats in which sessions were stored.

use serde_json::{Value, json};

use super::talk::{Called, Said, Talk, Thought};

/// A way to write a session down.
#[derive(Clone, Copy)]
pub struct Format {
    pub name: &'static str,
    pub write: fn(&Talk) -> String,
}

pub const FORMATS: [Format; 4] = [
    Format { name: "Anthropic messages", write: |talk| anthropic_messages(talk).to_string() },
    Format { name: "OpenAI messages", write: openai_messages },
    Format { name: "a Claude Code session", write: claude_code },
    Format { name: "a Codex session", write: codex },
];

/// An input as the object it is, or as the text it is.
fn object(input: &str) -> Value {
    serde_json::from_str(input).unwrap_or_else(|_| input.into())
}

fn blocks(thoughts: &[Thought], text: &str, calls: &[Called]) -> Vec<Value> {
    let thought = |thought: &Thought| match thought.signature.as_str() {
        "" => json!({"type": "thinking", "thinking": thought.text}),
        signature => json!({"type": "thinking", "thinking": thought.text, "signature": signature}),
    };
    let call = |call: &Called| json!({"type": "tool_use", "id": call.id, "name": "look", "input": object(&call.input)});
    let words = json!({"type": "text", "text": text});
    thoughts.iter().map(thought).chain([words]).chain(calls.iter().map(call)).collect()
}

/// Results in a row are one message.
pub fn anthropic_messages(talk: &Talk) -> Value {
    let mut messages: Vec<Value> = Vec::new();
    let mut results = false;
    for said in &talk.0 {
        let is_result = matches!(said, Said::Result { .. });
        match said {
            Said::User(text) | Said::Summary(text) => messages.push(json!({"role": "user", "content": text})),
            Said::Reply { thoughts, text, calls } => {
                messages.push(json!({"role": "assistant", "content": blocks(thoughts, text, calls)}));
            }
            Said::Result { id, text } => {
                let block = json!({"type": "tool_result", "tool_use_id": id, "content": text});
                match messages.last_mut().filter(|_| results) {
                    Some(last) => last["content"].as_array_mut().unwrap().push(block),
                    None => messages.push(json!({"role": "user", "content": [block]})),
                }
            }
        }
        results = is_result;
    }
    messages.into()
}

fn openai_messages(talk: &Talk) -> String {
    let call = |call: &Called| json!({"id": call.id, "type": "function", "function": {"name": "look", "arguments": call.input}});
    let message = |said: &Said| match said {
        Said::User(text) | Said::Summary(text) => json!({"role": "user", "content": text}),
        Said::Reply { text, calls, .. } if calls.is_empty() => json!({"role": "assistant", "content": text}),
        Said::Reply { text, calls, .. } => {
            let calls: Vec<Value> = calls.iter().map(call).collect();
            json!({"role": "assistant", "content": text, "tool_calls": calls})
        }
        Said::Result { id, text } => json!({"role": "tool", "tool_call_id": id, "content": text}),
    };
    json!({"messages": talk.0.iter().map(message).collect::<Vec<_>>()}).to_string()
}

/// One block a line, as the program writes them.
fn claude_code(talk: &Talk) -> String {
    let mut lines: Vec<Value> = vec![json!({"type": "file-history-snapshot", "messageId": "x", "snapshot": {}})];
    let mut entry = |kind: &str, message: Value, is_summary: bool| {
        let (uuid, parent) = (lines.len().to_string(), (lines.len() - 1).to_string());
        let mut line = json!({
            "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "isSidechain": false,
            "timestamp": "2026-01-02T03:04:05.000Z", "message": message,
        });
        if is_summary {
            line["isCompactSummary"] = true.into();
        }
        lines.push(line);
    };
    for (number, said) in talk.0.iter().enumerate() {
        match said {
            Said::User(text) => entry("user", json!({"role": "user", "content": text}), false),
            Said::Summary(text) => entry("user", json!({"role": "user", "content": text}), true),
            Said::Reply { thoughts, text, calls } => {
                for block in blocks(thoughts, text, calls) {
                    let id = format!("msg_{number}");
                    entry("assistant", json!({"id": id, "role": "assistant", "content": [block]}), false);
                }
            }
            Said::Result { id, text } => {
                let block = json!({"type": "tool_result", "tool_use_id": id, "content": text});
                entry("user", json!({"role": "user", "content": [block]}), false);
            }
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn codex(talk: &Talk) -> String {
    let mut file = String::new();
    let mut line = |kind: &str, payload: Value| {
        file += &format!("{}\n", json!({"timestamp": "2026-01-02T03:04:05Z", "type": kind, "payload": payload}));
    };
    line("session_meta", json!({"id": "x", "cwd": "/"}));
    line("turn_context", json!({"model": "gpt-5-codex"}));
    let words = |role: &str, kind: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
    for said in &talk.0 {
        match said {
            Said::User(text) => line("response_item", words("user", "input_text", text)),
            Said::Summary(text) => line("compacted", json!({"message": text})),
            Said::Reply { thoughts, text, calls } => {
                for thought in thoughts {
                    let summary = json!([{"type": "summary_text", "text": thought.text}]);
                    let sealed =
                        json!({"type": "reasoning", "summary": summary, "encrypted_content": thought.signature});
                    line("response_item", sealed);
                }
                line("response_item", words("assistant", "output_text", text));
                for Called { id, input } in calls {
                    let call = json!({"type": "function_call", "call_id": id, "name": "look", "arguments": input});
                    line("response_item", call);
                }
            }
            Said::Result { id, text } => {
                line("response_item", json!({"type": "function_call_output", "call_id": id, "output": text}));
            }
        }
    }
    file
}
