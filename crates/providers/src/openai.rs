//! What the two wires of OpenAI have in common: small pieces of JSON, how tokens are counted, how hard a model thinks,
//! and the keys and addresses everybody uses.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everturn_core::cost::{TokenCount, UsageReport};
use everturn_core::message::{Meta, Source};
use everturn_core::prompt::{AnswerSchema, Effort, PromptFile, PromptMedia, PromptResult, Request};
use serde_json::{Map, Value};

use crate::catalogue::{Card, label};
use crate::endpoint::{Auth, BadEndpoint, Endpoint, NeedsKey, Usual};

mod loose;

pub(crate) use loose::Loose;

/// Where OpenAI is, and with which key.
pub const OPENAI: Usual = Usual {
    base_url: "https://api.openai.com/v1",
    base_url_env: &["OPENAI_BASE_URL"],
    key_env: &[("OPENAI_API_KEY", Auth::Bearer)],
    needs_key: NeedsKey::Yes,
};

/// Where OpenRouter is, and with which key.
pub const OPENROUTER: Usual = Usual {
    base_url: "https://openrouter.ai/api/v1",
    base_url_env: &["OPENROUTER_BASE_URL"],
    key_env: &[("OPENROUTER_API_KEY", Auth::Bearer)],
    needs_key: NeedsKey::Yes,
};

/// Where Ollama is, when it is at home.
pub const OLLAMA: Usual = Usual {
    base_url: "http://localhost:11434/v1",
    base_url_env: &["OLLAMA_BASE_URL"],
    key_env: &[("OLLAMA_API_KEY", Auth::Bearer)],
    needs_key: NeedsKey::Perhaps,
};

/// OpenAI's endpoint, as the environment says.
pub(crate) fn endpoint(variable: impl Fn(&str) -> Option<String>) -> Result<Endpoint, BadEndpoint> {
    let mut endpoint = Endpoint::usual("openai", &OPENAI, &variable)?;
    for (name, header) in [("OPENAI_ORG_ID", "openai-organization"), ("OPENAI_PROJECT_ID", "openai-project")] {
        if let Some(value) = variable(name).filter(|value| !value.trim().is_empty()) {
            endpoint = endpoint.with_header(header, value.trim())?;
        }
    }
    Ok(endpoint)
}

/// The fields of an answer's schema.
pub(crate) fn schema_fields(schema: &AnswerSchema) -> Map<String, Value> {
    let AnswerSchema { name, description, schema, strict } = schema;
    let name = if name.is_empty() { "answer" } else { name };
    let mut fields = Map::from_iter([("name".to_owned(), name.into()), ("schema".to_owned(), schema.clone())]);
    fields.extend(description.clone().map(|description| ("description".into(), description.into())));
    fields.extend(strict.map(|strict| ("strict".into(), strict.into())));
    fields
}

/// Parameters that choose among a model's words. Models that think have none to choose, and refuse these.
pub(crate) const SAMPLING: [&str; 8] = [
    "temperature",
    "top_p",
    "top_k",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
];

/// Media as an address that holds them.
pub(crate) fn data_url(media: &PromptMedia) -> String {
    format!("data:{};base64,{}", media.media_type, base64(media))
}

/// Media as text.
pub(crate) fn base64(media: &PromptMedia) -> String {
    STANDARD.encode(&media.bytes)
}

/// What a provider attached, under its name.
pub(crate) fn meta(provider: &str, value: Value) -> Meta {
    Meta::from([(provider.to_owned(), value)])
}

/// What this provider attached.
pub(crate) fn own<'m>(meta: &'m Meta, provider: &str) -> Option<&'m Map<String, Value>> {
    meta.get(provider)?.as_object()
}

/// The word that tells the model how hard to think. One that cannot but think is asked for the least it knows; one that
/// knows no words is not told.
pub(crate) fn effort_word(effort: Effort, card: &Card) -> Option<&str> {
    let known = card.efforts.as_deref().unwrap_or_default();
    match effort {
        Effort::None => known.first().map(String::as_str),
        _ => card.level(effort).filter(|word| *word != label(Effort::None)),
    }
}

/// The pieces of a system prompt as one text.
pub(crate) fn system(request: &Request) -> Option<String> {
    (!request.system.is_empty()).then(|| request.system.join("\n\n"))
}

/// What a result says. Neither wire can say that a call failed, so the text does.
pub(crate) fn result_text(result: &PromptResult) -> String {
    let told = result.text.trim_start().get(..5).is_some_and(|begin| begin.eq_ignore_ascii_case("error"));
    if result.is_error && !told { format!("Error: {}", result.text) } else { result.text.clone() }
}

