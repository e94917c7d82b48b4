//! What is written down for the provider.

use std::sync::Arc;

use everturn_core::ids::{CallUid, MessageId, ModelId, StepId, Timestamp};
use everturn_core::message::{
    Body, Call, CallResult, CallVerdict, File, Media, Message, Meta, Output, Part, Provided, Reasoning, Reply,
    ReplyBody, RunBy, Seal, Stop, Text,
};
use everturn_core::prompt::{
    AnswerSchema, Effort, OutputFormat, Request, Target, ToolSpec, UnfinishedAnswer, prepare, validate,
};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::anthropic::request;

fn model(name: &str) -> ModelId {
    format!("anthropic/{name}").parse().unwrap()
}

fn target(model: &str) -> Target {
    Catalogue::embedded().card("anthropic", model).facts("anthropic", WireFormat::Anthropic).target
}

fn own(value: Value) -> Meta {
    Meta::from([("anthropic".to_owned(), value)])
}

fn text(text: &str) -> Part {
    Part::Text(Text { text: text.into(), meta: Meta::new() })
}

fn file(name: &str, media_type: &str, bytes: &[u8]) -> Part {
    let (name, media_type, bytes) = (name.into(), media_type.into(), Some(bytes.into()));
    Part::File(File { name, media_type, bytes, meta: Meta::new() })
}

fn uid(ordinal: u16) -> CallUid {
    CallUid { step: StepId(1), ordinal }
}

fn call(ordinal: u16, id: &str, tool: &str, input: &str, run_by: RunBy, meta: Meta) -> Part {
    let (provider_id, tool, input) = (id.into(), tool.into(), input.into());
    Part::Call(Call { uid: uid(ordinal), provider_id, tool, input, whole: true, run_by, at: Timestamp(0), meta })
}

fn reasoning(text: &str, seal: Seal) -> Part {
    let (text, seal, meta) = (text.into(), Some(seal), own(json!({})));
    Part::Reasoning(Reasoning { text, seal, meta, ..Reasoning::default() })
}

fn reply(parts: Vec<Part>, stop: Stop) -> Body {
    Body::Reply(Box::new(Reply::restored(ReplyBody {
        step: StepId(1),
        parts,
        stop,
        model: model("claude-opus-5-5"),
        usage: None,
        runtime: std::time::Duration::ZERO,
        alive: std::time::Duration::ZERO,
        context_limit: None,
        response_id: None,
        seams: vec![],
        retracted: vec![],
        meta: Meta::new(),
    })))
}

fn result(ordinal: u16, tool: &str, verdict: CallVerdict, output: Output) -> Body {
    let (call, tool, ended) = (uid(ordinal), tool.into(), Timestamp(0));
    Body::Result(Box::new(CallResult { call, tool, verdict, output, began: None, ended, meta: Meta::new() }))
}

fn transcript(bodies: Vec<Body>) -> Vec<Message> {
    let message = |(n, body)| Message { id: MessageId(n as u64 + 1), at: Timestamp(0), body, sent: None };
    bodies.into_iter().enumerate().map(message).collect()
}

/// A conversation with everything in it.
fn everything() -> Vec<Message> {
    let found = json!([{"type": "web_search_result", "url": "https://a.example", "title": "A",
        "encrypted_content": "abc", "page_age": null}]);
    let (at, output, tool) = (Timestamp(0), found, "web_search".to_owned());
    let meta = own(json!({"type": "web_search_tool_result"}));
    let provided = Part::Provided(Provided { uid: Some(uid(0)), tool, output, at, meta });
    let cited = own(json!({"citations": [{"type": "web_search_result_location", "url": "https://a.example"}]}));
    let shot = Media { media_type: "image/png".into(), bytes: b"\x89PNG"[..].into() };
    transcript(vec![
        Body::User(vec![
            text("Look."),
            file("cat.jpg", "image/jpg", b"jpeg"),
            file("a\u{7}.pdf", "application/pdf", b"%PDF"),
        ]),
        reply(
            vec![
                reasoning("Hm \"é\"\n", Seal::Signature("c2ln==".into())),
                reasoning("", Seal::Redacted("cmVk".into())),
                call(0, "srvtoolu_01", "web_search", "{\"query\":\"a\"}", RunBy::Provider, own(json!({}))),
                provided,
                Part::Text(Text { text: "Found.".into(), meta: cited }),
                call(1, "toolu_01", "shoot", "{\"of\":1}", RunBy::Us, own(json!({"caller": {"type": "direct"}}))),
                call(2, "toolu_02", "shoot", "", RunBy::Us, own(json!({}))),
                call(3, "toolu_03", "fail", "{}", RunBy::Us, own(json!({}))),
            ],
            Stop::ToolUse,
        ),
        result(3, "fail", CallVerdict::Error, Output::text("no")),
        result(1, "shoot", CallVerdict::Done, Output { text: "done".into(), media: vec![shot.clone()], full: None }),
        result(2, "shoot", CallVerdict::Done, Output { media: vec![shot], ..Output::default() }),
        Body::User(vec![text("And now?")]),
    ])
}

