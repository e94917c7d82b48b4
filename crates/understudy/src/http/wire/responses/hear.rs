//! What a model hears of a Responses request.

use serde_json::Value;

use super::super::texts;
use crate::heard::{Heard, OfferedTool, ToolAnswer, Utterance};

pub(in crate::http) fn hear(mut heard: Heard, body: &Value) -> Heard {
    heard.system = body["instructions"].as_str().unwrap_or_default().into();
    let tools = body["tools"].as_array().into_iter().flatten().filter(|tool| tool["type"] == "function");
    let offered = tools.map(|tool| OfferedTool {
        name: tool["name"].as_str().unwrap_or_default().into(),
        description: tool["description"].as_str().unwrap_or_default().into(),
        schema: tool["parameters"].clone(),
    });
    heard.tools = offered.collect();
    if let Some(text) = body["input"].as_str() {
        return heard.conversation(vec![Utterance::User(text.into())]);
    }
    let (mut said, mut names) = (Vec::new(), Vec::new());
    for item in body["input"].as_array().into_iter().flatten() {
        match (item["type"].as_str(), item["role"].as_str()) {
            (None | Some("message"), Some("user")) => said.push(Utterance::User(texts(&item["content"]))),
            (None | Some("message"), Some("assistant")) => said.push(Utterance::Model(texts(&item["content"]))),
            (None | Some("message"), Some(_)) => heard.system.push_str(&texts(&item["content"])),
            (Some("function_call"), _) => names.push((item["call_id"].clone(), item["name"].clone())),
            (Some("function_call_output"), _) => {
                let name = names.iter().rfind(|(id, _)| *id == item["call_id"]);
                let tool = name.and_then(|(_, name)| name.as_str()).unwrap_or_default().into();
                said.push(Utterance::Result(ToolAnswer { tool, text: texts(&item["output"]) }));
            }
            _ => {}
        }
    }
    heard.conversation(said)
}
