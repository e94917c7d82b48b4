//! Renders the parts of a chat as terminal lines.

pub mod usage;

use everturn_server::wire::{Call, Chat, Ended, Message, Part, Reply, ResultOf, Stop, Summary, Verdict};

use crate::terminal::visible;
use crate::terminal::wrap::{At, wrap};
use crate::terminal::{Ink, Line, Look};

/// Lines of a result that are shown.
const RESULT_LINES_MAX: usize = 4;
/// Letters of a call's input that are shown if no approval is needed.
const INPUT_LETTERS_MAX: usize = 400;

/// Characters of a title that are shown in a line about a chat.
const TITLE_CHARS_MAX: usize = 60;

const PERSON: Look = Look { bold: true, ..Look::ink(Ink::Cyan) };

/// A user message.
pub fn person(parts: &[Part], width: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for part in parts {
        match part {
            Part::Text(text) => {
                for line in text.text.lines() {
                    let mark = if lines.is_empty() { "› " } else { "  " };
                    let line = Line::new(mark, PERSON).and(line, Look::BOLD);
                    lines.extend(wrap(&line, width, &Line::plain("  "), At::Words));
                }
            }
            Part::File(file) => {
                let size = file.size.map(|size| format!(", {size} bytes")).unwrap_or_default();
                lines.push(
                    Line::new("  ▣ ", PERSON).and(&format!("{} {}{size}", file.name, file.media_type), Look::DIM),
                );
            }
            _ => {}
        }
    }
    lines
}

/// A note about an event outside the conversation.
pub fn quiet(text: &str, width: usize) -> Vec<Line> {
    wrap(&Line::dim(text), width, &Line::plain("  "), At::Words)
}

/// An error message.
pub fn trouble(text: &str, width: usize) -> Vec<Line> {
    text.lines()
        .flat_map(|line| {
            wrap(&Line::new("✗ ", Look::ink(Ink::Red)).and(line, Look::PLAIN), width, &Line::plain("  "), At::Words)
        })
        .collect()
}

/// A complete call of the model.
pub fn call(call: &Call, width: usize) -> Vec<Line> {
    let mut line = Line::new("▸ ", Look::ink(Ink::Blue)).and(&call.tool, Look::BOLD);
    let mut input: String = call.input.chars().take(INPUT_LETTERS_MAX).collect();
    if input.len() < call.input.len() {
        input.push('…');
    }
    if !input.is_empty() {
        line = line.and(" ", Look::PLAIN).and(&input, Look::DIM);
    }
    wrap(&line, width, &Line::plain("  "), At::Words)
}

/// The result of a call.
pub fn result(result: &ResultOf, width: usize) -> Vec<Line> {
    let (sign, ink, said) = match result.verdict {
        Verdict::Done => ("✓", Ink::Green, ""),
        Verdict::Error => ("✗", Ink::Red, " failed"),
        Verdict::Denied => ("⊘", Ink::Yellow, " was not allowed"),
        Verdict::Interrupted => ("■", Ink::Yellow, " was stopped"),
        Verdict::Unknown => ("?", Ink::Yellow, " was started; its outcome is unknown"),
    };
    let took = result.began.map(|began| format!(" · {}", duration(result.ended - began))).unwrap_or_default();
    let head = Line::new(&format!("  {sign} "), Look::ink(ink))
        .and(&result.tool, Look::PLAIN)
        .and(&format!("{said}{took}"), Look::DIM);
    let mut lines = vec![head];
    let output: Vec<&str> = result.output.lines().filter(|line| !line.trim().is_empty()).collect();
    for line in output.iter().take(RESULT_LINES_MAX) {
        let line = Line::dim(&format!("    {line}"));
        // One row per line: a result is only shown in brief.
        lines.push(crate::terminal::wrap::clip(line, width));
    }
    if output.len() > RESULT_LINES_MAX {
        lines.push(Line::dim(&format!("    … {} more lines", output.len() - RESULT_LINES_MAX)));
    }
    lines
}

/// A summary that replaces everything before it.
pub fn summary(summary: &Summary, width: usize) -> Vec<Line> {
    quiet(&format!("≡ everything before this point is summarised ({} tokens)", summary.tokens_before), width)
}

/// Why a reply ended, unless it ended as usual.
pub fn stop(reply: &Reply, width: usize) -> Vec<Line> {
    match &reply.stop {
        Stop::End | Stop::ToolUse => Vec::new(),
        Stop::Interrupted => quiet("■ stopped; the answer so far is kept", width),
        Stop::Broken => quiet("✗ the answer broke off and could not be recovered; the text so far is kept", width),
        Stop::Length => quiet("■ the answer reached the output limit", width),
        Stop::Filtered { category, detail } => {
            quiet(&format!("■ the provider ended the answer {category} {detail}"), width)
        }
    }
}

