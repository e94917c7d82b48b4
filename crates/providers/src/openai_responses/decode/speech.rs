//! Words and thoughts, part by part.
//!
//! A draft has one open part, and metadata goes to the newest. So a part is closed before anything else begins: first
//! what is needed to send it back, then its end, then what had to wait for it, such as sources.

use everturn_core::delta::Delta;
use everturn_core::message::Seal;
use serde_json::{Map, Value};

use super::Responses;
use crate::openai::{meta, source};
use crate::provider::Frame;
use crate::wire::halves::beyond;

/// What kind of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speech {
    Text,
    Refusal,
    Thought,
}

/// A part of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ItemPart {
    pub item: u32,
    pub part: u32,
    pub speech: Speech,
}

/// The part that grows.
#[derive(Debug)]
pub(super) struct OpenPart {
    pub place: ItemPart,
    /// The words so far, to be held against their repetition; of thoughts, only whether there are any.
    said: String,
    annotations: Vec<Value>,
}

impl ItemPart {
    pub const fn text(item: u32, part: u32) -> Self {
        Self { item, part, speech: Speech::Text }
    }

    pub const fn refusal(item: u32, part: u32) -> Self {
        Self { item, part, speech: Speech::Refusal }
    }

    pub const fn thought(item: u32, part: u32) -> Self {
        Self { item, part, speech: Speech::Thought }
    }
}

impl Responses {
    /// More words.
    pub(super) fn say(&mut self, place: ItemPart, words: &str, out: &mut Vec<Frame>) {
        if words.is_empty() {
            return;
        }
        self.turn_to(place, out);
        let Some(open) = &mut self.open else { return };
        match place.speech {
            Speech::Text | Speech::Refusal => {
                self.refused |= place.speech == Speech::Refusal;
                open.said.push_str(words);
                out.push(Frame::Delta(Delta::Text(words.to_owned())));
            }
            Speech::Thought => {
                // One item is one piece of reasoning: it has one seal, however many paragraphs its summary has.
                if open.place.part != place.part && !open.said.is_empty() {
                    out.push(Frame::Delta(Delta::Reasoning("\n\n".to_owned())));
                }
                open.place.part = place.part;
                open.said.replace_range(.., "…");
                out.push(Frame::Delta(Delta::Reasoning(words.to_owned())));
            }
        }
    }

    /// The words of a part, once more and all of them. What was left out is said now; what was said otherwise stands,
    /// since it has been shown.
    pub(super) fn said(&mut self, place: ItemPart, words: &str, out: &mut Vec<Frame>) {
        let open = self.open.as_ref().filter(|open| open.place == place);
        let rest = match (open, self.known(place.item)) {
            (_, None) => "", // Only the end of it came by here.
            (Some(open), Some(_)) => beyond(words, &open.said).unwrap_or_default(),
            (None, Some(parts)) if place.part >= parts => words,
            (None, Some(parts)) if place.part + 1 == parts => {
                let said = self.item(place.item).map_or("", |item| &item.said);
                beyond(words, said).filter(|_| !said.is_empty()).unwrap_or_default()
            }
            (None, Some(_)) => "",
        };
        let rest = rest.to_owned();
        self.say(place, &rest, out);
    }

    /// A part of a message is over.
    pub(super) fn part_over(&mut self, item: u32, part: u32, told: &Value, out: &mut Vec<Frame>) {
        let (place, words) = match told["type"].as_str() {
            Some("output_text") => (ItemPart::text(item, part), &told["text"]),
            Some("refusal") => (ItemPart::refusal(item, part), &told["refusal"]),
            _ => return, // Reasoning ends with its item.
        };
        let words = words.as_str().unwrap_or_default();
        self.said(place, words, out);
        let inherited = self.is_inherited(item);
        let untouched = self.item(item).is_none_or(|one| part >= one.parts);
        if inherited && untouched && self.open.is_none() && !words.is_empty() {
            self.turn_to(place, out); // All of it is in the draft, as its newest part.
        }
        let Some(open) = self.open.as_mut().filter(|open| open.place == place) else { return };
        if let Some(all) = told["annotations"].as_array() {
            all.iter().for_each(|one| self.sources.add(source(&self.provider, one)));
            open.annotations.clone_from(all);
        }
        if !inherited {
            self.close(out); // Else what to send it back with comes with the end of its item.
        }
    }

