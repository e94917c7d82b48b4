use std::sync::Arc;

use everturn_core::message::Text;
use everturn_core::prompt::{AnswerSchema, Effort, PromptFile, SealedReasoning, Target, WireFormat};
use expect_test::expect_file;

use super::*;

fn signed(signature: &str) -> Meta {
    Meta::from_iter([("google".to_owned(), json!({ "thoughtSignature": signature }))])
}

fn call(provider_id: &str, tool: &str, meta: Meta) -> PromptPart {
    let (id, tool) = (format!("call_{tool}"), tool.to_owned());
    PromptPart::Call(PromptCall { id, provider_id: provider_id.into(), tool, input: Map::new(), meta })
}

fn result(provider_id: &str, tool: &str, media: Vec<PromptMedia>) -> PromptPart {
    let (id, provider_id) = (format!("call_{tool}"), provider_id.to_owned());
    let (tool, text) = (tool.to_owned(), "done".to_owned());
    let is_error = media.is_empty();
    PromptPart::Result(PromptResult { id, provider_id, tool, text, media, is_error, meta: Meta::new() })
}

fn request(entries: Vec<PromptEntry>) -> Request {
    let target = Target { background: true, ..Target::new(WireFormat::Gemini, "google") };
    let mut request = Request::new("google/gemini-3-flash".parse().unwrap(), &target, entries.into());
    request.background = true;
    request
}

fn sent(request: &Request) -> Value {
    body(request, GeminiFamily::of(request.model.name(), None))
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

#[test]
fn an_interaction_with_everything() {
    let image = PromptMedia { media_type: "image/png".into(), bytes: Arc::from(&b"1"[..]) };
    let pdf = PromptMedia { media_type: "application/pdf".into(), bytes: Arc::from(&b"2"[..]) };
    let sealed = |text: &str| {
        let (provider, text, seal) = ("google".into(), text.into(), Seal::Signature("c2ln".into()));
        PromptPart::Reasoning(SealedReasoning { provider, text, seal, meta: Meta::new() })
    };
    let file = |media: &PromptMedia| {
        PromptPart::File(PromptFile { name: String::new(), media: media.clone(), meta: Meta::new() })
    };
    let text = Text { text: "Let me look.".into(), meta: signed("c2lnLXRleHQ=") };
    let mut request = request(vec![
        PromptEntry::new(Role::User, vec![PromptPart::text("Look."), file(&image), file(&pdf)]),
        PromptEntry::new(
            Role::Assistant,
            vec![
                sealed("Two cities."),
                PromptPart::Text(text),
                call("a", "weather", Meta::new()),
                call("b", "time", Meta::new()),
            ],
        ),
        PromptEntry::new(Role::Tool, vec![result("a", "weather", vec![]), result("b", "time", vec![image])]),
        PromptEntry::new(Role::User, vec![PromptPart::text("And now?")]),
    ]);
    request.system = vec!["Be kind.".into(), "Be brief.".into()];
    request.tools = Arc::new([
        ToolSpec::provider_defined("search", json!({ "googleSearch": { "x": 1 } })),
        ToolSpec::provider_defined("maps", json!({ "type": "google_maps" })),
        ToolSpec::new(
            "weather",
            "Tells the weather.",
            json!({ "type": "object", "properties": { "city": { "type": "string" } } }),
        ),
    ]);
    request.tool_choice = ToolChoice::Tool("weather".into());
    request.effort = Some(Effort::Minimal);
    expect_file!["../../../../fixtures/gemini/interactions-request.json"].assert_eq(&pretty(&sent(&request)));
}

/// Where no thought vouches for a call, the word that stands for one does; ids of ours stand for missing ones.
#[test]
fn foreign_calls_are_vouched_for() {
    let entries = |meta: Meta| {
        vec![
            PromptEntry::new(Role::User, vec![PromptPart::text("Hello")]),
            PromptEntry::new(Role::Assistant, vec![call("", "weather", meta), call("", "time", Meta::new())]),
            PromptEntry::new(Role::Tool, vec![result("", "weather", vec![]), result("", "time", vec![])]),
        ]
    };
    let input = |meta| sent(&request(entries(meta)))["input"].clone();
    let foreign = input(Meta::new());
    assert_eq!(foreign[1], json!({ "type": "thought", "signature": FOREIGN_SIGNATURE }));
    assert_eq!(foreign[2]["id"], "call_weather");
    assert_eq!(foreign[3]["type"], "function_call", "once a reply");
    assert_eq!(foreign[4]["call_id"], "call_weather");
    assert_eq!(input(signed("own"))[1], json!({ "type": "thought", "signature": "own" }));
}

/// The form of the answer.
#[test]
fn an_answer_in_a_form() {
    let mut asked = request(vec![PromptEntry::new(Role::User, vec![PromptPart::text("Hello")])]);
    let schema =
        AnswerSchema { name: "it".into(), description: None, schema: json!({"type": "object"}), strict: Some(true) };
    asked.format = OutputFormat::Schema(schema);
    let sent = sent(&asked);
    assert_eq!(
        (&sent["response_mime_type"], &sent["response_format"]),
        (&json!("application/json"), &json!({"type": "object"}))
    );
}
