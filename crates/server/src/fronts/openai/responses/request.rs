//! A request for a response.

use std::collections::BTreeSet;

use everturn::core::doctor::foreign::SessionFormat;
use everturn::core::ids::Timestamp;
use everturn::core::message::Body;
use everturn::core::prompt::{OutputFormat, ToolSpec};
use everturn::core::turn_settings::TurnSettings;
use serde_json::{Map, Value, json};

use crate::api::problem::Problem;
use crate::fronts::gateway::seal;
use crate::fronts::openai::chat::request::{
    answer_schema, bad, effort, function, model, sampling, tokens, told, tool_choice,
};

/// What a body asks for.
#[derive(Debug, PartialEq)]
pub(super) struct ResponseRequest {
    pub model: String,
    pub conversation: Vec<Body>,
    pub settings: TurnSettings,
    /// Tools of the client's that take free text.
    pub custom: BTreeSet<String>,
    /// Whether the answer is to be fetched later.
    pub is_background: bool,
}

/// Fields that would change the answer, and that are not supported here.
const UNSUPPORTED: [&str; 6] =
    ["conversation", "context_management", "max_tool_calls", "previous_response_id", "prompt", "top_logprobs"];

/// Reads a body.
pub(super) fn parse(body: &Value, at: Timestamp) -> Result<ResponseRequest, Problem> {
    let fields = body.as_object().ok_or_else(|| bad("body", "has to be a JSON object."))?;
    let says_something =
        |field: &&&str| fields.get(**field).is_some_and(|value| !value.is_null() && *value != 0 && *value != json!([]));
    if let Some(field) = UNSUPPORTED.iter().find(says_something) {
        return Err(bad(*field, "is not supported here; send the whole conversation as `input`."));
    }
    if fields.get("truncation").is_some_and(|truncation| truncation == "auto") {
        return Err(bad("truncation", "can only be `disabled`."));
    }
    let (mut instructions, mut conversation) = match fields.get("input") {
        Some(Value::String(text)) => {
            let message = json!({"role": "user", "content": text});
            told(SessionFormat::OpenAiResponses, "input", &[message], None, at)?
        }
        Some(Value::Array(items)) if !items.is_empty() => {
            told(SessionFormat::OpenAiResponses, "input", items, None, at)?
        }
        _ => return Err(bad("input", "has to be a text or a list of at least one item.")),
    };
    conversation.iter_mut().for_each(seal::unpack);
    let own = fields.get("instructions").and_then(Value::as_str).filter(|own| !own.is_empty());
    instructions.splice(0..0, own.map(str::to_owned));
    let (tools, custom) = tools(fields.get("tools"))?;
    let settings = TurnSettings {
        instructions,
        tools,
        tool_choice: tool_choice(fields.get("tool_choice"))?,
        parallel_calls: fields.get("parallel_tool_calls").and_then(Value::as_bool),
        output_tokens_max: tokens("max_output_tokens", fields.get("max_output_tokens"))?,
        effort: effort("reasoning.effort", fields.get("reasoning").and_then(|reasoning| reasoning.get("effort")))?,
        sampling: sampling(&only(fields, &["temperature", "top_p"]))?,
        format: format(fields.get("text").and_then(|text| text.get("format")))?,
    };
    let is_background = fields.get("background").is_some_and(|background| background == true);
    Ok(ResponseRequest { model: model(fields)?, conversation, settings, custom, is_background })
}

fn only(fields: &Map<String, Value>, names: &[&str]) -> Map<String, Value> {
    names.iter().filter_map(|name| Some(((*name).to_owned(), fields.get(*name)?.clone()))).collect()
}

/// Functions, and tools that take free text. Kinds of tool that only OpenAI runs are left out: codex offers some always.
fn tools(tools: Option<&Value>) -> Result<(Vec<ToolSpec>, BTreeSet<String>), Problem> {
    let (mut specs, mut custom) = (Vec::new(), BTreeSet::new());
    for (at, tool) in tools.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let field = format!("tools[{at}]");
        match tool["type"].as_str() {
            Some("function") => specs.push(function(tool, &field)?),
            Some("custom") => {
                let input = json!({"input": {"type": "string", "description": "The whole input, as it is."}});
                let parameters = json!({"type": "object", "properties": input, "required": ["input"]});
                let text = json!({"name": tool["name"], "description": described(tool), "parameters": parameters});
                let spec = function(&text, &field)?;
                custom.insert(spec.name.clone());
                specs.push(spec);
            }
            Some(_) => {}
            None => return Err(bad(format!("{field}.type"), "has to be the kind of a tool.")),
        }
    }
    Ok((specs, custom))
}

/// What a tool with free text is for, with the grammar of its input.
fn described(tool: &Value) -> String {
    let description = tool["description"].as_str().unwrap_or_default();
    match tool["format"]["definition"].as_str() {
        Some(grammar) => format!("{description}\n\nThe input has to fit this grammar:\n{grammar}"),
        None => description.to_owned(),
    }
}

fn format(format: Option<&Value>) -> Result<OutputFormat, Problem> {
    let Some(format) = format.filter(|format| !format.is_null()) else { return Ok(OutputFormat::Text) };
    match format["type"].as_str() {
        Some("text") => Ok(OutputFormat::Text),
        Some("json_object") => Ok(OutputFormat::JsonObject),
        Some("json_schema") => answer_schema(format, "text.format"),
        _ => Err(bad("text.format.type", "has to be `text`, `json_object` or `json_schema`.")),
    }
}
