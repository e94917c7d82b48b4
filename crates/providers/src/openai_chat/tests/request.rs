//! Requests, as they are written down.

use everturn_core::message::{Body, CallVerdict, Part};
use everturn_core::prompt::{
    AnswerSchema, ContinueMode, Effort, OutputFormat, Request, Target, ToolChoice, ToolSpec, UnfinishedAnswer,
    WireFormat,
};
use expect_test::{expect, expect_file};
use serde_json::{Map, Value, json};

use super::super::{Completions, request};
use crate::catalogue::{Card, Catalogue};
use crate::tests::transcript::{Talk, file, media, words};

const CALLS: &[u8] = include_bytes!("../../../fixtures/openai_chat/calls.sse");
const VLLM: &[u8] = include_bytes!("../../../fixtures/openai_chat/vllm.sse");

const MODEL: &str = "compatible/qwen";

fn target() -> Target {
    Target::new(WireFormat::OpenAiChat, "compatible")
}

fn body(request: &Request) -> Value {
    request::body(request, &Card { context: Some(64_000), ..Card::default() }, &Map::new())
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

fn tools() -> Vec<ToolSpec> {
    vec![
        ToolSpec::new("get_weather", "The weather in a city.", json!({"properties": {"city": {"type": "string"}}})),
        ToolSpec::provider_defined("browser", json!({"type": "browser_search"})),
    ]
}

#[test]
fn everything_is_written_down() {
    let shown = vec![words("What is this?"), file("map.png", "image/png", b"\x89PNG"), words("And this?")];
    let talk = Talk::default()
        .say(Body::User(shown))
        .heard(MODEL, CALLS, Completions::new("compatible"))
        .result(1, CallVerdict::Error, "no such city", vec![])
        .result(0, CallVerdict::Done, "rain", vec![media("image/png", b"radar")])
        .result(2, CallVerdict::Done, "", vec![])
        .heard(MODEL, VLLM, Completions::new("compatible"))
        .result(0, CallVerdict::Done, "snow", vec![])
        .reply("anthropic/claude", vec![words("It may "), words("rain.")])
        .user("Thanks.")
        .say(Body::Context("It is Monday.".into()));
    let request = talk.request(MODEL, &target(), |request| {
        request.system = vec!["You are terse.".into(), "Speak plainly.".into()];
        request.tools = tools().into();
        request.effort = Some(Effort::High);
    });
    let sent = body(&request);
    expect_file!["../../../fixtures/openai_chat/everything.request.json"].assert_eq(&pretty(&sent));
}

/// Media of every kind, from a person and from a tool of a target that takes them.
#[test]
fn media_are_written_down() {
    let all = |kinds: &[&str]| kinds.iter().map(ToString::to_string).collect::<Vec<String>>();
    let target = Target {
        user_media: all(&["image/*", "audio/*", "application/pdf"]),
        result_media: all(&["image/*"]),
        ..target()
    };
    let shown =
        vec![file("a.mp3", "audio/mpeg", b"a"), file("b.wav", "audio/x-wav", b"b"), file("", "application/pdf", b"c")];
    let talk = Talk::default().say(Body::User(shown)).heard(MODEL, VLLM, Completions::new("compatible"));
    let talk = talk.result(0, CallVerdict::Done, "", vec![media("image/png", b"d")]);
    let sent = body(&talk.request(MODEL, &target, |_| {}));
    expect_file!["../../../fixtures/openai_chat/media.request.json"].assert_eq(&pretty(&sent["messages"]));
}

#[test]
fn a_broken_answer_is_gone_on_with() {
    let parts: Vec<Part> = vec![words("The tide tur")];
    let unfinished = UnfinishedAnswer { parts: &parts, by: &MODEL.parse().unwrap() };
    let continued = |target: &Target| {
        let request = Talk::default().user("Tell me.").request(MODEL, target, |_| {});
        body(&request.continuing(target, unfinished, ContinueMode::Prefill))["messages"].clone()
    };
    let prefilled = json!({"role": "assistant", "content": "The tide tur"});
    assert_eq!(continued(&target())[1], prefilled);
    assert_eq!(continued(&target())[2]["role"], "user");
    assert_eq!(continued(&Target { prefill: true, ..target() })[2], Value::Null);
}

#[test]
fn tools_are_chosen() {
    let cases = [
        (ToolChoice::Auto, Value::Null),
        (ToolChoice::None, json!("none")),
        (ToolChoice::Required, json!("required")),
        (ToolChoice::Tool("get_weather".into()), json!({"type": "function", "function": {"name": "get_weather"}})),
    ];
    for (choice, expected) in cases {
        let request = Talk::default().user("Go.").request(MODEL, &target(), |request| {
            request.tools = tools().into();
            request.tool_choice = choice;
        });
        assert_eq!(body(&request)["tool_choice"], expected);
    }
}

/// The limit goes by the name the server knows, thinking models are not told how to choose words, and what is configured
/// as null is left out.
#[test]
fn parameters_depend_on_the_model() {
    let configured = json!({"temperature": 0.2, "top_p": 0.9, "seed": 7, "model": "other", "stream_options": null});
    let configured = configured.as_object().unwrap().clone();
    let request = Talk::default().user("Go.").request(MODEL, &target(), |request| request.effort = Some(Effort::None));
    let sent = |card: &Card| {
        let mut sent = request::body(&request, card, &configured);
        sent["messages"] = Value::Null;
        pretty(&sent)
    };
    expect![[r#"
        {
          "max_tokens": 32000,
          "messages": null,
          "model": "qwen",
          "seed": 7,
          "stream": true,
          "temperature": 0.2,
          "top_p": 0.9
        }
    "#]]
    .assert_eq(&sent(&Card { context: Some(64_000), ..Card::default() }));
    let unknown = request::body(&request, &Card::default(), &configured);
    assert_eq!(unknown.get("max_tokens"), None, "it is unknown what the server takes");
    expect![[r#"
        {
          "max_completion_tokens": 32000,
          "messages": null,
          "model": "qwen",
          "reasoning_effort": "minimal",
          "seed": 7,
          "stream": true
        }
    "#]]
    .assert_eq(&sent(&Catalogue::embedded().card("openai", "gpt-5-mini")));
}

/// The form of the answer and one call at a time.
#[test]
fn an_answer_in_a_form() {
    let sent = |format: OutputFormat| {
        body(&Talk::default().user("Go.").request(MODEL, &target(), |request| {
            request.tools = tools().into();
            request.parallel_calls = Some(false);
            request.format = format;
        }))
    };
    let schema =
        AnswerSchema { name: "it".into(), description: None, schema: json!({"type": "object"}), strict: Some(true) };
    let schema = sent(OutputFormat::Schema(schema));
    let expected = json!({"name": "it", "schema": {"type": "object"}, "strict": true});
    assert_eq!(schema["response_format"], json!({"type": "json_schema", "json_schema": expected}));
    assert_eq!(schema["parallel_tool_calls"], false);
    assert_eq!(sent(OutputFormat::JsonObject)["response_format"], json!({"type": "json_object"}));
    assert_eq!(sent(OutputFormat::Text)["response_format"], Value::Null);
}
