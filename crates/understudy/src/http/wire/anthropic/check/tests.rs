use serde_json::json;

use super::*;

/// A request with everything in it.
fn good() -> Value {
    json!({
        "model": "claude-sonnet-4-5", "max_tokens": 8000, "stream": true,
        "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
        "tools": [
            {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}},
            {"type": "web_search_20250305", "name": "web_search"},
        ],
        "tool_choice": {"type": "auto"},
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "messages": [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "c2Vj"},
                {"type": "text", "text": "Let me look."},
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "kelp"}},
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
                {"type": "tool_use", "id": "call_1", "name": "look", "input": {}},
                {"type": "tool_use", "id": "call_2", "name": "look", "input": {"at": 1}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "call_1", "content": "kelp"},
                {"type": "tool_result", "tool_use_id": "call_2", "content": [{"type": "text", "text": "rock"}], "is_error": true},
                {"type": "text", "text": "And?", "cache_control": {"type": "ephemeral"}},
            ]},
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

fn remove(value: &mut Value, key: &str) {
    value.as_object_mut().unwrap().remove(key);
}

#[test]
fn a_good_request_is_taken() {
    assert_eq!(check(good().as_object().unwrap()), Ok(()));
    let plain = json!({"model": "m", "max_tokens": 1, "messages": [
        {"role": "user", "content": "a"}, {"role": "user", "content": "b"}, {"role": "assistant", "content": "c"},
    ]});
    assert_eq!(check(plain.as_object().unwrap()), Ok(()), "roles may repeat, and an answer may be begun");
}

#[test]
fn fields_are_there_and_known() {
    refused(|body| remove(body, "model"), "model: Field required");
    refused(|body| remove(body, "max_tokens"), "max_tokens: Field required");
    refused(|body| remove(body, "messages"), "messages: Field required");
    refused(|body| body["max_tokens"] = json!(0), "greater than or equal to 1");
    refused(|body| body["max_tokens"] = json!("1"), "valid integer");
    refused(|body| body["messages"] = json!([]), "at least one message");
    refused(|body| body["max_output"] = json!(1), "max_output: Extra inputs are not permitted");
    refused(|body| body["stream"] = json!("yes"), "stream: Input should be a valid boolean");
    refused(
        |body| body["system"] = json!([{"type": "text", "text": " "}]),
        "system: text content blocks must be non-empty",
    );
}

#[test]
fn messages_hold_what_their_role_may_say() {
    refused(|body| body["messages"][0]["role"] = json!("system"), "Input should be 'user' or 'assistant'");
    refused(|body| body["messages"][0]["role"] = json!("assistant"), "first message must use the \"user\" role");
    refused(|body| body["messages"][0]["content"] = json!(""), "non-empty content");
    refused(|body| body["messages"][0]["content"] = json!([]), "non-empty content");
    refused(|body| body["messages"][1]["content"][2]["text"] = json!(""), "must be non-empty");
    refused(|body| body["messages"][1]["content"][2]["text"] = json!(" \n"), "non-whitespace");
    refused(|body| body["messages"][0]["content"] = json!([{"type": "tool_use"}]), "Input tag 'tool_use'");
    refused(|body| body["messages"][1]["content"][2] = json!({"type": "image"}), "Input tag 'image'");
    refused(|body| body["messages"][1]["content"][2] = json!({"type": "gibber"}), "Input tag 'gibber'");
    refused(|body| body["messages"][1]["content"][0]["signature"] = json!(""), "Invalid `signature`");
    refused(|body| body["messages"][1]["content"][0]["signature"] = json!("not one"), "Invalid `signature`");
    refused(|body| remove(&mut body["messages"][1]["content"][0], "signature"), "signature: Field required");
    refused(|body| body["messages"][1]["content"][1]["data"] = json!(""), "Invalid `data`");
}

#[test]
fn calls_are_well_formed_and_paired() {
    refused(|body| body["messages"][1]["content"][5]["id"] = json!("a b"), "String should match pattern");
    refused(|body| body["messages"][1]["content"][5]["name"] = json!("look up"), "String should match pattern");
    refused(|body| body["messages"][1]["content"][5]["input"] = json!("{}"), "valid dictionary");
    refused(|body| body["messages"][1]["content"][3]["id"] = json!("call_9"), "srvtoolu_");
    refused(|body| body["messages"][1]["content"][6]["id"] = json!("call_1"), "ids must be unique");
    refused(
        |body| {
            body["messages"][2]["content"].as_array_mut().unwrap().remove(1);
        },
        "without `tool_result` blocks immediately after: call_2",
    );
    refused(
        |body| {
            let said = body["messages"][2]["content"].as_array_mut().unwrap();
            said.rotate_right(1);
        },
        "without `tool_result` blocks immediately after: call_1, call_2",
    );
    refused(
        |body| {
            let stray = json!({"type": "tool_result", "tool_use_id": "call_3"});
            body["messages"][2]["content"].as_array_mut().unwrap().insert(2, stray);
        },
        "unexpected `tool_use_id` found in `tool_result` blocks: call_3",
    );
    refused(
        |body| {
            let again = body["messages"][2]["content"][0].clone();
            body["messages"][2]["content"].as_array_mut().unwrap().insert(0, again);
        },
        "each tool_use must have a single result",
    );
    refused(|body| body["messages"][1]["content"][4]["tool_use_id"] = json!("srvtoolu_2"), "unexpected `tool_use_id`");
    refused(
        |body| {
            body["messages"][1]["content"].as_array_mut().unwrap().remove(4);
        },
        "without a corresponding",
    );
    refused(
        |body| body["messages"][2]["content"][1]["content"] = json!([{"type": "text", "text": ""}]),
        "must be non-empty",
    );
}

