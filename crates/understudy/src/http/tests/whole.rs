//! Answers in one piece, and personas on every wire.

use std::time::Duration;

use everturn_core::message::Stop;
use everturn_core::prompt::WireFormat;
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::client::{ask, post, question, start};
use crate::{Manner, Understudy, call, reasoning, script, sealed, stop, text, usage};

async fn check(wire: WireFormat, expected: Expect) {
    let cues = [
        reasoning("Hm."),
        sealed("c2ln"),
        text("Let me "),
        text("look."),
        call("look", json!({"at": "kelp"})),
        usage(10, 5),
        stop(Stop::ToolUse),
    ];
    let server = start(Understudy::new([script(cues)])).await;
    let (path, mut body) = question(wire, "m", "hi");
    body.as_object_mut().unwrap().remove("stream");
    body.as_object_mut().unwrap().remove("stream_options");
    let got = post(&server, wire, &path.replace(":streamGenerateContent?alt=sse", ":generateContent"), &body).await;
    expected.assert_eq(got.text());
}

#[tokio::test]
async fn answers_come_in_one_piece_too() {
    check(WireFormat::Anthropic, expect![[r#"{"content":[{"signature":"c2ln","thinking":"Hm.","type":"thinking"},{"text":"Let me look.","type":"text"},{"id":"id_look","input":{"at":"kelp"},"name":"look","type":"tool_use"}],"id":"msg_understudy0001","model":"m","role":"assistant","stop_reason":"tool_use","stop_sequence":null,"type":"message","usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":10,"output_tokens":5}}"#]]).await;
    check(WireFormat::OpenAiResponses, expect![[r#"{"created_at":1767225600,"error":null,"id":"resp_understudy0001","incomplete_details":null,"model":"m","object":"response","output":[{"id":"rs_understudy0001_0","summary":[{"text":"Hm.","type":"summary_text"}],"type":"reasoning"},{"content":[{"annotations":[],"logprobs":[],"text":"Let me look.","type":"output_text"}],"id":"msg_understudy0001_1","role":"assistant","status":"completed","type":"message"},{"arguments":"{\"at\":\"kelp\"}","call_id":"id_look","id":"fc_understudy0001_2","name":"look","status":"completed","type":"function_call"}],"parallel_tool_calls":true,"status":"completed","usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":0},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":15}}"#]]).await;
    check(WireFormat::OpenAiChat, expect![[r#"{"choices":[{"finish_reason":"tool_calls","index":0,"logprobs":null,"message":{"content":"Let me look.","reasoning_content":"Hm.","refusal":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{\"at\":\"kelp\"}","name":"look"},"id":"id_look","type":"function"}]}}],"created":1767225600,"id":"chatcmpl-understudy0001","model":"m","object":"chat.completion","usage":{"completion_tokens":5,"completion_tokens_details":{"audio_tokens":0,"reasoning_tokens":0},"prompt_tokens":10,"prompt_tokens_details":{"audio_tokens":0,"cached_tokens":0},"total_tokens":15}}"#]]).await;
    check(WireFormat::Gemini, expect![[r#"{"candidates":[{"content":{"parts":[{"text":"Hm.","thought":true},{"text":"Let me ","thoughtSignature":"c2ln"},{"text":"look."},{"functionCall":{"args":{"at":"kelp"},"id":"id_look","name":"look"},"thoughtSignature":"c2ln"},{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"modelVersion":"m","responseId":"understudy0001","usageMetadata":{"candidatesTokenCount":5,"promptTokenCount":10,"promptTokensDetails":[{"modality":"TEXT","tokenCount":10}],"totalTokenCount":15}}"#]]).await;
}

const QUICK: Manner = Manner { pace: Duration::ZERO, seed: 0 };

/// All words of an answer, and its first call.
fn told(wire: WireFormat, events: &[Value]) -> String {
    let words = events.iter().map(|event| match wire {
        WireFormat::Anthropic => event["delta"]["text"].as_str(),
        WireFormat::OpenAiResponses if event["type"] == "response.output_text.delta" => event["delta"].as_str(),
        WireFormat::OpenAiResponses => None,
        WireFormat::OpenAiChat => event["choices"][0]["delta"]["content"].as_str(),
        WireFormat::Gemini => {
            let part = &event["candidates"][0]["content"]["parts"][0];
            part["text"].as_str().filter(|_| part["thought"] != true)
        }
    });
    words.flatten().collect()
}

#[tokio::test]
async fn the_same_part_is_played_on_every_wire() {
    let server = start(Understudy::company(QUICK)).await;
    for wire in WireFormat::ALL {
        let got = ask(&server, wire, "numbered", "count to 4").await;
        assert_eq!(told(wire, &got.events()), "t1 t2 t3 t4", "{wire:?}");
        let got = ask(&server, wire, "anything", "hello there").await;
        assert!(told(wire, &got.events()).contains("You said: hello there"), "{wire:?}");
    }
}

#[tokio::test]
async fn an_answer_that_broke_off_goes_on_on_every_wire() {
    let server = start(Understudy::company(QUICK)).await;
    let go_on = "Your last message broke off at its very end. Go on.";
    for wire in WireFormat::ALL {
        let (path, mut body) = question(wire, "numbered", "count to 6");
        let said = match wire {
            WireFormat::Gemini => &mut body["contents"],
            WireFormat::OpenAiResponses => {
                body["input"] = json!([{"role": "user", "content": "count to 6"}]);
                &mut body["input"]
            }
            WireFormat::Anthropic | WireFormat::OpenAiChat => &mut body["messages"],
        };
        let entry = |role: &str, text: &str| match wire {
            WireFormat::Gemini => json!({"role": role.replace("assistant", "model"), "parts": [{"text": text}]}),
            _ => json!({"role": role, "content": text}),
        };
        said.as_array_mut().unwrap().extend([entry("assistant", "t1 t2 t"), entry("user", go_on)]);
        let got = post(&server, wire, &path, &body).await;
        assert_eq!(told(wire, &got.events()), "3 t4 t5 t6", "{wire:?}");
    }
}

#[tokio::test]
async fn tools_are_tried_and_their_results_used() {
    let server = start(Understudy::company(QUICK)).await;
    let tools = json!([{"name": "search", "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}}]);
    let (path, mut body) = question(WireFormat::Anthropic, "persona", "kelp?");
    body["tools"] = tools;
    let got = post(&server, WireFormat::Anthropic, &path, &body).await;
    assert!(got.text().contains("\"name\":\"search\"") && got.text().contains("\"stop_reason\":\"tool_use\""));
    let said = body["messages"].as_array_mut().unwrap();
    said.push(json!({"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "search", "input": {"q": "kelp?"}}]}));
    said.push(
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "a seaweed"}]}),
    );
    let got = post(&server, WireFormat::Anthropic, &path, &body).await;
    assert!(told(WireFormat::Anthropic, &got.events()).contains("search said: a seaweed"), "{}", got.text());
}
