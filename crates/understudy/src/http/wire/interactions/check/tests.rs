use serde_json::{Value, json};

use super::check;

fn asking() -> Value {
    json!({
        "model": "gemini-3-flash", "stream": true, "background": true, "store": true, "system_instruction": "Be kind.",
        "input": [
            {"type": "user_input", "content": [{"type": "text", "text": "hi"}, {"type": "image", "mime_type": "image/png", "data": "MQ=="}]},
            {"type": "thought", "signature": "c2ln", "summary": [{"type": "text", "text": "Look."}]},
            {"type": "model_output", "content": [{"type": "text", "text": "Let me look."}]},
            {"type": "function_call", "id": "a", "name": "look", "arguments": {}},
            {"type": "function_result", "call_id": "a", "name": "look", "result": "kelp"},
        ],
        "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}, {"type": "google_search"}],
        "generation_config": {"max_output_tokens": 9, "thinking_level": "low", "thinking_summaries": "auto", "tool_choice": "any"},
    })
}

fn said(body: &Value) -> String {
    let checked = check(body.as_object().unwrap(), &|id| id == "kept");
    checked.err().map(|refusal| format!("{} {}", refusal.status, refusal.message)).unwrap_or_default()
}

#[test]
fn valid_requests_are_let_through() {
    assert_eq!(said(&asking()), "");
    for input in [json!("hi"), json!({"type": "text", "text": "hi"}), json!([{"type": "text", "text": "hi"}])] {
        assert_eq!(said(&json!({"model": "m", "input": input})), "");
    }
    let result = json!([{"type": "function_result", "call_id": "a", "result": "kelp"}]);
    assert_eq!(said(&json!({"model": "m", "previous_interaction_id": "kept", "input": result})), "");
    let only = json!({"allowed_tools": {"mode": "any", "tools": ["look"]}});
    let mut body = asking();
    body["generation_config"]["tool_choice"] = only;
    assert_eq!(said(&body), "");
}

#[test]
fn invalid_requests_are_refused() {
    let cases: [(&str, Value, &str); 17] = [
        ("/model", json!(""), "400 model is required."),
        ("/input", json!([]), "400 input is required."),
        ("/store", json!(false), "400 background=true requires store=true."),
        ("/contents", json!([]), "400 Unknown parameter 'contents' in the request."),
        ("/previous_interaction_id", json!("gone"), "404 Previous interaction gone not found."),
        ("/input/0/content/1/data", json!("%"), "400 Invalid media content: mime_type and base64 data are required."),
        ("/input/0/role", json!("user"), "400 Unknown parameter 'role' in a step of type 'user_input'."),
        ("/input/0/type", json!("text"), "400 Unknown step type 'text'."),
        ("/input/1/signature", json!(null), "400 A thought must carry its signature."),
        ("/input/2/content", json!([]), "400 A step of type 'model_output' must have content."),
        ("/input/3/arguments", json!("{}"), "400 The arguments of a function_call are an object."),
        ("/input/4/call_id", json!("b"), "400 No function_call with id 'b' waits for a function_result."),
        (
            "/input/4/type",
            json!("hologram_result"),
            "400 Unknown parameter 'name' in a step of type 'hologram_result'.",
        ),
        ("/tools/0/name", json!("9 lives"), "400 Invalid function declaration '9 lives'."),
        ("/generation_config/thinking_level", json!("LOW"), "400 Invalid thinking configuration."),
        (
            "/generation_config/thinkingLevel",
            json!("low"),
            "400 Unknown parameter 'thinkingLevel' in generation_config.",
        ),
        (
            "/generation_config/tool_choice",
            json!({"allowed_tools": {"tools": ["x"]}}),
            "400 tool_choice allows \"x\", which is not declared.",
        ),
    ];
    for (place, wrong, refused) in cases {
        let mut body = asking();
        match body.pointer_mut(place) {
            Some(field) => *field = wrong,
            None => {
                let (parent, name) = place.rsplit_once('/').unwrap();
                body.pointer_mut(parent).unwrap()[name] = wrong;
            }
        }
        assert_eq!(said(&body), refused, "{place}");
    }
}

#[test]
fn calls_want_results_and_signatures() {
    let mut body = asking();
    body["input"].as_array_mut().unwrap().pop();
    assert_eq!(said(&body), "400 function_call 'a' has no function_result.");
    let mut body = asking();
    body["input"].as_array_mut().unwrap().remove(1);
    assert_eq!(said(&body), "400 function_call \"look\" is missing a thought with a signature before it.");
    body["model"] = "gemini-2.5-flash".into();
    assert_eq!(said(&body), "");
}
