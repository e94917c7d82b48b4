//! The transcript as messages of AG-UI.

use std::sync::Arc;

use everturn::core::ids::StepId;
use everturn::core::message::{Body, CallVerdict, Message, Part, Reply};
use serde_json::{Value, json};

use super::request::RunInput;
use crate::api::problem::Problem;
use crate::app::{OpenedChat, SharedApp};
use crate::fronts::follow::WhichTurn;
use crate::fronts::names;

/// Stored messages in a snapshot: the newest ones.
const MESSAGES_MAX: usize = 200;

/// The id of the message with the text and the calls of a step.
pub(super) fn reply_id(step: StepId) -> String {
    format!("a{step}")
}

/// The messages before the reply of this turn, its user message included.
pub(super) async fn messages(
    app: &SharedApp,
    chat: &OpenedChat,
    input: &RunInput,
    which: WhichTurn,
) -> Result<Vec<Value>, Problem> {
    let mut page = app.page(chat, None, MESSAGES_MAX).await?;
    let end = page.iter().position(|message| match which {
        WhichTurn::Receipt(receipt) => message.sent.as_ref().is_some_and(|sent| sent.receipt == receipt),
        WhichTurn::Message(id) => message.id == id,
    });
    if let Some(end) = end {
        page.truncate(end + 1);
    }
    let mut messages: Vec<Value> = page.iter().flat_map(|message| told(message)).collect();
    // The message of this run may not be in the transcript yet.
    if let (None, Some(sent)) = (end, input.messages.last().filter(|message| message.role == "user")) {
        messages.push(json!({"id": sent.id, "role": "user", "content": content(&sent.parts()?)}));
    }
    Ok(messages)
}

/// Whether what the client has before its newest message is the transcript, as far as ids tell.
pub(super) async fn is_ours(
    app: &SharedApp,
    chat: &OpenedChat,
    input: &RunInput,
    which: WhichTurn,
) -> Result<bool, Problem> {
    let is_ours = |role: &str| matches!(role, "user" | "assistant");
    let theirs = input.messages.iter().filter(|message| is_ours(&message.role)).map(|message| message.id.clone());
    let theirs: Vec<String> = theirs.collect();
    let all = app.page(chat, None, MESSAGES_MAX).await?;
    let name = |message: &Arc<Message>| match &message.body {
        Body::User(_) => Some(names::message_name(message)),
        Body::Reply(reply) if !is_silent(reply) => Some(reply_id(reply.step)),
        _ => None,
    };
    let mut ours: Vec<String> = all.iter().filter_map(name).collect();
    // The message of this run may not be in the transcript yet; its reply may be there already.
    let end = theirs.last().and_then(|last| ours.iter().rposition(|ours| ours == last));
    match (end, which) {
        (Some(end), _) => ours.truncate(end + 1),
        (None, WhichTurn::Receipt(_)) => ours.extend(theirs.last().cloned()),
        (None, WhichTurn::Message(_)) => return Ok(false),
    }
    let from = theirs.len().saturating_sub(ours.len());
    Ok(theirs.len() >= ours.len() && theirs[from..] == ours[..] && (from == 0 || all.len() == MESSAGES_MAX))
}

/// Whether a reply has neither text nor calls: it is no message then.
fn is_silent(reply: &Reply) -> bool {
    let is_said = |part: &Part| match part {
        Part::Text(text) => !text.text.is_empty(),
        Part::Call(_) => true,
        _ => false,
    };
    !reply.parts.iter().any(is_said)
}

fn told(message: &Message) -> Vec<Value> {
    match &message.body {
        Body::User(parts) => {
            vec![json!({"id": names::message_name(message), "role": "user", "content": content(parts)})]
        }
        Body::Reply(reply) => of_reply(reply),
        Body::Result(result) => {
            let id = result_id(&result.call.to_string());
            let mut told =
                json!({"id": id, "role": "tool", "toolCallId": result.call.to_string(), "content": result.output.text});
            if result.verdict != CallVerdict::Done {
                told["error"] = json!(result.output.text);
            }
            vec![told]
        }
        Body::Context(_) | Body::Summary(_) => Vec::new(),
    }
}

/// The id of the message with the result of a call.
pub(super) fn result_id(call: &str) -> String {
    format!("t{call}")
}

/// The id of a reasoning message: those of a step are counted.
pub(super) fn thought_id(step: StepId, place: usize) -> String {
    format!("r{step}.{place}")
}

fn content(parts: &[Part]) -> Value {
    let text = |part: &Part| match part {
        Part::Text(text) => Some(text.text.clone()),
        _ => None,
    };
    Value::String(parts.iter().filter_map(text).collect::<Vec<_>>().join("\n"))
}

fn of_reply(reply: &Reply) -> Vec<Value> {
    let thoughts = reply.parts.iter().filter_map(|part| match part {
        Part::Reasoning(thought) if !thought.text.is_empty() => Some(&thought.text),
        _ => None,
    });
    let thoughts = thoughts
        .enumerate()
        .map(|(place, text)| json!({"id": thought_id(reply.step, place), "role": "reasoning", "content": text}));
    let mut told: Vec<Value> = thoughts.collect();
    if is_silent(reply) {
        return told;
    }
    let mut message = json!({"id": reply_id(reply.step), "role": "assistant"});
    let text = reply.text();
    if !text.is_empty() {
        message["content"] = json!(text);
    }
    let call = |part: &Part| match part {
        Part::Call(call) => Some(json!({"id": call.uid.to_string(), "type": "function",
            "function": {"name": call.tool, "arguments": call.input}})),
        _ => None,
    };
    let calls: Vec<Value> = reply.parts.iter().filter_map(call).collect();
    if !calls.is_empty() {
        message["toolCalls"] = json!(calls);
    }
    told.push(message);
    told
}
