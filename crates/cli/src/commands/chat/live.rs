//! The live area at the bottom of a chat: the unfinished end of the answer, running calls, the queue, the
//! input line.

use everturn_server::wire::{Ask, AskKind, Body, Call, Part, Standing, Status, View};
use tokio::time::Instant;

use super::story::is_busy;
use crate::render::{brief, duration, newest_line, said};
use crate::terminal::editor::Editor;
use crate::terminal::screen::Live;
use crate::terminal::wrap::clip;
use crate::terminal::{Ink, Line, Look};

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Rows of the queue that are shown.
const QUEUE_ROWS_MAX: usize = 4;
const EDITOR_ROWS_MAX: usize = 10;
/// Characters of a running call's input that are shown.
const BRIEF_CHARS_MAX: usize = 48;

/// Input of the live area: the view, and what only the session knows.
pub struct Around<'a> {
    pub view: &'a View,
    /// The approval that a sub-agent waits for, if it is next.
    pub asked_below: Option<&'a Ask>,
    pub open: Vec<Line>,
    pub editor: &'a Editor,
    /// When this session first saw the turn running.
    pub since: Option<Instant>,
    /// Why there is no connection.
    pub lost: Option<&'a str>,
    /// Text to show instead of the usual hint.
    pub hint: Option<&'a str>,
    /// Whether an order is on its way to the daemon.
    pub is_sending: bool,
    /// Messages that wait for a connection.
    pub unsent: Vec<&'a str>,
    pub tick: usize,
    /// The time of day, in milliseconds since 1970.
    pub now: i64,
}

/// Draws the live area for a window.
pub fn live(around: &Around<'_>, width: usize, height: usize) -> Live {
    let room = width.saturating_sub(1).max(1);
    let standing = around.view.status.as_ref();
    let mut below: Vec<Line> = running(around);
    below.extend(standing.into_iter().flat_map(waiting));
    below.extend(unsent(&around.unsent));
    below.extend(status(around, standing));
    let editor = around.editor.show(width, EDITOR_ROWS_MAX.min(height / 3).max(1));
    let used = below.len() + editor.lines.len() + 1;
    let open_rows = height.saturating_sub(used + 1);
    let mut lines: Vec<Line> = around.open.iter().skip(around.open.len().saturating_sub(open_rows)).cloned().collect();
    if !lines.is_empty() && !below.is_empty() {
        lines.push(Line::default());
    }
    // In a window of a few rows, the input line has priority.
    let below_rows = height.saturating_sub(editor.lines.len() + lines.len() + 1);
    let skipped = below.len().saturating_sub(below_rows);
    lines.extend(below.into_iter().skip(skipped).map(|line| clip(line, room)));
    let (row, column) = (lines.len() + editor.cursor.0, editor.cursor.1);
    lines.extend(editor.lines);
    Live { lines, cursor: (row, column.min(room)) }
}

/// Calls without a result, in the order of the transcript.
pub fn open_calls(view: &View) -> Vec<&Call> {
    let mut answered = Vec::new();
    for message in view.messages.iter().rev() {
        match &message.body {
            Body::Result(result) => answered.push(result.call.as_str()),
            Body::Reply(reply) => {
                let calls = reply.parts.iter().filter_map(|part| match part {
                    Part::Call(call) if !answered.contains(&call.id.as_str()) => Some(call),
                    _ => None,
                });
                return calls.collect();
            }
            Body::User { .. } | Body::Context { .. } | Body::Summary(_) => return Vec::new(),
        }
    }
    Vec::new()
}

/// One line per call that the model is writing or that is running.
fn running(around: &Around<'_>) -> Vec<Line> {
    let (view, spin) = (around.view, SPINNER[around.tick % SPINNER.len()]);
    let Some(standing) = view.status.as_ref().filter(|standing| is_busy(standing.status)) else { return Vec::new() };
    let line = |tool: &str, what: &str| {
        Line::new(&format!("{spin} "), Look::ink(Ink::Blue)).and(tool, Look::BOLD).and(what, Look::DIM)
    };
    let written = view.draft.as_ref().and_then(|draft| match draft.parts.last() {
        Some(Part::Call(call)) => Some(line(&call.tool, &format!(" · {} bytes of input so far", call.input.len()))),
        _ => None,
    });
    let carried_out = open_calls(view).into_iter().filter(|call| !standing.asks.iter().any(|ask| ask.call == call.id));
    let carried_out = carried_out.flat_map(|call| {
        let what = format!("{} · {}", short(&call.input), duration(around.now - call.at));
        let told = standing.progress.iter().find(|told| told.call == call.id);
        let newest = told.and_then(|told| newest_line(&told.text));
        let newest = newest.map(|newest| Line::dim(&format!("  │ {newest}")));
        std::iter::once(line(&call.tool, &what)).chain(newest)
    });
    carried_out.chain(written).collect()
}

