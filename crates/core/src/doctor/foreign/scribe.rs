//! Writing down what a foreign session says.
//!
//! Foreign calls are known by the provider's ids, which may be missing, used twice, or named before they are there. So
//! results are matched once everything was read: each with the nearest call before it that has its id and no result, else
//! with one behind it, else with one that has a result already. One that fits none keeps a name that no call has.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

use super::{ForeignSession, Loss, SessionFormat, SkippedRecord};
use crate::ids::{CallUid, MessageId, ModelId, StepId, Timestamp};
use crate::message::{
    Body, Call, CallResult, CallVerdict, File, Media, Message, Meta, Output, Part, Provided, Reasoning, Reply,
    ReplyBody, RunBy, Seal, Stop, Summary, SummarySource, Text,
};

/// The tool of a result that names none and has no call.
const NAMELESS: &str = "unknown_tool";

/// Where something is said, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Here {
    pub place: usize,
    pub at: Timestamp,
}

/// A session on its way to ours.
pub(super) struct SessionBuilder {
    pub system: Vec<String>,
    pub at: Timestamp,
    /// The model of replies that name none.
    pub model: ModelId,
    format: SessionFormat,
    said: Vec<(Here, Said)>,
    skipped: Vec<SkippedRecord>,
}

/// What was said, before calls and results have found each other.
enum Said {
    Body(Body),
    Reply(ImportedReply),
    Result(ImportedResult),
}

/// A reply.
#[derive(Default)]
pub(super) struct ImportedReply {
    pub parts: Vec<ImportedPart>,
    pub model: Option<ModelId>,
    pub stop: Option<Stop>,
    pub response_id: Option<String>,
}

/// A part of a reply.
pub(super) enum ImportedPart {
    Part(Part),
    Call(ImportedCall),
    /// What a tool of the provider's found, for the call of this id.
    Found {
        id: String,
        tool: String,
        output: Value,
        meta: Meta,
    },
}

/// A call.
pub(super) struct ImportedCall {
    pub id: String,
    pub tool: String,
    pub input: String,
    pub run_by: RunBy,
    pub meta: Meta,
}

/// A result.
pub(super) struct ImportedResult {
    pub id: String,
    pub tool: String,
    pub verdict: CallVerdict,
    pub output: Output,
}

impl SessionBuilder {
    pub fn new(format: SessionFormat, at: Timestamp, model: Option<&str>) -> Self {
        let provider = match format {
            SessionFormat::Anthropic | SessionFormat::ClaudeCode => "anthropic",
            SessionFormat::OpenAiChat | SessionFormat::OpenAiResponses | SessionFormat::Codex => "openai",
        };
        let unknown = ModelId::of(provider, "unknown");
        let model = model.map_or(unknown, |name| ModelId::of(provider, name));
        Self { system: Vec::new(), at, model, format, said: Vec::new(), skipped: Vec::new() }
    }

    /// A model of the same provider.
    pub fn model_named(&self, name: &str) -> ModelId {
        ModelId::of(self.model.provider(), name)
    }

    /// What the provider attached, as metadata; what it attached nothing to has none.
    pub fn attached(&self, about: Map<String, Value>) -> Meta {
        let own = (!about.is_empty()).then(|| (self.model.provider().to_owned(), Value::Object(about)));
        own.into_iter().collect()
    }

    pub fn here(&self, place: usize, at: Option<&str>) -> Here {
        let read = at.and_then(|at| at.parse::<jiff::Timestamp>().ok());
        Here { place, at: read.map_or(self.at, |at| Timestamp(at.as_millisecond())) }
    }

    pub fn user(&mut self, here: Here, parts: Vec<Part>) {
        self.said.push((here, Said::Body(Body::User(parts))));
    }

    pub fn context(&mut self, here: Here, text: String) {
        self.said.push((here, Said::Body(Body::Context(text))));
    }

    pub fn result(&mut self, here: Here, outcome: ImportedResult) {
        self.said.push((here, Said::Result(outcome)));
    }

    pub fn summary(&mut self, here: Here, text: String) {
        let (newest_user, source) = (Vec::new(), SummarySource::Asked);
        let summary = Summary { text, newest_user, source, tokens_before: 0, runtime: Duration::ZERO };
        self.said.push((here, Said::Body(Body::Summary(Box::new(summary)))));
    }

