//! One of everything that is stored, around one odd text.

use std::time::Duration;

use everturn_core::blob::Blob;
use everturn_core::budget::BudgetUse;
use everturn_core::chat::{AskDetail, Effect};
use everturn_core::cost::{Micros, Spend, Tally, TokenCount, Usage, UsageReport};
use everturn_core::delta::{AttemptBegan, CallBegan, Delta, GenerationHandle, ProvidedDelta, Rung};
use everturn_core::ids::{CallUid, ChatId, ModelId, StepId, Timestamp};
use everturn_core::message::{
    Body, Call, CallResult, CallVerdict, File, Media, Meta, Output, Part, Provided, Reasoning, Reply, ReplyBody, RunBy,
    Seal, Source, Stop, Summary, SummarySource, Text,
};
use everturn_core::parent::{ParentCall, ParentChat, SubAgentsMax};
use everturn_core::permission::Grant;
use everturn_core::prompt::{AnswerSchema, Effort, OutputFormat, Sampling, ToolChoice, ToolSpec};
use everturn_core::seam::Seam;
use everturn_core::turn_settings::TurnSettings;
use serde_json::json;

/// Texts that have been lost, changed or refused somewhere before.
pub const ODD: [&str; 12] = [
    "a\0b\0",
    "\u{feff}mark",
    "e\u{301} is not \u{e9}",
    "👩\u{200d}👩\u{200d}👧 \u{202e}backwards",
    "\u{10ffff}\u{fffd}\u{fffe}\u{ffff}",
    "\r\n\t\u{b}\u{85}\u{2028} trailing \n",
    "'; drop table chats; --",
    r#"\u0000 {"a":"\ud800"}"#,
    "%_\\ \" ` $1 ?1 :name @p",
    "İıſK ß",
    "NULL",
    "0x00",
];

/// Bytes that are no text at all.
fn bytes() -> Blob {
    [0xff, 0x00, 0xc3, 0x28, 0xed, 0xa0, 0x80, b'\n'].into()
}

/// Metadata with the text as key and as value, and numbers at their edges.
pub fn meta(odd: &str) -> Meta {
    let numbers = json!([u64::MAX, i64::MIN, 0, -1, 0.1, 1e300, -0.5]);
    let value = json!({ odd: odd, "list": [odd, null, true, [], {}], "numbers": numbers });
    Meta::from([(odd.into(), value), ("understudy".into(), json!(odd)), (String::new(), json!(null))])
}

/// A model with this name.
pub fn model(odd: &str) -> ModelId {
    format!("understudy/{odd}").parse().expect("a provider and a name")
}

const UID: CallUid = CallUid { step: StepId(3), ordinal: u16::MAX };

fn file(odd: &str, bytes: Option<Blob>) -> File {
    File { name: odd.into(), media_type: odd.into(), bytes, meta: meta(odd) }
}

fn reasoning(odd: &str, seal: Option<Seal>) -> Reasoning {
    Reasoning { text: odd.into(), seal, began: Timestamp(-1), ended: Timestamp(i64::MAX), meta: meta(odd) }
}

/// What a person should know about an ask, with everything set.
pub fn ask_detail(odd: &str) -> AskDetail {
    let text = || Some(odd.to_owned());
    let (path, confinement, grant) = (text(), text(), text());
    AskDetail { basis: odd.into(), effect: Effect::Idempotent, path, confinement, grant, terms: odd.into() }
}

/// A grant.
pub fn grant(odd: &str) -> Grant {
    let (rule, terms, by) = (odd.into(), odd.into(), odd.into());
    Grant { call: UID, rule, terms, by, at: Timestamp(i64::MIN), until: Timestamp(i64::MAX) }
}

/// One part of every kind.
pub fn parts(odd: &str) -> Vec<Part> {
    let (text, call) = (odd.to_string(), |run_by, whole| Call {
        uid: UID,
        provider_id: odd.into(),
        tool: odd.into(),
        input: odd.into(),
        whole,
        run_by,
        at: Timestamp(4),
        meta: meta(odd),
    });
    let provided = |uid| Provided { uid, tool: odd.into(), output: json!([odd]), at: Timestamp(5), meta: meta(odd) };
    vec![
        Part::Text(Text { text: text.clone(), meta: meta(odd) }),
        Part::Text(Text::default()),
        Part::Reasoning(reasoning(odd, None)),
        Part::Reasoning(reasoning(odd, Some(Seal::Signature(text.clone())))),
        Part::Reasoning(reasoning("", Some(Seal::Redacted(text.clone())))),
        Part::Call(call(RunBy::Us, true)),
        Part::Call(call(RunBy::Us, false)),
        Part::Call(call(RunBy::Provider, true)),
        Part::Provided(provided(Some(UID))),
        Part::Provided(provided(None)),
        Part::Source(Source { url: text.clone(), title: text, meta: meta(odd) }),
        Part::File(file(odd, Some(bytes()))),
        Part::File(file(odd, Some([].into()))),
        Part::File(file(odd, None)),
        Part::Other(meta(odd)),
    ]
}

