//! What a model hears of an interaction.

use serde_json::Value;

use super::super::texts;
use crate::heard::{Heard, OfferedTool, ToolAnswer, Utterance};

pub(in crate::http) fn hear(mut heard: Heard, body: &Value) -> Heard {
    heard.system = texts(&body["system_instruction"]);
    let functions = body["tools"].as_array().into_iter().flatten().filter(|tool| tool["type"] == "function");
    heard.tools.extend(functions.map(|tool| OfferedTool {
        name: tool["name"].as_str().unwrap_or_default().into(),
        description: tool["description"].as_str().unwrap_or_default().into(),
        schema: tool["parameters"].clone(),
    }));
    let said = match &body["input"] {
        Value::Array(steps) => steps.iter().filter_map(said).collect(),
        one => vec![Utterance::User(words(one))],
    };
    heard.conversation(said)
}

/// A step, or a piece of what a person says.
fn said(step: &Value) -> Option<Utterance> {
    match step["type"].as_str()? {
        "user_input" => Some(Utterance::User(texts(&step["content"]))),
        "model_output" => Some(Utterance::Model(texts(&step["content"]))),
        "function_result" => {
            let tool = step["name"].as_str().unwrap_or_default().into();
            Some(Utterance::Result(ToolAnswer { tool, text: words(&step["result"]) }))
        }
        "text" => Some(Utterance::User(words(step))),
        _ => None,
    }
}

fn words(value: &Value) -> String {
    match value {
        Value::Object(fields) => match fields.get("text").and_then(Value::as_str) {
            Some(text) => text.into(),
            None => value.to_string(),
        },
        other => texts(other),
    }
}
