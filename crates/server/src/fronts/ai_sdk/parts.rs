//! Parts and messages as the client keeps them: `UIMessage`.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everturn::core::chat::{CallState, OpenCall};
use everturn::core::ids::{MessageId, StepId};
use everturn::core::message::{Call, CallResult, CallVerdict, File, Part, RunBy};
use serde_json::{Map, Value, json};

use crate::fronts::names::approval_name;
use crate::fronts::turn::{TurnStep, TurnView};

/// What is said of a call whose input did not arrive whole.
pub(super) const CUT_INPUT: &str = "The input of this call did not arrive whole; it did not run.";

/// The id of the assistant message that answers a user message. It is known when the turn begins, and stays.
pub(super) fn reply_id(user: MessageId) -> String {
    format!("a{user}")
}

/// The user message that an assistant message with this id answers.
pub(super) fn user_of(reply_id: &str) -> Option<MessageId> {
    let number: u64 = reply_id.strip_prefix('a')?.parse().ok()?;
    Some(MessageId(number)).filter(|user| self::reply_id(*user) == reply_id)
}

/// The text that the model gets of a client tool's output. [`output`] makes the same value of it again.
pub(super) fn text_of_output(output: &Value) -> String {
    match output {
        Value::String(text) if serde_json::from_str::<Value>(text).is_err() => text.clone(),
        other => other.to_string(),
    }
}

/// The output of a tool: of a client's what the client gave, of ours the text.
pub(super) fn output(result: &CallResult, is_clients: bool) -> Value {
    let text = &result.output.text;
    let parsed = if is_clients { serde_json::from_str(text).ok() } else { None };
    parsed.unwrap_or_else(|| Value::String(text.clone()))
}

/// The chunks of a part that is neither text nor a call of ours; `place` counts those of a step.
pub(super) fn told(step: StepId, place: usize, part: &Part) -> Vec<Value> {
    match part {
        Part::Source(source) => {
            vec![
                json!({"type": "source-url", "sourceId": format!("s{step}.{place}"), "url": source.url, "title": source.title}),
            ]
        }
        Part::File(file) => file_url(file)
            .map(|url| vec![json!({"type": "file", "url": url, "mediaType": file.media_type})])
            .unwrap_or_default(),
        Part::Provided(provided) => {
            let flags = |mut chunk: Value| {
                chunk["dynamic"] = json!(true);
                chunk["providerExecuted"] = json!(true);
                chunk
            };
            let id = provided.uid.map_or_else(|| format!("p{step}.{place}"), |uid| uid.to_string());
            let begun = provided.uid.is_none().then(|| {
                flags(json!({"type": "tool-input-available", "toolCallId": id, "toolName": provided.tool, "input": {}}))
            });
            let output = json!({"type": "tool-output-available", "toolCallId": id, "output": provided.output});
            begun.into_iter().chain([flags(output)]).collect()
        }
        Part::Text(_) | Part::Reasoning(_) | Part::Call(_) | Part::Other(_) => Vec::new(),
    }
}

/// The bytes of a file as a URL that needs no token.
fn file_url(file: &File) -> Option<String> {
    let bytes = file.bytes.as_ref()?.here()?;
    Some(format!("data:{};base64,{}", file.media_type, STANDARD.encode(bytes)))
}

/// The parts of a user message.
pub(super) fn of_user(parts: &[Part]) -> Vec<Value> {
    let part = |part: &Part| match part {
        Part::Text(text) => Some(json!({"type": "text", "text": text.text})),
        Part::File(file) => {
            let mut told = json!({"type": "file", "mediaType": file.media_type, "url": file_url(file)?});
            if !file.name.is_empty() {
                told["filename"] = json!(file.name);
            }
            Some(told)
        }
        _ => None,
    };
    let parts: Vec<Value> = parts.iter().filter_map(part).collect();
    if parts.is_empty() { vec![json!({"type": "text", "text": ""})] } else { parts }
}

/// The parts of the assistant message of a turn, as a client has them that was never cut.
pub(super) fn of_turn(turn: &TurnView, asks: &[OpenCall], clients: &BTreeSet<String>) -> Vec<Value> {
    turn.steps().flat_map(|step| of_step(&step, asks, clients)).collect()
}

