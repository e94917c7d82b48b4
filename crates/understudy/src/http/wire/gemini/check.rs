//! What Gemini refuses in a request, and in which words.

mod offer;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use super::super::{Checked, is_base64, refuse};
use super::field;

/// Everything a request may hold at its top.
const FIELDS: [&str; 13] = [
    "contents",
    "systemInstruction",
    "system_instruction",
    "tools",
    "toolConfig",
    "tool_config",
    "generationConfig",
    "generation_config",
    "safetySettings",
    "safety_settings",
    "cachedContent",
    "cached_content",
    "model",
];
/// The kinds of data a part may have, in both spellings.
const DATA: [(&str, &str); 9] = [
    ("text", "text"),
    ("inlineData", "inline_data"),
    ("fileData", "file_data"),
    ("functionCall", "function_call"),
    ("functionResponse", "function_response"),
    ("executableCode", "executable_code"),
    ("codeExecutionResult", "code_execution_result"),
    ("toolCall", "tool_call"),
    ("toolResponse", "tool_response"),
];
/// Signatures that stand for none, as documented.
const SENTINELS: [&str; 2] = ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"];

pub(in crate::http) fn check(body: &Map<String, Value>, model: &str) -> Checked {
    if let Some(name) = body.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        return unknown(name, "");
    }
    let contents = match body.get("contents") {
        Some(Value::Array(contents)) if !contents.is_empty() => contents,
        None | Some(Value::Array(_)) => {
            return refuse("* GenerateContentRequest.contents: contents is not specified\n");
        }
        Some(_) => {
            return refuse(
                "Invalid value at 'contents' (type.googleapis.com/google.ai.generativelanguage.v1beta.Content)",
            );
        }
    };
    for (at, content) in contents.iter().enumerate() {
        one(content, at, contents.len())?;
    }
    turns(contents)?;
    if model.contains("gemini-3") {
        signed(contents)?;
    }
    offer::check(body)
}

fn unknown(name: &str, at: &str) -> Checked {
    let place = if at.is_empty() { String::new() } else { format!(" at '{at}'") };
    refuse(format!("Invalid JSON payload received. Unknown name \"{name}\"{place}: Cannot find field."))
}

fn one(content: &Value, at: usize, len: usize) -> Checked {
    match content.get("role").map(|role| role.as_str().unwrap_or_default()) {
        Some("user" | "model") => {}
        None if len == 1 => {}
        _ => return refuse("Please use a valid role: user, model."),
    }
    let parts = content["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    if parts.is_empty() {
        return refuse(format!("* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty.\n"));
    }
    parts.iter().enumerate().try_for_each(|(number, one)| part(one, at, number))
}

fn part(part: &Value, at: usize, number: usize) -> Checked {
    let place = format!("contents[{at}].parts[{number}]");
    let known = |name: &&String| {
        DATA.iter().any(|(camel, snake)| name == camel || name == snake)
            || matches!(
                name.as_str(),
                "thought"
                    | "thoughtSignature"
                    | "thought_signature"
                    | "videoMetadata"
                    | "partMetadata"
                    | "mediaResolution"
            )
    };
    if let Some(name) = part.as_object().and_then(|part| part.keys().find(|name| !known(name))) {
        return unknown(name, &place);
    }
    let data = DATA.iter().filter(|(camel, snake)| field(part, camel, snake).is_some()).count();
    if data > 1 {
        return refuse(format!(
            "Invalid value at '{place}' (oneof), oneof field 'data' is already set. Cannot set another"
        ));
    }
    let signature = field(part, "thoughtSignature", "thought_signature");
    if data == 0 && signature.is_none() {
        return refuse(format!(
            "* GenerateContentRequest.{place}.data: required oneof field 'data' must have one initialized field\n"
        ));
    }
    if let Some(signature) = signature {
        let text = signature.as_str().unwrap_or_default();
        if text.is_empty() || !(is_base64(text) || SENTINELS.contains(&text)) {
            return refuse(format!(
                "Invalid value at '{place}.thought_signature' (TYPE_BYTES), Base64 decoding failed for \"{text}\""
            ));
        }
    }
    if let Some(call) = field(part, "functionCall", "function_call") {
        named(call, &format!("{place}.function_call"))?;
        if call.get("args").is_some_and(|args| !args.is_object()) {
            return refuse(format!(
                "Invalid value at '{place}.function_call.args' (type.googleapis.com/google.protobuf.Struct)"
            ));
        }
    }
    if let Some(response) = field(part, "functionResponse", "function_response") {
        named(response, &format!("{place}.function_response"))?;
        if !response["response"].is_object() {
            return refuse(format!(
                "Invalid value at '{place}.function_response.response' (type.googleapis.com/google.protobuf.Struct)"
            ));
        }
    }
    if let Some(data) = field(part, "inlineData", "inline_data") {
        let text = data["data"].as_str().unwrap_or_default();
        if field(data, "mimeType", "mime_type").is_none() || !is_base64(text) {
            return refuse(format!("Invalid value at '{place}.inline_data.data' (TYPE_BYTES), Base64 decoding failed"));
        }
    }
    Ok(())
}

