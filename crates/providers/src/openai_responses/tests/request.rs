//! Requests, as they are written down.

use everturn_core::message::{Body, CallVerdict, Part};
use everturn_core::prompt::{
    AnswerSchema, ContinueMode, Effort, OutputFormat, Request, Target, ToolChoice, ToolSpec, UnfinishedAnswer,
    WireFormat,
};
use expect_test::{expect, expect_file};
use serde_json::{Map, Value, json};

use super::super::decode::{ResponseRetention, Responses};
use super::super::{Options, request};
use crate::catalogue::{Card, Catalogue};
use crate::tests::cuts::told;
use crate::tests::transcript::{Talk, file, media, words};

const CALLS: &[u8] = include_bytes!("../../../fixtures/openai_responses/calls.sse");
const SEARCH: &[u8] = include_bytes!("../../../fixtures/openai_responses/search.sse");
const PARTS: &[u8] = include_bytes!("../../../fixtures/openai_responses/parts.sse");
const REFUSAL: &[u8] = include_bytes!("../../../fixtures/openai_responses/refusal.sse");
const TEXT: &[u8] = include_bytes!("../../../fixtures/openai_responses/text.sse");
const UNENDED: &[u8] = include_bytes!("../../../fixtures/openai_responses/no_item_ends.sse");

const MODEL: &str = "openai/gpt-5.4";

fn card() -> Card {
    Catalogue::embedded().card("openai", "gpt-5.4")
}

fn target() -> Target {
    card().facts("openai", WireFormat::OpenAiResponses).target
}

fn decoder() -> Responses {
    Responses::new("openai", ResponseRetention::Response)
}

fn body(request: &Request, options: &Options) -> Value {
    request::body(request, &card(), options)
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

fn stored() -> Options {
    Options { store: true, extra: Map::new() }
}

fn tools() -> Vec<ToolSpec> {
    vec![
        ToolSpec::new("get_weather", "The weather in a city.", json!({"properties": {"city": {"type": "string"}}})),
        ToolSpec::provider_defined("web_search", json!({"type": "web_search", "search_context_size": "low"})),
    ]
}

/// A person shows things, the model thinks, calls, searches and cites, another model has spoken in between.
fn everything() -> Talk {
    let shown = vec![
        words("What is the weather?"),
        file("map.png", "image/png", b"\x89PNG"),
        file("", "application/pdf", b"%PDF-1.4"),
    ];
    Talk::default()
        .say(Body::User(shown))
        .say(Body::Context("It is Monday.".into()))
        .heard(MODEL, CALLS, decoder())
        .result(1, CallVerdict::Error, "no such city", vec![])
        .result(0, CallVerdict::Done, "rain", vec![media("image/png", b"radar")])
        .result(2, CallVerdict::Done, "", vec![])
        .heard(MODEL, SEARCH, decoder())
        .user("And what does Claude think?")
        .reply("anthropic/claude", vec![words("It may "), words("rain.")])
        .user("Thanks.")
}

#[test]
fn everything_is_written_down() {
    let request = everything().request(MODEL, &target(), |request| {
        request.system = vec!["You are terse.".into(), "Speak plainly.".into()];
        request.tools = tools().into();
        request.effort = Some(Effort::Max);
    });
    expect_file!["../../../fixtures/openai_responses/everything.request.json"]
        .assert_eq(&pretty(&body(&request, &Options::default())));
}

/// What the provider made comes back as it was, in its order: thoughts, searches, messages in their parts, calls.
#[test]
fn a_response_comes_back_as_it_was() {
    for stream in [CALLS, SEARCH, PARTS, REFUSAL, TEXT] {
        let mut events = std::str::from_utf8(stream).unwrap().lines().filter_map(|line| line.strip_prefix("data: "));
        let last: Value = serde_json::from_str(events.next_back().unwrap()).unwrap();
        let mut output = last["response"]["output"].as_array().unwrap().clone();
        output
            .retain(|item| item["content"] != json!([{"type":"output_text","annotations":[],"logprobs":[],"text":""}]));
        let mut calls = 0;
        for item in &mut output {
            for part in item.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten() {
                part.as_object_mut().unwrap().remove("logprobs");
            }
            if item["type"] == "function_call" {
                calls += 1;
                item["call_id"] = format!("call_{calls}").into();
                let input: Value = serde_json::from_str(item["arguments"].as_str().unwrap()).unwrap();
                item["arguments"] = input.to_string().into();
                item.as_object_mut().unwrap().remove("status");
            }
        }
        let talk = Talk::default().user("Hello.").heard(MODEL, stream, decoder()).user("Go on.");
        let sent = body(&talk.request(MODEL, &target(), |_| {}), &Options::default());
        let sent = sent["input"].as_array().unwrap();
        assert_eq!(&sent[1..=output.len()], output.as_slice());
    }
}

/// An item that had to be told in two pieces must not come back under one id twice.
#[test]
fn no_id_is_sent_twice() {
    let talk = Talk::default().user("Go.").heard(MODEL, UNENDED, decoder()).result(0, CallVerdict::Done, "ok", vec![]);
    let talk = talk.heard(MODEL, UNENDED, decoder()).result(0, CallVerdict::Done, "ok", vec![]);
    let sent = body(&talk.request(MODEL, &target(), |_| {}), &Options::default());
    let mut ids: Vec<&str> = sent["input"].as_array().unwrap().iter().filter_map(|item| item["id"].as_str()).collect();
    let len = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), len, "{sent:#}");
}

