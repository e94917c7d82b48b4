//! The events of a response, as frames.
//!
//! A response is a list of items (messages, thoughts, calls, searches) and each item arrives in events of its own, which
//! repeat at their end what they said in pieces. The pieces are what is shown; the repetition is held against them, so
//! that a server which leaves pieces out still says everything and one that contradicts itself over a call's input runs
//! nothing. An answer is over with its terminal event and not before.
//!
//! A generation in the background outlives its stream. Then the deltas of an event are one frame with a
//! handle that has the event's number as its cursor, and a decoder that begins after this number continues
//! the same draft: slots are the items' places in the response, which both decoders know.

use everturn_core::delta::{Delta, GenerationHandle};
use everturn_core::error::{ErrorKind, ProviderError};
use everturn_core::message::Stop;
use serde_json::{Value, json};

use super::classify;
use crate::classify::error_in;
use crate::openai::{HeldSources, meta, report};
use crate::provider::Frame;
use crate::sse;
use crate::wire::Decode;

mod event;
mod items;
mod speech;

use event::ResponsesEvent;
use items::Item;
use speech::{ItemPart, OpenPart};

/// What the provider stores of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseRetention {
    /// Nothing: its id is of no use.
    Nothing,
    /// The response, once it is over: the next request can build upon it.
    Response,
    /// The generation itself, which goes on without us.
    Generation,
}

/// Where in the stream of a response the first event stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begin {
    /// At its beginning.
    First,
    /// After the event of this number. What came before is in the draft already.
    After(u64),
}

/// A response being read.
#[derive(Debug)]
pub struct Responses {
    provider: String,
    begin: Begin,
    keeps: ResponseRetention,
    id: String,
    /// The items that are not over.
    items: Vec<Item>,
    /// The part that grows.
    open: Option<OpenPart>,
    sources: HeldSources,
    /// Unknown events, until the open part is over.
    unknown: Vec<Value>,
    unknown_len: usize,
    has_items: bool,
    called: bool,
    refused: bool,
}

/// Items that may be unfinished at a time. A response has a handful.
const ITEMS_MAX: usize = 1024;

/// The most unknown events that are kept; further ones are skipped.
const UNKNOWN_MAX: usize = 32;

/// The events that end a response.
const LAST: [&str; 5] =
    ["response.completed", "response.incomplete", "response.failed", "response.cancelled", "response.done"];

impl Responses {
    /// A response of `provider` of which nothing has come.
    pub fn new(provider: &str, keeps: ResponseRetention) -> Self {
        Self {
            provider: provider.to_owned(),
            begin: Begin::First,
            keeps,
            id: String::new(),
            items: Vec::new(),
            open: None,
            sources: HeldSources::default(),
            unknown: Vec::new(),
            unknown_len: 0,
            has_items: false,
            called: false,
            refused: false,
        }
    }

    /// The rest of a generation, after the event of number `cursor`.
    pub fn resumed(provider: &str, id: &str, cursor: u64) -> Self {
        Self { begin: Begin::After(cursor), id: id.to_owned(), ..Self::new(provider, ResponseRetention::Generation) }
    }

    fn take(&mut self, event: ResponsesEvent<'_>, data: &str, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        let at = self.place(&event);
        let part = event.content_index.index().unwrap_or(0);
        match event.kind.text() {
            "response.output_text.delta" => self.say(ItemPart::text(at, part), event.delta.text(), out),
            "response.function_call_arguments.delta" => self.input(at, event.delta.text(), out)?,
            "response.refusal.delta" => self.say(ItemPart::refusal(at, part), event.delta.text(), out),
            "response.reasoning_text.delta" => self.say(ItemPart::thought(at, part), event.delta.text(), out),
            "response.reasoning_summary_text.delta" => {
                self.say(ItemPart::thought(at, event.summary_index.index().unwrap_or(0)), event.delta.text(), out);
            }
            "response.output_text.done" => self.said(ItemPart::text(at, part), event.text.text(), out),
            "response.refusal.done" => self.said(ItemPart::refusal(at, part), event.refusal.text(), out),
            "response.output_text.annotation.added" => self.annotated(&event.annotation.json()),
            "response.content_part.done" => self.part_over(at, part, &event.part.json(), out),
            "response.function_call_arguments.done" => self.whole_input(at, event.arguments.text(), out)?,
            "response.output_item.added" => self.item_added(at, event.item.json(), out)?,
            "response.output_item.done" => self.item_over(at, event.item.json(), out)?,
            "response.created" => self.created(&event.response.json(), out),
            kind if LAST.contains(&kind) => self.over(event.kind.text(), &event.response.json(), data, out)?,
            kind if event::says_nothing(kind) => {}
            _ => self.keep_unknown(data, out),
        }
        Ok(())
    }

    /// The place of the item an event speaks of. Some servers name the item and not its place.
    fn place(&self, event: &ResponsesEvent<'_>) -> u32 {
        let named = || self.items.iter().find(|item| !item.id.is_empty() && item.id == event.item_id.text());
        let place = event.output_index.index().or_else(|| named().map(|item| item.place));
        place.or_else(|| self.items.last().map(|item| item.place)).unwrap_or(0)
    }

