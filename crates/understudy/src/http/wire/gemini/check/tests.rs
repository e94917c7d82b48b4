use serde_json::json;

use super::*;

fn good() -> Value {
    json!({
        "systemInstruction": {"parts": [{"text": "Be kind."}]},
        "generationConfig": {"maxOutputTokens": 100, "thinkingConfig": {"thinkingLevel": "high", "includeThoughts": true}},
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}},
        "tools": [{"functionDeclarations": [{
            "name": "look",
            "parameters": {"type": "OBJECT", "properties": {"tags": {"type": "ARRAY", "items": {"type": "STRING"}}}, "required": ["tags"]},
        }]}],
        "contents": [
            {"role": "user", "parts": [{"text": "Hello"}, {"inlineData": {"mimeType": "image/png", "data": "Zm9v"}}]},
            {"role": "model", "parts": [
                {"text": "Hm.", "thought": true},
                {"text": "Let me look.", "thoughtSignature": "c2ln"},
                {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2ln"},
                {"functionCall": {"name": "look", "args": {"tags": []}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "look", "response": {"output": "kelp"}}},
                {"function_response": {"name": "look", "response": {"output": "rock"}}},
            ]},
        ],
    })
}

fn refused(change: impl FnOnce(&mut Value), says: &str) {
    let mut body = good();
    change(&mut body);
    let refusal = check(body.as_object().unwrap(), "gemini-3-pro").expect_err(says);
    assert!(refusal.message.contains(says), "{:?} does not say {says:?}", refusal.message);
    assert_eq!(refusal.status, 400);
}

#[test]
fn a_good_request_is_taken() {
    assert_eq!(check(good().as_object().unwrap(), "gemini-3-pro"), Ok(()));
    let plain = json!({"contents": [{"parts": [{"text": "hi"}]}]});
    assert_eq!(check(plain.as_object().unwrap(), "gemini-2.5-flash"), Ok(()));
}

#[test]
fn contents_are_there_and_known() {
    refused(|body| body["contents"] = json!([]), "contents is not specified");
    refused(|body| drop(body.as_object_mut().unwrap().remove("contents")), "contents is not specified");
    refused(|body| body["messages"] = json!([]), "Unknown name \"messages\"");
    refused(|body| body["contents"][0]["role"] = json!("assistant"), "Please use a valid role: user, model.");
    refused(|body| body["contents"][0]["parts"] = json!([]), "parts must not be empty");
    refused(|body| body["contents"][0]["parts"][0] = json!({}), "must have one initialized field");
    refused(|body| body["contents"][0]["parts"][0]["fileData"] = json!({}), "oneof field 'data' is already set");
    refused(|body| body["contents"][0]["parts"][0]["colour"] = json!("red"), "Unknown name \"colour\"");
    refused(|body| body["contents"][0]["parts"][1]["inlineData"]["data"] = json!("a b"), "Base64 decoding failed");
}

#[test]
fn calls_and_responses_take_turns() {
    let parts = |body: &mut Value, at: usize| body["contents"][at]["parts"].as_array_mut().unwrap().clone();
    refused(
        |body| {
            body["contents"][2]["parts"].as_array_mut().unwrap().pop();
        },
        "number of function response parts is equal to the number of function call parts",
    );
    refused(
        |body| drop(body["contents"].as_array_mut().unwrap().remove(0)),
        "function call turn comes immediately after",
    );
    refused(
        |body| {
            body["contents"].as_array_mut().unwrap().remove(1);
        },
        "function response turn comes immediately after",
    );
    refused(
        |body| {
            let said = parts(body, 1);
            body["contents"].as_array_mut().unwrap().insert(1, json!({"role": "model", "parts": [said[1]]}));
        },
        "function call turn comes immediately after",
    );
    refused(|body| body["contents"][2]["parts"][0]["functionResponse"]["name"] = json!("fly"), "does not match any");
    refused(|body| body["contents"][2]["parts"][0]["functionResponse"]["name"] = json!(""), "Name cannot be empty");
    refused(|body| body["contents"][2]["parts"][0]["functionResponse"]["response"] = json!("kelp"), "protobuf.Struct");
    refused(|body| body["contents"][1]["parts"][2]["functionCall"]["args"] = json!("{}"), "protobuf.Struct");
}

#[test]
fn signatures_are_bytes_and_come_back() {
    refused(|body| body["contents"][1]["parts"][2]["thoughtSignature"] = json!("not one"), "Base64 decoding failed");
    let unsigned = |body: &mut Value| {
        body["contents"][1]["parts"][2].as_object_mut().unwrap().remove("thoughtSignature");
    };
    refused(unsigned, "missing a thought_signature");
    let mut body = good();
    unsigned(&mut body);
    assert_eq!(check(body.as_object().unwrap(), "gemini-2.5-flash"), Ok(()), "older models sign nothing");
    body["contents"][1]["parts"][2]["thoughtSignature"] = json!("skip_thought_signature_validator");
    assert_eq!(check(body.as_object().unwrap(), "gemini-3-pro"), Ok(()));
}

#[test]
fn tools_and_options_fit() {
    let declared = |body: &mut Value| body["tools"][0]["functionDeclarations"][0].clone();
    refused(|body| body["tools"][0]["functionDeclarations"][0]["name"] = json!("1look"), "Invalid function name");
    refused(
        |body| {
            let again = declared(body);
            body["tools"][0]["functionDeclarations"].as_array_mut().unwrap().push(again);
        },
        "Duplicate function declaration found: look",
    );
    let schema = |body: &mut Value, change: fn(&mut Value)| {
        change(&mut body["tools"][0]["functionDeclarations"][0]["parameters"]);
    };
    refused(
        |body| schema(body, |own| own["additionalProperties"] = json!(false)),
        "Unknown name \"additionalProperties\"",
    );
    refused(|body| schema(body, |own| own["properties"]["tags"]["type"] = json!(["array"])), "cannot start list");
    refused(|body| schema(body, |own| own["properties"]["tags"] = json!({"type": "ARRAY"})), "items: missing field");
    refused(|body| schema(body, |own| own["required"] = json!(["other"])), "property is not defined");
    refused(|body| body["generationConfig"]["maxOutputTokens"] = json!(0), "maxOutputTokens value of 0");
    refused(
        |body| body["generationConfig"]["thinkingConfig"]["thinkingBudget"] = json!(1),
        "only one of thinking budget and thinking level",
    );
    refused(|body| body["toolConfig"]["functionCallingConfig"]["mode"] = json!("AUTO"), "when the mode is ANY");
    refused(
        |body| body["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"] = json!(["fly"]),
        "not declared",
    );
}