fn of_step(step: &TurnStep<'_>, asks: &[OpenCall], clients: &BTreeSet<String>) -> Vec<Value> {
    let mut parts = vec![json!({"type": "step-start"})];
    let mut others = 0;
    for part in step.parts {
        match part {
            Part::Text(text) if !text.text.is_empty() => {
                parts.push(json!({"type": "text", "text": text.text, "state": "done"}));
            }
            Part::Reasoning(thought) if !thought.text.is_empty() => {
                parts.push(json!({"type": "reasoning", "text": thought.text, "state": "done"}));
            }
            Part::Text(_) | Part::Reasoning(_) | Part::Other(_) => {}
            Part::Call(call) => {
                let ask = asks.iter().find(|ask| ask.uid == call.uid);
                let provided = step.parts.iter().find_map(|part| match part {
                    Part::Provided(provided) if provided.uid == Some(call.uid) => Some(&provided.output),
                    _ => None,
                });
                parts.push(of_call(call, step.result(call.uid.ordinal), provided, ask, clients));
            }
            Part::Provided(_) | Part::Source(_) | Part::File(_) => {
                for chunk in told(step.step, others, part) {
                    parts.extend(kept(chunk, part));
                }
                others += 1;
            }
        }
    }
    parts
}

/// The part that a client keeps of a chunk of [`told`].
fn kept(mut chunk: Value, part: &Part) -> Option<Value> {
    let fields = chunk.as_object_mut()?;
    match part {
        Part::Source(_) | Part::File(_) => Some(chunk),
        Part::Provided(provided) if provided.uid.is_none() && fields["type"] == "tool-output-available" => {
            fields["type"] = json!("dynamic-tool");
            fields.remove("dynamic");
            fields.insert("toolName".into(), json!(provided.tool));
            fields.insert("input".into(), json!({}));
            fields.insert("state".into(), json!("output-available"));
            Some(chunk)
        }
        _ => None,
    }
}

fn of_call(
    call: &Call,
    result: Option<&CallResult>,
    provided: Option<&Value>,
    ask: Option<&OpenCall>,
    clients: &BTreeSet<String>,
) -> Value {
    let is_clients = clients.contains(&call.tool);
    let mut part = Map::new();
    let mut put = |name: &str, value: Value| part.insert(name.to_owned(), value);
    if is_clients {
        put("type", json!(format!("tool-{}", call.tool)));
    } else {
        put("type", json!("dynamic-tool"));
        put("toolName", json!(call.tool));
        put("providerExecuted", json!(true));
    }
    put("toolCallId", json!(call.uid.to_string()));
    let object = call.object().filter(|_| call.whole);
    let is_cut = object.is_none();
    put("input", object.map_or_else(|| json!(call.input), Value::Object));
    match (result, ask) {
        _ if is_cut => {
            put("state", json!("output-error"));
            put("errorText", json!(CUT_INPUT));
        }
        (Some(result), _) => match result.verdict {
            CallVerdict::Done => {
                put("state", json!("output-available"));
                put("output", output(result, is_clients));
            }
            CallVerdict::Denied => {
                put("state", json!("output-denied"));
                put("approval", json!({"id": call.uid.to_string(), "approved": false}));
            }
            CallVerdict::Error | CallVerdict::Interrupted | CallVerdict::Unknown => {
                put("state", json!("output-error"));
                put("errorText", json!(result.output.text));
            }
        },
        (None, Some(ask)) if ask.state == CallState::AsksApproval => {
            put("state", json!("approval-requested"));
            put("approval", json!({"id": approval_name(ask)}));
        }
        (None, _) => match provided.filter(|_| call.run_by == RunBy::Provider) {
            Some(output) => {
                put("state", json!("output-available"));
                put("output", output.clone());
            }
            None => {
                put("state", json!("input-available"));
            }
        },
    }
    Value::Object(part)
}

#[cfg(test)]
mod tests {
    use everturn::core::ids::{CallUid, Timestamp};
    use everturn::core::message::Output;

    use super::*;

    /// The output of a client's tool is the same after it was stored as text, whatever JSON it is.
    #[test]
    fn outputs_of_clients_come_back() {
        for given in [
            json!("words"),
            json!("42"),
            json!("{\"a\": 1}"),
            json!("null"),
            json!("\"quoted\""),
            json!(""),
            json!(42),
            json!(null),
            json!({"a": [1, {"b": "c"}]}),
            json!([]),
            json!(true),
        ] {
            let uid = CallUid { step: StepId(1), ordinal: 0 };
            let stored = Output::text(text_of_output(&given));
            let result = CallResult::new(uid, "map", CallVerdict::Done, stored, Timestamp(0));
            assert_eq!(output(&result, true), given);
        }
        assert_eq!(text_of_output(&json!("words")), "words", "the model reads plain words");
    }

    #[test]
    fn an_id_of_a_reply_names_its_user_message() {
        assert_eq!(user_of(&reply_id(MessageId(12))), Some(MessageId(12)));
        for other in ["a", "a01", "a+1", "b1", "12", "", "a99999999999999999999999"] {
            assert_eq!(user_of(other), None, "{other}");
        }
    }
}
