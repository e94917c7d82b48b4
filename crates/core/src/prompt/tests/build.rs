//! Words for writing transcripts down, and for reading prompts.

use std::fmt::Write as _;
use std::time::Duration;

use expect_test::Expect;
use serde_json::{Value, json};

use crate::ids::{CallUid, MessageId, ModelId, StepId, Timestamp};
use crate::message::{
    Body, Call, CallResult, CallVerdict, File, Media, Message, Meta, Output, Part, Provided, Reasoning, Reply,
    ReplyBody, RunBy, Seal, Source, Stop, Summary, SummarySource, Text,
};
use crate::prompt::{PromptEntries, PromptEntry, PromptPart, Role, Target, WireFormat, prepare};

/// The usual target behind a wire.
pub fn target(wire: WireFormat) -> Target {
    Target::new(wire, provider(wire))
}

pub fn provider(wire: WireFormat) -> &'static str {
    match wire {
        WireFormat::Anthropic => "anthropic",
        WireFormat::OpenAiResponses => "openai",
        WireFormat::OpenAiChat => "compatible",
        WireFormat::Gemini => "gemini",
    }
}

pub fn model(wire: WireFormat) -> ModelId {
    format!("{}/model", provider(wire)).parse().unwrap()
}

/// Prepares for Anthropic and compares what is sent.
pub fn check<const N: usize>(bodies: [Body; N], sent: Expect) {
    check_for(&target(WireFormat::Anthropic), bodies, sent);
}

pub fn check_for<const N: usize>(target: &Target, bodies: [Body; N], sent: Expect) {
    sent.assert_eq(&shown(&prepare(&transcript(bodies), target)));
}

pub fn transcript(bodies: impl IntoIterator<Item = Body>) -> Vec<Message> {
    let number = |(index, body)| Message { id: MessageId(index as u64 + 1), at: Timestamp(0), body, sent: None };
    bodies.into_iter().enumerate().map(number).collect()
}

pub fn uid(ordinal: u16) -> CallUid {
    CallUid { step: StepId(1), ordinal }
}

pub fn user(text: &str) -> Body {
    Body::User(vec![says(text)])
}

pub fn context(text: &str) -> Body {
    Body::Context(text.into())
}

/// A reply of the Anthropic model.
pub fn reply<const N: usize>(parts: [Part; N]) -> Body {
    reply_of(WireFormat::Anthropic, parts)
}

pub fn reply_of<const N: usize>(wire: WireFormat, parts: [Part; N]) -> Body {
    spoken(reply_body(model(wire), parts.to_vec()))
}

pub fn spoken(body: ReplyBody) -> Body {
    Body::Reply(Box::new(Reply::restored(body)))
}

pub fn reply_body(model: ModelId, parts: Vec<Part>) -> ReplyBody {
    ReplyBody {
        step: StepId(1),
        parts,
        stop: Stop::End,
        model,
        usage: None,
        runtime: Duration::ZERO,
        alive: Duration::ZERO,
        context_limit: None,
        response_id: None,
        seams: Vec::new(),
        retracted: Vec::new(),
        meta: Meta::new(),
    }
}

pub fn says(text: &str) -> Part {
    Part::Text(Text { text: text.into(), meta: Meta::new() })
}

pub fn thinks(text: &str, seal: Option<Seal>) -> Part {
    let at = Timestamp(0);
    Part::Reasoning(Reasoning { text: text.into(), seal, began: at, ended: at, meta: Meta::new() })
}

pub fn signed(text: &str, signature: &str) -> Part {
    thinks(text, Some(Seal::Signature(signature.into())))
}

pub fn a_call(ordinal: u16, tool: &str, input: &str, run_by: RunBy) -> Call {
    let (provider_id, tool, input) = (format!("toolu_{ordinal}"), tool.into(), input.into());
    Call { uid: uid(ordinal), provider_id, tool, input, whole: true, run_by, at: Timestamp(0), meta: Meta::new() }
}

