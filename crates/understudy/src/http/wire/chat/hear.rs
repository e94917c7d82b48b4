//! What a model hears of a Chat Completions request.

use serde_json::Value;

use super::super::texts;
use crate::heard::{Heard, OfferedTool, ToolAnswer, Utterance};

pub(in crate::http) fn hear(mut heard: Heard, body: &Value) -> Heard {
    let tools = body["tools"].as_array().into_iter().flatten().map(|tool| &tool["function"]);
    let offered = tools.filter(|function| function.is_object()).map(|function| OfferedTool {
        name: function["name"].as_str().unwrap_or_default().into(),
        description: function["description"].as_str().unwrap_or_default().into(),
        schema: function["parameters"].clone(),
    });
    heard.tools = offered.collect();
    let (mut said, mut names) = (Vec::new(), Vec::new());
    for message in body["messages"].as_array().into_iter().flatten() {
        let text = texts(&message["content"]);
        match message["role"].as_str() {
            Some("system" | "developer") => heard.system.push_str(&text),
            Some("user") => said.push(Utterance::User(text)),
            Some("assistant") => {
                let calls = message["tool_calls"].as_array().into_iter().flatten();
                names.extend(calls.map(|call| (call["id"].clone(), call["function"]["name"].clone())));
                if !text.is_empty() {
                    said.push(Utterance::Model(text));
                }
            }
            Some("tool") => {
                let name = names.iter().rfind(|(id, _)| *id == message["tool_call_id"]);
                let tool = name.and_then(|(_, name)| name.as_str()).unwrap_or_default().into();
                said.push(Utterance::Result(ToolAnswer { tool, text }));
            }
            _ => {}
        }
    }
    heard.conversation(said)
}
