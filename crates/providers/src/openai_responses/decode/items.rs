//! Items: their beginnings and their ends.

use everturn_core::delta::{CallBegan, Delta, ProvidedDelta};
use everturn_core::error::ProviderError;
use everturn_core::message::{Meta, RunBy};
use serde_json::{Map, Value, json};

use super::speech::ItemPart;
use super::{Begin, ITEMS_MAX, Responses};
use crate::openai::meta;
use crate::provider::Frame;
use crate::wire::halves::beyond;

/// An item of the response.
#[derive(Debug)]
pub(super) struct Item {
    /// Its place in the response, and the slot of its call.
    pub place: u32,
    pub id: String,
    /// What it takes to send it back, besides what the draft knows.
    pub about: Map<String, Value>,
    /// The first of its parts that nothing has been said of.
    pub parts: u32,
    /// What was said of the part before that, if another item came between.
    pub said: String,
    body: Body,
    seen: Seen,
}

/// What an item is.
#[derive(Debug, PartialEq)]
enum Body {
    /// Words or thoughts, which end with their parts.
    Spoken,
    /// A use of a tool of ours, and its input so far.
    Call { begun: bool, input: String },
    /// A search the provider makes.
    Search,
    /// Something else, which is kept as it is once it is whole.
    Other,
}

/// What of an item came by here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// All of it so far.
    All,
    /// Not its beginning, which is in the draft.
    Rest,
    /// All of it, and it is over.
    Over,
}

/// The tool a search is a use of.
const SEARCH: &str = "web_search";

impl Item {
    fn new(place: u32, told: &Value, seen: Seen) -> Self {
        let text = |key: &str| told[key].as_str().unwrap_or_default().to_owned();
        let body = match told["type"].as_str() {
            Some("message" | "reasoning") | None => Body::Spoken,
            Some("function_call") => Body::Call { begun: false, input: String::new() },
            Some("web_search_call") => Body::Search,
            Some(_) => Body::Other,
        };
        Self { place, id: text("id"), about: about(told), parts: 0, said: String::new(), body, seen }
    }

    pub fn is_call(&self) -> bool {
        matches!(self.body, Body::Call { .. }) && self.seen != Seen::Over
    }

    /// Whether `told` may be this item.
    pub fn is(&self, told: &Value) -> bool {
        let id = told["id"].as_str().unwrap_or_default();
        let same = self.id.is_empty() || id.is_empty() || self.id == id;
        same && std::mem::discriminant(&Self::new(0, told, Seen::All).body) == std::mem::discriminant(&self.body)
    }
}

/// What an item says besides its content, which the draft has: ids, and whatever is newer than we are.
fn about(told: &Value) -> Map<String, Value> {
    const KNOWN: [&str; 8] = ["type", "role", "status", "content", "name", "arguments", "call_id", "summary"];
    let fields = told.as_object().into_iter().flatten();
    let more = fields.filter(|(key, value)| !KNOWN.contains(&key.as_str()) && !value.is_null());
    more.map(|(key, value)| (key.clone(), value.clone())).collect()
}

impl Responses {
    /// How many parts of an item have been spoken of, if all of it came by here.
    pub(super) fn known(&self, place: u32) -> Option<u32> {
        match (self.item(place), self.begin) {
            (Some(item), _) => (item.seen == Seen::All).then_some(item.parts),
            (None, Begin::First) => Some(0),
            (None, Begin::After(_)) => None,
        }
    }

    /// Whether an item began before we came.
    pub(super) fn is_inherited(&self, place: u32) -> bool {
        match (self.item(place), self.begin) {
            (Some(item), _) => item.seen == Seen::Rest,
            (None, begin) => begin != Begin::First,
        }
    }

    pub(super) fn item(&self, place: u32) -> Option<&Item> {
        self.items.iter().rev().find(|item| item.place == place)
    }

    pub(super) fn item_mut(&mut self, place: u32) -> Option<&mut Item> {
        self.items.iter_mut().rev().find(|item| item.place == place)
    }

    /// Notes that a part is being spoken of, and gives back what has been said of it.
    pub(super) fn touch(&mut self, place: ItemPart) -> String {
        self.has_items = true;
        if self.item(place.item).is_none() {
            let seen = if self.begin == Begin::First { Seen::All } else { Seen::Rest };
            self.items.push(Item::new(place.item, &Value::Null, seen));
        }
        let Some(item) = self.item_mut(place.item) else { return String::new() };
        let parts = place.part.saturating_add(1);
        let said = std::mem::take(&mut item.said);
        let same = item.parts == parts;
        item.parts = item.parts.max(parts);
        if same { said } else { String::new() }
    }

    /// An item begins.
    pub(super) fn item_added(&mut self, place: u32, told: Value, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        self.has_items = true;
        if self.items.len() >= ITEMS_MAX {
            return Err(self.malformed("more items than a response can have"));
        }
        let item = Item::new(place, &told, Seen::All);
        let is_search = item.body == Body::Search;
        if item.is_call() || is_search {
            self.close(out);
        }
        self.items.push(item);
        if is_search {
            let (id, meta) = (told["id"].as_str().unwrap_or_default().to_owned(), Meta::new());
            out.push(began(place, id, SEARCH, RunBy::Provider, meta));
        }
        self.begin_call(place, &told, out);
        Ok(())
    }

