//! Everything about a request that is not its entries.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Check, RequestViolation};
use crate::prompt::entry::{PromptPart, Role};
use crate::prompt::request::{Effort, ResponseChain, ToolChoice};
use crate::prompt::sampling::{Sampling, TakesSampling};
use crate::prompt::schema::ToolSpec;

impl Check<'_> {
    pub(super) fn tools(&mut self) {
        let tools = &self.request.tools;
        let mut names: BTreeSet<&str> = BTreeSet::new();
        self.expect(tools.len() <= self.law.tools_max, RequestViolation::TooManyTools);
        for (tool, spec) in tools.iter().enumerate() {
            self.expect((self.law.name)(&spec.name), RequestViolation::BadToolName { tool });
            self.expect(names.insert(&spec.name), RequestViolation::RepeatedTool { tool });
            if let (None, Some(why)) = (&spec.provider_defined, self.schema_fault(spec)) {
                self.found.push(RequestViolation::BadSchema { tool, why });
            }
        }
        let parts = || self.request.entries.iter().flat_map(|entry| &entry.parts);
        let needed = self.law.calls_need_tools && parts().any(|part| matches!(part, PromptPart::Call(_)));
        self.expect(!needed || !tools.is_empty(), RequestViolation::NoTools);
        let known = match &self.request.tool_choice {
            ToolChoice::Auto | ToolChoice::None => true,
            ToolChoice::Required => !tools.is_empty(),
            ToolChoice::Tool(name) => names.contains(name.as_str()),
        };
        self.expect(known, RequestViolation::UnknownChoice);
    }

    fn schema_fault(&self, spec: &ToolSpec) -> Option<&'static str> {
        let Value::Object(top) = &spec.input_schema else { return Some("it is no object") };
        if top.get("type") != Some(&Value::from("object")) {
            return Some("its top is not of type object");
        }
        if ["anyOf", "oneOf", "allOf", "not", "enum", "$ref"].iter().any(|key| top.contains_key(*key)) {
            return Some("its top is a choice");
        }
        let Some(Value::Object(properties)) = top.get("properties") else { return Some("it has no properties") };
        if !properties.keys().all(|name| (self.law.property)(name)) {
            return Some("a property has a name the wire does not take");
        }
        inner_fault(top)
    }

    pub(super) fn options(&mut self) {
        for (piece, text) in self.request.system.iter().enumerate() {
            self.expect(!text.trim().is_empty(), RequestViolation::BlankSystem { piece });
        }
        let forced = matches!(self.request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_));
        let fine = self.law.reasoning_is_free || !forced || !self.request.reasons();
        self.expect(fine, RequestViolation::ForcedWhileReasoning);
        self.expect(self.request.max_output > 0, RequestViolation::NoOutput);
        self.expect(!self.request.background || self.target.background, RequestViolation::NoBackground);
    }

    pub(super) fn sampling(&mut self) {
        let Sampling { temperature, top_p, top_k, seed, stop } = &self.request.sampling;
        let reasons = match (self.target.takes_sampling, self.request.effort) {
            (TakesSampling::Always, _) => false,
            (TakesSampling::UnlessReasoning, _) => self.request.reasons(),
            (TakesSampling::IfNotReasoning, effort) => effort != Some(Effort::None),
            (TakesSampling::Never, _) => true,
        };
        let heat = temperature.is_none_or(|heat| !reasons && (0.0..=self.law.temperature_max).contains(&heat));
        self.expect(heat, RequestViolation::Sampling { name: "temperature" });
        let share = top_p.is_none_or(|share| !reasons && (0.0..=1.0).contains(&share));
        let alone = self.law.both_samplers || temperature.is_none() || top_p.is_none();
        self.expect(share && alone, RequestViolation::Sampling { name: "top_p" });
        let count = top_k.is_none_or(|count| !reasons && self.target.takes_top_k && count >= 1);
        self.expect(count, RequestViolation::Sampling { name: "top_k" });
        self.expect(seed.is_none() || self.law.seed, RequestViolation::Sampling { name: "seed" });
        let words = stop.iter().all(|stop| !stop.is_empty() && (self.law.stop_blank || !stop.trim().is_empty()));
        let takes = stop.is_empty() || self.target.takes_stop;
        self.expect(words && takes && stop.len() <= self.law.stops_max, RequestViolation::Sampling { name: "stop" });
    }

    pub(super) fn marks(&mut self) {
        let marks = &self.request.marks;
        self.expect(marks.count() <= self.law.marks_max, RequestViolation::TooManyMarks);
        let [one, two] = marks.entries;
        let inside = marks.entries.iter().flatten().all(|entry| *entry < self.request.entries.len());
        let apart = one.is_none() || one != two;
        let system = !marks.system || !self.request.system.is_empty();
        self.expect(inside && apart && system, RequestViolation::MisplacedMark);
    }

    pub(super) fn chain(&mut self) {
        let Some(ResponseChain { response_id, from }) = &self.request.chain else { return };
        let entries = &self.request.entries;
        self.expect(self.law.chains, RequestViolation::NoChains);
        self.expect(!response_id.trim().is_empty() && *from < entries.len(), RequestViolation::EmptyChain);
        let role_at = |index: usize| entries.get(index).map(|entry| entry.role);
        let after_reply = from.checked_sub(1).and_then(role_at) == Some(Role::Assistant);
        let is_last = entries.iter().skip(*from).all(|entry| entry.role != Role::Assistant);
        self.expect(after_reply && is_last, RequestViolation::MisplacedChain);
        for (entry, one) in entries.iter().enumerate().skip(*from) {
            for (part, answer) in one.parts.iter().enumerate() {
                if let PromptPart::Result(result) = answer {
                    let named = !result.provider_id.trim().is_empty();
                    self.expect(named, RequestViolation::ChainLosesId { entry, part });
                }
            }
        }
    }
}

const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "null"];
const UNKNOWN_TYPE: &str = "a type is not string, number, integer, boolean, object, array or null";

/// A fault anywhere below the top of a schema.
fn inner_fault(schema: &Map<String, Value>) -> Option<&'static str> {
    match schema.get("type") {
        None => {}
        Some(Value::String(word)) if TYPES.contains(&word.as_str()) => {}
        Some(Value::String(_)) => return Some(UNKNOWN_TYPE),
        Some(_) => return Some("a type is no single word"),
    }
    if schema.get("type") == Some(&Value::from("array"))
        && !schema.contains_key("items")
        && !schema.contains_key("prefixItems")
    {
        return Some("an array does not say what is in it");
    }
    if schema.get("properties").is_some_and(|properties| !properties.is_object()) {
        return Some("properties are no object");
    }
    if schema.get("required").is_some_and(|names| names.as_array().is_none_or(Vec::is_empty)) {
        return Some("an empty list is required");
    }
    let maps = ["properties", "$defs", "definitions"].into_iter().filter_map(|key| schema.get(key)?.as_object());
    let lists = ["anyOf", "oneOf", "allOf", "prefixItems"].into_iter().filter_map(|key| schema.get(key)?.as_array());
    let singles = ["items", "additionalProperties", "not"].into_iter().filter_map(|key| schema.get(key));
    let mut inner = maps.flat_map(Map::values).chain(lists.flatten()).chain(singles);
    inner.find_map(|schema| match schema {
        Value::Object(schema) => inner_fault(schema),
        Value::Bool(_) => None,
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => Some("a schema is no object"),
    })
}
