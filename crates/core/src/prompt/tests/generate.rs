//! Transcripts by chance: healthy ones, and every kind of broken one we have heard of.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use super::build::{
    a_call, a_search, context, file, found, media, model, reply_body, result_with, says, searches, signed, source,
    spoken, summary, thinks, transcript, uid, user,
};
use crate::ids::{CallUid, StepId, Timestamp};
use crate::message::{
    Body, Call, CallResult, CallVerdict, Message, Meta, Output, Part, Provided, Reasoning, ReplyBody, RunBy, Seal,
    Stop, Text,
};
use crate::prompt::WireFormat;

/// Anything a store could ever hand us.
pub fn corrupted() -> impl Strategy<Value = Vec<Message>> {
    let body = prop_oneof![
        4 => vec(any_part(), 0..4).prop_map(Body::User),
        2 => any_text().prop_map(Body::Context),
        6 => any_reply(),
        8 => any_result(),
        1 => (any_text(), vec(any_part(), 0..3)).prop_map(|(text, newest)| summary(&text, newest)),
    ];
    vec(body, 0..16).prop_map(transcript)
}

/// Parts of an answer that broke off anywhere.
pub fn broken_off() -> impl Strategy<Value = Vec<Part>> {
    any_parts()
}

fn any_text() -> impl Strategy<Value = String> {
    select(vec!["", " \n", "hello", "wör\0ld", "tail \n", "\u{feff}", "{\"a\":1}"]).prop_map(String::from)
}

fn any_meta() -> impl Strategy<Value = Meta> {
    let names = select(vec!["anthropic", "openai", "compatible", "gemini", "nobody"]);
    let some = proptest::collection::btree_map(names.prop_map(String::from), Just(json!({"signature": "s"})), 1..3);
    prop_oneof![2 => Just(Meta::new()), 1 => some]
}

/// Few enough that calls and results meet, repeat and miss each other.
fn any_uid() -> impl Strategy<Value = CallUid> {
    (1u64..3, 0u16..3).prop_map(|(step, ordinal)| CallUid { step: StepId(step), ordinal })
}

fn any_tool() -> impl Strategy<Value = String> {
    let long = "x".repeat(200);
    let names = ["look", "web_search", "web_search", "", "bad name ⚠", "7zip", "a.b", &long];
    select(names.map(String::from).to_vec())
}

fn any_call() -> impl Strategy<Value = Call> {
    let ids = select(vec!["", "toolu_1", "srvtoolu_1", "srvtoolu_2", "srvtoolu_-", "bad id!"]);
    let inputs = select(vec!["", "{}", r#"{"q":1}"#, "[1]", "null", r#"{"q":"#, "\"{}\"", "\0"]);
    let run_by = select(vec![RunBy::Us, RunBy::Us, RunBy::Provider]);
    (any_uid(), ids, any_tool(), inputs, prop::bool::weighted(0.8), run_by, any_meta()).prop_map(
        |(uid, id, tool, input, whole, run_by, meta)| Call {
            uid,
            provider_id: id.into(),
            whole,
            meta,
            ..a_call(0, &tool, input, run_by)
        },
    )
}

fn any_provided() -> impl Strategy<Value = Provided> {
    let outputs = select(vec![
        Value::Null,
        json!([]),
        json!([{"title": "T", "url": "u", "encrypted_content": "e"}]),
        json!({"error_code": "unavailable"}),
        json!("plain"),
        json!({}),
    ]);
    (option::weighted(0.9, any_uid()), any_tool(), outputs, any_meta()).prop_map(|(uid, tool, output, meta)| Provided {
        uid,
        tool,
        output,
        at: Timestamp(0),
        meta,
    })
}

fn any_reasoning() -> impl Strategy<Value = Part> {
    let seals = select(vec![
        None,
        Some(Seal::Signature(String::new())),
        Some(Seal::Signature("sig".into())),
        Some(Seal::Signature("sig\0".into())),
        Some(Seal::Redacted("red".into())),
    ]);
    (any_text(), seals, any_meta()).prop_map(|(text, seal, meta)| {
        let Part::Reasoning(plain) = thinks(&text, seal) else { unreachable!("thinking is reasoning") };
        Part::Reasoning(Reasoning { meta, ..plain })
    })
}

fn any_media_type() -> impl Strategy<Value = &'static str> {
    select(vec![
        "image/png",
        "image/JPG",
        "image/png; q=1",
        "application/pdf",
        "text/plain",
        "text/x-rust",
        "application/json",
        "audio/ogg",
        "application/zip",
        "",
        "odd",
        "image/",
        "\0/\0",
    ])
}

fn any_bytes() -> impl Strategy<Value = &'static [u8]> {
    select(vec![&b""[..], b"bytes", b"\xff\xfe\0", b" \n"])
}

fn any_part() -> impl Strategy<Value = Part> {
    prop_oneof![
        6 => (any_text(), any_meta()).prop_map(|(text, meta)| Part::Text(Text { text, meta })),
        4 => any_reasoning(),
        6 => any_call().prop_map(Part::Call),
        3 => any_provided().prop_map(Part::Provided),
        1 => Just(source()),
        2 => (any_media_type(), option::of(any_bytes())).prop_map(|(kind, bytes)| file("na\0me", kind, bytes)),
        1 => any_meta().prop_map(Part::Other),
    ]
}