/// One message of every kind, for a chat that is at `step`.
pub fn bodies(odd: &str, step: StepId) -> Vec<Body> {
    let mut bodies = vec![Body::User(parts(odd)), Body::User(Vec::new()), Body::Context(odd.into())];
    let filtered = Stop::Filtered { category: odd.into(), detail: odd.into() };
    let stops = [Stop::End, Stop::ToolUse, Stop::Length, filtered, Stop::Interrupted, Stop::Broken];
    bodies.extend(stops.into_iter().zip(step.0..).map(|(stop, step)| reply(odd, StepId(step), stop)));
    let verdicts =
        [CallVerdict::Done, CallVerdict::Error, CallVerdict::Denied, CallVerdict::Interrupted, CallVerdict::Unknown];
    bodies.extend(verdicts.map(|verdict| Body::Result(Box::new(result(odd, verdict)))));
    let sources = [SummarySource::Automatic, SummarySource::Asked, SummarySource::Overflow];
    bodies.extend(sources.map(|source| {
        let runtime = Duration::from_millis(86_400_001);
        let summary = Summary { text: odd.into(), newest_user: parts(odd), source, tokens_before: 1 << 40, runtime };
        Body::Summary(Box::new(summary))
    }));
    bodies
}

fn reply(odd: &str, step: StepId, stop: Stop) -> Body {
    let said = stop != Stop::End; // One reply has nothing that may be missing.
    let usage = Usage { input: 1 << 40, output: 2, reasoning: 3, cache_read: 4, cache_write: 5 };
    let body = ReplyBody {
        step,
        parts: if said { parts(odd) } else { Vec::new() },
        stop,
        model: model(odd),
        usage: said.then_some(usage),
        runtime: Duration::from_millis(1),
        alive: Duration::from_millis(1),
        context_limit: said.then_some(200_000),
        response_id: said.then(|| odd.into()),
        seams: if said { vec![Seam { at: 7, dropped: 2, inserted: 1, unmatched: 0 }] } else { Vec::new() },
        retracted: if said { vec![odd.into(), String::new()] } else { Vec::new() },
        meta: if said { meta(odd) } else { Meta::new() },
    };
    Body::Reply(Box::new(Reply::restored(body)))
}

/// A result with everything in it, bytes that are no text included.
pub fn result(odd: &str, verdict: CallVerdict) -> CallResult {
    let began = (verdict == CallVerdict::Done).then_some(Timestamp(1));
    CallResult {
        call: UID,
        tool: odd.into(),
        verdict,
        output: output(odd),
        began,
        ended: Timestamp(2),
        meta: meta(odd),
    }
}

/// An output with this text.
pub fn output(odd: &str) -> Output {
    let media = vec![Media { media_type: odd.into(), bytes: bytes() }];
    Output { text: odd.into(), media, full: Some(bytes()) }
}

/// Deltas of every kind, in an order that can be folded.
pub fn deltas(odd: &str) -> Vec<Delta> {
    let text = || odd.to_string();
    let began = |rung, number| Delta::Attempt(Box::new(AttemptBegan { number, model: model(odd), rung }));
    let call = |slot, run_by| {
        let (provider_id, tool, meta) = (text(), text(), meta(odd));
        Delta::CallBegan(Box::new(CallBegan { slot, provider_id, tool, run_by, meta }))
    };
    let provided = |slot| {
        let (tool, output, meta) = (text(), json!({ odd: odd }), meta(odd));
        Delta::Provided(Box::new(ProvidedDelta { slot, tool, output, meta }))
    };
    let report =
        UsageReport { input: TokenCount::Known(1_000_000_000), output: TokenCount::Known(0), ..UsageReport::default() };
    vec![
        began(Rung::First, 1),
        Delta::Text(text()),
        Delta::Text(String::new()),
        Delta::Ended,
        Delta::Reasoning(text()),
        Delta::Sealed(Seal::Signature(text())),
        Delta::Sealed(Seal::Redacted(text())),
        Delta::PartMeta(Box::new(meta(odd))),
        call(0, RunBy::Us),
        call(u32::MAX, RunBy::Provider),
        Delta::CallInput { slot: 0, json: text() },
        Delta::CallEnded { slot: 0 },
        provided(Some(u32::MAX)),
        provided(None),
        Delta::Source(Box::new(Source { url: text(), title: text(), meta: meta(odd) })),
        Delta::File(Box::new(file(odd, Some(bytes())))),
        Delta::File(Box::new(file(odd, None))),
        Delta::Other(Box::new(meta(odd))),
        Delta::ReplyMeta(Box::new(meta(odd))),
        Delta::ResponseId(text()),
        Delta::Handle(Box::new(GenerationHandle { id: text(), cursor: text() })),
        Delta::Usage(report.into()),
        began(Rung::Reattach, 2),
        began(Rung::Continue, 3),
        Delta::Seam(Seam { at: usize::MAX >> 1, dropped: 2, inserted: 1, unmatched: 0 }),
        Delta::RetractCall { ordinal: 0 },
        Delta::RetractAll,
        began(Rung::Restart, 4),
        began(Rung::FallBack, u32::MAX),
        Delta::Text(text()),
    ]
}

