//! A transcript for people to read, as Markdown.
//!
//! Pure functions, one message after the other, so that a chat of any length is written piece by piece. The text of
//! messages stays as it is, for most of it is Markdown already. But it must not change how the rest is read: open a fence
//! that swallows the following text, begin HTML, or hide behind control characters.

mod escape;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::api::wire::{Body, Chat, Message, Part, Reply, ResultOf, Stop, Verdict};
use escape::{fenced, inline, link, prose, visible};

/// The text before the messages.
#[must_use]
pub fn head(chat: &Chat) -> String {
    let title = if chat.standing.title.is_empty() { "Untitled" } else { &chat.standing.title };
    format!("# {}\n\nChat {} with agent {}.\n", inline(title), code(&chat.id), code(&chat.agent))
}

/// The text after the messages. A file without it is incomplete, even if the transfer seemed to end cleanly.
#[must_use]
pub fn end(chat: &str) -> String {
    format!("\n---\n\n*End of chat {}.*\n", code(chat))
}

/// One message.
#[must_use]
pub fn message(message: &Message) -> String {
    let at = time(message.at);
    match &message.body {
        Body::User { parts, .. } => format!("\n## You\n\n*{at}*\n{}", all(parts)),
        Body::Context { text } => format!("\n## Note to the model\n\n*{at}*\n\n{}\n", fenced(text, "")),
        Body::Reply(reply) => format!("\n## Model\n\n*{at}, {}*\n{}", inline(&reply.model), said(reply)),
        Body::Result(result) => given_back(result),
        Body::Summary(summary) => {
            format!("\n## Summary of everything above\n\n*{at}*\n\n{}\n", prose(&summary.text))
        }
    }
}

fn time(ms: i64) -> String {
    let at = Timestamp::from_millisecond(ms).unwrap_or_default();
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

fn code(text: &str) -> String {
    format!("`{}`", visible(text).replace(['`', '\n'], "'"))
}

fn all(parts: &[Part]) -> String {
    parts.iter().map(part).collect()
}

fn said(reply: &Reply) -> String {
    let mut text = all(&reply.parts);
    let mut note = |words: &str| text.push_str(&format!("\n*{words}*\n"));
    if reply.seams > 0 {
        note(&format!("Put together from {} attempts: the connection to the model broke in between.", reply.seams + 1));
    }
    for tool in &reply.retracted {
        note(&format!("A call of {} was cut off and taken back.", inline(tool)));
    }
    match &reply.stop {
        Stop::End | Stop::ToolUse => {}
        Stop::Length => note("Ended at the output limit."),
        Stop::Filtered { category, detail } => {
            note(&format!("Cut by the provider's policy. {} {}", inline(category), inline(detail)));
        }
        Stop::Interrupted => note("Interrupted."),
        Stop::Broken => note("Broke off and could not be recovered."),
    }
    text
}

fn part(part: &Part) -> String {
    match part {
        Part::Text(text) => format!("\n{}\n", prose(&text.text)),
        Part::Reasoning(reasoning) if reasoning.text.is_empty() => String::new(),
        Part::Reasoning(reasoning) => {
            let text = fenced(&reasoning.text, "");
            format!("\n<details>\n<summary>Reasoning</summary>\n\n{text}\n\n</details>\n")
        }
        Part::Call(call) => {
            let cut = if call.whole { "" } else { ", cut off" };
            let input = fenced(&call.input, "json");
            format!("\n**Call {}** of {}{cut}:\n\n{input}\n", inline(&call.id), code(&call.tool))
        }
        Part::Provided(provided) => {
            let output = serde_json::to_string_pretty(&provided.output).unwrap_or_default();
            format!("\n**Result** of {}, run by the provider:\n\n{}\n", code(&provided.tool), fenced(&output, "json"))
        }
        Part::Source(source) => format!("\nSource: {}\n", link(&source.title, &source.url)),
        Part::File(file) => {
            let size = file.size.map_or("not kept".into(), |size| format!("{size} bytes"));
            let name = if file.name.is_empty() { "unnamed" } else { &file.name };
            format!("\n*File {}, {}, {size}*\n", inline(name), inline(&file.media_type))
        }
        Part::Other => "\n*A part that this version does not know.*\n".into(),
    }
}

fn given_back(result: &ResultOf) -> String {
    let how = match result.verdict {
        Verdict::Done => "",
        Verdict::Error => ", which failed",
        Verdict::Denied => ", which was denied",
        Verdict::Interrupted => ", which was interrupted",
        Verdict::Unknown => ", whose outcome is unknown",
    };
    let more = if result.cut { "\n\n*More is kept than is shown here.*" } else { "" };
    let media: String =
        result.media.iter().map(|media| format!("\n*{}, {} bytes*\n", inline(&media.media_type), media.size)).collect();
    let output = fenced(&result.output, "");
    format!("\n**Result {}** of {}{how}:\n\n{output}{more}\n{media}", inline(&result.call), code(&result.tool))
}

#[cfg(test)]
mod tests;
