//! Anthropic's events, folded into frames.
//!
//! One block is open at a time, in rising order; a piece for any other block is not the protocol, and the attempt fails
//! before anything could be run on a guess. What is merely new (an event, a block, a kind of piece) is kept as it came
//! and never fails an answer. A message is over when it says both why and that it is.

use everturn_core::cost::{TokenCount, UsageReport};
use everturn_core::delta::Delta;
use everturn_core::error::ProviderError;
use everturn_core::message::Meta;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::classify::{self, StopMeaning};
use crate::classify::error_in;
use crate::provider::Frame;
use crate::sse::SseEvent;
use crate::wire::Decode;

mod block;
mod odd;

use block::{Block, Cited, HostedCalls};
use odd::Odd;

/// A message being read.
#[derive(Debug)]
pub struct Messages {
    provider: String,
    place: Place,
    open: Option<Block>,
    next_index: u32,
    calls: HostedCalls,
    cited: Cited,
    odd: Odd,
    meta: Map<String, Value>,
}

/// How far a message has got.
#[derive(Debug)]
enum Place {
    Before,
    Content,
    /// It has said why it stops.
    Ending(StopMeaning),
}

/// An event, flat: what the kinds have in common, and what each has of its own.
#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: std::borrow::Cow<'a, str>,
    index: Option<u32>,
    delta: Option<Piece<'a>>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

/// What a block or the message grows by.
#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: std::borrow::Cow<'a, str>,
    text: Option<String>,
    thinking: Option<String>,
    partial_json: Option<String>,
    signature: Option<String>,
    #[serde(borrow)]
    citation: Option<&'a RawValue>,
    stop_reason: Option<String>,
}

impl Messages {
    /// A message of which nothing has come. What it attaches is kept under this provider's name.
    #[must_use]
    pub fn new(provider: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            place: Place::Before,
            open: None,
            next_index: 0,
            calls: HostedCalls::default(),
            cited: Cited::default(),
            odd: Odd::default(),
            meta: Map::new(),
        }
    }

    fn malformed(&self, what: &str) -> ProviderError {
        classify::malformed(&self.provider, what)
    }

    fn start(&mut self, message: Option<&RawValue>, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        if !matches!(self.place, Place::Before) {
            return Err(self.malformed("a second message in one answer"));
        }
        self.place = Place::Content;
        let mut message = message.and_then(object).unwrap_or_default();
        if let Some(Value::String(id)) = message.remove("id") {
            out.push(Frame::Delta(Delta::ResponseId(id)));
        }
        out.extend(message.remove("usage").map(|usage| usage_of(&usage)));
        for told in ["type", "role", "content", "stop_reason", "stop_sequence", "stop_details"] {
            message.remove(told);
        }
        message.retain(|_, value| !value.is_null());
        self.meta = message;
        Ok(())
    }

    fn start_block(&mut self, wire: &Wire<'_>, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        let index = wire.index.ok_or_else(|| self.malformed("a block without an index"))?;
        match (&self.place, &self.open) {
            (Place::Before, _) => return Err(self.malformed("a block before its message")),
            (Place::Ending(_), _) => return Err(self.malformed("a block after the end of its message")),
            (Place::Content, Some(_)) => return Err(self.malformed("a block inside another")),
            (Place::Content, None) if index < self.next_index => return Err(self.malformed("a block index used twice")),
            (Place::Content, None) => {}
        }
        let block = wire.content_block.and_then(object).ok_or_else(|| self.malformed("a block that is no object"))?;
        self.next_index = index.saturating_add(1);
        self.open = Some(Block::start(index, block, &self.provider, &mut self.calls, &mut self.odd, out));
        Ok(())
    }

    fn grow_block(&mut self, wire: Wire<'_>, data: &str, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        match (&mut self.open, wire.delta) {
            (Some(block), Some(piece)) if Some(block.index()) == wire.index => {
                block.push(piece, data, &mut self.odd, out);
                Ok(())
            }
            _ => Err(self.malformed("a piece of a block that is not open")),
        }
    }

    fn stop_block(&mut self, index: Option<u32>, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        let block = self.open.take_if(|block| Some(block.index()) == index);
        let block = block.ok_or_else(|| self.malformed("the end of a block that is not open"))?;
        block.stop(&self.provider, &mut self.cited, out);
        self.odd.tell(&self.provider, out);
        Ok(())
    }

    /// The message's own piece: usage, and at the end why it stops.
    fn end(&mut self, wire: &Wire<'_>, data: &str, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        if matches!(self.place, Place::Before) || self.open.is_some() {
            return Err(self.malformed("the end of a message out of its place"));
        }
        if let Some(usage) = wire.usage.and_then(|usage| serde_json::from_str(usage.get()).ok()) {
            out.push(usage_of(&usage));
        }
        let mut event: Map<String, Value> = serde_json::from_str(data).unwrap_or_default();
        let delta = event.remove("delta").unwrap_or_default();
        if let Some(reason) = wire.delta.as_ref().and_then(|delta| delta.stop_reason.as_deref()) {
            self.place = Place::Ending(classify::ending(reason, delta.get("stop_details")));
        }
        for told in ["type", "usage"] {
            event.remove(told);
        }
        if let Value::Object(delta) = delta {
            event.extend(delta);
        }
        event.retain(|_, value| !value.is_null());
        self.meta.extend(event);
        Ok(())
    }

    fn unheard_of(&mut self, event: &SseEvent<'_>, out: &mut Vec<Frame>) {
        self.odd.keep(event.data);
        if self.open.is_none() {
            self.odd.tell(&self.provider, out);
        }
    }

    /// An event of another shape than any known one: fine if its kind is unknown, too.
    fn unread(&mut self, event: &SseEvent<'_>, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        let fields: Map<String, Value> = serde_json::from_str(event.data).unwrap_or_default();
        let (kind, index) = (fields.get("type").and_then(Value::as_str), fields.get("index").and_then(Value::as_u64));
        let piece = fields.get("delta").and_then(|delta| delta.get("type")).and_then(Value::as_str);
        let is_open = self.open.as_ref().is_some_and(|block| Some(u64::from(block.index())) == index);
        match (kind, piece) {
            (Some("content_block_delta"), Some(piece)) if is_open && !block::PIECES.contains(&piece) => {}
            (Some(kind), _) if !EVENTS.contains(&kind) => {}
            _ => return Err(self.malformed("an event that is not the JSON it should be")),
        }
        self.unheard_of(event, out);
        Ok(())
    }

    fn stop(&mut self, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        if self.open.is_some() {
            return Err(self.malformed("a message that stops inside a block"));
        }
        self.odd.tell(&self.provider, out);
        match std::mem::replace(&mut self.place, Place::Before) {
            Place::Ending(ending) => {
                let meta = std::mem::take(&mut self.meta);
                out.push(Frame::Delta(Delta::ReplyMeta(Box::new(own(&self.provider, meta)))));
                match ending {
                    StopMeaning::Over(stop) => {
                        out.push(Frame::Stop(stop));
                        Ok(())
                    }
                    StopMeaning::Paused => Err(classify::paused(&self.provider)),
                }
            }
            Place::Before | Place::Content => Err(classify::without_reason(&self.provider)),
        }
    }
}