/// Parts that belong together, so that chance does not only make rubble.
fn any_parts() -> impl Strategy<Value = Vec<Part>> {
    let search = (0u16..3, 0..8).prop_map(|(ordinal, flaw)| {
        let (call, outcome) = (a_search(ordinal), found(ordinal));
        match flaw {
            0 => vec![Part::Provided(outcome), Part::Call(call)],
            1 => vec![Part::Call(call), Part::Provided(Provided { tool: "look".into(), ..outcome })],
            2 => vec![Part::Call(call), searches(8), Part::Provided(Provided { uid: Some(uid(8)), ..outcome })],
            3 => vec![Part::Call(call), Part::Call(Call { uid: uid(ordinal), ..a_search(9) }), Part::Provided(outcome)],
            4 => vec![Part::Call(call), Part::Provided(outcome), Part::Call(Call { uid: uid(8), ..a_search(ordinal) })],
            _ => vec![Part::Call(call), Part::Provided(outcome)],
        }
    });
    let thought = any_text().prop_map(|text| vec![signed("", "sig"), says(&text)]);
    let some = prop_oneof![4 => any_part().prop_map(|part| vec![part]), 1 => search, 1 => thought];
    vec(some, 0..6).prop_map(|some| some.concat())
}

fn any_reply() -> impl Strategy<Value = Body> {
    let stops = select(vec![Stop::End, Stop::ToolUse, Stop::Length, Stop::Interrupted, Stop::Broken]);
    let wires = prop_oneof![1 => Just(WireFormat::Anthropic), 1 => select(WireFormat::ALL.to_vec())];
    (any_parts(), stops, wires, vec(any_tool(), 0..2), any::<bool>()).prop_map(
        |(parts, stop, wire, retracted, known)| {
            let response_id = known.then(|| "resp_1".into());
            let body = reply_body(model(wire), parts);
            spoken(ReplyBody { stop, retracted, response_id, ..body })
        },
    )
}

fn any_result() -> impl Strategy<Value = Body> {
    let verdicts = vec![
        CallVerdict::Done,
        CallVerdict::Error,
        CallVerdict::Denied,
        CallVerdict::Interrupted,
        CallVerdict::Unknown,
    ];
    let shots = vec((any_media_type(), any_bytes()).prop_map(|(kind, bytes)| media(kind, bytes)), 0..3);
    (any_uid(), any_tool(), select(verdicts), any_text(), shots, any_meta()).prop_map(
        |(call, tool, verdict, text, media, meta)| {
            let Body::Result(plain) = result_with(0, verdict, Output { text, media, full: None }) else {
                unreachable!("a result is a result")
            };
            Body::Result(Box::new(CallResult { call, tool, meta, ..*plain }))
        },
    )
}

/// One step of a healthy turn.
#[derive(Debug, Clone)]
struct Step {
    signed: bool,
    text: bool,
    calls: u16,
    search: bool,
    first_result: Index,
    steered: bool,
    told: bool,
}

/// A transcript as the engine writes it: every call answered once, whatever else came in between.
pub fn healthy() -> impl Strategy<Value = Vec<Message>> {
    let step = (any::<bool>(), any::<bool>(), 1u16..4, any::<bool>(), any::<Index>(), any::<bool>(), any::<bool>());
    let step = step.prop_map(|(signed, text, calls, search, first_result, steered, told)| Step {
        signed,
        text,
        calls,
        search,
        first_result,
        steered,
        told,
    });
    let turns = vec((vec(step, 0..4), prop::bool::weighted(0.1)), 1..5);
    turns.prop_map(|turns| {
        let (mut bodies, mut number) = (Vec::new(), 0);
        for (turn, (steps, compacted)) in turns.into_iter().enumerate() {
            bodies.push(Body::User(vec![says(&format!("ask {turn}"))]));
            for step in steps {
                number += 1;
                act(&step, number, &mut bodies);
            }
            number += 1;
            let parts = vec![says(&format!("answer {turn}"))];
            bodies.push(spoken(reply_body(model(WireFormat::Anthropic), parts)));
            if compacted {
                bodies.push(summary(&format!("summary {turn}"), vec![says("newest")]));
            }
        }
        transcript(bodies)
    })
}

fn act(step: &Step, number: u64, bodies: &mut Vec<Body>) {
    let uid = |ordinal| CallUid { step: StepId(number), ordinal };
    let mut parts = Vec::new();
    if step.signed {
        parts.push(signed("", &format!("sig_{number}")));
    }
    if step.search {
        let provider_id = format!("srvtoolu_{number}");
        parts.push(Part::Call(Call { uid: uid(99), provider_id, ..a_search(0) }));
        parts.push(Part::Provided(Provided { uid: Some(uid(99)), ..found(0) }));
    }
    if step.text {
        parts.push(says(&format!("looking {number}")));
    }
    let input = format!(r#"{{"n":{number}}}"#);
    let call = |ordinal| Part::Call(Call { uid: uid(ordinal), ..a_call(0, "look", &input, RunBy::Us) });
    parts.extend((0..step.calls).map(call));
    bodies.push(spoken(reply_body(model(WireFormat::Anthropic), parts)));
    for turn in 0..step.calls {
        let ordinal = (turn + step.first_result.index(step.calls.into()) as u16) % step.calls;
        let Body::Result(plain) = result_with(0, CallVerdict::Done, Output::text(format!("saw {ordinal}"))) else {
            unreachable!("a result is a result")
        };
        bodies.push(Body::Result(Box::new(CallResult { call: uid(ordinal), ..*plain })));
        if step.steered && turn == 0 {
            bodies.push(user(&format!("steer {number}")));
        }
    }
    if step.told {
        bodies.push(context(&format!("context {number}")));
    }
}
