//! `recall`: the whole output of an earlier call.
//!
//! A result shows the model the beginning and the end of a long output. All of it is stored with the chat, so it can be
//! read later: after a restart, and after the result was summarised away.

use std::fmt::Write as _;

use async_trait::async_trait;
use everturn::core::blob::Blob;
use everturn::core::chat::Effect;
use everturn::core::ids::{CallUid, StepId};
use everturn::core::message::{CallResult, Output};
use everturn::core::prompt::ToolSpec;
use everturn::{Policy, Tool, ToolContext, ToolError, ToolReturn};
use grep_matcher::Matcher as _;
use grep_regex::RegexMatcherBuilder;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Bytes of an output that are shown at once. With our own lines they fit what a model is shown.
const SHOWN_BYTES_MAX: usize = 40 * 1024;
/// Lines that are shown at once.
const LINES_MAX: usize = 2_000;
/// Bytes of a line that are shown.
const LINE_BYTES_MAX: usize = 2_000;
/// Matches that are shown.
const HITS_MAX: usize = 200;
/// Bytes of a line that are shown with a match in it.
const HIT_BYTES_MAX: usize = 500;
/// Bytes before a match that are shown of a long line.
const BEFORE_HIT: usize = 100;
/// Bytes that a compiled pattern may take.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Calls that are listed.
const CALLS_MAX: usize = 50;

#[derive(Deserialize, JsonSchema)]
struct RecallInput {
    /// The call, as in "12.0". Without it the newest calls are listed.
    call: Option<String>,
    /// The first line, from 1.
    #[serde(default = "one")]
    from: usize,
    /// How many lines, at most 2000.
    #[serde(default = "lines_max")]
    lines: usize,
    /// Show only lines that match this regular expression in Rust's syntax.
    pattern: Option<String>,
    /// Show bytes from this one on, counted from 0, instead of lines: for very long lines.
    byte: Option<usize>,
}

const fn one() -> usize {
    1
}

const fn lines_max() -> usize {
    LINES_MAX
}

/// A tool that shows the model the whole output of an earlier call of its chat, of any tool.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = everturn::Agent::new("anthropic/claude-sonnet-4-5".parse()?).tool(everturn_tools::Recall)?;
/// # drop(agent);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Recall;

#[async_trait]
impl Tool for Recall {
    fn spec(&self) -> ToolSpec {
        let description = "Shows the output of an earlier call, of which the result left out a part. Without `call` it \
                           lists the newest calls.";
        ToolSpec::new("recall", description, Value::from(schemars::schema_for!(RecallInput)))
    }

    fn policy(&self) -> Policy {
        Policy { effect: Effect::Read, ..Policy::default() }
    }

    async fn run(&self, context: ToolContext, input: Value) -> Result<ToolReturn, ToolError> {
        let input: RecallInput = serde_json::from_value(input)?;
        let chat = context.chat_handle().ok_or("`recall` needs an engine")?;
        let Some(call) = &input.call else {
            return Ok(list(&chat.newest_results(CALLS_MAX).await?).into());
        };
        let uid = parse(call).ok_or_else(|| format!("{call:?} is no call: calls are numbered as in \"12.0\""))?;
        let result = chat.result(uid).await?;
        let result = result.ok_or_else(|| {
            format!("there is no result of a call {call} in this chat; without `call` the newest calls are listed")
        })?;
        let shown = tokio::task::spawn_blocking(move || show(&result, &input)).await?;
        Ok(shown?.into())
    }
}

fn parse(call: &str) -> Option<CallUid> {
    let (step, ordinal) = call.split_once('.')?;
    Some(CallUid { step: StepId(step.parse().ok()?), ordinal: ordinal.parse().ok()? })
}

