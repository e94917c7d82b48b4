//! Gemini Interactions: answers that are kept, and can be read on.
//!
//! Written from Google's reference and the types in its own clients. Two things neither says: what a withheld answer looks
//! like (here it is one that failed), and whether a call of a model that signs them must come back behind a signed thought
//! (here it must, as in `generateContent`).

pub(in crate::http) mod check;
pub(in crate::http) mod encode;
pub(in crate::http) mod hear;

use serde_json::{Map, Value, json};

use super::WireRefusal;

/// The number of an event, from its id.
pub(in crate::http) fn number(event_id: &str) -> Option<u64> {
    event_id.strip_prefix("ev/")?.strip_suffix("==")?.parse().ok()
}

/// The id of an event. It needs care in an address, as Google's do.
fn event_id(number: u64) -> String {
    format!("ev/{number}==")
}

/// An interaction of which nothing was said yet.
pub(in crate::http) fn queued(id: &str, model: &str) -> Value {
    json!({
        "id": id, "object": "interaction", "status": "in_progress", "model": model, "created": "2026-01-01T00:00:00Z",
        "updated": "2026-01-01T00:00:00Z", "steps": [],
    })
}

pub(in crate::http) fn not_found(id: &str) -> WireRefusal {
    WireRefusal::new(404, format!("Interaction {id} not found."))
}

/// Whether an event is the last of its interaction.
pub(in crate::http) fn is_last(event: &Value) -> bool {
    event["event_type"] == "interaction.completed" || event["event_type"] == "error"
}

/// An interaction as it stands after these events.
pub(in crate::http) fn now(queued: &Value, events: impl Iterator<Item = Value>) -> Value {
    let (mut whole, mut steps) = (queued.clone(), Vec::<Map<String, Value>>::new());
    for event in events {
        let index = event["index"].as_u64().unwrap_or_default() as usize;
        match (event["event_type"].as_str().unwrap_or_default(), steps.get_mut(index)) {
            ("step.start", _) => steps.extend(event["step"].as_object().cloned()),
            ("step.delta", Some(step)) => grow(step, &event["delta"]),
            ("step.stop", Some(step)) => close(step),
            ("interaction.completed", _) => {
                whole["status"] = event["interaction"]["status"].clone();
                whole["usage"] = event["interaction"]["usage"].clone();
            }
            ("error", _) => whole["status"] = "failed".into(),
            _ => {}
        }
    }
    steps.iter_mut().for_each(close);
    whole["steps"] = steps.into_iter().map(Value::Object).collect();
    whole
}

fn grow(step: &mut Map<String, Value>, delta: &Value) {
    let list = |step: &mut Map<String, Value>, key: &str, one: Value| match step.get_mut(key) {
        Some(Value::Array(list)) => match list.last_mut() {
            Some(last) if last["type"] == "text" && one["type"] == "text" => {
                let text = [&last["text"], &one["text"]].map(|text| text.as_str().unwrap_or_default());
                last["text"] = text.concat().into();
            }
            _ => list.push(one),
        },
        _ => drop(step.insert(key.into(), json!([one]))),
    };
    match delta["type"].as_str().unwrap_or_default() {
        "text" | "image" | "document" => list(step, "content", delta.clone()),
        "thought_summary" => list(step, "summary", delta["content"].clone()),
        "thought_signature" => drop(step.insert("signature".into(), delta["signature"].clone())),
        "arguments_delta" => {
            let sofar = step.get("partial").and_then(Value::as_str).unwrap_or_default();
            let more = delta["arguments"].as_str().unwrap_or_default();
            step.insert("partial".into(), format!("{sofar}{more}").into());
        }
        "google_search_call" => drop(step.insert("arguments".into(), delta["arguments"].clone())),
        "google_search_result" => drop(step.insert("result".into(), delta["result"].clone())),
        _ => {}
    }
}

/// Arguments that came in pieces are an object now, if they are one.
fn close(step: &mut Map<String, Value>) {
    if let Some(Value::String(json)) = step.remove("partial") {
        step.insert("arguments".into(), serde_json::from_str(&json).unwrap_or_else(|_| json!({})));
    }
}
