//! What a chat has of its own beside its agent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use everturn_core::prompt::ToolSpec;
use everturn_core::setup;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::value::unset;

#[derive(Serialize, Deserialize)]
pub(super) struct Setup<'a> {
    #[serde(default, skip_serializing_if = "unset")]
    instructions: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(default, skip_serializing_if = "unset")]
    metadata: Cow<'a, BTreeMap<String, String>>,
}

/// A tool that clients run, or that the provider defines for the turn of a request.
#[derive(Serialize, Deserialize)]
pub(super) struct Tool<'a> {
    name: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "unset")]
    description: Cow<'a, str>,
    input: Cow<'a, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provider_defined: Option<Cow<'a, Value>>,
}

impl<'a> From<&'a setup::Setup> for Setup<'a> {
    fn from(setup: &'a setup::Setup) -> Self {
        let setup::Setup { instructions, tools, metadata } = setup;
        Self {
            instructions: instructions.into(),
            tools: tools.iter().map(Tool::from).collect(),
            metadata: Cow::Borrowed(metadata),
        }
    }
}

impl From<Setup<'_>> for Arc<setup::Setup> {
    fn from(Setup { instructions, tools, metadata }: Setup<'_>) -> Self {
        Self::new(setup::Setup {
            instructions: instructions.into_owned(),
            tools: tools.into_iter().map(ToolSpec::from).collect(),
            metadata: metadata.into_owned(),
        })
    }
}

impl<'a> From<&'a ToolSpec> for Tool<'a> {
    fn from(ToolSpec { name, description, input_schema, provider_defined }: &'a ToolSpec) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            input: Cow::Borrowed(input_schema),
            provider_defined: provider_defined.as_ref().map(Cow::Borrowed),
        }
    }
}

impl From<Tool<'_>> for ToolSpec {
    fn from(Tool { name, description, input, provider_defined }: Tool<'_>) -> Self {
        Self {
            name: name.into_owned(),
            description: description.into_owned(),
            input_schema: input.into_owned(),
            provider_defined: provider_defined.map(Cow::into_owned),
        }
    }
}
