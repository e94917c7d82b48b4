//! Sessions that other programs have written.
//!
//! People come with what they have: an array of messages out of their own database, or the file an agent left behind when
//! it could not go on any more. Reading one forgives everything that can be told apart, because the broken ones are those
//! that are brought here. What is no part of the conversation is named and counted, never silently left out; a line that
//! cannot be read costs that line.

mod anthropic;
mod claude_code;
mod codex;
mod openai_chat;
mod openai_responses;
mod scribe;

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::ids::{MessageId, Timestamp};
use crate::message::Message;
use scribe::SessionBuilder;

/// How a session is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionFormat {
    /// Messages of OpenAI Chat Completions and everything that imitates it.
    OpenAiChat,
    /// Input or output of OpenAI Responses.
    OpenAiResponses,
    /// Messages of Anthropic Messages.
    Anthropic,
    /// The file of a session of Claude Code.
    ClaudeCode,
    /// The file of a session of the Codex CLI.
    Codex,
}

impl fmt::Display for SessionFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenAiChat => "OpenAI Chat messages",
            Self::OpenAiResponses => "OpenAI Responses items",
            Self::Anthropic => "Anthropic messages",
            Self::ClaudeCode => "a Claude Code session",
            Self::Codex => "a Codex CLI session",
        })
    }
}

/// A session that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignSession {
    /// How it was written.
    pub format: SessionFormat,
    /// What the model was told before everything else.
    pub system: Vec<String>,
    /// What was said, numbered from 1.
    pub messages: Vec<Arc<Message>>,
    /// What was not taken over.
    pub skipped: Vec<SkippedRecord>,
    /// The last line, from 1, if the file ends in the middle of it.
    pub cut: Option<usize>,
    places: Vec<usize>,
}

impl ForeignSession {
    /// Where a message came from: its line, or its place in the array, from 1.
    #[must_use]
    pub fn place(&self, message: MessageId) -> Option<usize> {
        self.places.get(usize::try_from(message.0).ok()?.checked_sub(1)?).copied()
    }
}

/// Something that is no part of the conversation, or cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedRecord {
    /// Where it was first: a line, or a place in the array, from 1.
    pub place: usize,
    /// What it is.
    pub what: String,
    /// How often it was there.
    pub count: usize,
    /// Whether something was lost with it.
    pub harm: Loss,
}

/// Whether something was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// It was no part of the conversation.
    None,
    /// It was part of the conversation, or that cannot be told.
    Lost,
}

/// A file that is none of the sessions we know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotASession {
    /// It is neither JSON nor lines of JSON.
    #[error("neither JSON nor lines of JSON")]
    NotJson,
    /// It is JSON of some other kind.
    #[error("JSON, but no session of a kind that is known: {KNOWN}")]
    Unknown,
}

/// What can be read, for people.
const KNOWN: &str = "arrays of OpenAI or Anthropic messages, OpenAI Responses items, and the session files of Claude Code \
                     and the Codex CLI";

/// Reads a session, of whatever format. `at` is when something was said that does not say when.
///
/// # Errors
/// It is no session of a format that is known.
pub fn read(bytes: &[u8], at: Timestamp) -> Result<ForeignSession, NotASession> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start_matches('\u{feff}');
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        return whole(&value, at);
    }
    lines(text, at)
}

/// The conversation of a request in this format. Its parts are as the provider's API has them: `about` is the request's
/// body, with the fields beside the messages.
#[must_use]
pub fn conversation(
    format: SessionFormat,
    messages: &[Value],
    about: Option<&Map<String, Value>>,
    at: Timestamp,
) -> ForeignSession {
    let numbered: Vec<(usize, &Value)> = (1..).zip(messages).collect();
    read_as(format, &numbered, about, at)
}

/// A session that is one JSON value.
fn whole(value: &Value, at: Timestamp) -> Result<ForeignSession, NotASession> {
    let (items, about) = match value {
        Value::Array(items) => (items, None),
        Value::Object(about) => {
            let items = ["messages", "input", "output"].iter().find_map(|key| about.get(*key)?.as_array());
            match items {
                Some(items) => (items, Some(about)),
                None => return lines(&value.to_string(), at), // A file of one line.
            }
        }
        _ => return Err(NotASession::Unknown),
    };
    let numbered: Vec<(usize, &Value)> = (1..).zip(items).collect();
    array(&numbered, about, at).ok_or(NotASession::Unknown)
}