fn tools() -> Arc<[ToolSpec]> {
    let schema = json!({"type": "object", "properties": {"of": {"type": "integer"}}, "required": ["of"]});
    let search = json!({"type": "web_search_20250305", "max_uses": 5});
    let own = |name: &str| ToolSpec::new(name, "", Value::Null);
    let shoot = ToolSpec::new("shoot", "Takes a picture.", schema);
    Arc::new([shoot, own("fail"), ToolSpec::provider_defined("web_search", search)])
}

fn check(request: &Request, expected: Expect) {
    let name = request.model.name();
    assert_eq!(validate(request, &target(name)), Ok(()));
    let sent = request::body(request, &Catalogue::embedded().card("anthropic", name));
    let mut lines: Vec<String> = Vec::new();
    for (key, value) in sent.body.as_object().unwrap() {
        match (key.as_str(), value.as_array()) {
            ("messages", Some(messages)) => {
                for message in messages {
                    lines.push(format!("{}:", message["role"]));
                    lines.extend(message["content"].as_array().unwrap().iter().map(|block| format!("  {block}")));
                }
            }
            (key, Some(list)) => {
                lines.push(format!("{key}:"));
                lines.extend(list.iter().map(|value| format!("  {value}")));
            }
            (key, None) => lines.push(format!("{key}: {value}")),
        }
    }
    lines.extend(sent.beta.map(|beta| format!("beta: {beta}")));
    expected.assert_eq(&lines.iter().map(|line| format!("{line}\n")).collect::<String>());
}

