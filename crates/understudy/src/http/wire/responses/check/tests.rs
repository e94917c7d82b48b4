use serde_json::json;

use super::*;

fn good() -> Value {
    json!({
        "model": "gpt-5", "stream": true, "store": true, "background": true, "instructions": "Be kind.",
        "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "high", "summary": "auto"},
        "max_output_tokens": 1000, "tool_choice": {"type": "function", "name": "look"},
        "tools": [
            {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}},
            {"type": "web_search"},
        ],
        "input": [
            {"role": "user", "content": "Hello"},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "c2Vj"},
            {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]},
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}"},
            {"type": "function_call", "call_id": "call_2", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "kelp"},
            {"type": "function_call_output", "call_id": "call_2", "output": "rock"},
            {"role": "user", "content": [{"type": "input_text", "text": "And?"}]},
        ],
    })
}

fn kept(id: &str) -> Option<EarlierResponse> {
    (id == "resp_1").then(|| EarlierResponse { calls: vec!["call_9".into()] })
}

fn refused(change: impl FnOnce(&mut Value), says: &str) -> WireRefusal {
    let mut body = good();
    change(&mut body);
    let refusal = check(body.as_object().unwrap(), &kept).expect_err(says);
    assert!(refusal.message.contains(says), "{:?} does not say {says:?}", refusal.message);
    refusal
}

fn remove(value: &mut Value, at: usize) {
    value["input"].as_array_mut().unwrap().remove(at);
}

#[test]
fn a_good_request_is_taken() {
    assert_eq!(check(good().as_object().unwrap(), &kept), Ok(()));
    let plain = json!({"model": "m", "input": "hi"});
    assert_eq!(check(plain.as_object().unwrap(), &kept), Ok(()));
    let output = json!({"type": "function_call_output", "call_id": "call_9", "output": "kelp"});
    let chained = json!({"model": "m", "previous_response_id": "resp_1", "input": [output]});
    assert_eq!(check(chained.as_object().unwrap(), &kept), Ok(()));
}

#[test]
fn fields_are_there_and_known() {
    refused(|body| drop(body.as_object_mut().unwrap().remove("model")), "Missing required parameter: 'model'.");
    refused(|body| body["input"] = Value::Null, "Missing required parameter: 'input'.");
    refused(|body| body["input"] = json!(1), "Invalid type for 'input'");
    let refusal = refused(|body| body["max_tokens"] = json!(1), "Unknown parameter: 'max_tokens'.");
    assert_eq!((refusal.code, refusal.param.as_deref()), (Some("unknown_parameter"), Some("max_tokens")));
    refused(|body| body["max_output_tokens"] = json!(1), "Expected a value >= 16");
    refused(|body| body["include"] = json!(["everything"]), "Invalid value: 'everything'");
    refused(|body| body["reasoning"]["effort"] = json!("huge"), "Invalid value: 'huge'");
    refused(|body| body["store"] = json!(false), "Background mode requires `store`");
}

#[test]
fn items_hold_what_they_must() {
    refused(|body| body["input"][0]["role"] = json!("model"), "Invalid value: 'model'");
    refused(|body| body["input"][0] = json!({"type": "gibber"}), "Invalid value: 'gibber'");
    refused(|body| body["input"][0]["content"] = Value::Null, "Missing required parameter: 'input[0].content'");
    refused(|body| body["input"][2]["content"][0]["type"] = json!("input_text"), "'output_text', and 'refusal'");
    refused(|body| body["input"][7]["content"][0]["type"] = json!("output_text"), "Invalid value: 'output_text'");
    refused(|body| body["input"][2]["id"] = json!("x_1"), "Expected an ID that begins with 'msg'");
    refused(|body| body["input"][3]["id"] = json!("call_1"), "Expected an ID that begins with 'fc'");
    refused(|body| body["input"][3]["name"] = json!("look up"), "does not match pattern");
    refused(|body| body["input"][3]["arguments"] = json!({}), "Invalid type for 'input[3].arguments'");
    refused(|body| body["input"][3]["call_id"] = json!("x".repeat(65)), "maximum length 64");
    refused(|body| body["input"][3]["call_id"] = json!(""), "empty string");
    refused(|body| body["input"][5]["output"] = Value::Null, "'input[5].output'");
    refused(|body| body["input"][1]["encrypted_content"] = json!("no good"), "could not be verified");
    refused(|body| body["input"][1]["summary"] = Value::Null, "'input[1].summary'");
    let unkept = |body: &mut Value| {
        (body["store"], body["background"]) = (json!(false), json!(false));
        body["input"][1].as_object_mut().unwrap().remove("encrypted_content");
    };
    assert_eq!(refused(unkept, "Items are not persisted").status, 404);
    let again = |body: &mut Value| {
        let item = body["input"][2].clone();
        body["input"].as_array_mut().unwrap().push(item);
    };
    refused(again, "Duplicate item found with id msg_1");
}

#[test]
fn calls_reasoning_and_chains_are_paired() {
    refused(|body| remove(body, 5), "No tool output found for function call call_1.");
    refused(|body| remove(body, 3), "No tool call found for function call output with call_id call_1.");
    refused(|body| body["input"].as_array_mut().unwrap().swap(3, 5), "No tool call found");
    let unfollowed = |body: &mut Value| {
        body["input"].as_array_mut().unwrap().drain(2..7);
    };
    refused(unfollowed, "of type 'reasoning' was provided without its required following item");
    let refusal = refused(|body| body["previous_response_id"] = json!("resp_2"), "'resp_2' not found");
    assert_eq!(refusal.code, Some("previous_response_not_found"));
    refused(|body| body["previous_response_id"] = json!("msg_2"), "begins with 'resp'");
    refused(|body| body["previous_response_id"] = json!("resp_1"), "No tool output found for function call call_9.");
}

#[test]
fn tools_fit() {
    refused(|body| body["tools"][0]["name"] = json!("look up"), "does not match pattern");
    refused(|body| body["tools"][0]["name"] = json!("x".repeat(65)), "maximum length 64");
    refused(|body| body["tools"][0]["parameters"]["type"] = json!("array"), "Invalid schema for function 'look'");
    refused(|body| body["tool_choice"]["name"] = json!("fly"), "Tool choice 'function' not found");
    refused(|body| body["tool_choice"] = json!("must"), "Supported values");
}
