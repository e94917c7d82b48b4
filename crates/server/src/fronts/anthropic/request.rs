//! A request for a message.
//!
//! Fields that mean nothing for the answer are ignored, because clients send many. A field that would change the answer and
//! cannot be met is an error that names it.

use everturn::core::doctor::foreign::SessionFormat;
use everturn::core::ids::Timestamp;
use everturn::core::message::Body;
use everturn::core::prompt::{Effort, OutputFormat, ToolChoice, ToolSpec};
use everturn::core::turn_settings::TurnSettings;
use serde_json::{Map, Value};

use crate::api::problem::Problem;
use crate::fronts::gateway::seal;
use crate::fronts::openai::request::{answer_schema, bad, effort, model, sampling, tokens, told};

/// What a body asks for.
#[derive(Debug, PartialEq)]
pub(super) struct MessageRequest {
    pub model: String,
    pub conversation: Vec<Body>,
    pub settings: TurnSettings,
}

/// Fields that would change the answer, and that are not supported.
const UNSUPPORTED: [&str; 2] = ["mcp_servers", "container"];

/// Reads a body.
pub(super) fn parse(body: &Value, at: Timestamp) -> Result<MessageRequest, Problem> {
    let fields = body.as_object().ok_or_else(|| bad("body", "has to be a JSON object."))?;
    let says_something = |field: &Value| !(field.is_null() || field.as_array().is_some_and(Vec::is_empty));
    if let Some(field) = UNSUPPORTED.iter().find(|field| fields.get(**field).is_some_and(says_something)) {
        return Err(bad(*field, "is not supported here; leave it out."));
    }
    let output_max = tokens("max_tokens", fields.get("max_tokens"))?;
    if output_max.is_none() {
        return Err(bad("max_tokens", "has to be a number of tokens, 1 or more."));
    }
    let messages = fields.get("messages").and_then(Value::as_array);
    let messages = messages.filter(|messages| !messages.is_empty());
    let messages = messages.ok_or_else(|| bad("messages", "has to be a list of at least one message."))?;
    let (instructions, mut conversation) = told(SessionFormat::Anthropic, "messages", messages, Some(fields), at)?;
    conversation.iter_mut().for_each(seal::unpack);
    let (tool_choice, parallel_calls) = tool_choice(fields.get("tool_choice"))?;
    let output = fields.get("output_config").unwrap_or(&Value::Null);
    let settings = TurnSettings {
        instructions,
        tools: tools(fields.get("tools"))?,
        tool_choice,
        parallel_calls,
        output_tokens_max: output_max,
        effort: thinking(fields.get("thinking"), output)?,
        sampling: sampling(&with_stop(fields))?,
        format: format(output.get("format").or_else(|| fields.get("output_format")))?,
    };
    Ok(MessageRequest { model: model(fields)?, conversation, settings })
}

/// The fields with stop sequences under the name that all wires share here.
fn with_stop(fields: &Map<String, Value>) -> Map<String, Value> {
    let names = ["temperature", "top_p", "top_k"];
    let named = names.iter().filter_map(|name| Some(((*name).to_owned(), fields.get(*name)?.clone())));
    let stop = fields.get("stop_sequences").map(|stop| ("stop".to_owned(), stop.clone()));
    named.chain(stop).collect()
}

/// Tools of the client's, and tools that Anthropic defines.
fn tools(tools: Option<&Value>) -> Result<Vec<ToolSpec>, Problem> {
    let mut specs = Vec::new();
    for (at, tool) in tools.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let name = tool["name"].as_str().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| bad(format!("tools[{at}].name"), "has to be the name of a tool."))?;
        if tool["type"].as_str().is_some_and(|kind| kind != "custom") {
            specs.push(ToolSpec::provider_defined(name, tool.clone()));
            continue;
        }
        if !tool["input_schema"].is_object() {
            return Err(bad(format!("tools[{at}].input_schema"), "has to be a JSON schema of an object."));
        }
        let description = tool["description"].as_str().unwrap_or_default();
        specs.push(ToolSpec::new(name, description, tool["input_schema"].clone()));
    }
    Ok(specs)
}

fn tool_choice(choice: Option<&Value>) -> Result<(ToolChoice, Option<bool>), Problem> {
    let Some(choice) = choice.filter(|choice| !choice.is_null()) else { return Ok((ToolChoice::Auto, None)) };
    let parallel = choice["disable_parallel_tool_use"].as_bool().map(|disabled| !disabled);
    let chosen = match (choice["type"].as_str(), choice["name"].as_str()) {
        (Some("auto"), _) => ToolChoice::Auto,
        (Some("any"), _) => ToolChoice::Required,
        (Some("none"), _) => ToolChoice::None,
        (Some("tool"), Some(name)) => ToolChoice::Tool(name.into()),
        _ => return Err(bad("tool_choice", "has to be of the type `auto`, `any`, `none` or `tool`.")),
    };
    Ok((chosen, parallel))
}

/// How hard to think. A number of tokens becomes the level that it is about.
fn thinking(thinking: Option<&Value>, output: &Value) -> Result<Option<Effort>, Problem> {
    let stated = effort("output_config.effort", output.get("effort"))?;
    let Some(thinking) = thinking.filter(|thinking| !thinking.is_null()) else { return Ok(stated) };
    match (thinking["type"].as_str(), thinking["budget_tokens"].as_u64()) {
        (Some("disabled"), _) => Ok(Some(Effort::None)),
        (Some("adaptive"), _) => Ok(stated.or(Some(Effort::High))),
        (Some("enabled"), Some(budget)) => Ok(stated.or(Some(match budget {
            0..4_096 => Effort::Low,
            4_096..16_384 => Effort::Medium,
            _ => Effort::High,
        }))),
        _ => Err(bad("thinking", "has to be `adaptive`, `disabled`, or `enabled` with `budget_tokens`.")),
    }
}

fn format(format: Option<&Value>) -> Result<OutputFormat, Problem> {
    let Some(format) = format.filter(|format| !format.is_null()) else { return Ok(OutputFormat::Text) };
    match format["type"].as_str() {
        Some("json_schema") => answer_schema(format, "output_config.format"),
        _ => Err(bad("output_config.format.type", "has to be `json_schema`.")),
    }
}
