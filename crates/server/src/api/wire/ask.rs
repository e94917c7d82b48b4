//! Request bodies.
//!
//! Unknown fields are refused: a client cannot set fields that the server owns, and a misspelt field is an error rather
//! than ignored.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everturn::core::command::{self, AnswerContent};
use everturn::core::ids::{CallUid, StepId, Timestamp};
use everturn::core::message::{self, Meta, Output};
use everturn::core::prompt::ToolSpec;
use everturn::core::setup::{BadSetup, Setup};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::name::When;

/// A new chat.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Create {
    /// The agent; the server's default if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The title; made from the first message if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The first model to use, one of `GET /v1/models`; the agent's if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "understudy/persona")]
    pub model: Option<String>,
    /// Whether the server records the requests and responses of the chat's provider calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub debug: bool,
    /// The chat's own instructions, sent after the agent's: 16 KiB.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instructions: String,
    /// The chat's own tools, which its clients run: 32 tools, 32 KiB together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ClientTool>,
    /// Metadata of clients: 16 pairs, keys of 64 bytes, values of 512. The server only stores it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Earlier messages: those of OpenAI Chat or Anthropic, or items of OpenAI Responses, without instructions. Every call
    /// must be followed by its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub transcript: Option<serde_json::Value>,
}

/// A tool that clients run: a turn that calls it waits until a client sends the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientTool {
    /// Its name: letters, digits, `_` and `-`.
    #[schema(example = "show_map")]
    pub name: String,
    /// The description for the model.
    #[serde(default)]
    pub description: String,
    /// The JSON schema of the input, which is an object; any object if left out.
    #[serde(default = "anything")]
    #[schema(value_type = Object)]
    pub input: serde_json::Value,
}

fn anything() -> serde_json::Value {
    serde_json::json!({"type": "object"})
}

impl Create {
    /// The chat's own instructions, tools and metadata, if any.
    ///
    /// # Errors
    /// A tool's input schema is not valid.
    pub fn setup(&self) -> Result<Option<Arc<Setup>>, BadSetup> {
        if let Some(tool) = self.tools.iter().find(|tool| !tool.input.is_object()) {
            return Err(BadSetup::Input(tool.name.clone()));
        }
        let tools = self.tools.iter().map(|tool| ToolSpec::new(&tool.name, &tool.description, tool.input.clone()));
        let (tools, metadata) = (tools.collect(), self.metadata.clone());
        let setup = Setup { instructions: self.instructions.trim().into(), tools, metadata };
        Ok((!setup.is_empty()).then(|| Arc::new(setup)))
    }
}

impl From<&ToolSpec> for ClientTool {
    fn from(ToolSpec { name, description, input_schema, .. }: &ToolSpec) -> Self {
        Self { name: name.clone(), description: description.clone(), input: input_schema.clone() }
    }
}

/// A new chat that begins with the messages of another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Fork {
    /// The last message to copy.
    pub at: u64,
    /// The title; the source's if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The first model to use; the source's if left out, the agent's if null.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub model: Option<Option<String>>,
}

/// A message to send.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// Words; a short form of one part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Words and files, in order, behind `text` if both are given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<NewPart>,
    /// When a busy chat delivers it to the model; after the turn if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<When>,
}

/// The new content of an edited message.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// Words; a short form of one part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Words and files, in order, behind `text` if both are given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<NewPart>,
}

/// A part of a message to send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum NewPart {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A file or an image.
    File {
        /// Its name.
        #[serde(default)]
        name: String,
        /// Its media type.
        #[schema(example = "image/png")]
        media_type: String,
        /// Its bytes in base64.
        data: String,
    },
}

/// Changes of a chat. Fields that are left out stay as they are.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// The title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether the chat is archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
    /// The first model to use from the next turn on, one of `GET /v1/models`; the agent's if null.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub model: Option<Option<String>>,
    /// Whether the server records the chat's provider calls from the next one on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debug: Option<bool>,
}

/// Deserialises a present field, which may be null.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Deserialises the text of an `output`. The error for another type names the field, while serde's names the position only.
fn output<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    struct Text;

    impl Visitor<'_> for Text {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string in `output`; give JSON as text")
        }

        fn visit_str<E>(self, text: &str) -> Result<String, E> {
            Ok(text.into())
        }

        fn visit_string<E>(self, text: String) -> Result<String, E> {
            Ok(text)
        }
    }

    deserializer.deserialize_string(Text)
}

/// An empty body, where one is sent at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Answers to open calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Answers {
    /// Each call once.
    pub answers: Vec<Answer>,
}

