//! What an error body says.
//!
//! Every provider wraps its errors differently, gateways wrap them again, proxies answer with a page of HTML, and some
//! put one JSON text inside another. This takes out the few things that mean something, and nothing else: a body is
//! from outside, so it is read to a bound, never shown as markup, and never searched for words.

use std::time::Duration;

use everturn_core::ids::Timestamp;
use everturn_core::retry::retry_after;
use serde_json::{Map, Value};

/// How much of a body is read.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// Wrappers within wrappers that are opened.
const DEPTH_MAX: usize = 4;

/// What an error said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorText {
    /// The error's name: Anthropic's and OpenAI's `type`, Google's `status`, Amazon's exception.
    pub name: String,
    /// A finer name: OpenAI's `code`, Google's `reason`, a gateway's `error_type`.
    pub code: String,
    /// A status within the body, which is all there is when an error comes in a stream.
    pub status: Option<u16>,
    /// The message, meant for people. From a plain-text body, its first line.
    pub message: String,
    /// How long the body asks us to stay away.
    pub retry_delay: Option<Duration>,
}

impl ErrorText {
    /// What a body says: as JSON, else the first line of plain text. A page of HTML says nothing.
    #[must_use]
    pub fn read(body: &[u8]) -> Self {
        let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
        let read = &body[..body.len().min(BODY_BYTES_MAX)];
        if let Ok(json) = serde_json::from_slice::<Value>(read) {
            return Self::of_json(&json);
        }
        let text = String::from_utf8_lossy(read);
        match text.lines().map(str::trim).find(|line| !line.is_empty()) {
            // A tag, or JSON that was cut: neither is a message.
            Some(line) if !line.starts_with(['<', '{', '[']) => Self::of_text(line),
            _ => Self::default(),
        }
    }

    /// A bare text may be a name, or begin with one and a colon.
    fn of_text(text: &str) -> Self {
        let name = text.split(':').next().filter(|name| !name.contains(char::is_whitespace)).unwrap_or_default();
        Self { name: name.to_owned(), message: text.to_owned(), ..Self::default() }
    }

    /// What an error object says, wherever in its wrappers it stands.
    #[must_use]
    pub fn of_json(json: &Value) -> Self {
        if let Value::String(text) = json {
            return Self::of_text(text);
        }
        let mut said = Self::default();
        said.open(json, DEPTH_MAX);
        said
    }

    /// Opens one wrapper. What stands further in is nearer to the cause, so it replaces what stood further out.
    fn open(&mut self, json: &Value, depth: usize) {
        match json {
            _ if depth == 0 => {}
            Value::Object(fields) => {
                self.take(fields);
                let inner =
                    ["error", "response", "detail"].iter().filter_map(|key| fields.get(*key)).find(|v| v.is_object());
                match (inner, fields.get("error")) {
                    (Some(inner), _) => self.open(inner, depth - 1),
                    (None, Some(Value::String(text))) => self.fill(Self::of_text(text)),
                    _ => {}
                }
                self.open_texts(fields, depth - 1);
            }
            Value::Array(items) => {
                if let Some(first) = items.first() {
                    self.open(first, depth - 1); // Google streams a list of one error.
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Takes what is still missing.
    fn fill(&mut self, other: Self) {
        for (mine, others) in [(&mut self.name, other.name), (&mut self.message, other.message)] {
            if mine.is_empty() {
                *mine = others;
            }
        }
    }

    fn take(&mut self, fields: &Map<String, Value>) {
        let text = |key: &str| fields.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        // An event's own `type` says only that it is one.
        let name =
            text("status").or(text("__type")).or(text("type")).filter(|name| !name.eq_ignore_ascii_case("error"));
        if let Some(name) = name {
            let bare = name.rsplit('#').next().unwrap_or(name); // com.amazon.coral.service#ThrottlingException
            bare.clone_into(&mut self.name);
        }
        if let Some(code) = text("code").or(text("reason")) {
            code.clone_into(&mut self.code);
        }
        if text("param") == Some("previous_response_id") {
            "previous_response_not_found".clone_into(&mut self.code); // Whatever else is said, the chain is refused.
        }
        if let Some(message) = ["message", "Message", "detail", "msg"].into_iter().find_map(text) {
            message.clone_into(&mut self.message);
        }
        let number = |key: &str| match fields.get(key)? {
            Value::Number(number) => u16::try_from(number.as_u64()?).ok(),
            Value::String(text) => text.parse().ok(), // Azure writes "429".
            _ => None,
        };
        let status = number("code").or(number("status")).filter(|status| (400..600).contains(status));
        self.status = status.or(self.status);
        for detail in fields.get("details").and_then(Value::as_array).into_iter().flatten() {
            self.take_google_detail(detail);
        }
    }

    /// Google says the important things in typed details: the reason, the quota that is used up, the delay.
    fn take_google_detail(&mut self, detail: &Value) {
        if let Some(reason) = detail["reason"].as_str() {
            reason.clone_into(&mut self.code);
        }
        let per_day = |violation: &Value| violation["quotaId"].as_str().is_some_and(|id| id.contains("PerDay"));
        if detail["violations"].as_array().is_some_and(|violations| violations.iter().any(per_day)) {
            "daily_quota".clone_into(&mut self.code);
        }
        let seconds = detail["retryDelay"].as_str().and_then(|text| text.strip_suffix('s'));
        self.retry_delay = retry_after(None, seconds, Timestamp::default()).or(self.retry_delay);
    }

    /// Gateways put the provider's own error, as text, into the message or into their metadata.
    fn open_texts(&mut self, fields: &Map<String, Value>, depth: usize) {
        let metadata = fields.get("metadata");
        if let Some(name) = metadata.and_then(|m| m["error_type"].as_str()) {
            name.clone_into(&mut self.code);
        }
        if metadata.is_some_and(|m| m["reasons"].is_array()) {
            "moderation".clone_into(&mut self.code);
        }
        for text in [fields.get("message"), metadata.map(|m| &m["raw"])] {
            let text = text.and_then(Value::as_str).map(str::trim_start).filter(|text| text.starts_with('{'));
            if let Some(Ok(json)) = text.map(serde_json::from_str::<Value>) {
                self.open(&json, depth);
            }
        }
    }
}
