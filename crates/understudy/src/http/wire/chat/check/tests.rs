use serde_json::json;

use super::*;

fn good() -> Value {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}});
    json!({
        "model": "gpt-4o", "stream": true, "stream_options": {"include_usage": true}, "max_completion_tokens": 100,
        "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
        "tool_choice": "auto",
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "image_url", "image_url": {"url": "data:,"}}]},
            {"role": "assistant", "content": null, "tool_calls": [call("call_1"), call("call_2")]},
            {"role": "tool", "tool_call_id": "call_2", "content": "rock"},
            {"role": "tool", "tool_call_id": "call_1", "content": "kelp"},
            {"role": "assistant", "content": "Kelp."},
            {"role": "user", "content": "And?"},
        ],
    })
}

fn refused(change: impl FnOnce(&mut Value), says: &str) {
    let mut body = good();
    change(&mut body);
    let refusal = check(body.as_object().unwrap()).expect_err(says);
    assert!(refusal.message.contains(says), "{:?} does not say {says:?}", refusal.message);
    assert_eq!(refusal.status, 400);
}

fn drop_message(at: usize) -> impl FnOnce(&mut Value) {
    move |body| {
        body["messages"].as_array_mut().unwrap().remove(at);
    }
}

#[test]
fn a_good_request_is_taken() {
    assert_eq!(check(good().as_object().unwrap()), Ok(()));
}

#[test]
fn fields_are_there_and_known() {
    refused(|body| drop(body.as_object_mut().unwrap().remove("model")), "Missing required parameter: 'model'.");
    refused(|body| body["messages"] = json!([]), "empty array");
    refused(|body| body["messages"] = json!("hi"), "Invalid type for 'messages'");
    refused(|body| body["input"] = json!("hi"), "Unknown parameter: 'input'.");
    refused(|body| body["max_tokens"] = json!(1), "at the same time");
    refused(|body| body["max_completion_tokens"] = json!(0), "Expected a value >= 1");
    refused(|body| body["stream"] = json!(false), "'stream_options' parameter is only allowed");
}

#[test]
fn messages_hold_what_their_role_may_say() {
    refused(|body| body["messages"][0]["role"] = json!("model"), "Invalid value: 'model'");
    refused(|body| body["messages"][6]["content"] = Value::Null, "expected a string, got null");
    refused(|body| body["messages"][5]["content"] = Value::Null, "expected a string, got null");
    refused(|body| body["messages"][6]["content"] = json!(1), "Invalid type for 'messages[6].content'");
    refused(
        |body| body["messages"][1]["content"][0] = json!({"type": "input_text", "text": "x"}),
        "Invalid value: 'input_text'",
    );
    refused(|body| body["messages"][1]["content"][1] = json!({"type": "image_url"}), "image_url.url");
    refused(|body| body["messages"][6]["tool_calls"] = json!([1]), "Unknown parameter: 'messages[6].tool_calls'.");
}

#[test]
fn calls_are_well_formed_and_paired() {
    refused(|body| body["messages"][2]["tool_calls"] = json!([]), "empty array");
    refused(|body| body["messages"][2]["tool_calls"][0]["id"] = json!(""), "empty string");
    refused(|body| body["messages"][2]["tool_calls"][0]["type"] = json!("tool"), "Invalid value: 'tool'");
    refused(|body| body["messages"][2]["tool_calls"][0]["function"]["arguments"] = json!({}), "Invalid type");
    refused(
        |body| body["messages"][2]["tool_calls"][0]["function"]["name"] = json!("look up"),
        "does not match pattern",
    );
    refused(|body| body["messages"][2]["tool_calls"][1]["id"] = json!("call_1"), "Duplicate value");
    refused(|body| body["messages"][3]["tool_call_id"] = Value::Null, "tool_call_id");
    refused(drop_message(3), "did not have response messages: call_2");
    refused(drop_message(2), "must be a response to a preceeding message");
    refused(|body| body["messages"][3]["tool_call_id"] = json!("call_1"), "Duplicate value for 'tool_call_id'");
    refused(|body| body["messages"].as_array_mut().unwrap().swap(4, 5), "did not have response messages: call_1");
}

#[test]
fn tools_fit() {
    refused(|body| body["tools"] = json!([]), "empty array");
    refused(|body| body["tools"][0]["function"]["name"] = json!("look up"), "does not match pattern");
    refused(|body| body["tools"][0]["function"]["parameters"]["type"] = json!("array"), "Invalid schema");
    refused(|body| drop(body["tools"][0].as_object_mut().unwrap().remove("function")), "'tools[0].function'");
    refused(|body| drop(body.as_object_mut().unwrap().remove("tools")), "only allowed when 'tools' are specified");
    refused(
        |body| body["tool_choice"] = json!({"type": "function", "function": {"name": "fly"}}),
        "not one of the provided",
    );
    refused(|body| body["tool_choice"] = json!("must"), "Supported values");
    refused(|body| body["tools"] = json!(vec![body["tools"][0].clone(); 129]), "array too long");
}
