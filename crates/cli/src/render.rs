//! Renders the parts of a chat as terminal lines.

pub mod usage;

use serde_json::Value;

use everturn_server::wire::{
    AgentWorkspace, Call, Chat, Ended, McpServer, McpState, Message, Part, Reply, ResultOf, Stop, Summary, Verdict,
};

use crate::terminal::visible;
use crate::terminal::wrap::{At, clip, wrap};
use crate::terminal::{Ink, Line, Look};

/// Lines of a result that are shown.
const RESULT_LINES_MAX: usize = 4;
/// Lines of a diff that are shown.
const DIFF_LINES_MAX: usize = 30;
/// Bytes of a field that is shown beside the main one.
const SHORT_BYTES_MAX: usize = 40;
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
    let input = brief(&call.input).unwrap_or_else(|| call.input.clone());
    let cut = input.char_indices().nth(INPUT_LETTERS_MAX).map(|(at, _)| at);
    let input = cut.map_or_else(|| input.clone(), |at| format!("{}…", &input[..at]));
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
    if let Some(diff) = diff(&result.output) {
        lines.extend(diff_lines(diff, width));
        return lines;
    }
    let output: Vec<&str> = result.output.lines().filter(|line| !line.trim().is_empty()).collect();
    // One row per line: a result is only shown in brief. What a command ended with matters most.
    let more = output.len().saturating_sub(RESULT_LINES_MAX);
    let is_of_command = output.last().is_some_and(|line| line.starts_with("[exit "));
    let shown = if is_of_command { &output[more..] } else { &output[..output.len() - more] };
    let left_out = |words: &str| (more > 0).then(|| Line::dim(&format!("    … {more} {words}")));
    lines.extend(left_out("lines before").filter(|_| is_of_command));
    lines.extend(shown.iter().map(|line| clip(Line::dim(&format!("    {line}")), width)));
    lines.extend(left_out("more lines").filter(|_| !is_of_command));
    lines
}

/// A change of a file, with its diff.
pub fn changed(head: &str, diff: &str, width: usize) -> Vec<Line> {
    let mut lines = quiet(head, width);
    lines.extend(diff_lines(diff, width));
    lines
}

/// The state of an MCP server.
pub fn mcp_state(server: &McpServer) -> String {
    match (server.state, server.rests_seconds) {
        (McpState::Configured, _) => "not started yet".into(),
        (McpState::Known, _) => "known".into(),
        (McpState::Started, _) => "started".into(),
        (McpState::InUse, _) => "in use".into(),
        (McpState::NeedsLogin, _) => "needs login".into(),
        (McpState::Resting, seconds) => format!("rests for {} s", seconds.unwrap_or_default()),
        (McpState::Failed, _) => "failed".into(),
    }
}

/// The unified diff in the output of a tool that changed a file.
fn diff(output: &str) -> Option<&str> {
    let begin = if output.starts_with("--- ") { 0 } else { output.find("\n--- ")? + 1 };
    let diff = &output[begin..];
    (diff.contains("\n+++ ") && diff.contains("\n@@ ")).then_some(diff)
}

/// The changed lines of a diff, in colour.
fn diff_lines(diff: &str, width: usize) -> Vec<Line> {
    let changes: Vec<&str> = diff.lines().skip_while(|line| !line.starts_with("@@")).collect();
    let line = |text: &&str| {
        let look = match text.as_bytes().first() {
            Some(b'+') => Look::ink(Ink::Green),
            Some(b'-') => Look::ink(Ink::Red),
            Some(b'@') => Look::ink(Ink::Cyan),
            _ => Look::DIM,
        };
        clip(Line::new(&format!("    {text}"), look), width)
    };
    let mut lines: Vec<Line> = changes.iter().take(DIFF_LINES_MAX).map(line).collect();
    if changes.len() > DIFF_LINES_MAX {
        lines.push(Line::dim(&format!("    … {} more lines", changes.len() - DIFF_LINES_MAX)));
    }
    lines
}

/// The input of a call in one line, if it names a command, a file or a pattern: that first, then the short fields.
pub fn brief(input: &str) -> Option<String> {
    let Ok(Value::Object(fields)) = serde_json::from_str(input) else { return None };
    let main =
        ["command", "path", "pattern"].into_iter().find(|name| fields.get(*name).is_some_and(Value::is_string))?;
    let text = fields[main].as_str()?.split_whitespace().collect::<Vec<_>>().join(" ");
    let others = fields.iter().filter(|(name, _)| *name != main).filter_map(|(name, value)| match value {
        Value::String(text) if text.len() <= SHORT_BYTES_MAX => Some(format!(" · {name} {text}")),
        Value::Bool(true) => Some(format!(" · {name}")),
        Value::Number(number) => Some(format!(" · {name} {number}")),
        Value::Array(values) => Some(format!(" · {name}: {}", values.len())),
        _ => None,
    });
    Some(text + &others.collect::<String>())
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

/// Where tools work, how far they are confined, and whether they have the network.
pub fn workspace_told(workspace: &AgentWorkspace) -> String {
    let AgentWorkspace { path, confinement, network } = workspace;
    format!("{path} · confinement {confinement} · network {network}")
}

/// A call in full, for an approval: nothing is left out, and every character is visible. `place` is where it would run.
pub fn whole_call(tool: &str, input: &str, place: Option<&str>, width: usize) -> Vec<Line> {
    let look = Look::ink(Ink::Yellow);
    let mut lines = vec![Line::new("┌ ", look).and(tool, Look::BOLD).and(" wants to run with", Look::PLAIN)];
    for line in pretty(input).lines() {
        lines.extend(wrap(&Line::new("│ ", look).and(line, Look::PLAIN), width, &Line::new("│ ", look), At::Letters));
    }
    if let Some(place) = place {
        let line = Line::new("│ ", look).and(&format!("in {place}"), Look::BOLD);
        lines.extend(wrap(&line, width, &Line::new("│ ", look), At::Letters));
    }
    lines.push(Line::new("└", look));
    lines
}

/// The input of a call, with one field per line if it is JSON.
pub fn pretty(input: &str) -> String {
    serde_json::from_str::<serde_json::Value>(input)
        .and_then(|value| serde_json::to_string_pretty(&value))
        .unwrap_or_else(|_| input.into())
}

/// The newest line of a tool's progress.
pub fn newest_line(progress: &str) -> Option<&str> {
    progress.lines().map(str::trim).rfind(|line| !line.is_empty())
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
