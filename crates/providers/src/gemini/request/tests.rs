use std::sync::Arc;

use everturn_core::message::Text;
use everturn_core::prompt::{AnswerSchema, Effort, PromptFile, Target, ToolSpec, WireFormat, validate};
use expect_test::{expect, expect_file};

use super::*;

fn entry(role: Role, parts: impl IntoIterator<Item = PromptPart>) -> PromptEntry {
    PromptEntry::new(role, parts.into_iter().collect())
}

fn signed(signature: &str) -> Meta {
    Meta::from_iter([("google".to_owned(), json!({ "thoughtSignature": signature }))])
}

fn call(provider_id: &str, tool: &str, meta: Meta) -> PromptPart {
    let (id, tool) = (format!("call_{tool}"), tool.to_owned());
    let input = Map::from_iter([("city".to_owned(), json!("Oslo"))]);
    PromptPart::Call(PromptCall { id, provider_id: provider_id.into(), tool, input, meta })
}

fn result(provider_id: &str, tool: &str, text: &str) -> PromptPart {
    PromptPart::Result(PromptResult {
        id: format!("call_{tool}"),
        provider_id: provider_id.into(),
        tool: tool.into(),
        text: text.into(),
        media: Vec::new(),
        is_error: text.starts_with("no "),
        meta: Meta::new(),
    })
}

fn request(model: &str, entries: Vec<PromptEntry>) -> Request {
    let target = Target { replays: REPLAYED.map(Into::into).into(), ..Target::new(WireFormat::Gemini, "google") };
    let request = Request::new(format!("google/{model}").parse().unwrap(), &target, entries.into()).fit(&target);
    assert_eq!(validate(&request, &target), Ok(()), "the test itself is right");
    request
}