/// The kind of a delta. A new one does not compile until it is given a sample above.
pub const fn kind(delta: &Delta) -> usize {
    match delta {
        Delta::Attempt(_) => 0,
        Delta::Text(_) => 1,
        Delta::Reasoning(_) => 2,
        Delta::Sealed(_) => 3,
        Delta::Ended => 4,
        Delta::CallBegan(_) => 5,
        Delta::CallInput { .. } => 6,
        Delta::CallEnded { .. } => 7,
        Delta::Provided(_) => 8,
        Delta::Source(_) => 9,
        Delta::File(_) => 10,
        Delta::Other(_) => 11,
        Delta::PartMeta(_) => 12,
        Delta::ReplyMeta(_) => 13,
        Delta::ResponseId(_) => 14,
        Delta::Handle(_) => 15,
        Delta::Usage(_) => 16,
        Delta::Seam(_) => 17,
        Delta::RetractCall { .. } => 18,
        Delta::RetractAll => 19,
    }
}

/// Kinds of deltas.
pub const KINDS: usize = 20;

/// As much as can be counted.
pub fn budget_use() -> BudgetUse {
    let time = Duration::from_millis(86_400_001);
    BudgetUse { steps: u64::MAX, time, alive: time, tokens: u64::MAX, cost: Micros(u64::MAX) }
}

/// Two chats above, with this text in their fields.
pub fn parent(odd: &str) -> ParentCall {
    let most = SubAgentsMax { tokens: u64::MAX, cost: Micros(u64::MAX) };
    let above = |number| ParentChat { chat: ChatId::from_u128(number), agent: odd.into(), most };
    let call = CallUid { step: StepId(u64::MAX), ordinal: u16::MAX };
    ParentCall { call, above: vec![above(u128::MAX), above(1)] }
}

/// Counts at their edges.
pub fn tally() -> Tally {
    let usage = Usage { input: 1 << 40, output: 2, reasoning: 3, cache_read: 4, cache_write: 5 };
    Tally { known: usage, estimated: Usage { input: 6, ..Usage::default() } }
}

/// Money, known and estimated.
pub const fn spend() -> Spend {
    Spend { known: Micros(1 << 50), estimated: Micros(7) }
}

/// Settings of requests, with this text in all of their fields.
#[must_use]
pub fn turn_settings(odd: &str) -> Vec<TurnSettings> {
    let hosted = ToolSpec::provider_defined(odd, json!({"type": odd}));
    let schema = AnswerSchema {
        name: odd.into(),
        description: Some(odd.into()),
        schema: json!({"type": "object", "title": odd}),
        strict: Some(true),
    };
    let full = TurnSettings {
        instructions: vec![odd.into(), String::new()],
        tools: vec![ToolSpec::new(odd, odd, json!({"type": "object"})), hosted],
        tool_choice: ToolChoice::Tool(odd.into()),
        parallel_calls: Some(false),
        output_tokens_max: Some(u32::MAX),
        effort: Some(Effort::XHigh),
        sampling: Sampling {
            temperature: Some(0.1),
            top_p: Some(1.0),
            top_k: Some(u32::MAX),
            seed: Some(i32::MIN),
            stop: vec![odd.into()],
        },
        format: OutputFormat::Schema(schema),
    };
    let plain = AnswerSchema { name: String::new(), description: None, schema: json!(true), strict: None };
    let choices = [ToolChoice::None, ToolChoice::Required].map(|tool_choice| TurnSettings {
        tool_choice,
        format: OutputFormat::JsonObject,
        ..TurnSettings::default()
    });
    let efforts = Effort::ALL.map(|effort| TurnSettings { effort: Some(effort), ..TurnSettings::default() });
    let plain = TurnSettings { format: OutputFormat::Schema(plain), ..TurnSettings::default() };
    [full, plain, TurnSettings::default()].into_iter().chain(choices).chain(efforts).collect()
}