/// A note about an answer that took more than one attempt.
pub fn recovered(reply: &Reply, attempts: u32) -> Option<String> {
    match (reply.seams, attempts) {
        (0, 0 | 1) => None,
        (0, attempts) => Some(format!("answered at attempt {attempts}")),
        (1.., _) => Some(format!("the answer broke off and was recovered ({} attempts)", attempts.max(2))),
    }
}

/// Why a turn ended, unless the reply shows it.
pub fn ended(ended: &Ended, width: usize) -> Vec<Line> {
    let said = match ended {
        Ended::Done | Ended::Interrupted | Ended::Length | Ended::Filtered => return Vec::new(),
        Ended::StopAfter { tool } => format!("■ {tool} ended the turn"),
        Ended::Empty => "■ the model gave two empty answers".into(),
        Ended::StepsMax => "■ the turn reached its limit of steps".into(),
        Ended::TimeMax => "■ the turn reached its time limit".into(),
        Ended::TokensMax => "■ the turn reached its limit of tokens".into(),
        Ended::CostMax => "■ the turn reached its cost limit".into(),
        Ended::SameCallMax => "■ the model repeated the same call too often".into(),
        Ended::Failed(failure) => {
            let tries = if failure.attempts > 1 { format!(" ({} attempts)", failure.attempts) } else { String::new() };
            let mut lines = trouble(&format!("{}{tries}", failure.message), width);
            if !failure.detail.is_empty() && failure.detail != failure.message {
                lines.extend(quiet(&format!("  {}", failure.detail), width));
            }
            return lines;
        }
    };
    quiet(&said, width)
}

/// The model, the time, the tokens and the cost of a reply.
pub fn footer(reply: &Reply) -> Line {
    let mut said = vec![reply.model.clone()];
    if reply.runtime_ms > 0 {
        said.push(duration(reply.runtime_ms as i64));
    }
    if let Some(usage) = reply.usage.filter(|usage| usage.output > 0) {
        said.push(format!("{} tokens", grouped(usage.output)));
    }
    Line::dim(&said.join(" · "))
}

/// A source or a file in an answer.
pub fn beside(part: &Part) -> Option<Line> {
    match part {
        Part::Source(source) if source.title.is_empty() => Some(Line::dim(&format!("↗ {}", source.url))),
        Part::Source(source) => Some(Line::dim(&format!("↗ {} ({})", source.title, source.url))),
        Part::File(file) => Some(Line::dim(&format!("▣ {} {}", file.name, file.media_type))),
        Part::Provided(provided) => Some(Line::new("  ✓ ", Look::ink(Ink::Green)).and(&provided.tool, Look::PLAIN)),
        Part::Text(_) | Part::Reasoning(_) | Part::Call(_) | Part::Other => None,
    }
}

/// A line of the model's reasoning.
pub fn thinking(text: &str, width: usize) -> Vec<Line> {
    let look = Look { dim: true, italic: true, ..Look::PLAIN };
    wrap(&Line::dim("│ ").and(text, look), width, &Line::dim("│ "), At::Words)
}

/// A call in full, for an approval: nothing is left out, and every character is visible.
pub fn whole_call(call: &Call, width: usize) -> Vec<Line> {
    let look = Look::ink(Ink::Yellow);
    let mut lines = vec![Line::new("┌ ", look).and(&call.tool, Look::BOLD).and(" wants to run with", Look::PLAIN)];
    let pretty = serde_json::from_str::<serde_json::Value>(&call.input)
        .and_then(|value| serde_json::to_string_pretty(&value))
        .unwrap_or_else(|_| call.input.clone());
    for line in pretty.lines() {
        lines.extend(wrap(&Line::new("│ ", look).and(line, Look::PLAIN), width, &Line::new("│ ", look), At::Letters));
    }
    lines.push(Line::new("└", look));
    lines
}

/// Milliseconds in words.
pub fn duration(ms: i64) -> String {
    match ms.max(0) {
        ms @ 0..=999 => format!("{ms} ms"),
        ms @ 1_000..=59_999 => format!("{:.1} s", ms as f64 / 1000.0),
        ms => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
    }
}

/// How long ago, roughly.
pub fn ago(ms: i64) -> String {
    match ms / 1000 {
        ..=59 => "just now".into(),
        s @ 60..=3_599 => format!("{} min ago", s / 60),
        s @ 3_600..=86_399 => format!("{} h ago", s / 3_600),
        s => format!("{} d ago", s / 86_400),
    }
}

/// A number in groups of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// The text of a user message.
pub fn words(message: &Message) -> Option<String> {
    match &message.body {
        everturn_server::wire::Body::User { parts, .. } => Some(said(parts)),
        _ => None,
    }
}

/// The text of all text parts, one per line.
pub fn said(parts: &[Part]) -> String {
    parts.iter().filter_map(Part::text).collect::<Vec<_>>().join("\n")
}

/// The title of a chat, cut to fit into a line.
pub fn short_title(chat: &Chat) -> String {
    visible::line(&chat.standing.title, TITLE_CHARS_MAX)
}