/// A call's input in a few letters, with a space before.
fn short(input: &str) -> String {
    let text = brief(input).unwrap_or_default();
    let cut = text.char_indices().nth(BRIEF_CHARS_MAX).map(|(at, _)| at);
    match cut {
        Some(at) => format!(" {}…", &text[..at]),
        None if text.is_empty() => text,
        None => format!(" {text}"),
    }
}

/// One line per queued message.
fn waiting(standing: &Standing) -> Vec<Line> {
    let queued = standing.queue.iter().map(|queued| (if queued.steers { "next" } else { "queued" }, &queued.parts));
    few(queued.map(|(when, parts)| (when, said(parts))))
}

/// One line per message that the daemon has not accepted yet.
fn unsent(words: &[&str]) -> Vec<Line> {
    few(words.iter().map(|words| ("not sent", (*words).to_owned())))
}

/// The first `QUEUE_ROWS_MAX` messages, and how many more there are.
fn few(waiting: impl ExactSizeIterator<Item = (&'static str, String)>) -> Vec<Line> {
    let more = waiting.len().saturating_sub(QUEUE_ROWS_MAX);
    let line = |(how, words): (&str, String)| {
        Line::new(&format!("⋯ {how} "), Look::ink(Ink::Cyan)).and(&words.replace('\n', " "), Look::DIM)
    };
    let mut lines: Vec<Line> = waiting.take(QUEUE_ROWS_MAX).map(line).collect();
    if more > 0 {
        lines.push(Line::dim(&format!("⋯ and {more} more")));
    }
    lines
}

/// The chat's status in one line.
fn status(around: &Around<'_>, standing: Option<&Standing>) -> Option<Line> {
    let spin = SPINNER[around.tick % SPINNER.len()];
    let spinning = |text: &str| Some(Line::new(&format!("{spin} "), Look::ink(Ink::Cyan)).and(text, Look::DIM));
    if let Some(why) = around.lost {
        return spinning(&format!("{why}; reconnecting"));
    }
    if let Some(hint) = around.hint {
        return Some(Line::dim(hint));
    }
    let took = around.since.map(|since| format!(" · {} s", since.elapsed().as_secs())).unwrap_or_default();
    match standing.map(|standing| (standing.status, standing)) {
        Some((Status::Interrupting, _)) => spinning("stopping"),
        Some((Status::Awaiting, standing)) => Some(asking(standing, around.asked_below)),
        Some((Status::Running, standing)) => match (&standing.retry, &standing.compacting) {
            (Some(retry), _) if retry.until > around.now => {
                let wait = duration((retry.until - around.now + 999) / 1000 * 1000);
                spinning(&format!("{}; attempt {} in {wait}", retry.message, retry.attempt + 1))
            }
            (_, Some(_)) => spinning(&format!("summarising{took}")),
            _ => spinning(&format!("{}{took} · Ctrl-C stops", doing(around.view))),
        },
        _ if around.is_sending => spinning("sending"),
        _ => None,
    }
}

/// What the model is doing, by the newest part of the draft.
fn doing(view: &View) -> &'static str {
    match view.draft.as_ref().and_then(|draft| draft.parts.last()) {
        Some(Part::Reasoning(_)) => "thinking",
        Some(Part::Call(_)) => "calling a tool",
        Some(_) => "answering",
        None if !open_calls(view).is_empty() => "working",
        None => "asking the model",
    }
}

fn asking(standing: &Standing, below: Option<&Ask>) -> Line {
    let look = Look { bold: true, ..Look::ink(Ink::Yellow) };
    let approvals: Vec<_> = standing.asks.iter().filter(|ask| ask.wants == AskKind::Approval).collect();
    match (approvals.first().copied().or(below), standing.asks.first()) {
        (Some(ask), _) => {
            let more = if approvals.len() > 1 { format!(" (1 of {})", approvals.len()) } else { String::new() };
            let keys = match &ask.grant {
                Some(grant) => format!("y, n, or a to allow {grant} from now on"),
                None => "y or n".into(),
            };
            Line::new(&format!("Allow {}?{more} ", ask.tool), look)
                .and(&format!("{keys}, then Enter; words after n are sent to the model"), Look::DIM)
        }
        (None, Some(ask)) => Line::new(&format!("{} is run by another client", ask.tool), look),
        (None, None) if !standing.asks_below.is_empty() => {
            Line::new("A sub-agent waits for a client; `everturn asks` shows what it asks", look)
        }
        (None, None) => Line::dim("waiting"),
    }
}