    pub(super) fn annotated(&mut self, annotation: &Value) {
        self.sources.add(source(&self.provider, annotation));
        if let Some(open) = &mut self.open {
            open.annotations.push(annotation.clone());
        }
    }

    /// A thought is over: what it needs to be recognised again, and only then its seal, since reasoning counts as
    /// sealed from there.
    pub(super) fn thought_over(&mut self, item: u32, told: &Value, out: &mut Vec<Frame>) {
        let begun =
            self.open.as_ref().is_some_and(|open| open.place.item == item && open.place.speech == Speech::Thought);
        let seal = told["encrypted_content"].as_str().filter(|seal| !seal.trim().is_empty());
        let words = match self.known(item) {
            Some(0) => thoughts(told),
            Some(_) if !begun => return, // Something came between: a seal after that would seal something else.
            Some(_) | None => String::new(),
        };
        if !begun && seal.is_none() && words.is_empty() {
            return;
        }
        if !begun {
            self.close(out);
            out.push(Frame::Delta(Delta::Reasoning(words)));
        }
        let about: Map<String, Value> = ["id", "summary", "content"]
            .into_iter()
            .filter_map(|key| Some((key.to_owned(), told.get(key)?.clone())))
            .filter(|(_, value)| !value.is_null())
            .collect();
        out.push(Frame::Delta(Delta::PartMeta(Box::new(meta(&self.provider, about.into())))));
        if let Some(seal) = seal {
            out.push(Frame::Delta(Delta::Sealed(Seal::Signature(seal.to_owned()))));
        }
        out.push(Frame::Delta(Delta::Ended));
        self.open = None;
        self.tell_asides(out);
    }

    /// Ends the open part, if there is one, and tells what waited for that.
    pub(super) fn close(&mut self, out: &mut Vec<Frame>) {
        if let Some(OpenPart { place, annotations, said }) = self.open.take() {
            if let Some(about) = self.message_meta(place, annotations) {
                out.push(Frame::Delta(Delta::PartMeta(Box::new(meta(&self.provider, about.into())))));
            }
            out.push(Frame::Delta(Delta::Ended));
            if let Some(item) = self.item_mut(place.item) {
                item.said = said;
            }
        }
        self.tell_asides(out);
    }

    /// What is needed to send a part of a message back as the part it was.
    fn message_meta(&self, place: ItemPart, annotations: Vec<Value>) -> Option<Map<String, Value>> {
        let mut about = self.item(place.item).map(|item| item.about.clone()).unwrap_or_default();
        match place.speech {
            Speech::Text if annotations.is_empty() => {}
            Speech::Text => drop(about.insert("annotations".to_owned(), annotations.into())),
            Speech::Refusal => drop(about.insert("refusal".to_owned(), true.into())),
            Speech::Thought => about.clear(),
        }
        (!about.is_empty()).then_some(about)
    }

    pub(super) fn tell_asides(&mut self, out: &mut Vec<Frame>) {
        let sources = self.sources.drain().map(|source| Delta::Source(Box::new(source)));
        out.extend(sources.map(Frame::Delta));
        let unknown = self.unknown.drain(..).map(|event| Delta::Other(Box::new(meta(&self.provider, event))));
        out.extend(unknown.map(Frame::Delta));
    }

    fn turn_to(&mut self, place: ItemPart, out: &mut Vec<Frame>) {
        let same = |open: &OpenPart| match place.speech {
            Speech::Thought => open.place.speech == Speech::Thought && open.place.item == place.item,
            Speech::Text | Speech::Refusal => open.place == place,
        };
        if self.open.as_ref().is_some_and(same) {
            return;
        }
        if self.open.is_some() {
            self.close(out); // What waits may wait for this very part: a draft that was taken up may have it open.
        }
        let said = self.touch(place);
        self.open = Some(OpenPart { place, said, annotations: Vec::new() });
    }
}

/// What a thought says, all of it.
fn thoughts(told: &Value) -> String {
    let parts = |key: &str| told[key].as_array().cloned().unwrap_or_default();
    let text = |part: &Value| part["text"].as_str().unwrap_or_default().to_owned();
    let summary = parts("summary");
    let texts = if summary.is_empty() { parts("content") } else { summary };
    texts.iter().map(text).collect::<Vec<_>>().join("\n\n")
}
