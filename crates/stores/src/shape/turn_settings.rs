//! What one request says about the model beside the conversation.

use std::borrow::Cow;
use std::sync::Arc;

use everturn_core::prompt::{self, ToolSpec};
use everturn_core::turn_settings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::name::EffortWord;
use super::setup::Tool;
use super::value::unset;

#[derive(Serialize, Deserialize)]
pub(super) struct TurnSettings<'a> {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    instructions: Vec<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(default, skip_serializing_if = "ToolChoice::is_auto")]
    tool_choice: ToolChoice<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parallel_calls: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output_tokens_max: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effort: Option<EffortWord>,
    #[serde(default, skip_serializing_if = "unset")]
    sampling: Sampling<'a>,
    #[serde(default, skip_serializing_if = "Format::is_text")]
    format: Format<'a>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ToolChoice<'a> {
    #[default]
    Auto,
    None,
    Required,
    Tool(Cow<'a, str>),
}

#[derive(Default, PartialEq, Serialize, Deserialize)]
struct Sampling<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    top_k: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<i32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    stop: Vec<Cow<'a, str>>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Format<'a> {
    #[default]
    Text,
    JsonObject,
    Schema {
        name: Cow<'a, str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<Cow<'a, str>>,
        schema: Cow<'a, Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        strict: Option<bool>,
    },
}

impl ToolChoice<'_> {
    const fn is_auto(&self) -> bool {
        matches!(self, Self::Auto)
    }
}

impl Format<'_> {
    const fn is_text(&self) -> bool {
        matches!(self, Self::Text)
    }
}

impl<'a> From<&'a turn_settings::TurnSettings> for TurnSettings<'a> {
    fn from(settings: &'a turn_settings::TurnSettings) -> Self {
        let turn_settings::TurnSettings {
            instructions,
            tools,
            tool_choice,
            parallel_calls,
            output_tokens_max,
            effort,
            sampling: prompt::Sampling { temperature, top_p, top_k, seed, stop },
            format,
        } = settings;
        Self {
            instructions: instructions.iter().map(Cow::from).collect(),
            tools: tools.iter().map(Tool::from).collect(),
            tool_choice: tool_choice.into(),
            parallel_calls: *parallel_calls,
            output_tokens_max: *output_tokens_max,
            effort: effort.map(Into::into),
            sampling: Sampling {
                temperature: *temperature,
                top_p: *top_p,
                top_k: *top_k,
                seed: *seed,
                stop: stop.iter().map(Cow::from).collect(),
            },
            format: format.into(),
        }
    }
}

impl From<TurnSettings<'_>> for Arc<turn_settings::TurnSettings> {
    fn from(settings: TurnSettings<'_>) -> Self {
        let Sampling { temperature, top_p, top_k, seed, stop } = settings.sampling;
        let stop = stop.into_iter().map(Cow::into_owned).collect();
        Self::new(turn_settings::TurnSettings {
            instructions: settings.instructions.into_iter().map(Cow::into_owned).collect(),
            tools: settings.tools.into_iter().map(ToolSpec::from).collect(),
            tool_choice: settings.tool_choice.into(),
            parallel_calls: settings.parallel_calls,
            output_tokens_max: settings.output_tokens_max,
            effort: settings.effort.map(Into::into),
            sampling: prompt::Sampling { temperature, top_p, top_k, seed, stop },
            format: settings.format.into(),
        })
    }
}

impl<'a> From<&'a prompt::ToolChoice> for ToolChoice<'a> {
    fn from(choice: &'a prompt::ToolChoice) -> Self {
        match choice {
            prompt::ToolChoice::Auto => Self::Auto,
            prompt::ToolChoice::None => Self::None,
            prompt::ToolChoice::Required => Self::Required,
            prompt::ToolChoice::Tool(name) => Self::Tool(name.into()),
        }
    }
}

impl From<ToolChoice<'_>> for prompt::ToolChoice {
    fn from(choice: ToolChoice<'_>) -> Self {
        match choice {
            ToolChoice::Auto => Self::Auto,
            ToolChoice::None => Self::None,
            ToolChoice::Required => Self::Required,
            ToolChoice::Tool(name) => Self::Tool(name.into_owned()),
        }
    }
}

impl<'a> From<&'a prompt::OutputFormat> for Format<'a> {
    fn from(format: &'a prompt::OutputFormat) -> Self {
        match format {
            prompt::OutputFormat::Text => Self::Text,
            prompt::OutputFormat::JsonObject => Self::JsonObject,
            prompt::OutputFormat::Schema(prompt::AnswerSchema { name, description, schema, strict }) => Self::Schema {
                name: name.into(),
                description: description.as_ref().map(Cow::from),
                schema: Cow::Borrowed(schema),
                strict: *strict,
            },
        }
    }
}

impl From<Format<'_>> for prompt::OutputFormat {
    fn from(format: Format<'_>) -> Self {
        match format {
            Format::Text => Self::Text,
            Format::JsonObject => Self::JsonObject,
            Format::Schema { name, description, schema, strict } => Self::Schema(prompt::AnswerSchema {
                name: name.into_owned(),
                description: description.map(Cow::into_owned),
                schema: schema.into_owned(),
                strict,
            }),
        }
    }
}