    fn created(&mut self, response: &Value, out: &mut Vec<Frame>) {
        let text = |key: &str| response[key].as_str().unwrap_or_default();
        text("id").clone_into(&mut self.id);
        if response["store"] == false && self.keeps == ResponseRetention::Response {
            self.keeps = ResponseRetention::Nothing;
        }
        let mut about = json!({"model": text("model")});
        if self.keeps == ResponseRetention::Nothing {
            about["response"] = text("id").into(); // A name that nothing can be built upon.
        } else if !self.id.is_empty() {
            out.push(Frame::Delta(Delta::ResponseId(self.id.clone())));
        }
        out.push(Frame::Delta(Delta::ReplyMeta(Box::new(meta(&self.provider, about)))));
    }

    /// An event of a kind that is newer than we are. It must not cut the open part in two, so it waits for its end.
    fn keep_unknown(&mut self, data: &str, out: &mut Vec<Frame>) {
        if self.unknown_len < UNKNOWN_MAX {
            self.unknown_len += 1;
            self.unknown.extend(serde_json::from_str::<Value>(data));
        }
        if self.open.is_none() && self.begin == Begin::First {
            self.tell_asides(out);
        }
    }

    /// The terminal event. What it is about is in the response's status; the event's name is for servers without one.
    fn over(&mut self, kind: &str, response: &Value, data: &str, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        let status = response["status"].as_str().filter(|status| !matches!(*status, "in_progress" | "queued"));
        let status = status.or(kind.strip_prefix("response.")).unwrap_or_default();
        match status {
            "failed" => return Err(classify::failed(&self.provider, data)),
            "cancelled" | "canceled" => return Err(classify::cancelled(&self.provider)),
            _ => {}
        }
        let none = Vec::new();
        let output = response["output"].as_array().unwrap_or(&none);
        if !self.has_items && self.begin == Begin::First {
            for (place, item) in (0..).zip(output) {
                self.item_over(place, item.clone(), out)?; // A server that streams its answer in one piece.
            }
        }
        self.settle_items(output, status, out)?;
        self.close(out);
        if response["usage"].is_object() {
            out.push(Frame::Delta(Delta::Usage(report(&response["usage"]).into())));
        }
        out.push(Frame::Stop(self.stop(status, response, output)));
        Ok(())
    }

    /// Ends items without an end event of their own, by the response's copy of them.
    fn settle_items(&mut self, output: &[Value], status: &str, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        for at in 0..self.items.len() {
            let item = &self.items[at];
            let (place, is_call) = (item.place, item.is_call());
            match output.get(place as usize).filter(|told| item.is(told)) {
                Some(told) => self.item_over(place, told.clone(), out)?,
                None if is_call && status != "incomplete" => {
                    return Err(self.malformed("the response is over and a call in it is not"));
                }
                None => {}
            }
        }
        Ok(())
    }

    fn stop(&self, status: &str, response: &Value, output: &[Value]) -> Stop {
        let filtered = |category: &str| Stop::Filtered { category: category.to_owned(), detail: String::new() };
        if status == "incomplete" {
            return match response.pointer("/incomplete_details/reason").and_then(Value::as_str) {
                None | Some("max_output_tokens" | "max_tokens") => Stop::Length,
                Some(reason) => filtered(reason), // `content_filter`, or a limit that is newer than we are.
            };
        }
        let refuses = |item: &Value| {
            let parts = item["content"].as_array().map(Vec::as_slice).unwrap_or_default();
            parts.iter().any(|part| part["type"] == "refusal")
        };
        if self.called || output.iter().any(|item| item["type"] == "function_call") {
            Stop::ToolUse
        } else if self.refused || output.iter().any(refuses) {
            filtered("refusal")
        } else {
            Stop::End
        }
    }

    fn malformed(&self, detail: &str) -> ProviderError {
        ProviderError::new(&*self.provider, ErrorKind::Malformed).with_detail(detail)
    }

    /// Lets a generation be found again behind the event that was just taken in, which said `out` from `seen` on.
    fn mark(&self, number: Option<u64>, out: &mut Vec<Frame>, seen: usize) {
        if let (ResponseRetention::Generation, Some(number), Some(Frame::Delta(_))) =
            (self.keeps, number, out[seen..].last())
            && !self.id.is_empty()
        {
            Frame::mark(out, seen, GenerationHandle { id: self.id.clone(), cursor: number.to_string() });
        }
    }
}

impl Decode for Responses {
    fn event(&mut self, event: &sse::SseEvent<'_>, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        let before = out.len();
        if event.data.trim() != "[DONE]" {
            // A last event tells of its error in the response.
            let is_last = |error: &Value| error["type"].as_str().is_some_and(|kind| LAST.contains(&kind));
            if let Some(error) = error_in(event).filter(|error| !is_last(error)) {
                return Err(classify::event(&self.provider, &error));
            }
            let told = ResponsesEvent::read(event).map_err(|error| self.malformed(&error.to_string()))?;
            let number = told.sequence_number.number();
            // A server that cannot begin later tells everything again.
            let known = matches!((self.begin, number), (Begin::After(cursor), Some(number)) if number <= cursor);
            if !known {
                self.take(told, event.data, out)?;
            }
            self.mark(number, out, before);
        }
        if out.len() == before {
            out.push(Frame::Ping);
        }
        Ok(())
    }
}
