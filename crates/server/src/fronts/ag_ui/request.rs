//! `RunAgentInput`: what a client sends with every run.

use std::sync::Arc;

use everturn::CreateError;
use everturn::core::ids::CallUid;
use everturn::core::message::Part;
use everturn::core::prompt::ToolSpec;
use everturn::core::setup::Setup;
use serde::Deserialize;
use serde_json::Value;

use crate::api::problem::{Problem, ProblemKind};
use crate::api::wire;

/// The body. Fields of other versions and of apps are ignored; `state` and `forwardedProps` are the app's own.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunInput {
    pub thread_id: String,
    pub run_id: String,
    /// Left out by clients before 1.0.
    pub protocol_version: Option<String>,
    #[serde(default)]
    pub messages: Vec<RunMessage>,
    #[serde(default)]
    pub tools: Vec<FrontendTool>,
    #[serde(default)]
    context: Vec<Context>,
    #[serde(default)]
    pub resume: Vec<Resume>,
}

/// A message as the client has it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunMessage {
    #[serde(default)]
    pub id: String,
    pub role: String,
    #[serde(default)]
    content: Value,
    tool_call_id: Option<String>,
    /// Why a tool of the client failed.
    pub error: Option<String>,
}

/// A tool that the client runs.
#[derive(Deserialize)]
pub(super) struct FrontendTool {
    pub name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    parameters: Value,
}

#[derive(Deserialize)]
struct Context {
    #[serde(default)]
    description: String,
    #[serde(default)]
    value: Value,
}

/// The answer to an interrupt.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resume {
    pub interrupt_id: String,
    status: String,
    #[serde(default)]
    payload: Value,
}

/// The answers that a run brings.
pub(super) enum Answers<'a> {
    None,
    /// Results of the client's tools: the messages behind everything else.
    Results(Vec<&'a RunMessage>),
    Resumes(&'a [Resume]),
}

impl RunInput {
    /// The answers that it brings.
    pub(super) fn answers(&self) -> Answers<'_> {
        if !self.resume.is_empty() {
            return Answers::Resumes(&self.resume);
        }
        let results: Vec<&RunMessage> =
            self.messages.iter().rev().take_while(|message| message.role == "tool").collect();
        if results.is_empty() { Answers::None } else { Answers::Results(results) }
    }

    /// What the chat has of its own: the tools and the context of its first run.
    pub(super) fn setup(&self) -> Result<Option<Arc<Setup>>, Problem> {
        let tool = |tool: &FrontendTool| {
            let schema = match &tool.parameters {
                Value::Null => serde_json::json!({"type": "object", "properties": {}}),
                schema => schema.clone(),
            };
            ToolSpec::new(&tool.name, &tool.description, schema)
        };
        let lines = self.context.iter().map(|Context { description, value }| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if description.is_empty() { value } else { format!("{description}: {value}") }
        });
        let instructions = lines.collect::<Vec<_>>().join("\n");
        let setup = Setup { instructions, tools: self.tools.iter().map(tool).collect(), ..Setup::default() };
        setup.check().map_err(CreateError::from)?;
        Ok((!setup.is_empty()).then(|| Arc::new(setup)))
    }
}

impl RunMessage {
    /// The content of a user message.
    pub(super) fn parts(&self) -> Result<Vec<Part>, Problem> {
        let invalid = |why: &str| Problem::new(ProblemKind::Invalid, why).at("messages");
        let parts = match &self.content {
            Value::String(text) => vec![wire::NewPart::Text { text: text.clone() }],
            Value::Array(parts) => parts.iter().map(part).collect::<Option<_>>().ok_or_else(|| {
                invalid(
                    "A user message has text, and files with their data in base64: the server fetches no addresses.",
                )
            })?,
            _ => return Err(invalid("The content of a user message is text or a list of parts.")),
        };
        let send = wire::Send { parts, ..wire::Send::default() };
        Ok(send.said().map_err(invalid)?.to_vec())
    }

    /// The call that a message of a tool answers.
    pub(super) fn call(&self) -> Option<CallUid> {
        wire::call_uid(self.tool_call_id.as_deref()?)
    }

    /// The content as text.
    pub(super) fn text(&self) -> String {
        self.content.as_str().map_or_else(|| self.content.to_string(), str::to_owned)
    }
}

/// A part of a user message: text, a source with data, or the older form `binary`.
fn part(part: &Value) -> Option<wire::NewPart> {
    let text = |field: &str| part[field].as_str().map(str::to_owned);
    match part["type"].as_str()? {
        "text" => Some(wire::NewPart::Text { text: text("text")? }),
        "binary" => Some(wire::NewPart::File {
            name: text("filename").unwrap_or_default(),
            media_type: text("mimeType")?,
            data: text("data")?,
        }),
        "image" | "audio" | "video" | "document" if part["source"]["type"] == "data" => {
            let source = &part["source"];
            let (media_type, data) = (source["mimeType"].as_str()?.to_owned(), source["value"].as_str()?.to_owned());
            Some(wire::NewPart::File { name: String::new(), media_type, data })
        }
        _ => None,
    }
}

impl Resume {
    /// The reason if the call may not run.
    pub(super) fn reason_to_deny(&self) -> Option<String> {
        let is_approved = self.status == "resolved" && self.payload["approved"] == true;
        let reason = self.payload["reason"].as_str().unwrap_or_default().to_owned();
        (!is_approved).then_some(reason)
    }
}
