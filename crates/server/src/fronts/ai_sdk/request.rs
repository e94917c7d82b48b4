//! What a request of the client asks for.

use std::sync::Arc;

use everturn::CreateError;
use everturn::core::command::{self, Delivery};
use everturn::core::ids::CallUid;
use everturn::core::message::Part;
use serde::Deserialize;
use serde_json::Value;

use crate::api::problem::{Problem, ProblemKind};
use crate::api::wire;
use crate::app::NewChatRequest;
use crate::fronts::names;
use crate::setup::offer::ModelPick;

/// The body. Apps add fields of their own, so unknown ones are ignored.
#[derive(Deserialize)]
pub(super) struct Post {
    id: Option<String>,
    #[serde(default)]
    messages: Vec<Value>,
    /// The last message alone, in the documented form for apps that prepare their requests.
    message: Option<Value>,
    trigger: Option<String>,
    #[serde(rename = "messageId")]
    message_id: Option<String>,
    #[serde(default)]
    everturn: Options,
}

/// What an app may say to this server beside the protocol, in the field `everturn` of the body.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// When a busy chat delivers the message.
    #[serde(default)]
    when: Option<wire::When>,
    /// What a chat that is created now has of its own.
    #[serde(default)]
    chat: wire::Create,
}

/// A request, understood.
pub(super) struct Asked {
    /// The client's id of the chat.
    pub chat: String,
    /// What to do.
    pub act: Act,
    /// What the app says beside the protocol.
    pub options: Options,
}

/// What a request asks for.
pub(super) enum Act {
    /// Send a new message.
    Send {
        /// The client's id of the message.
        id: String,
        /// Its content.
        parts: Arc<[Part]>,
    },
    /// Replace a user message and all behind it.
    Edit {
        /// The client's id of the message.
        id: String,
        /// Its new content.
        parts: Arc<[Part]>,
    },
    /// Ask the model again.
    Regenerate {
        /// The id of the reply; the last one if left out.
        reply: Option<String>,
    },
    /// Answer open calls.
    Answer {
        /// The id of the reply that holds them.
        reply: Option<String>,
        /// What the client has said of its calls.
        answers: Vec<ToolAnswer>,
    },
}

/// What a client says of one call.
pub(super) struct ToolAnswer {
    pub call: CallUid,
    /// The input that the client shows.
    pub input: Option<Value>,
    pub what: Given,
}

/// An answer to a call.
pub(super) enum Given {
    Output(Value),
    Error(String),
    Approval {
        id: String,
        approved: bool,
        reason: String,
    },
    /// Nothing.
    Nothing,
}

fn invalid(why: impl Into<String>, field: &str) -> Problem {
    Problem::new(ProblemKind::Invalid, why).at(field)
}

impl Post {
    /// What it asks for.
    pub(super) fn read(self) -> Result<Asked, Problem> {
        let Self { id, mut messages, message, trigger, message_id, everturn } = self;
        let id = id.ok_or_else(|| invalid("`id` is missing: it names the chat.", "id"))?;
        let chat = names::checked("chat", &id)?.to_owned();
        let last = message.or_else(|| messages.pop());
        if trigger.as_deref() == Some("regenerate-message") {
            return Ok(Asked { chat, act: Act::Regenerate { reply: message_id }, options: everturn });
        }
        let last = last.ok_or_else(|| invalid("`messages` is empty: its last message is what is sent.", "messages"))?;
        let name = last["id"].as_str().unwrap_or_default();
        let act = match last["role"].as_str() {
            Some("user") => {
                let name = names::checked("message", name)?.to_owned();
                let parts = user_parts(&last)?;
                match message_id {
                    Some(edited) if edited == name => Act::Edit { id: name, parts },
                    _ => Act::Send { id: name, parts },
                }
            }
            Some("assistant") => {
                let parts = last["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
                let answers = parts.iter().filter_map(tool_answer).collect();
                let reply = Some(name).filter(|name| !name.is_empty()).or(message_id.as_deref()).map(str::to_owned);
                Act::Answer { reply, answers }
            }
            _ => return Err(invalid("The last message has the role `user` or `assistant`.", "messages")),
        };
        Ok(Asked { chat, act, options: everturn })
    }
}

impl Options {
    /// When a busy chat delivers the message.
    pub(super) fn when(&self) -> Delivery {
        self.when.map_or(Delivery::Queue, Delivery::from)
    }

    /// The chat to create; the model is chosen by the caller of this.
    pub(super) fn create(
        &self,
        pick: impl FnOnce(Option<&str>) -> Result<ModelPick, Problem>,
    ) -> Result<NewChatRequest, Problem> {
        let new = &self.chat;
        let title = new.title.as_deref().map(command::title).transpose()?;
        let model = pick(new.model.as_deref())?;
        let setup = new.setup().map_err(CreateError::from)?;
        let (agent, transcript) = (new.agent.clone(), new.transcript.clone());
        Ok(NewChatRequest { agent, model, title, debug: new.debug, setup, transcript, key: None })
    }
}

/// The content of a user message.
fn user_parts(message: &Value) -> Result<Arc<[Part]>, Problem> {
    let parts = message["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut said = Vec::new();
    for part in parts {
        match part["type"].as_str().unwrap_or_default() {
            "text" => said.push(wire::NewPart::Text { text: text_in(part, "text") }),
            "file" => said.push(file(part)?),
            // Data of the app, and what it shows beside the words.
            kind if kind.starts_with("data-") || kind == "step-start" => {}
            kind => {
                return Err(invalid(
                    format!("A part of the type `{kind}` cannot be sent: send text and files."),
                    "messages",
                ));
            }
        }
    }
    let is_blank = |part: &wire::NewPart| matches!(part, wire::NewPart::Text { text } if text.trim().is_empty());
    if said.iter().all(is_blank) {
        return Err(invalid("The message is empty.", "messages")); // Before a chat is created for it.
    }
    let send = wire::Send { parts: said, ..wire::Send::default() };
    send.said().map_err(|why| invalid(why, "messages"))
}

fn file(part: &Value) -> Result<wire::NewPart, Problem> {
    let url = part["url"].as_str().unwrap_or_default();
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(','));
    let Some((kind, data)) = data.filter(|(kind, _)| kind.ends_with(";base64")) else {
        return Err(invalid("A file is sent as a data URL in base64: the server fetches no addresses.", "messages"));
    };
    let told = text_in(part, "mediaType");
    let in_url = kind.split(';').next().unwrap_or_default();
    let media_type = if told.is_empty() { in_url.to_owned() } else { told };
    Ok(wire::NewPart::File { name: text_in(part, "filename"), media_type, data: data.to_owned() })
}

fn text_in(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

/// What a part of an assistant message says of a call; `None` if it is no call of ours.
fn tool_answer(part: &Value) -> Option<ToolAnswer> {
    let kind = part["type"].as_str()?;
    if kind != "dynamic-tool" && !kind.starts_with("tool-") {
        return None;
    }
    let call = wire::call_uid(part["toolCallId"].as_str()?)?;
    let what = match part["state"].as_str()? {
        "output-available" => Given::Output(part["output"].clone()),
        "output-error" => Given::Error(text_in(part, "errorText")),
        "approval-responded" => {
            let approval = &part["approval"];
            let approved = approval["approved"].as_bool()?;
            Given::Approval { id: text_in(approval, "id"), approved, reason: text_in(approval, "reason") }
        }
        _ => Given::Nothing,
    };
    Some(ToolAnswer { call, input: part.get("input").cloned(), what })
}
