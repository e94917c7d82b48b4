//! What a model hears of a Gemini request.

use serde_json::Value;

use super::field;
use crate::heard::{Heard, OfferedTool, ToolAnswer, Utterance};

pub(in crate::http) fn hear(mut heard: Heard, body: &Value) -> Heard {
    let system = field(body, "systemInstruction", "system_instruction").map(|system| &system["parts"]);
    heard.system = system.map(super::super::texts).unwrap_or_default();
    for tool in body["tools"].as_array().into_iter().flatten() {
        let declared = field(tool, "functionDeclarations", "function_declarations").and_then(Value::as_array);
        heard.tools.extend(declared.into_iter().flatten().map(|function| {
            let schema = field(function, "parametersJsonSchema", "parameters_json_schema");
            OfferedTool {
                name: function["name"].as_str().unwrap_or_default().into(),
                description: function["description"].as_str().unwrap_or_default().into(),
                schema: schema.or_else(|| function.get("parameters")).cloned().unwrap_or_default(),
            }
        }));
    }
    let mut said = Vec::new();
    for content in body["contents"].as_array().into_iter().flatten() {
        for part in content["parts"].as_array().into_iter().flatten() {
            if let Some(response) = field(part, "functionResponse", "function_response") {
                let tool = response["name"].as_str().unwrap_or_default().into();
                said.push(Utterance::Result(ToolAnswer { tool, text: words_of(&response["response"]) }));
            } else if part["thought"] != Value::Bool(true)
                && let Some(text) = part["text"].as_str().filter(|text| !text.is_empty())
            {
                said.push(if content["role"] == "model" {
                    Utterance::Model(text.into())
                } else {
                    Utterance::User(text.into())
                });
            }
        }
    }
    heard.conversation(said)
}

/// A response is any object; most have their words under one of these.
fn words_of(response: &Value) -> String {
    let known = ["output", "result", "content", "error"].iter().find_map(|key| response.get(*key));
    match known.unwrap_or(response) {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