/// The configured parameters that the model takes.
pub(crate) fn extra(configured: &Map<String, Value>, card: &Card) -> Map<String, Value> {
    let thinks = card.thinks == Some(true);
    let taken = configured.iter().filter(|(name, _)| !(thinks && SAMPLING.contains(&name.as_str())));
    taken.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Removes parameters that are configured as null.
pub(crate) fn left_out(configured: &Map<String, Value>, body: &mut Map<String, Value>) {
    configured.iter().filter(|(_, value)| value.is_null()).for_each(|(name, _)| drop(body.remove(name)));
}

/// A file's name, which these wires want also of a file that has none.
pub(crate) fn file_name(file: &PromptFile) -> String {
    match (file.name.trim(), file.media.media_type.rsplit('/').next()) {
        ("", kind) => format!("file.{}", kind.unwrap_or("bin")),
        (name, _) => name.to_owned(),
    }
}

/// The tokens of a `usage` object, by the names of either wire format and of compatible servers. There cached
/// tokens are part of the prompt's; here they are not.
pub(crate) fn report(usage: &Value) -> UsageReport {
    let count = |paths: &[&str]| {
        let found = paths.iter().map(|path| TokenCount::from_json(usage.pointer(path)));
        found.into_iter().find(|count| *count != TokenCount::Unknown).unwrap_or_default()
    };
    let prompt = count(&["/input_tokens", "/prompt_tokens"]);
    let cache_read = count(&[
        "/input_tokens_details/cached_tokens",
        "/prompt_tokens_details/cached_tokens",
        "/prompt_cache_hit_tokens", // DeepSeek
        "/cached_tokens",           // Kimi
        "/cache_read_input_tokens", // LiteLLM
    ]);
    let cache_write = count(&[
        "/input_tokens_details/cache_write_tokens",
        "/prompt_tokens_details/cache_write_tokens",
        "/cache_creation_input_tokens", // LiteLLM
    ]);
    let reasoning = count(&["/output_tokens_details/reasoning_tokens", "/completion_tokens_details/reasoning_tokens"]);
    let cached = cache_read.known().unwrap_or(0) + cache_write.known().unwrap_or(0);
    let input = prompt.known().and_then(|prompt| prompt.checked_sub(cached)).map(TokenCount::from).unwrap_or_default();
    let output = whole_output(prompt, count(&["/output_tokens", "/completion_tokens"]), reasoning, usage);
    UsageReport { input, output, reasoning, cache_read, cache_write }
}

/// xAI and others leave the thinking out of the completion; then the total tells.
fn whole_output(prompt: TokenCount, output: TokenCount, reasoning: TokenCount, usage: &Value) -> TokenCount {
    let total = TokenCount::from_json(usage.get("total_tokens")).known();
    let (Some(prompt), Some(said), Some(thought), Some(total)) =
        (prompt.known(), output.known(), reasoning.known(), total)
    else {
        return output;
    };
    if thought > 0 && total == prompt + said + thought { TokenCount::from(said + thought) } else { output }
}

/// What an annotation points at, if it points at something.
pub(crate) fn source(provider: &str, annotation: &Value) -> Option<Source> {
    let nested = annotation.get("url_citation").unwrap_or(annotation); // Chat wraps it, Responses does not.
    let text = |key: &str| nested.get(key).and_then(Value::as_str).unwrap_or_default();
    let (place, title) = match text("url") {
        "" => (text("file_id"), text("filename")),
        url => (url, text("title")),
    };
    let (url, title) = (place.to_owned(), title.to_owned());
    (!url.is_empty()).then(|| Source { url, title, meta: meta(provider, annotation.clone()) })
}

/// The sources an answer rests on, each once, waiting for the part they belong to to be over.
#[derive(Debug, Default)]
pub(crate) struct HeldSources {
    held: Vec<Source>,
    told: Vec<String>,
}

/// Sources that one answer may have; a search finds tens.
const SOURCES_MAX: usize = 1024;

impl HeldSources {
    pub fn add(&mut self, source: Option<Source>) {
        let Some(source) = source.filter(|source| !self.told.contains(&source.url)) else { return };
        if self.told.len() < SOURCES_MAX {
            self.told.push(source.url.clone());
            self.held.push(source);
        }
    }

    /// The sources that were not sent yet.
    pub fn drain(&mut self) -> impl Iterator<Item = Source> {
        self.held.drain(..)
    }
}

#[cfg(test)]
mod tests;