/// Files, thinking, a search, citations, calls, results with pictures, tools of both kinds, effort and markers.
#[test]
fn a_conversation_with_everything() {
    let target = target("claude-opus-5-5");
    let request = Request {
        system: vec!["Be brief.".into(), "Be kind.".into()],
        tools: tools(),
        effort: Some(Effort::High),
        ..Request::new(model("claude-opus-5-5"), &target, prepare(&everything(), &target))
    };
    check(
        &request.fit(&target),
        expect![[r#"
        max_tokens: 32000
        "user":
          {"text":"Look.","type":"text"}
          {"source":{"data":"anBlZw==","media_type":"image/jpeg","type":"base64"},"type":"image"}
          {"source":{"data":"JVBERg==","media_type":"application/pdf","type":"base64"},"title":"a.pdf","type":"document"}
        "assistant":
          {"signature":"c2ln==","thinking":"Hm \"é\"\n","type":"thinking"}
          {"data":"cmVk","type":"redacted_thinking"}
          {"id":"srvtoolu_01","input":{"query":"a"},"name":"web_search","type":"server_tool_use"}
          {"content":[{"encrypted_content":"abc","page_age":null,"title":"A","type":"web_search_result","url":"https://a.example"}],"tool_use_id":"srvtoolu_01","type":"web_search_tool_result"}
          {"citations":[{"type":"web_search_result_location","url":"https://a.example"}],"text":"Found.","type":"text"}
          {"caller":{"type":"direct"},"id":"call_1","input":{"of":1},"name":"shoot","type":"tool_use"}
          {"id":"call_2","input":{},"name":"shoot","type":"tool_use"}
          {"id":"call_3","input":{},"name":"fail","type":"tool_use"}
        "user":
          {"content":[{"text":"done","type":"text"},{"source":{"data":"iVBORw==","media_type":"image/png","type":"base64"},"type":"image"}],"tool_use_id":"call_1","type":"tool_result"}
          {"content":[{"source":{"data":"iVBORw==","media_type":"image/png","type":"base64"},"type":"image"}],"tool_use_id":"call_2","type":"tool_result"}
          {"cache_control":{"type":"ephemeral"},"content":"no","is_error":true,"tool_use_id":"call_3","type":"tool_result"}
          {"cache_control":{"type":"ephemeral"},"text":"And now?","type":"text"}
        model: "claude-opus-5-5"
        output_config: {"effort":"high"}
        stream: true
        system:
          {"text":"Be brief.","type":"text"}
          {"cache_control":{"type":"ephemeral"},"text":"Be kind.","type":"text"}
        thinking: {"block_binding":{"prefix_mismatch_behavior":"drop_block"},"display":"summarized","type":"adaptive"}
        tools:
          {"description":"Takes a picture.","input_schema":{"properties":{"of":{"type":"integer"}},"required":["of"],"type":"object"},"name":"shoot"}
          {"input_schema":{"properties":{},"type":"object"},"name":"fail"}
          {"max_uses":5,"name":"web_search","type":"web_search_20250305"}
        beta: thinking-binding-controls-2026-08-01
    "#]],
    );
}

/// The least there is.
#[test]
fn a_greeting() {
    let target = target("claude-haiku-4-5");
    let hello = transcript(vec![Body::User(vec![text("Hi")])]);
    let request = Request::new(model("claude-haiku-4-5"), &target, prepare(&hello, &target));
    check(
        &request.fit(&target),
        expect![[r#"
        max_tokens: 32000
        "user":
          {"cache_control":{"type":"ephemeral"},"text":"Hi","type":"text"}
        model: "claude-haiku-4-5"
        stream: true
    "#]],
    );
}

/// A model that goes on from the beginning of an answer gets it; another is asked to go on.
#[test]
fn an_unfinished_answer() {
    let hello = transcript(vec![Body::User(vec![text("Count.")])]);
    let parts = [reasoning("Hm", Seal::Signature("c2ln".into())), text("One, two, ")];
    let continued = |name: &str| {
        let (target, by) = (target(name), model(name));
        let request = Request::new(by.clone(), &target, prepare(&hello, &target)).fit(&target);
        let how = everturn_core::prompt::ContinueMode::Prefill;
        let request = request.continuing(&target, UnfinishedAnswer { parts: &parts, by: &by }, how);
        assert_eq!(validate(&request, &target), Ok(()));
        request::body(&request, &Catalogue::embedded().card("anthropic", name)).body["messages"].to_string()
    };
    expect![[r#"[{"content":[{"cache_control":{"type":"ephemeral"},"text":"Count.","type":"text"}],"role":"user"},{"content":[{"text":"One, two,","type":"text"}],"role":"assistant"}]"#]].assert_eq(&continued("claude-haiku-4-5"));
    expect![[r#"[{"content":[{"cache_control":{"type":"ephemeral"},"text":"Count.","type":"text"}],"role":"user"},{"content":[{"signature":"c2ln","thinking":"Hm","type":"thinking"},{"text":"One, two, ","type":"text"}],"role":"assistant"},{"content":[{"text":"Your last message broke off at its very end. Go on from exactly there: begin with the next character, repeat nothing of it, and say nothing before it.","type":"text"}],"role":"user"}]"#]].assert_eq(&continued("claude-opus-5-5"));
}

/// An answer that paused goes back as it came, at the end of the request, together with what its tools work in.
#[test]
fn a_paused_answer() {
    let hello = transcript(vec![Body::User(vec![text("Search.")])]);
    let hosted = |ordinal, id: &str, tool: &str| call(ordinal, id, tool, r#"{"q":1}"#, RunBy::Provider, own(json!({})));
    let found = Part::Provided(Provided {
        uid: Some(uid(0)),
        tool: "bash_code_execution".into(),
        output: json!({"type": "bash_code_execution_result", "stdout": "1"}),
        at: Timestamp(0),
        meta: own(json!({"type": "bash_code_execution_tool_result"})),
    });
    let parts = [
        reasoning("Hm", Seal::Signature("c2ln".into())),
        hosted(0, "srvtoolu_1", "bash_code_execution"),
        found,
        hosted(1, "srvtoolu_2", "web_search"),
    ];
    let (target, by) = (target("claude-opus-5-5"), model("claude-opus-5-5"));
    let request = Request::new(by.clone(), &target, prepare(&hello, &target));
    let how = everturn_core::prompt::ContinueMode::Echo;
    let mut request = request.continuing(&target, UnfinishedAnswer { parts: &parts, by: &by }, how).fit(&target);
    request.echoed = own(json!({"container": {"id": "container_1", "expires_at": "soon"}}));
    assert_eq!(validate(&request, &target), Ok(()));
    let body = request::body(&request, &Catalogue::embedded().card("anthropic", "claude-opus-5-5")).body;
    assert_eq!(body["container"], "container_1");
    expect![[r#"{"content":[{"signature":"c2ln","thinking":"Hm","type":"thinking"},{"id":"srvtoolu_1","input":{"q":1},"name":"bash_code_execution","type":"server_tool_use"},{"content":{"stdout":"1","type":"bash_code_execution_result"},"tool_use_id":"srvtoolu_1","type":"bash_code_execution_tool_result"},{"cache_control":{"type":"ephemeral"},"id":"srvtoolu_2","input":{"q":1},"name":"web_search","type":"server_tool_use"}],"role":"assistant"}"#]].assert_eq(&body["messages"][1].to_string());
}

/// The form of the answer and one call at a time are written down beside effort and choice.
#[test]
fn an_answer_in_a_form() {
    let target = target("claude-haiku-4-5");
    let hello = transcript(vec![Body::User(vec![text("Hi")])]);
    let request = Request::new(model("claude-haiku-4-5"), &target, prepare(&hello, &target));
    let schema =
        AnswerSchema { name: "it".into(), description: None, schema: json!({"type": "object"}), strict: Some(true) };
    let mut request = Request { format: OutputFormat::Schema(schema), parallel_calls: Some(false), ..request };
    request.tools = tools();
    let request = request.fit(&target);
    assert_eq!(validate(&request, &target), Ok(()));
    let sent = request::body(&request, &Catalogue::embedded().card("anthropic", "claude-haiku-4-5")).body;
    assert_eq!(sent["output_config"], json!({"format": {"type": "json_schema", "schema": {"type": "object"}}}));
    assert_eq!(sent["tool_choice"], json!({"type": "auto", "disable_parallel_tool_use": true}));
}