fn sent(request: &Request) -> Value {
    body(request, GeminiFamily::of(request.model.name(), None))
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

fn hello() -> PromptEntry {
    entry(Role::User, [PromptPart::text("Hello")])
}

#[test]
fn the_path_names_the_model_and_asks_for_events() {
    assert_eq!(path("gemini-3-pro"), "models/gemini-3-pro:streamGenerateContent?alt=sse");
    assert_eq!(path("tunedModels/mine"), "tunedModels/mine:streamGenerateContent?alt=sse");
}

#[test]
fn a_plain_request() {
    let mut request = request("gemini-2.0-flash", vec![hello()]);
    request.system = vec!["Be kind.".into(), "Be brief.".into()];
    expect![[r#"
        {
          "contents": [
            {
              "parts": [
                {
                  "text": "Hello"
                }
              ],
              "role": "user"
            }
          ],
          "generationConfig": {
            "maxOutputTokens": 32000
          },
          "systemInstruction": {
            "parts": [
              {
                "text": "Be kind."
              },
              {
                "text": "Be brief."
              }
            ]
          }
        }
    "#]]
    .assert_eq(&pretty(&sent(&request)));
}

/// 3.2: thoughts, signatures on each kind of part, results in the person's turn, files, tools.
#[test]
fn a_request_with_everything() {
    let sealed = |text: &str, seal: &str| {
        let (provider, text, seal) = ("google".into(), text.into(), Seal::Signature(seal.into()));
        PromptPart::Reasoning(SealedReasoning { provider, text, seal, meta: Meta::new() })
    };
    let image = PromptMedia { media_type: "image/png".into(), bytes: Arc::from(&b"\x89PNG"[..]) };
    let file = PromptFile { name: "a.png".into(), media: image, meta: Meta::new() };
    let mut request = request(
        "gemini-3-pro-preview",
        vec![
            entry(Role::User, [PromptPart::text("Look, and tell the weather."), PromptPart::File(file)]),
            entry(
                Role::Assistant,
                [
                    sealed("Two cities.", "c2lnLXRob3VnaHQ="),
                    sealed("", "c2lnLXVuc2Vlbg=="),
                    PromptPart::Text(Text { text: "Let me look.".into(), meta: signed("c2lnLXRleHQ=") }),
                    call("fc_1", "weather", signed("c2lnLWNhbGw=")),
                    call("fc_2", "time", Meta::new()),
                ],
            ),
            entry(Role::Tool, [result("fc_1", "weather", "sunny"), result("fc_2", "time", "no clock")]),
            entry(Role::User, [PromptPart::text("And now?")]),
        ],
    );
    let schema =
        json!({ "type": "object", "properties": { "city": { "type": ["string", "null"] } }, "required": ["city"] });
    request.tools = Arc::new([
        ToolSpec::provider_defined("search", json!({ "googleSearch": {} })),
        ToolSpec::new("weather", "Tells the weather.", schema),
        ToolSpec::new("time", "Tells the time.", Value::Null),
    ]);
    request.tool_choice = ToolChoice::Tool("weather".into());
    request.effort = Some(Effort::Low);
    expect_file!["../../../fixtures/gemini/request.json"].assert_eq(&pretty(&sent(&request)));
}

fn parts(request: &Request, content: usize) -> Value {
    sent(request)["contents"][content]["parts"].clone()
}

/// A call of another provider gets the documented placeholder: only the first of a reply, and only where one
/// is required.
#[test]
fn a_foreign_call_gets_the_word_that_stands_for_a_signature() {
    let entries = || {
        let calls = [call("", "weather", Meta::new()), call("", "time", Meta::new())];
        let results = [result("", "weather", "sunny"), result("", "time", "noon")];
        vec![hello(), entry(Role::Assistant, calls), entry(Role::Tool, results)]
    };
    let signatures = |model: &str| {
        let parts = parts(&request(model, entries()), 1);
        let signature = |part: &Value| part["thoughtSignature"].as_str().map(str::to_owned);
        parts.as_array().unwrap().iter().map(signature).collect::<Vec<_>>()
    };
    assert_eq!(signatures("gemini-3-flash"), [Some(FOREIGN_SIGNATURE.to_owned()), None]);
    assert_eq!(signatures("gemini-2.5-pro"), [None, None]);
    let calls = [call("a", "weather", signed("mine")), call("b", "time", Meta::new())];
    let results = [result("a", "weather", "sunny"), result("b", "time", "noon")];
    let own = request("gemini-3-flash", vec![hello(), entry(Role::Assistant, calls), entry(Role::Tool, results)]);
    assert_eq!(parts(&own, 1)[0]["thoughtSignature"], "mine");
    assert_eq!(parts(&own, 1)[1].get("thoughtSignature"), None);
}

/// P18: ids that are missing or repeated are not sent, neither with the calls nor with their results.
#[test]
fn ids_are_sent_only_where_they_tell_calls_apart() {
    let ids = |one: &str, two: &str| {
        let calls = [call(one, "weather", Meta::new()), call(two, "time", Meta::new())];
        let results = [result(one, "weather", "sunny"), result(two, "time", "noon")];
        let request =
            request("gemini-3-flash", vec![hello(), entry(Role::Assistant, calls), entry(Role::Tool, results)]);
        let id = |content: usize, part: usize, kind: &str| parts(&request, content)[part][kind]["id"].clone();
        [id(1, 0, "functionCall"), id(1, 1, "functionCall"), id(2, 0, "functionResponse"), id(2, 1, "functionResponse")]
    };
    assert_eq!(ids("a", "b"), ["a", "b", "a", "b"].map(Value::from));
    for (one, two) in [("a", "a"), ("", ""), ("a", ""), ("", "b")] {
        assert_eq!(ids(one, two), [const { Value::Null }; 4], "{one} {two}");
    }
}

/// What the provider's own tools did goes back as it came.
#[test]
fn hosted_parts_go_back_as_they_came() {
    let (provider, input) = ("google".to_owned(), Map::from_iter([("queries".to_owned(), json!(["kelp"]))]));
    let hosted = |tool: &str, input: Map<String, Value>, output: Value| {
        let (provider, tool, id) = (provider.clone(), tool.to_owned(), format!("id_{tool}"));
        [
            PromptPart::HostedCall(HostedCall {
                id: id.clone(),
                provider: provider.clone(),
                tool: tool.clone(),
                input,
                meta: signed("c2ln"),
            }),
            PromptPart::HostedResult(HostedResult { id, provider, tool, output, meta: signed("c2ln") }),
        ]
    };
    let code = Map::from_iter([("language".to_owned(), json!("PYTHON")), ("code".to_owned(), json!("1+1"))]);
    let mut said = Vec::from(hosted("GOOGLE_SEARCH_WEB", input, json!({ "found": 3 })));
    said.extend(hosted(CODE_EXECUTION, code, json!({ "outcome": "OUTCOME_OK", "output": "2" })));
    said.push(PromptPart::text("Done."));
    let request = request("gemini-3-flash", vec![hello(), entry(Role::Assistant, said), hello()]);
    expect![[r#"
        [
          {
            "thoughtSignature": "c2ln",
            "toolCall": {
              "args": {
                "queries": [
                  "kelp"
                ]
              },
              "id": "id_GOOGLE_SEARCH_WEB",
              "toolType": "GOOGLE_SEARCH_WEB"
            }
          },
          {
            "thoughtSignature": "c2ln",
            "toolResponse": {
              "id": "id_GOOGLE_SEARCH_WEB",
              "response": {
                "found": 3
              },
              "toolType": "GOOGLE_SEARCH_WEB"
            }
          },
          {
            "executableCode": {
              "code": "1+1",
              "language": "PYTHON"
            },
            "thoughtSignature": "c2ln"
          },
          {
            "codeExecutionResult": {
              "outcome": "OUTCOME_OK",
              "output": "2"
            },
            "thoughtSignature": "c2ln"
          },
          {
            "text": "Done."
          }
        ]
    "#]]
    .assert_eq(&pretty(&parts(&request, 1)));
}

/// Each choice of tools, as the wire says it.
#[test]
fn tool_choices() {
    let told = |choice: ToolChoice| {
        let mut request = request("gemini-3-flash", vec![hello()]);
        request.tools = Arc::new([ToolSpec::new("f", "", Value::Null)]);
        request.tool_choice = choice;
        sent(&request)["toolConfig"].to_string()
    };
    assert_eq!(told(ToolChoice::Auto), "null");
    assert_eq!(told(ToolChoice::None), r#"{"functionCallingConfig":{"mode":"NONE"}}"#);
    assert_eq!(told(ToolChoice::Required), r#"{"functionCallingConfig":{"mode":"ANY"}}"#);
    let one = r#"{"functionCallingConfig":{"allowedFunctionNames":["f"],"mode":"ANY"}}"#;
    assert_eq!(told(ToolChoice::Tool("f".into())), one);
}

/// Pictures a tool took are part of its answer, where the target takes them there.
#[test]
fn media_of_a_tool_are_in_its_response() {
    let media = vec![PromptMedia { media_type: "image/png".into(), bytes: Arc::from(&b"1"[..]) }];
    let shot = PromptResult {
        id: "call_shot".into(),
        provider_id: "s".into(),
        tool: "shot".into(),
        text: "taken".into(),
        media,
        is_error: false,
        meta: Meta::new(),
    };
    let mut writer = Writer { provider: "google", family: GeminiFamily::Plain, ids: CallIds::Sent };
    let content = writer.content(&entry(Role::Tool, [PromptPart::Result(shot)]));
    let response = &content["parts"][0]["functionResponse"];
    assert_eq!(response["parts"], json!([{ "inlineData": { "mimeType": "image/png", "data": "MQ==" } }]));
    assert_eq!(response["response"], json!({ "output": "taken" }));
}

/// The form of the answer.
#[test]
fn an_answer_in_a_form() {
    let mut asked = request("gemini-3-pro", vec![hello()]);
    asked.format = OutputFormat::JsonObject;
    assert_eq!(sent(&asked)["generationConfig"]["responseMimeType"], "application/json");
    let schema =
        AnswerSchema { name: "it".into(), description: None, schema: json!({"type": "object"}), strict: Some(true) };
    asked.format = OutputFormat::Schema(schema);
    assert_eq!(sent(&asked)["generationConfig"]["responseMimeType"], "application/json");
    assert_eq!(sent(&asked)["generationConfig"]["responseJsonSchema"], json!({"type": "object"}));
}