/// An answer to one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// The result of a client's tool.
    Result {
        /// The call.
        #[schema(example = "3.0")]
        call: String,
        /// The output for the model: text. JSON is given as text too.
        #[serde(deserialize_with = "output")]
        output: String,
    },
    /// The error of a client's tool.
    Error {
        /// The call.
        #[schema(example = "3.0")]
        call: String,
        /// The error for the model: text. JSON is given as text too.
        #[serde(deserialize_with = "output")]
        output: String,
    },
    /// The call may run.
    Approve {
        /// The call.
        #[schema(example = "3.0")]
        call: String,
        /// The hash from the open call: the approval is for this input only.
        input_hash: String,
    },
    /// The call may run, and so may the next ones that the `grant` of the open call covers.
    Grant {
        /// The call.
        #[schema(example = "3.0")]
        call: String,
        /// The hash from the open call.
        input_hash: String,
        /// When the grant ends, in milliseconds since 1970: at most 30 days from now, which is what it is if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<i64>,
    },
    /// The call may not run.
    Deny {
        /// The call.
        #[schema(example = "3.0")]
        call: String,
        /// The reason for the model.
        #[serde(default)]
        reason: String,
    },
}

/// The receipt of an accepted and stored request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Accepted {
    /// The chat.
    pub chat: String,
    /// The request's number in the chat. A message has it as `id` in the queue, and as `receipt` once it is committed. The
    /// message is answered when a status with `received` of at least this number does not list it in `unanswered`.
    pub id: u64,
}

/// The valid parts of a message, or what is wrong with them.
pub type Said = Result<Arc<[message::Part]>, &'static str>;

impl Send {
    /// The valid parts of the message, or what is wrong with them.
    pub fn said(self) -> Said {
        said(self.text, self.parts)
    }
}

impl Edit {
    /// The valid parts of the message, or what is wrong with them.
    pub fn said(self) -> Said {
        said(self.text, self.parts)
    }
}

fn said(text: Option<String>, parts: Vec<NewPart>) -> Said {
    let text = text.map(|text| NewPart::Text { text });
    text.into_iter().chain(parts).map(NewPart::into_core).collect()
}

impl NewPart {
    fn into_core(self) -> Result<message::Part, &'static str> {
        match self {
            Self::Text { text } => Ok(message::Part::Text(message::Text { text, meta: Meta::new() })),
            Self::File { name, media_type, data } => {
                let bytes = STANDARD.decode(data).map_err(|_| "the data of a file is not base64")?;
                let is_type = |text: &str| text.split_once('/').is_some_and(|(a, b)| !a.is_empty() && !b.is_empty());
                if !is_type(&media_type) || media_type.len() > 100 || !media_type.is_ascii() || name.len() > 255 {
                    return Err("a file needs a media type such as image/png, and a name of at most 255 bytes");
                }
                let bytes = Some(bytes.into());
                Ok(message::Part::File(message::File { name, media_type, bytes, meta: Meta::new() }))
            }
        }
    }
}

impl Answer {
    /// Whether the answer needs the scope `approve`.
    #[must_use]
    pub const fn approves(&self) -> bool {
        matches!(self, Self::Approve { .. } | Self::Grant { .. } | Self::Deny { .. })
    }

    /// The core's form; `None` if the call or the hash is not valid. `by` is the name of the token that answers.
    #[must_use]
    pub fn into_core(self, by: &str) -> Option<command::CallAnswer> {
        let (call, what) = match self {
            Self::Result { call, output } => (call, AnswerContent::Output(Output::text(output))),
            Self::Error { call, output } => (call, AnswerContent::Error(Output::text(output))),
            Self::Approve { call, input_hash } => {
                (call, AnswerContent::Approve { input_hash: u64::from_str_radix(&input_hash, 16).ok()? })
            }
            Self::Grant { call, input_hash, until } => {
                let input_hash = u64::from_str_radix(&input_hash, 16).ok()?;
                // The bound is the chat's: a repeat of the request is the same request.
                let until = Timestamp(until.unwrap_or(i64::MAX));
                (call, AnswerContent::Grant { input_hash, by: by.to_owned(), until })
            }
            Self::Deny { call, reason } => (call, AnswerContent::Deny { reason }),
        };
        Some(command::CallAnswer { call: call_uid(&call)?, what })
    }
}

/// The call of a text such as `3.0`.
#[must_use]
pub fn call_uid(text: &str) -> Option<CallUid> {
    let (step, ordinal) = text.split_once('.')?;
    Some(CallUid { step: StepId(step.parse().ok()?), ordinal: ordinal.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error for a malformed answer names the field.
    #[test]
    fn a_wrong_answer_is_told_the_field_that_is_expected() {
        let told = |answer: &str| serde_json::from_str::<Answer>(answer).unwrap_err().to_string();
        for (answer, expected) in [
            (
                r#"{"kind": "result", "call": "1.0", "result": "x"}"#,
                "unknown field `result`, expected `call` or `output`",
            ),
            (
                r#"{"kind": "error", "call": "1.0", "message": "x"}"#,
                "unknown field `message`, expected `call` or `output`",
            ),
            (
                r#"{"kind": "result", "call": "1.0", "output": {"a": 1}}"#,
                "expected a string in `output`; give JSON as text",
            ),
            (
                r#"{"kind": "result", "call": "1.0", "output": null}"#,
                "expected a string in `output`; give JSON as text",
            ),
            (r#"{"kind": "result", "call": "1.0"}"#, "missing field `output`"),
            (
                r#"{"kind": "deny", "call": "1.0", "output": "x"}"#,
                "unknown field `output`, expected `call` or `reason`",
            ),
        ] {
            assert!(told(answer).contains(expected), "{answer}: {}", told(answer));
        }
    }
}