pub fn calls(ordinal: u16, tool: &str, input: &str) -> Part {
    Part::Call(a_call(ordinal, tool, input, RunBy::Us))
}

/// A call of the provider's own tool, under an id Anthropic takes.
pub fn searches(ordinal: u16) -> Part {
    Part::Call(a_search(ordinal))
}

pub fn a_search(ordinal: u16) -> Call {
    let provider_id = format!("srvtoolu_{ordinal}");
    Call { provider_id, ..a_call(ordinal, "web_search", r#"{"query":"kelp"}"#, RunBy::Provider) }
}

pub fn finds(ordinal: u16) -> Part {
    Part::Provided(found(ordinal))
}

pub fn found(ordinal: u16) -> Provided {
    let output = json!([{"title": "Kelp", "url": "https://kelp.example", "encrypted_content": "abc"}]);
    Provided { uid: Some(uid(ordinal)), tool: "web_search".into(), output, at: Timestamp(0), meta: Meta::new() }
}

pub fn source() -> Part {
    Part::Source(Source { url: "https://kelp.example".into(), title: "Kelp".into(), meta: Meta::new() })
}

pub fn file(name: &str, media_type: &str, bytes: Option<&[u8]>) -> Part {
    Part::File(File {
        name: name.into(),
        media_type: media_type.into(),
        bytes: bytes.map(Into::into),
        meta: Meta::new(),
    })
}

pub fn media(media_type: &str, bytes: &[u8]) -> Media {
    Media { media_type: media_type.into(), bytes: bytes.into() }
}

pub fn meta(provider: &str, value: Value) -> Meta {
    Meta::from([(provider.to_string(), value)])
}

pub fn result(ordinal: u16, text: &str) -> Body {
    result_with(ordinal, CallVerdict::Done, Output::text(text))
}

pub fn result_with(ordinal: u16, verdict: CallVerdict, output: Output) -> Body {
    let (call, tool) = (uid(ordinal), "look".into());
    Body::Result(Box::new(CallResult {
        call,
        tool,
        verdict,
        output,
        began: None,
        ended: Timestamp(0),
        meta: Meta::new(),
    }))
}

pub fn summary(text: &str, newest_user: Vec<Part>) -> Body {
    let (text, source, runtime) = (text.into(), SummarySource::Asked, Duration::ZERO);
    Body::Summary(Box::new(Summary { text, newest_user, source, tokens_before: 0, runtime }))
}

/// A prompt as people read it: a line a part.
pub fn shown(entries: &PromptEntries) -> String {
    let mut out = String::new();
    for entry in entries.iter() {
        let who = match entry.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        };
        writeln!(out, "{who}").unwrap();
        for part in &entry.parts {
            writeln!(out, "  {}", shown_part(part)).unwrap();
        }
    }
    out
}

fn shown_part(part: &PromptPart) -> String {
    match part {
        PromptPart::Text(text) => format!("{:?}{}", text.text, shown_meta(&text.meta)),
        PromptPart::File(file) => format!("file {} {}", file.media.media_type, file.media.bytes.len()),
        PromptPart::Reasoning(sealed) => format!("thinks {:?} {:?}", sealed.text, sealed.seal),
        PromptPart::Call(call) => {
            format!("{} {} {}{}", call.id, call.tool, Value::Object(call.input.clone()), shown_meta(&call.meta))
        }
        PromptPart::Result(result) => {
            let word = if result.is_error { "failed" } else { "gave" };
            let media: String = result.media.iter().map(|media| format!(" {}", media.media_type)).collect();
            format!("{} {} {word} {:?}{media}{}", result.id, result.tool, result.text, shown_meta(&result.meta))
        }
        PromptPart::HostedCall(call) => format!("{} {} {}", call.id, call.tool, Value::Object(call.input.clone())),
        PromptPart::HostedResult(result) => format!("{} {} found {}", result.id, result.tool, result.output),
    }
}

fn shown_meta(meta: &Meta) -> String {
    if meta.is_empty() { String::new() } else { format!(" {}", json!(meta)) }
}

/// A transcript that says what these entries say, so that preparing can be tried on what was prepared.
pub fn told_again(entries: &PromptEntries, target: &Target) -> Vec<Message> {
    let mut step = 0;
    let mut bodies = Vec::new();
    for entry in entries.iter() {
        match entry.role {
            Role::User => bodies.push(Body::User(entry.parts.iter().map(part_again).collect())),
            Role::Assistant => {
                step += 1;
                bodies.push(reply_again(entry, step, target));
            }
            Role::Tool => bodies.extend(entry.parts.iter().enumerate().map(|(at, part)| result_again(part, step, at))),
        }
    }
    transcript(bodies)
}

fn reply_again(entry: &PromptEntry, step: u64, target: &Target) -> Body {
    let (mut parts, mut ours, mut hosted) = (Vec::new(), 0, Vec::new());
    for part in &entry.parts {
        let mut part = part_again(part);
        match &mut part {
            Part::Call(call) if call.run_by == RunBy::Us => {
                call.uid = CallUid { step: StepId(step), ordinal: ours };
                ours += 1;
            }
            Part::Call(call) => {
                call.uid = CallUid { step: StepId(step), ordinal: 1000 + hosted.len() as u16 };
                hosted.push((call.provider_id.clone(), call.uid));
            }
            Part::Provided(provided) => {
                let id = provided.meta.remove("id").unwrap();
                provided.uid = hosted.iter().find(|(known, _)| id == known.as_str()).map(|(_, uid)| *uid);
            }
            _ => {}
        }
        parts.push(part);
    }
    spoken(reply_body(format!("{}/model", target.provider).parse().unwrap(), parts))
}

fn part_again(part: &PromptPart) -> Part {
    match part.clone() {
        PromptPart::Text(text) => Part::Text(text),
        PromptPart::File(file) => Part::File(File {
            name: file.name,
            media_type: file.media.media_type,
            bytes: Some(file.media.bytes.into()),
            meta: file.meta,
        }),
        PromptPart::Reasoning(sealed) => {
            let (seal, at) = (Some(sealed.seal), Timestamp(0));
            Part::Reasoning(Reasoning { text: sealed.text, seal, began: at, ended: at, meta: sealed.meta })
        }
        PromptPart::Call(call) => Part::Call(Call {
            provider_id: call.provider_id,
            meta: call.meta,
            ..a_call(0, &call.tool, &Value::Object(call.input).to_string(), RunBy::Us)
        }),
        PromptPart::HostedCall(call) => Part::Call(Call {
            provider_id: call.id,
            meta: call.meta,
            ..a_call(0, &call.tool, &Value::Object(call.input).to_string(), RunBy::Provider)
        }),
        PromptPart::HostedResult(result) => {
            let mut meta = result.meta;
            meta.insert("id".into(), result.id.into());
            Part::Provided(Provided { uid: None, tool: result.tool, output: result.output, at: Timestamp(0), meta })
        }
        PromptPart::Result(_) => unreachable!("results stand in entries of their own"),
    }
}

fn result_again(part: &PromptPart, step: u64, at: usize) -> Body {
    let PromptPart::Result(result) = part.clone() else { unreachable!("tools only give results") };
    let verdict = if result.is_error { CallVerdict::Error } else { CallVerdict::Done };
    let media = result.media.into_iter().map(|shot| Media { media_type: shot.media_type, bytes: shot.bytes.into() });
    Body::Result(Box::new(CallResult {
        call: CallUid { step: StepId(step), ordinal: at as u16 },
        tool: result.tool,
        verdict,
        output: Output { text: result.text, media: media.collect(), full: None },
        began: None,
        ended: Timestamp(0),
        meta: result.meta,
    }))
}