impl Decode for Messages {
    fn event(&mut self, event: &SseEvent<'_>, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        if let Some(error) = error_in(event) {
            return match self.place {
                // It has said everything, and why that is all: what fails now is not the answer.
                Place::Ending(StopMeaning::Over(_)) => self.stop(out),
                _ => Err(classify::of_event(&self.provider, &error)),
            };
        }
        let Ok(wire) = serde_json::from_str::<Wire<'_>>(event.data) else { return self.unread(event, out) };
        let kind = if wire.kind.is_empty() { event.name } else { &*wire.kind };
        match kind {
            "content_block_delta" => self.grow_block(wire, event.data, out)?,
            "content_block_start" => self.start_block(&wire, out)?,
            "content_block_stop" => self.stop_block(wire.index, out)?,
            "ping" => out.push(Frame::Ping),
            "message_start" => self.start(wire.message, out)?,
            "message_delta" => self.end(&wire, event.data, out)?,
            "message_stop" => self.stop(out)?,
            _ => self.unheard_of(event, out),
        }
        Ok(())
    }
}

/// The kinds of events there are.
const EVENTS: [&str; 7] = [
    "content_block_delta",
    "content_block_start",
    "content_block_stop",
    "message_delta",
    "message_start",
    "message_stop",
    "ping",
];

/// What has been used so far. A count that is left out, or absurd, is not told.
fn usage_of(usage: &Value) -> Frame {
    let count = |key: &str| TokenCount::from_json(usage.get(key));
    Frame::Delta(Delta::Usage(Box::new(UsageReport {
        input: count("input_tokens"),
        output: count("output_tokens"),
        reasoning: TokenCount::from_json(usage.pointer("/output_tokens_details/thinking_tokens")),
        cache_read: count("cache_read_input_tokens"),
        cache_write: count("cache_creation_input_tokens"),
    })))
}

fn object(raw: &RawValue) -> Option<Map<String, Value>> {
    serde_json::from_str(raw.get()).ok()
}

/// What this provider attaches.
fn own(provider: &str, fields: Map<String, Value>) -> Meta {
    Meta::from([(provider.to_owned(), Value::Object(fields))])
}
