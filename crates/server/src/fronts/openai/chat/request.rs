//! A request for a chat completion.
//!
//! Fields that mean nothing for the answer are ignored, because clients send many. A field that would change the answer and
//! cannot be met is an error that names it.

use everturn::core::doctor::foreign::{ForeignSession, Loss, SessionFormat, conversation};
use everturn::core::ids::Timestamp;
use everturn::core::message::{Body, Part};
use everturn::core::prompt::{AnswerSchema, Effort, OutputFormat, Sampling, ToolChoice, ToolSpec};
use everturn::core::turn_settings::TurnSettings;
use serde_json::{Map, Value};

use crate::api::problem::{Problem, ProblemKind};

/// What a body asks for.
#[derive(Debug, PartialEq)]
pub(crate) struct ChatRequest {
    pub model: String,
    pub conversation: Vec<Body>,
    pub settings: TurnSettings,
    pub includes_usage: bool,
}

/// Fields that would change the answer, and that no model here can be asked with, unless they say nothing.
const UNSUPPORTED: [&str; 10] = [
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "presence_penalty",
    "repetition_penalty",
    "top_logprobs",
    "web_search_options",
];

/// A problem with one field.
pub(crate) fn bad(field: impl Into<String>, why: impl Into<String>) -> Problem {
    let field = field.into();
    Problem::new(ProblemKind::Invalid, format!("`{field}` {}", why.into())).at(field)
}

/// Reads a body.
pub(crate) fn parse(body: &Value, at: Timestamp) -> Result<ChatRequest, Problem> {
    let fields = body.as_object().ok_or_else(|| bad("body", "has to be a JSON object."))?;
    if let Some(field) = UNSUPPORTED.iter().find(|field| fields.get(**field).is_some_and(says_something)) {
        return Err(bad(*field, "is not supported here; leave it out."));
    }
    if fields.get("n").is_some_and(|n| !n.is_null() && *n != 1) {
        return Err(bad("n", "has to be 1: one request gets one answer."));
    }
    let modalities = fields.get("modalities").and_then(Value::as_array).into_iter().flatten();
    if modalities.into_iter().any(|modality| modality != "text") {
        return Err(bad("modalities", "can only be [\"text\"]."));
    }
    let messages = fields.get("messages").and_then(Value::as_array);
    let messages = messages.filter(|messages| !messages.is_empty());
    let messages = messages.ok_or_else(|| bad("messages", "has to be a list of at least one message."))?;
    let (instructions, conversation) = told(SessionFormat::OpenAiChat, "messages", messages, None, at)?;
    let settings = TurnSettings {
        instructions,
        tools: tools(fields.get("tools"))?,
        tool_choice: tool_choice(fields.get("tool_choice"))?,
        parallel_calls: fields.get("parallel_tool_calls").and_then(Value::as_bool),
        output_tokens_max: output_max(fields)?,
        effort: effort("reasoning_effort", fields.get("reasoning_effort"))?,
        sampling: sampling(fields)?,
        format: format(fields.get("response_format"))?,
    };
    let includes_usage = fields.get("stream_options").is_some_and(|options| options["include_usage"] == true);
    Ok(ChatRequest { model: model(fields)?, conversation, settings, includes_usage })
}

/// The model that a body names.
pub(crate) fn model(fields: &Map<String, Value>) -> Result<String, Problem> {
    let model = fields.get("model").and_then(Value::as_str).filter(|model| !model.trim().is_empty());
    Ok(model.ok_or_else(|| bad("model", "has to be the name of a model or an agent."))?.to_owned())
}

/// Instructions and conversation of a list of messages or items, in the form of a provider's API.
pub(crate) fn told(
    format: SessionFormat,
    field: &str,
    messages: &[Value],
    about: Option<&Map<String, Value>>,
    at: Timestamp,
) -> Result<(Vec<String>, Vec<Body>), Problem> {
    let mut session = conversation(format, messages, about, at);
    refuse_losses(&session, field)?;
    let mut conversation: Vec<Body> = session.messages.iter().map(|message| message.body.clone()).collect();
    if conversation.is_empty() {
        // Some clients put the question into the instructions.
        let asked = session.system.pop().ok_or_else(|| bad(field, "says nothing."))?;
        conversation.push(Body::User(vec![Part::text(asked)]));
    }
    if matches!(conversation.last(), Some(Body::Reply(_))) {
        return Err(bad(field, "ends with an answer; it has to end with what the model is to answer."));
    }
    Ok((session.system, conversation))
}

/// Refuses what would be lost, and files that are only named.
fn refuse_losses(session: &ForeignSession, field: &str) -> Result<(), Problem> {
    if let Some(lost) = session.skipped.iter().find(|skipped| skipped.harm == Loss::Lost) {
        let place = format!("{field}[{}]", lost.place.saturating_sub(1));
        return Err(bad(place, format!("has {}, which is not supported here.", lost.what)));
    }
    for message in &session.messages {
        let parts = match &message.body {
            Body::User(parts) => parts,
            _ => continue,
        };
        let named = parts.iter().any(|part| matches!(part, Part::File(file) if file.bytes.is_none()));
        if named {
            let place = session.place(message.id).unwrap_or(1).saturating_sub(1);
            return Err(bad(
                format!("{field}[{place}]"),
                "names a file without its content, or with content that is no base64; send a `data:` URL.",
            ));
        }
    }
    Ok(())
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Number(number) => number.as_f64() != Some(0.0) && number.as_f64() != Some(1.0),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(true) | Value::String(_) => true,
    }
}