    /// Tells of a call, as soon as its name is known.
    fn begin_call(&mut self, place: u32, told: &Value, out: &mut Vec<Frame>) {
        let name = told["name"].as_str().unwrap_or_default();
        let item = self.items.iter_mut().rev().find(|item| item.place == place);
        let Some(Item { body: Body::Call { begun: begun @ false, input }, about, seen: Seen::All, .. }) = item else {
            return;
        };
        if name.is_empty() {
            return;
        }
        *begun = true;
        self.called = true;
        let attached = if about.is_empty() { Meta::new() } else { meta(&self.provider, about.clone().into()) };
        let id = told["call_id"].as_str().unwrap_or_default().to_owned();
        out.push(began(place, id, name, RunBy::Us, attached));
        if !input.is_empty() {
            out.push(Frame::Delta(Delta::CallInput { slot: place, json: input.clone() }));
        }
    }

    /// More of a call's input.
    pub(super) fn input(&mut self, place: u32, json: &str, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        let item = self.items.iter_mut().rev().find(|item| item.place == place);
        let begun = match (item, self.begin) {
            (Some(Item { body: Body::Call { begun, input }, seen: Seen::All, .. }), _) => {
                input.push_str(json);
                *begun
            }
            (None, Begin::After(_)) => true, // In the draft.
            (Some(_) | None, _) => return Err(self.malformed("input for a call that is not open")),
        };
        if begun && !json.is_empty() {
            out.push(Frame::Delta(Delta::CallInput { slot: place, json: json.to_owned() }));
        }
        Ok(())
    }

    /// A call's input, once more and all of it. A server that left pieces out sends them now; one that says something
    /// else than before is not believed in either.
    pub(super) fn whole_input(&mut self, place: u32, json: &str, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        let item = self.items.iter().rev().find(|item| item.place == place);
        let Some(Item { body: Body::Call { input, .. }, seen: Seen::All, .. }) = item else { return Ok(()) };
        match beyond(json, input) {
            Some("") => Ok(()),
            Some(rest) => {
                let rest = rest.to_owned();
                self.input(place, &rest, out)
            }
            None if json.is_empty() => Ok(()),
            None => Err(self.malformed("a call's input differs from what was streamed of it")),
        }
    }

    /// An item is over.
    pub(super) fn item_over(&mut self, place: u32, told: Value, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        self.has_items = true;
        if self.item(place).is_none() {
            if self.begin == Begin::First {
                self.item_added(place, told.clone(), out)?;
            } else {
                self.items.push(Item::new(place, &told, Seen::Rest));
            }
        }
        let Some(item) = self.item_mut(place) else { return Ok(()) };
        if item.seen == Seen::Over {
            return Ok(());
        }
        item.about.extend(about(&told));
        match told["type"].as_str() {
            Some("message") => self.message_over(place, &told, out),
            Some("reasoning") => self.thought_over(place, &told, out),
            Some("function_call") => self.call_over(place, &told, out)?,
            Some("web_search_call") => self.search_over(place, told, out),
            _ => {
                self.close(out);
                out.push(Frame::Delta(Delta::Other(Box::new(meta(&self.provider, told)))));
            }
        }
        if let Some(item) = self.item_mut(place) {
            item.seen = Seen::Over;
            item.said = String::new();
            item.body = match item.body {
                Body::Call { begun, .. } => Body::Call { begun, input: String::new() },
                Body::Spoken | Body::Search | Body::Other => Body::Other,
            };
        }
        Ok(())
    }

    fn message_over(&mut self, place: u32, told: &Value, out: &mut Vec<Frame>) {
        let parts = told["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        // Of a message that began before we came, only what is open here is not settled.
        let open = self.open.as_ref().map(|open| open.place).filter(|open| open.item == place);
        for (at, part) in (0..).zip(parts) {
            if !self.is_inherited(place) || open.is_some_and(|open| open.part == at) {
                self.part_over(place, at, part, out);
            }
        }
        if self.open.as_ref().is_some_and(|open| open.place.item == place) {
            self.close(out);
        }
    }

    /// At the output limit an item ends in the middle, and says so. Then the call stays open.
    fn call_over(&mut self, place: u32, told: &Value, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        self.begin_call(place, told, out);
        self.whole_input(place, told["arguments"].as_str().unwrap_or_default(), out)?;
        self.called = true;
        let begun = match self.item(place) {
            Some(Item { body: Body::Call { begun, .. }, seen: Seen::All, .. }) => *begun,
            _ => self.is_inherited(place),
        };
        if !begun {
            return Err(self.malformed("a call without a name"));
        }
        if told["status"] != "incomplete" {
            out.push(Frame::Delta(Delta::CallEnded { slot: place }));
        }
        Ok(())
    }

    /// A search is sent back as the item it was, which goes along with its outcome.
    fn search_over(&mut self, place: u32, told: Value, out: &mut Vec<Frame>) {
        if told["status"] == "incomplete" {
            return;
        }
        self.close(out);
        let mut action = told["action"].as_object().cloned().unwrap_or_default();
        let output = match action.remove("sources") {
            Some(Value::Array(sources)) if !sources.is_empty() => Value::Array(sources),
            _ => json!({"status": told["status"].as_str().unwrap_or("completed")}),
        };
        let input = Value::Object(action).to_string();
        out.push(Frame::Delta(Delta::CallInput { slot: place, json: input }));
        out.push(Frame::Delta(Delta::CallEnded { slot: place }));
        let (tool, meta) = (SEARCH.to_owned(), meta(&self.provider, told));
        out.push(Frame::Delta(Delta::Provided(Box::new(ProvidedDelta { slot: Some(place), tool, output, meta }))));
    }
}

fn began(slot: u32, provider_id: String, tool: &str, run_by: RunBy, meta: Meta) -> Frame {
    let tool = tool.to_owned();
    Frame::Delta(Delta::CallBegan(Box::new(CallBegan { slot, provider_id, tool, run_by, meta })))
}