#[test]
fn tools_and_options_fit() {
    refused(|body| remove(&mut body["tools"][0], "input_schema"), "input_schema: Field required");
    refused(|body| body["tools"][0]["input_schema"]["type"] = json!("string"), "Input should be 'object'");
    refused(|body| body["tools"][0]["input_schema"]["anyOf"] = json!([]), "does not support oneOf");
    refused(|body| body["tools"][0]["name"] = json!("look up"), "String should match pattern");
    refused(|body| body["tools"][0]["name"] = json!("web_search"), "Tool names must be unique");
    refused(|body| body["tool_choice"] = json!({"type": "tool", "name": "fly"}), "Tool 'fly' not found");
    refused(|body| body["tool_choice"] = json!({"type": "any"}), "Thinking may not be enabled");
    refused(|body| body["tool_choice"] = json!({"type": "some"}), "tool_choice: Input tag");
    refused(
        |body| {
            remove(body, "tools");
            remove(body, "tool_choice");
        },
        "must define tools",
    );
    refused(|body| body["thinking"]["budget_tokens"] = json!(1000), "greater than or equal to 1024");
    refused(|body| body["thinking"]["budget_tokens"] = json!(9000), "must be greater than `thinking.budget_tokens`");
    refused(|body| body["temperature"] = json!(0.5), "may only be set to 1");
    refused(
        |body| {
            remove(body, "thinking");
            body["temperature"] = json!(2);
        },
        "temperature: range",
    );
}

#[test]
fn thoughts_lead_and_ends_are_clean() {
    let unled = |body: &mut Value| {
        let blocks = body["messages"][1]["content"].as_array_mut().unwrap();
        blocks.drain(..2);
        body["messages"][2]["content"].as_array_mut().unwrap().pop();
    };
    refused(unled, "Expected `thinking` or `redacted_thinking`, but found `text`");
    let begun = |text: &'static str| {
        move |body: &mut Value| {
            remove(body, "thinking");
            body["messages"].as_array_mut().unwrap().push(json!({"role": "assistant", "content": text}));
        }
    };
    refused(begun("So "), "trailing whitespace");
    refused(
        |body| {
            begun("So")(body);
            body["model"] = json!("claude-opus-4-6");
        },
        "does not support assistant message prefill",
    );
    let paused = |blocks: Value| {
        let mut body = good();
        body["model"] = json!("claude-opus-4-6");
        body["messages"].as_array_mut().unwrap().push(json!({"role": "assistant", "content": blocks}));
        check(body.as_object().unwrap())
    };
    let thought = json!({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"});
    let search = json!({"type": "server_tool_use", "id": "srvtoolu_2", "name": "web_search", "input": {"query": "x"}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_2", "content": []});
    assert_eq!(paused(json!([thought, search])), Ok(()), "it is run before the answer goes on");
    assert_eq!(paused(json!([thought, search, found])), Ok(()));
    assert!(paused(json!([thought, search, {"type": "text", "text": "So"}])).is_err());
    let mark = json!({"type": "ephemeral"});
    refused(
        |body| {
            for at in 0..3 {
                body["messages"][1]["content"][at]["cache_control"] = mark.clone();
            }
        },
        "Found 5",
    );
}

#[test]
fn sampling_is_taken_where_the_model_has_it() {
    let plain = |change: fn(&mut Value)| {
        let mut body =
            json!({"model": "claude-haiku-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "a"}]});
        change(&mut body);
        check(body.as_object().unwrap()).map_err(|refusal| refusal.message)
    };
    assert_eq!(plain(|body| body["temperature"] = json!(1)), Ok(()));
    let said = plain(|body| {
        body["temperature"] = json!(0.5);
        body["top_p"] = json!(0.5);
    });
    assert!(said.unwrap_err().contains("cannot both be specified"));
    let said = plain(|body| {
        body["model"] = json!("claude-opus-4-7");
        body["top_k"] = json!(5);
    });
    assert!(said.unwrap_err().contains("`top_k` is deprecated"));
    assert!(plain(|body| body["stop_sequences"] = json!(["\n"])).unwrap_err().contains("non-whitespace"));
}