fn tools(tools: Option<&Value>) -> Result<Vec<ToolSpec>, Problem> {
    let mut specs = Vec::new();
    for (at, tool) in tools.and_then(Value::as_array).into_iter().flatten().enumerate() {
        if tool["type"] != "function" {
            return Err(bad(format!("tools[{at}].type"), "can only be `function` here."));
        }
        specs.push(function(&tool["function"], &format!("tools[{at}].function"))?);
    }
    Ok(specs)
}

/// A function's name, description and parameters.
pub(crate) fn function(function: &Value, field: &str) -> Result<ToolSpec, Problem> {
    let name = function["name"].as_str().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| bad(format!("{field}.name"), "has to be the name of a function."))?;
    let parameters = function.get("parameters").filter(|schema| !schema.is_null());
    let parameters = parameters.cloned().unwrap_or_else(|| serde_json::json!({"type": "object", "properties": {}}));
    if !parameters.is_object() {
        return Err(bad(format!("{field}.parameters"), "has to be a JSON schema of an object."));
    }
    Ok(ToolSpec::new(name, function["description"].as_str().unwrap_or_default(), parameters))
}

/// What the model may do with the tools.
pub(crate) fn tool_choice(choice: Option<&Value>) -> Result<ToolChoice, Problem> {
    match choice {
        None | Some(Value::Null) => Ok(ToolChoice::Auto),
        Some(Value::String(word)) if word == "auto" => Ok(ToolChoice::Auto),
        Some(Value::String(word)) if word == "none" => Ok(ToolChoice::None),
        Some(Value::String(word)) if word == "required" => Ok(ToolChoice::Required),
        Some(choice) => match choice["function"]["name"].as_str().or_else(|| choice["name"].as_str()) {
            Some(name) if choice["type"] == "function" => Ok(ToolChoice::Tool(name.into())),
            _ => Err(bad("tool_choice", "has to be `auto`, `none`, `required` or a function.")),
        },
    }
}

fn output_max(fields: &Map<String, Value>) -> Result<Option<u32>, Problem> {
    let field = ["max_completion_tokens", "max_tokens"].into_iter().find(|field| fields.contains_key(*field));
    field.map_or(Ok(None), |field| tokens(field, fields.get(field)))
}

/// A number of tokens, if there is one.
pub(crate) fn tokens(field: &str, value: Option<&Value>) -> Result<Option<u32>, Problem> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64().and_then(|tokens| u32::try_from(tokens).ok()) {
            Some(tokens) if tokens > 0 => Ok(Some(tokens)),
            _ => Err(bad(field, "has to be a number of tokens, 1 or more.")),
        },
    }
}

/// A level of effort, if there is one.
pub(crate) fn effort(field: &str, value: Option<&Value>) -> Result<Option<Effort>, Problem> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    match value.as_str() {
        Some("none") => Ok(Some(Effort::None)),
        Some("minimal") => Ok(Some(Effort::Minimal)),
        Some("low") => Ok(Some(Effort::Low)),
        Some("medium") => Ok(Some(Effort::Medium)),
        Some("high") => Ok(Some(Effort::High)),
        Some("xhigh") => Ok(Some(Effort::XHigh)),
        Some("max") => Ok(Some(Effort::Max)),
        _ => Err(bad(field, "has to be `none`, `minimal`, `low`, `medium`, `high` or `xhigh`.")),
    }
}

/// How the model is to pick its words.
pub(crate) fn sampling(fields: &Map<String, Value>) -> Result<Sampling, Problem> {
    let number = |field: &str| match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or_else(|| bad(field, "has to be a number.")),
    };
    let whole = |field: &str| match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_i64().map(Some).ok_or_else(|| bad(field, "has to be a whole number.")),
    };
    let stop = match fields.get("stop") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(stop)) => vec![stop.clone()],
        Some(Value::Array(stops)) => stops.iter().filter_map(|stop| stop.as_str().map(str::to_owned)).collect(),
        Some(_) => return Err(bad("stop", "has to be a text or a list of texts.")),
    };
    let sampling = Sampling {
        temperature: number("temperature")?,
        top_p: number("top_p")?,
        top_k: whole("top_k")?.and_then(|top_k| u32::try_from(top_k).ok()).filter(|top_k| *top_k > 0),
        // Any number does: equal ones stay equal.
        seed: whole("seed")?.map(|seed| seed as i32),
        stop,
    };
    sampling
        .check()
        .map_err(|why| Problem::new(ProblemKind::Invalid, format!("{why}.")).at(field_of(&why.to_string())))?;
    Ok(sampling)
}

/// The field that a message names first.
fn field_of(message: &str) -> String {
    message.split('`').nth(1).unwrap_or_default().to_owned()
}

fn format(format: Option<&Value>) -> Result<OutputFormat, Problem> {
    let Some(format) = format.filter(|format| !format.is_null()) else { return Ok(OutputFormat::Text) };
    match format["type"].as_str() {
        Some("text") => Ok(OutputFormat::Text),
        Some("json_object") => Ok(OutputFormat::JsonObject),
        Some("json_schema") => answer_schema(&format["json_schema"], "response_format.json_schema"),
        _ => Err(bad("response_format.type", "has to be `text`, `json_object` or `json_schema`.")),
    }
}

/// The schema of an answer, with its name.
pub(crate) fn answer_schema(format: &Value, field: &str) -> Result<OutputFormat, Problem> {
    let schema = format.get("schema").filter(|schema| schema.is_object());
    let schema = schema.ok_or_else(|| bad(format!("{field}.schema"), "has to be a JSON schema."))?.clone();
    let name = format["name"].as_str().unwrap_or("answer").to_owned();
    let description = format["description"].as_str().map(str::to_owned);
    Ok(OutputFormat::Schema(AnswerSchema { name, description, schema, strict: format["strict"].as_bool() }))
}