/// The array of messages these are, if they are one.
fn array(items: &[(usize, &Value)], about: Option<&Map<String, Value>>, at: Timestamp) -> Option<ForeignSession> {
    Some(read_as(format_of(items, about)?, items, about, at))
}

fn read_as(
    format: SessionFormat,
    items: &[(usize, &Value)],
    about: Option<&Map<String, Value>>,
    at: Timestamp,
) -> ForeignSession {
    let mut scribe = SessionBuilder::new(format, at, about.and_then(|about| about.get("model")?.as_str()));
    match format {
        SessionFormat::Anthropic => anthropic::read(&mut scribe, items, about.and_then(|about| about.get("system"))),
        SessionFormat::OpenAiResponses => {
            let instructions = about.and_then(|about| about.get("instructions")?.as_str());
            scribe.system.extend(instructions.map(Into::into));
            openai_responses::read(&mut scribe, items);
        }
        _ => openai_chat::read(&mut scribe, items),
    }
    scribe.finish()
}

/// The format of these messages. Plain text looks alike in every format and counts as OpenAI's.
fn format_of(items: &[(usize, &Value)], about: Option<&Map<String, Value>>) -> Option<SessionFormat> {
    let (mut says, mut anthropic, mut chat, mut responses) = (items.is_empty(), 0, 0, 0);
    for (_, item) in items {
        let role = item["role"].as_str();
        says |= role.is_some() || item["type"].as_str().is_some_and(openai_responses::is_item);
        responses += usize::from(item["type"].as_str().is_some_and(openai_responses::is_item));
        chat += usize::from(matches!(role, Some("tool" | "function" | "system" | "developer")));
        chat += usize::from(!item["tool_calls"].is_null() || !item["function_call"].is_null());
        for part in item["content"].as_array().into_iter().flatten() {
            match part["type"].as_str().unwrap_or_default() {
                "input_text" | "output_text" | "input_image" | "input_file" => responses += 1,
                "image_url" | "input_audio" | "refusal" => chat += 1,
                kind if anthropic::is_block(kind) => anthropic += 1,
                _ => {}
            }
        }
    }
    let about = |key: &str| usize::from(about.is_some_and(|about| about.contains_key(key)));
    (anthropic, responses) = (anthropic + about("system"), responses + about("input") + about("output"));
    match says {
        false => None,
        true if responses > anthropic.max(chat) || (responses > 0 && responses >= chat) => {
            Some(SessionFormat::OpenAiResponses)
        }
        true if anthropic > chat => Some(SessionFormat::Anthropic),
        true => Some(SessionFormat::OpenAiChat),
    }
}

/// A session of one JSON value a line.
fn lines(text: &str, at: Timestamp) -> Result<ForeignSession, NotASession> {
    let mut values: Vec<(usize, Value)> = Vec::new();
    let mut broken = Vec::new();
    for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty()) {
        match serde_json::from_str::<Value>(text) {
            Ok(value) if value.is_object() => values.push((line, value)),
            Ok(_) | Err(_) => broken.push(line),
        }
    }
    if values.is_empty() {
        return Err(NotASession::NotJson);
    }
    let values: Vec<(usize, &Value)> = values.iter().map(|(line, value)| (*line, value)).collect();
    let mut session = if values.iter().any(|(_, value)| claude_code::is_line(value)) {
        let mut scribe = SessionBuilder::new(SessionFormat::ClaudeCode, at, None);
        claude_code::read(&mut scribe, &values);
        scribe.finish()
    } else if values.iter().any(|(_, value)| codex::is_line(value)) {
        let mut scribe = SessionBuilder::new(SessionFormat::Codex, at, None);
        codex::read(&mut scribe, &values);
        scribe.finish()
    } else {
        array(&values, None, at).ok_or(NotASession::Unknown)?
    };
    // What was being written when its program ended: there is nothing in it to take over.
    session.cut = (!text.ends_with('\n')).then(|| broken.pop_if(|line| *line == text.lines().count())).flatten();
    session.skipped.extend(broken.into_iter().map(|place| SkippedRecord {
        place,
        what: "a line that is no JSON object".into(),
        count: 1,
        harm: Loss::Lost,
    }));
    session.skipped.sort_by_key(|skipped| skipped.place);
    Ok(session)
}