    pub fn reply(&mut self, here: Here, mut answer: ImportedReply) {
        answer.model.get_or_insert_with(|| self.model.clone());
        self.said.push((here, Said::Reply(answer)));
    }

    /// The reply of this response in the same turn, if it was begun.
    pub fn begun(&mut self, response_id: &str) -> Option<&mut ImportedReply> {
        let is_turn = |said: &&mut (Here, Said)| !matches!(said.1, Said::Body(Body::User(_) | Body::Summary(_)));
        self.said.iter_mut().rev().take_while(is_turn).find_map(|(_, said)| match said {
            Said::Reply(answer) if answer.response_id.as_deref() == Some(response_id) => Some(answer),
            _ => None,
        })
    }

    /// The reply said last, if nothing came after it.
    pub fn newest_reply(&mut self) -> Option<&mut ImportedReply> {
        match self.said.last_mut() {
            Some((_, Said::Reply(answer))) => Some(answer),
            _ => None,
        }
    }

    /// Takes back everything from the place on, which was said on a way that was left.
    pub fn take_back(&mut self, from: usize) -> usize {
        let before = self.said.len();
        self.said.retain(|(here, _)| here.place < from);
        before - self.said.len()
    }

    /// The place of the message with which the newest `turns` turns begin.
    pub fn turns_began(&self, turns: usize) -> Option<usize> {
        let is_user = |(here, said): &(Here, Said)| matches!(said, Said::Body(Body::User(_))).then_some(here.place);
        self.said.iter().rev().filter_map(is_user).nth(turns.checked_sub(1)?)
    }

    /// Notes something that is not taken over; the same again is counted.
    pub fn skip(&mut self, place: usize, what: impl Into<String>, harm: Loss) {
        let what = what.into();
        match self.skipped.iter_mut().find(|skipped| skipped.what == what && skipped.harm == harm) {
            Some(skipped) => skipped.count += 1,
            None => self.skipped.push(SkippedRecord { place, what, count: 1, harm }),
        }
    }

    /// The session, with results at their calls.
    pub fn finish(self) -> ForeignSession {
        let Self { system, model, format, said, skipped, .. } = self;
        let uids = Uids::of(&said);
        let mut answered = uids.matched(&said);
        let (mut messages, mut places, mut step) = (Vec::new(), Vec::new(), StepId(0));
        for (here, said) in said {
            let body = match said {
                Said::Body(body) => body,
                Said::Reply(answer) => {
                    step = step.next();
                    Body::Reply(Box::new(answer.spoken(step, here.at, &model)))
                }
                Said::Result(outcome) => {
                    let Some((call, tool)) = answered.pop_front() else { continue };
                    let tool = if outcome.tool.is_empty() { tool } else { outcome.tool };
                    let ImportedResult { verdict, output, .. } = outcome;
                    let (began, ended, meta) = (None, here.at, Meta::new());
                    Body::Result(Box::new(CallResult { call, tool, verdict, output, began, ended, meta }))
                }
            };
            places.push(here.place);
            messages.push(Arc::new(Message { id: MessageId(places.len() as u64), at: here.at, body, sent: None }));
        }
        ForeignSession { format, system, messages, skipped, cut: None, places }
    }
}

/// The calls of a session, in order.
struct Uids<'a>(Vec<(usize, CallUid, &'a ImportedCall)>);

impl<'a> Uids<'a> {
    fn of(said: &'a [(Here, Said)]) -> Self {
        let (mut calls, mut step) = (Vec::new(), StepId(0));
        for (at, (_, said)) in said.iter().enumerate() {
            let Said::Reply(answer) = said else { continue };
            step = step.next();
            let asked = answer.parts.iter().filter_map(|piece| match piece {
                ImportedPart::Call(asked) => Some(asked),
                ImportedPart::Part(_) | ImportedPart::Found { .. } => None,
            });
            calls.extend((0..).zip(asked).map(|(ordinal, asked)| (at, CallUid { step, ordinal }, asked)));
        }
        Self(calls)
    }