#[test]
fn a_chain_sends_what_is_new() {
    let talk = Talk::default().user("Hello.").heard(MODEL, CALLS, decoder());
    let talk = talk.result(0, CallVerdict::Done, "rain", vec![]).result(1, CallVerdict::Error, "error: none", vec![]);
    let talk = talk.result(2, CallVerdict::Done, "noon", vec![]).user("Well?");
    let target = target();
    let mut chain = None;
    let request = talk.request(MODEL, &target, |request| {
        request.chain = talk.prompt(&target).chain(&MODEL.parse().unwrap());
        chain = request.chain.clone();
    });
    assert!(chain.is_some() == stream_keeps(CALLS));
    let unkept = body(&request, &Options::default());
    assert_eq!(unkept.get("previous_response_id"), None, "nothing is built upon a response that is not stored");
    let request = Request {
        chain: Some(everturn_core::prompt::ResponseChain { response_id: "resp_02".into(), from: 2 }),
        ..request
    };
    expect![[r#"
        {
          "include": [
            "reasoning.encrypted_content"
          ],
          "input": [
            {
              "call_id": "call_Kq1",
              "output": "rain",
              "type": "function_call_output"
            },
            {
              "call_id": "call_Kq2",
              "output": "error: none",
              "type": "function_call_output"
            },
            {
              "call_id": "call_Kq3",
              "output": "noon",
              "type": "function_call_output"
            },
            {
              "content": [
                {
                  "text": "Well?",
                  "type": "input_text"
                }
              ],
              "role": "user",
              "type": "message"
            }
          ],
          "max_output_tokens": 32000,
          "model": "gpt-5.4",
          "previous_response_id": "resp_02",
          "store": true,
          "stream": true
        }
    "#]]
    .assert_eq(&pretty(&body(&request, &stored())));
}

/// The recorded response says that it was not stored; then its id is not sent on.
fn stream_keeps(stream: &[u8]) -> bool {
    let frames = told([stream], decoder()).frames;
    frames.iter().any(|frame| format!("{frame:?}").contains("ResponseId"))
}

#[test]
fn a_generation_in_the_background_is_kept() {
    let target = target();
    let request = Talk::default().user("Count.").request(MODEL, &target, |request| request.background = true);
    let sent = body(&request, &Options::default());
    assert_eq!((&sent["background"], &sent["store"], &sent["stream"]), (&json!(true), &json!(true), &json!(true)));
    assert_eq!(request::keeps(&request, &Options::default()), ResponseRetention::Generation);
}

#[test]
fn a_broken_answer_is_gone_on_with() {
    let target = target();
    let parts: Vec<Part> = vec![words("The tide tur")];
    let unfinished = UnfinishedAnswer { parts: &parts, by: &MODEL.parse().unwrap() };
    let request = Talk::default().user("Tell me.").request(MODEL, &target, |_| {});
    let request = request.continuing(&target, unfinished, ContinueMode::Prefill);
    let sent = body(&request, &Options::default());
    expect![[r#"
        [
          {
            "content": [
              {
                "text": "Tell me.",
                "type": "input_text"
              }
            ],
            "role": "user",
            "type": "message"
          },
          {
            "content": "The tide tur",
            "role": "assistant",
            "type": "message"
          },
          {
            "content": [
              {
                "text": "Your last message broke off at its very end. Go on from exactly there: begin with the next character, repeat nothing of it, and say nothing before it.",
                "type": "input_text"
              }
            ],
            "role": "user",
            "type": "message"
          }
        ]
    "#]].assert_eq(&pretty(&sent["input"]));
}

#[test]
fn tools_are_chosen() {
    let cases = [
        (ToolChoice::Auto, Value::Null),
        (ToolChoice::None, json!("none")),
        (ToolChoice::Required, json!("required")),
        (ToolChoice::Tool("get_weather".into()), json!({"type": "function", "name": "get_weather"})),
        (ToolChoice::Tool("web_search".into()), json!({"type": "web_search"})),
    ];
    for (choice, expected) in cases {
        let request = Talk::default().user("Go.").request(MODEL, &target(), |request| {
            request.tools = tools().into();
            request.tool_choice = choice;
        });
        assert_eq!(body(&request, &Options::default())["tool_choice"], expected);
    }
}

/// Models that think are not told how to choose words, and models that do not are not asked for seals.
#[test]
fn parameters_depend_on_the_model() {
    let extra = json!({"temperature": 0.2, "service_tier": "flex", "model": "other", "include": ["x"], "reasoning": {"mode": "pro"}});
    let options = Options { store: false, extra: extra.as_object().unwrap().clone() };
    let efforts = Some(vec!["low".into(), "high".into()]);
    let thinks = Card { thinks: Some(true), efforts, shown: Some("auto".into()), ..Card::default() };
    let request = Talk::default().user("Go.").request(MODEL, &target(), |request| {
        request.effort = Some(Effort::None);
        request.max_output = 1;
    });
    let mut sent = request::body(&request, &thinks, &options);
    sent["input"] = Value::Null;
    expect![[r#"
        {
          "include": [
            "x",
            "reasoning.encrypted_content"
          ],
          "input": null,
          "max_output_tokens": 16,
          "model": "gpt-5.4",
          "reasoning": {
            "effort": "low",
            "mode": "pro",
            "summary": "auto"
          },
          "service_tier": "flex",
          "store": false,
          "stream": true
        }
    "#]]
    .assert_eq(&pretty(&sent));
    let mut sent = request::body(&request, &Card::default(), &options);
    sent["input"] = Value::Null;
    expect![[r#"
        {
          "include": [
            "x"
          ],
          "input": null,
          "max_output_tokens": 16,
          "model": "gpt-5.4",
          "reasoning": {
            "mode": "pro"
          },
          "service_tier": "flex",
          "store": false,
          "stream": true,
          "temperature": 0.2
        }
    "#]]
    .assert_eq(&pretty(&sent));
}

/// The form of the answer and one call at a time.
#[test]
fn an_answer_in_a_form() {
    let sent = |format: OutputFormat| {
        let request = Talk::default().user("Go.").request(MODEL, &target(), |request| {
            request.tools = tools().into();
            request.parallel_calls = Some(false);
            request.format = format;
        });
        body(&request, &Options::default())
    };
    let schema =
        AnswerSchema { name: "it".into(), description: None, schema: json!({"type": "object"}), strict: Some(true) };
    let schema = sent(OutputFormat::Schema(schema));
    let expected = json!({"type": "json_schema", "name": "it", "schema": {"type": "object"}, "strict": true});
    assert_eq!(schema["text"], json!({"format": expected}));
    assert_eq!(schema["parallel_tool_calls"], false);
    assert_eq!(sent(OutputFormat::JsonObject)["text"], json!({"format": {"type": "json_object"}}));
    assert_eq!(sent(OutputFormat::Text)["text"], Value::Null);
}