/// The newest calls, one per line.
fn list(results: &[CallResult]) -> String {
    let mut text = format!("{} calls, the newest first\n", results.len());
    for CallResult { call, tool, output, .. } in results {
        let bytes = output.full.as_ref().map_or(output.text.len(), Blob::len);
        let first: String = output.text.lines().next().unwrap_or_default().chars().take(80).collect();
        let _ = writeln!(text, "{call}\t{tool}\t{bytes} bytes\t{first}");
    }
    text
}

fn show(result: &CallResult, input: &RecallInput) -> Result<String, String> {
    let Output { text, full, .. } = &result.output;
    let bytes = match full {
        None => text.as_bytes(),
        Some(full) => full.here().ok_or("the output cannot be read now: try again")?,
    };
    let title = format!("call {} ({})", result.call, result.tool);
    match (&input.pattern, input.byte) {
        (Some(pattern), _) => matches(&title, bytes, pattern),
        (None, Some(from)) => Ok(range(&title, bytes, from)),
        (None, None) => Ok(lines(&title, bytes, input.from.max(1), input.lines.clamp(1, LINES_MAX))),
    }
}

/// Lines with their numbers.
fn lines(title: &str, bytes: &[u8], first: usize, len: usize) -> String {
    let mut body = String::new();
    let mut last = first - 1;
    let mut total = 0;
    let mut at = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        total += 1;
        if total >= first && total - first < len && body.len() < SHOWN_BYTES_MAX - LINE_BYTES_MAX && last + 1 == total {
            let cut = &line[..line.len().min(LINE_BYTES_MAX)];
            let _ = write!(body, "{total:>6}\t{}", String::from_utf8_lossy(cut).trim_end_matches('\n'));
            if cut.len() < line.len() {
                let _ = write!(body, " [this line goes on at byte {}]", at + cut.len());
            }
            body.push('\n');
            last = total;
        }
        at += line.len();
    }
    let range = if last < first { "no lines".into() } else { format!("lines {first}–{last}") };
    let more = if (first..total).contains(&last) { format!("[go on with from {}]\n", last + 1) } else { String::new() };
    format!("{title}: {range} of {total}, {} bytes\n{body}{more}", bytes.len())
}

/// Bytes as they are.
fn range(title: &str, bytes: &[u8], from: usize) -> String {
    let from = from.min(bytes.len());
    let to = bytes.len().min(from + SHOWN_BYTES_MAX);
    let more = if to < bytes.len() { format!("\n[go on with byte {to}]") } else { String::new() };
    let text = String::from_utf8_lossy(&bytes[from..to]);
    format!("{title}: bytes {from}–{to} of {}\n{text}{more}", bytes.len())
}

/// Lines that match, with their numbers.
fn matches(title: &str, bytes: &[u8], pattern: &str) -> Result<String, String> {
    let mut builder = RegexMatcherBuilder::new();
    builder.line_terminator(Some(b'\n')).size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
    let matcher = builder.build(pattern).map_err(|error| format!("the pattern cannot be used: {error}"))?;
    let mut body = String::new();
    let mut count = 0_usize;
    let mut at = 0;
    for (line, number) in bytes.split_inclusive(|byte| *byte == b'\n').zip(1..) {
        let words = line.strip_suffix(b"\n").unwrap_or(line);
        if let Ok(Some(hit)) = matcher.find(words) {
            count += 1;
            if count <= HITS_MAX && body.len() < SHOWN_BYTES_MAX - HIT_BYTES_MAX {
                let from = if words.len() <= HIT_BYTES_MAX { 0 } else { hit.start().saturating_sub(BEFORE_HIT) };
                let cut = &words[from..words.len().min(from + HIT_BYTES_MAX)];
                let place = if cut.len() < words.len() { format!(" [from byte {}]", at + from) } else { String::new() };
                let _ = writeln!(body, "{number:>6}:{place} {}", String::from_utf8_lossy(cut));
            }
        }
        at += line.len();
    }
    let shown = body.lines().count();
    let more = if shown < count { format!(", the first {shown} shown") } else { String::new() };
    Ok(format!("{title}: {count} lines match{more}\n{body}"))
}