    /// The call of every result, in the order of results, and its tool. Those without one belong to step 0, which no
    /// reply is of.
    fn matched(&self, said: &[(Here, Said)]) -> VecDeque<(CallUid, String)> {
        let mut by_id: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (call, (_, _, asked)) in self.0.iter().enumerate().filter(|(_, call)| call.2.run_by == RunBy::Us) {
            by_id.entry(&asked.id).or_default().push(call);
        }
        let (mut taken, mut strays) = (vec![false; self.0.len()], 0_u16);
        let mut matched = VecDeque::new();
        for (at, (_, said)) in said.iter().enumerate() {
            let Said::Result(outcome) = said else { continue };
            let fitting = by_id.get(outcome.id.as_str()).map_or(&[][..], Vec::as_slice);
            let before = |call: &&usize| self.0[**call].0 < at;
            let free = |call: &&usize| !taken[**call];
            // Of the nearest reply before it, the first call.
            let near = |call: &&usize| (self.0[**call].0, Reverse(**call));
            let found = fitting.iter().filter(before).filter(free).max_by_key(near);
            let found = found.or_else(|| fitting.iter().find(free));
            let found = found.or_else(|| fitting.iter().rev().find(before)).or(fitting.last()).copied();
            matched.push_back(if let Some(call) = found {
                taken[call] = true;
                (self.0[call].1, self.0[call].2.tool.clone())
            } else {
                strays = strays.wrapping_add(1);
                (CallUid { step: StepId(0), ordinal: strays }, NAMELESS.into())
            });
        }
        matched
    }
}

impl ImportedReply {
    fn spoken(self, step: StepId, at: Timestamp, usual: &ModelId) -> Reply {
        let mut ids: Vec<(String, CallUid)> = Vec::new();
        let mut parts = Vec::with_capacity(self.parts.len());
        for piece in self.parts {
            parts.push(match piece {
                ImportedPart::Part(part) => part,
                ImportedPart::Call(ImportedCall { id, tool, input, run_by, meta }) => {
                    let uid = CallUid { step, ordinal: u16::try_from(ids.len()).unwrap_or(u16::MAX) };
                    ids.push((id.clone(), uid));
                    Part::Call(Call { uid, provider_id: id, tool, input, whole: true, run_by, at, meta })
                }
                ImportedPart::Found { id, tool, output, meta } => {
                    let uid = ids.iter().rev().find(|(known, _)| *known == id).map(|(_, uid)| *uid);
                    Part::Provided(Provided { uid, tool, output, at, meta })
                }
            });
        }
        let calls = parts.iter().any(|part| matches!(part, Part::Call(call) if call.run_by == RunBy::Us));
        Reply::restored(ReplyBody {
            step,
            parts,
            stop: self.stop.unwrap_or(if calls { Stop::ToolUse } else { Stop::End }),
            model: self.model.unwrap_or_else(|| usual.clone()),
            usage: None,
            runtime: Duration::ZERO,
            alive: Duration::ZERO,
            context_limit: None,
            response_id: self.response_id,
            seams: Vec::new(),
            retracted: Vec::new(),
            meta: Meta::new(),
        })
    }
}

/// Words.
pub(super) fn text(text: impl Into<String>) -> Part {
    Part::Text(Text { text: text.into(), meta: Meta::new() })
}

/// Thinking; an empty seal is none.
pub(super) fn reasoning(text: String, seal: Option<Seal>, at: Timestamp, meta: Meta) -> Part {
    let seal = seal.filter(|seal| {
        let (Seal::Signature(token) | Seal::Redacted(token)) = seal;
        !token.is_empty()
    });
    Part::Reasoning(Reasoning { text, seal, began: at, ended: at, meta })
}

/// What was written where an object should be: the text itself, or the JSON it is.
pub(super) fn input(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A file of base64.
pub(super) fn media(media_type: &str, data: &str) -> Option<Media> {
    let data: String = data.split_whitespace().collect();
    let bytes = STANDARD.decode(&data).or_else(|_| URL_SAFE_NO_PAD.decode(&data)).ok()?;
    Some(Media { media_type: media_type.into(), bytes: bytes.into() })
}

/// A file out of a `data:` URL. Nothing is fetched: what another URL shows is gone.
pub(super) fn file(name: &str, url: &str) -> File {
    let inline = url.strip_prefix("data:").and_then(|rest| {
        let (about, data) = rest.split_once(',')?;
        media(about.split(';').next().unwrap_or_default(), data)
    });
    let name = if name.is_empty() && inline.is_none() { url } else { name };
    let media_type = inline.as_ref().map_or_else(String::new, |media| media.media_type.clone());
    File { name: name.into(), media_type, bytes: inline.map(|media| media.bytes), meta: Meta::new() }
}
