//! Parts of messages and drafts.

use everturn::core::message;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::name::RunBy;

/// A typed part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Words.
    Text(Text),
    /// The model's thinking.
    Reasoning(Reasoning),
    /// A tool use.
    Call(Call),
    /// The result of a tool that ran at the provider.
    Provided(Provided),
    /// A source that the answer cites.
    Source(Source),
    /// A file or an image.
    File(File),
    /// A part of a kind that this version does not know.
    Other,
}

impl Part {
    /// The text of a text part.
    #[must_use]
    pub const fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text.text.as_str()),
            _ => None,
        }
    }
}

/// Words.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct Text {
    /// The words.
    pub text: String,
}

/// The model's thinking.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct Reasoning {
    /// The visible text; empty if the provider withholds it.
    pub text: String,
    /// When it began.
    pub began: i64,
    /// When it ended, or last grew.
    pub ended: i64,
}

/// A tool use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Call {
    /// The call's id within the chat: the step, and its position there.
    #[schema(example = "3.0")]
    pub id: String,
    /// The tool, as the model wrote it.
    pub tool: String,
    /// The input as the model wrote it: meant to be a JSON object, but not always one.
    pub input: String,
    /// Whether the input is complete.
    pub whole: bool,
    /// Where the tool runs.
    pub run_by: RunBy,
    /// When it began to arrive.
    pub at: i64,
}

/// The result of a tool that ran at the provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Provided {
    /// The call of the result, if the provider named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The tool.
    pub tool: String,
    /// The output as the provider sent it.
    #[schema(value_type = Object)]
    pub output: Value,
    /// When it was received.
    pub at: i64,
}

/// A source that an answer cites.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct Source {
    /// The URL.
    pub url: String,
    /// The title.
    pub title: String,
}

/// A file or an image, without its bytes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct File {
    /// Its name, if it has one.
    pub name: String,
    /// Its media type.
    #[schema(example = "image/png")]
    pub media_type: String,
    /// The size in bytes; none if the bytes are not stored any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

impl From<&message::Part> for Part {
    fn from(part: &message::Part) -> Self {
        match part {
            message::Part::Text(text) => Self::Text(Text { text: text.text.clone() }),
            message::Part::Reasoning(reasoning) => Self::Reasoning(Reasoning {
                text: reasoning.text.clone(),
                began: reasoning.began.0,
                ended: reasoning.ended.0,
            }),
            message::Part::Call(call) => Self::Call(Call {
                id: call.uid.to_string(),
                tool: call.tool.clone(),
                input: call.input.clone(),
                whole: call.whole,
                run_by: call.run_by.into(),
                at: call.at.0,
            }),
            message::Part::Provided(provided) => Self::Provided(Provided {
                call: provided.uid.map(|uid| uid.to_string()),
                tool: provided.tool.clone(),
                output: provided.output.clone(),
                at: provided.at.0,
            }),
            message::Part::Source(source) => Self::Source(source.into()),
            message::Part::File(file) => Self::File(file.into()),
            message::Part::Other(_) => Self::Other,
        }
    }
}

impl From<&message::Source> for Source {
    fn from(message::Source { url, title, meta: _ }: &message::Source) -> Self {
        Self { url: url.clone(), title: title.clone() }
    }
}

impl From<&message::File> for File {
    fn from(message::File { name, media_type, bytes, meta: _ }: &message::File) -> Self {
        let size = bytes.as_ref().map(|bytes| bytes.len() as u64);
        Self { name: name.clone(), media_type: media_type.clone(), size }
    }
}
