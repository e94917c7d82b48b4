//! Reading what was asked, and what it cost.

use std::fmt::Write as _;
use std::time::Duration;

use everturn::ChatHandle;
use everturn::core::cost::Micros;
use everturn::core::fact::{AttemptOutcome, AttemptRecord, Totals};
use everturn::core::message::Body;
use everturn::core::prompt::{PromptPart, Request, Role};

/// A request as people read it, a line a part; long texts are cut.
pub fn shown(request: &Request) -> String {
    let mut out = String::new();
    for entry in request.entries.iter() {
        let who = match entry.role {
            Role::User => "user",
            Role::Assistant => "model",
            Role::Tool => "tool",
        };
        for part in &entry.parts {
            let what = match part {
                PromptPart::Text(text) => format!("{:?}", brief(&text.text)),
                PromptPart::File(file) => format!("[{}]", file.name),
                PromptPart::Reasoning(sealed) => format!("({})", sealed.text),
                PromptPart::Call(call) => {
                    format!("{} {}({})", call.id, call.tool, brief(&serde_json::json!(call.input).to_string()))
                }
                PromptPart::Result(result) => {
                    let media = if result.media.is_empty() { "" } else { " +media" };
                    format!("{} {} {:?}{media}", result.id, result.tool, brief(&result.text))
                }
                PromptPart::HostedCall(call) => format!("{}…", call.tool),
                PromptPart::HostedResult(result) => format!("{}→", result.tool),
            };
            writeln!(out, "{who} {what}").unwrap();
        }
    }
    out
}

/// The beginning of a text, and how long it is.
pub fn brief(text: &str) -> String {
    brief_to(text, 60)
}

fn brief_to(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((cut, _)) => format!("{}… {} bytes", &text[..cut], text.len()),
        None => text.into(),
    }
}

/// A trace without the length of its long lines.
pub fn brief_lines(trace: &str) -> String {
    trace.lines().map(|line| format!("{}\n", brief_to(line, 80))).collect()
}

/// All words a request holds.
pub fn words(request: &Request) -> Vec<&str> {
    let parts = request.entries.iter().flat_map(|entry| &entry.parts);
    let texts = parts.filter_map(|part| match part {
        PromptPart::Text(text) => Some(text.text.as_str()),
        PromptPart::Result(result) => Some(result.text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Whether a request asks for a summary.
pub fn asks_summary(request: &Request) -> bool {
    words(request).last().is_some_and(|last| last.starts_with("Summarise this conversation"))
}

/// Every attempt, a line each: step and number, how it ended, tokens in and out as reported and as estimated.
pub async fn rows(chat: &ChatHandle) -> String {
    let line = |row: &AttemptRecord| {
        let (known, guess) = (row.tally.known, row.tally.estimated);
        let outcome = match row.outcome {
            AttemptOutcome::Broke(cause, kind) => format!("{kind:?} ({cause:?})"),
            other => format!("{other:?}"),
        };
        let took = row.took.as_secs_f64();
        let tokens = format!("known {}+{} guess {}+{}", known.prompt(), known.output, guess.prompt(), guess.output);
        let Micros(cost) = row.spend.total();
        let cost = format!("{}.{:06}", cost / 1_000_000, cost % 1_000_000);
        format!("{}.{} {} {outcome} {took:.1}s {tokens} {cost}\n", row.step, row.number, row.model)
    };
    adds_up(chat).await;
    all(chat).await.iter().map(line).collect()
}

/// Every attempt, page by page.
async fn all(chat: &ChatHandle) -> Vec<AttemptRecord> {
    let mut rows = Vec::new();
    loop {
        let page = chat.attempts(rows.len()).await.unwrap();
        if page.is_empty() {
            return rows;
        }
        rows.extend(page);
    }
}

/// AW03: the chat's totals are the sum of its rows and of what was said, and no attempt has two.
pub async fn adds_up(chat: &ChatHandle) {
    let rows = all(chat).await;
    let mut sum = Totals::default();
    for row in &rows {
        sum.tally.add(&row.tally);
        sum.spend.known = sum.spend.known.plus(row.spend.known);
        sum.spend.estimated = sum.spend.estimated.plus(row.spend.estimated);
        sum.attempts += 1;
        sum.time += row.took;
    }
    for message in chat.transcript().await.unwrap() {
        match &message.body {
            Body::Reply(_) => sum.steps += 1,
            Body::Result(result) => sum.time += result.ran().map_or(Duration::ZERO, |(_, time)| time),
            _ => {}
        }
    }
    let totals = chat.view().await.unwrap().standing.unwrap().totals;
    sum.alive = totals.alive; // No row says what ran beside what.
    assert_eq!(totals, sum);
    let mut names: Vec<_> = rows.iter().map(|row| (row.step, row.number)).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), rows.len(), "no attempt has two rows");
}
