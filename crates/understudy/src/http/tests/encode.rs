//! One script with everything in it, as each wire tells it.

use everturn_core::cost::{TokenCount, UsageReport};
use everturn_core::delta::Delta;
use everturn_core::error::{Cause, ErrorKind};
use everturn_core::message::Stop;
use everturn_core::prompt::WireFormat;
use expect_test::{ExpectFile, expect_file};
use serde_json::json;

use super::super::act::{Act, AnswerHeader, perform};
use super::super::dialect::Dialect;
use crate::{
    Cue, Script, begin_call, call, ended, fail, input, malformed, ping, provided, reasoning, redacted, response_id,
    script, sealed, source, stop, text,
};

fn everything() -> Script {
    let report = UsageReport {
        input: TokenCount::Known(100),
        output: TokenCount::Known(50),
        reasoning: TokenCount::Known(20),
        cache_read: TokenCount::Known(30),
        cache_write: TokenCount::Known(10),
    };
    let found = json!([{"type": "web_search_result", "url": "https://kelp.example/", "title": "Kelp"}]);
    script([
        response_id("resp_all"),
        reasoning("Let me "),
        reasoning("think."),
        sealed("c2ln"),
        redacted("c2Vj"),
        text("Hello, "),
        ping(),
        text("wörld."),
        ended(),
        provided("web_search", &json!({"query": "kelp"}), found),
        text("Found."),
        source("https://kelp.example/", "Kelp"),
        ended(),
        call("look", json!({"at": "kelp"})),
        call("look", json!({})),
        Cue::Say(vec![Delta::Usage(report.into())]),
        stop(Stop::ToolUse),
    ])
}

fn told(dialect: Dialect, script: Script) -> String {
    let opening = AnswerHeader::of(&script, "model", "own_id".into());
    let body = json!({"stream_options": {"include_usage": true}, "background": true, "stream": true, "include": ["reasoning.encrypted_content"]});
    let mut encoder = dialect.encoder(opening, &body);
    let mut told = String::new();
    for act in perform(script, encoder.as_mut()) {
        match act {
            Act::Frame(bytes) => told.push_str(&String::from_utf8(bytes.to_vec()).unwrap().replace('\r', "␍")),
            Act::Said(_) => {}
            other => told.push_str(&format!("{other:?}\n\n")),
        }
    }
    told
}

fn check(dialect: Dialect, expected: ExpectFile) {
    let scripts = [
        ("everything", everything()),
        ("length", script([text("Hel"), begin_call("look", "{\"at\":"), stop(Stop::Length)])),
        ("filtered", script([stop(Stop::Filtered { category: "bio".into(), detail: "No.".into() })])),
        ("interleaved", {
            let mut two = script([begin_call("a", "{"), begin_call("b", "{}"), input(0, "}")]);
            two.extend([
                Cue::Say(vec![Delta::CallEnded { slot: 0 }, Delta::CallEnded { slot: 1 }]),
                stop(Stop::ToolUse),
            ]);
            two
        }),
        ("server error", script([text("Hel"), fail(ErrorKind::Overloaded, Cause::ServerError)])),
        ("failing finish", script([text("Hel"), fail(ErrorKind::Generic, Cause::ErrorFinish)])),
        ("malformed", script([malformed()])),
        ("broken", script([fail(ErrorKind::Timeout, Cause::Reset), fail(ErrorKind::Timeout, Cause::GoAway)])),
    ];
    let all: String =
        scripts.into_iter().map(|(name, script)| format!("==== {name}\n{}", told(dialect, script))).collect();
    expected.assert_eq(&all);
}

#[test]
fn anthropic_tells_everything() {
    check(Dialect::Usual(WireFormat::Anthropic), expect_file!["snapshots/anthropic.txt"]);
}

#[test]
fn responses_tell_everything() {
    check(Dialect::Usual(WireFormat::OpenAiResponses), expect_file!["snapshots/responses.txt"]);
}

#[test]
fn chat_tells_everything() {
    check(Dialect::Usual(WireFormat::OpenAiChat), expect_file!["snapshots/chat.txt"]);
}

#[test]
fn gemini_tells_everything() {
    check(Dialect::Usual(WireFormat::Gemini), expect_file!["snapshots/gemini.txt"]);
}

#[test]
fn interactions_tell_everything() {
    check(Dialect::Interactions, expect_file!["snapshots/interactions.txt"]);
}

#[test]
fn responses_number_their_events() {
    let told = told(Dialect::Usual(WireFormat::OpenAiResponses), everything());
    let numbers = told
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str::<serde_json::Value>(data).unwrap()["sequence_number"].as_u64().unwrap());
    assert!(numbers.eq(0..told.matches("data: ").count() as u64));
}
