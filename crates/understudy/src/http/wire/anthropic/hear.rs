//! What a model hears of an Anthropic request.

use serde_json::Value;

use super::super::texts;
use crate::heard::{Heard, OfferedTool, ToolAnswer, Utterance};

pub(in crate::http) fn hear(mut heard: Heard, body: &Value) -> Heard {
    heard.system = texts(&body["system"]);
    let tools = body["tools"].as_array().into_iter().flatten().filter(|tool| tool.get("input_schema").is_some());
    let offered = tools.map(|tool| OfferedTool {
        name: tool["name"].as_str().unwrap_or_default().into(),
        description: tool["description"].as_str().unwrap_or_default().into(),
        schema: tool["input_schema"].clone(),
    });
    heard.tools = offered.collect();
    let mut said = Vec::new();
    let mut names = Vec::new();
    for message in body["messages"].as_array().into_iter().flatten() {
        let is_user = message["role"] == "user";
        let say = |text: &str| if is_user { Utterance::User(text.into()) } else { Utterance::Model(text.into()) };
        if let Some(text) = message["content"].as_str() {
            said.push(say(text));
        }
        for block in message["content"].as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("text") => said.push(say(block["text"].as_str().unwrap_or_default())),
                Some("tool_use") => names.push((block["id"].clone(), block["name"].clone())),
                Some("tool_result") => {
                    let name = names.iter().rfind(|(id, _)| *id == block["tool_use_id"]);
                    let tool = name.and_then(|(_, name)| name.as_str()).unwrap_or_default().into();
                    said.push(Utterance::Result(ToolAnswer { tool, text: texts(&block["content"]) }));
                }
                _ => {}
            }
        }
    }
    heard.conversation(said)
}