fn named(value: &Value, place: &str) -> Checked {
    if value["name"].as_str().unwrap_or_default().is_empty() {
        return refuse(format!("* GenerateContentRequest.{place}.name: Name cannot be empty.\n"));
    }
    Ok(())
}

fn calls(content: &Value) -> Vec<&Value> {
    let parts = content["parts"].as_array().into_iter().flatten();
    parts.filter_map(|part| field(part, "functionCall", "function_call")).collect()
}

fn responses(content: &Value) -> Vec<&Value> {
    let parts = content["parts"].as_array().into_iter().flatten();
    parts.filter_map(|part| field(part, "functionResponse", "function_response")).collect()
}

/// Calls come after a person or after responses, and their responses right after them, one each.
fn turns(contents: &[Value]) -> Checked {
    for (at, content) in contents.iter().enumerate() {
        let (asked, told) = (calls(content), responses(content));
        let before = at.checked_sub(1).map(|before| &contents[before]);
        if !asked.is_empty() && (content["role"] == "user" || before.is_none_or(|before| before["role"] == "model")) {
            return refuse(
                "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
            );
        }
        let wanted = before.map(calls).unwrap_or_default();
        if !told.is_empty() && (wanted.is_empty() || content["role"] == "model") {
            return refuse("Please ensure that function response turn comes immediately after a function call turn.");
        }
        let next = contents.get(at + 1).map(responses).unwrap_or_default();
        if !asked.is_empty() && next.len() != asked.len() {
            return refuse(
                "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
            );
        }
        let unasked = told.iter().find(|one| !wanted.iter().any(|call| call["name"] == one["name"]));
        if let Some(one) = unasked {
            return refuse(format!(
                "Function response name {} does not match any function call of the function call turn.",
                one["name"]
            ));
        }
    }
    Ok(())
}

/// Models that sign their calls want the first of each step of the current turn back as it was.
fn signed(contents: &[Value]) -> Checked {
    let is_person = |content: &Value| content["role"] != "model" && responses(content).is_empty();
    let from = contents.iter().rposition(is_person).unwrap_or(0);
    for (at, content) in contents.iter().enumerate().skip(from) {
        let mut parts = content["parts"].as_array().into_iter().flatten();
        let first = parts.find(|part| field(part, "functionCall", "function_call").is_some());
        if let Some(part) = first
            && field(part, "thoughtSignature", "thought_signature").is_none()
        {
            let call = calls(content)[0]["name"].as_str().unwrap_or_default();
            return refuse(format!(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to work \
                 correctly, and missing thought_signature may lead to degraded model performance. Additional data, \
                 function call `default_api:{call}` , position {at}."
            ));
        }
    }
    Ok(())
}
