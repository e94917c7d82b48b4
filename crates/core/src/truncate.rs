//! What a tool put out, cut to what a model can read.
//!
//! One listing of a large directory can fill a context window and brick the chat, so each result has a budget. The
//! beginning says what the output is and the end says how it ended; the middle is what can be spared. Errors stand at the
//! end, so of an output the end gets more room. The model is told how much is missing, and the exact bytes are kept beside
//! the text whenever the text is not all of them.
//!
//! Tools put out bytes, models read text. Valid UTF-8 passes unchanged. Bytes that are no UTF-8 become U+FFFD for the
//! model. NUL is valid UTF-8, but some providers refuse it or stop reading at it: the model is shown `␀` (U+2400), a
//! picture of it that cannot be mistaken for an escape to be written into a file.

use std::borrow::Cow;

use crate::cost::BYTES_PER_TOKEN;
use crate::message::Output;

#[cfg(test)]
mod tests;

/// The share of the window one result may take: a third.
const WINDOW_DIVISOR: u64 = 3;
/// The budget where the window is not known.
pub const BUDGET_DEFAULT: usize = 64 * 1024;
/// The budget of the smallest window: less would make tools useless.
pub const BUDGET_MIN: usize = 16 * 1024;
/// Room for the marker between head and tail.
const MARKER_BYTES_MAX: usize = 256;
/// A budget in which a marker and two ends have no room.
pub(crate) const TINY_BUDGET: usize = 2 * MARKER_BYTES_MAX;

/// How many bytes one result may show the model. A window of zero counts as unknown.
#[must_use]
pub fn budget(context_limit: Option<u64>) -> usize {
    match context_limit {
        None | Some(0) => BUDGET_DEFAULT,
        Some(tokens) => {
            let bytes = (tokens / WINDOW_DIVISOR).saturating_mul(BYTES_PER_TOKEN);
            usize::try_from(bytes).unwrap_or(usize::MAX).max(BUDGET_MIN)
        }
    }
}

/// Advice for models that cannot read what was left out of an output.
pub const ASK_FOR_LESS: &str = "Ask for less at a time to see them: a narrower search, a range of lines, a filter.";

/// A tool's bytes as an output: text within the budget for the model, and all bytes where the text is not all of them.
/// `advice` is a short sentence that says how to get at what is left out. A budget of zero is none.
#[must_use]
pub fn output(bytes: Vec<u8>, budget: usize, advice: &str) -> Output {
    let bytes = match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') && fits(&text, budget) => return Output::text(text),
        Ok(text) => text.into_bytes(),
        Err(not_text) => not_text.into_bytes(),
    };
    let readable = String::from_utf8_lossy(&bytes).replace('\0', "␀");
    let text = ends(&readable, budget, advice).into_owned();
    Output { text, full: Some(bytes.into()), ..Output::default() }
}

/// An output cut to at most `budget` bytes: whole lines, one third from its beginning and two thirds from its end, and
/// between them one line that says what is missing.
fn ends<'a>(text: &'a str, budget: usize, advice: &str) -> Cow<'a, str> {
    if fits(text, budget) {
        return Cow::Borrowed(text);
    }
    if budget <= TINY_BUDGET {
        return Cow::Borrowed(&text[..text.floor_char_boundary(budget)]);
    }
    let room = budget - MARKER_BYTES_MAX;
    let head = first_lines(&text[..text.floor_char_boundary(room / 3)]);
    let tail = last_lines(&text[text.ceil_char_boundary(text.len() - (room - room / 3))..]);
    let missing = &text[head.len()..text.len() - tail.len()];
    let first = head.matches('\n').count() + 1;
    let last = first + missing.trim_end_matches('\n').matches('\n').count();
    let line_end = if head.ends_with('\n') { "" } else { "\n" };
    Cow::Owned(format!(
        "{head}{line_end}[{} bytes are left out here: lines {first} to {last}. {advice}]\n{tail}",
        missing.len()
    ))
}

/// The text up to the end of its last whole line. Half of a line is kept if it is most of the text.
fn first_lines(text: &str) -> &str {
    match text.rfind('\n') {
        Some(end) if end >= text.len() / 2 => &text[..=end],
        Some(_) | None => text,
    }
}

/// The text from its first whole line on. Half of a line is kept if it is most of the text.
fn last_lines(text: &str) -> &str {
    match text.find('\n') {
        Some(end) if end < text.len() / 2 => &text[end + 1..],
        Some(_) | None => text,
    }
}

/// Text cut to at most `budget` bytes: two thirds from its beginning, one third from its end, and between them how much
/// is missing. A tiny budget leaves the beginning alone; a budget of zero is none.
#[must_use]
pub fn truncate(text: &str, budget: usize) -> Cow<'_, str> {
    truncate_noting(text, budget, |omitted| {
        format!(
            "[{omitted} bytes are left out here. Ask for less at a time to see them: \
             a narrower search, a range of lines, a filter.]"
        )
    })
}

/// Truncates with a note made from the number of missing bytes.
#[must_use]
pub fn truncate_noting(text: &str, budget: usize, note: impl FnOnce(usize) -> String) -> Cow<'_, str> {
    if fits(text, budget) {
        return Cow::Borrowed(text);
    }
    if budget <= TINY_BUDGET {
        return Cow::Borrowed(&text[..text.floor_char_boundary(budget)]);
    }
    let room = budget - MARKER_BYTES_MAX;
    let head = &text[..text.floor_char_boundary(room - room / 3)];
    let tail = &text[text.ceil_char_boundary(text.len() - room / 3)..];
    let omitted = text.len() - head.len() - tail.len();
    Cow::Owned(format!("{head}\n\n{}\n\n{tail}", note(omitted)))
}

const fn fits(text: &str, budget: usize) -> bool {
    budget == 0 || text.len() <= budget
}
