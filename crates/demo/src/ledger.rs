//! The books: what was sent, stored and shown, and whether that is the same.
//!
//! Every lane of every scene hands in what each party says happened: the model what it sent, the daemon what
//! it stored, each client what it was shown, the side file which tools took effect. The books balance, or
//! they name what does not.

mod judge;
mod print;
#[cfg(test)]
mod tests;

use everturn_server::wire::{Ended, Message, Rung, Usage};
use serde::Serialize;

use super::story::{Kind, Order};

pub(super) use print::table;

/// What was found out about one lane.
#[derive(Debug, Clone)]
pub(super) struct Played {
    pub(super) kind: Kind,
    pub(super) wire: &'static str,
    pub(super) orders: Vec<Order>,
    pub(super) sent: Sent,
    pub(super) stored: Vec<Message>,
    pub(super) shown: Vec<Shown>,
    pub(super) effects: Vec<Line>,
    pub(super) usage: Usage,
    pub(super) ended: Option<Ended>,
    /// Why each attempt was made.
    pub(super) rungs: Vec<Rung>,
    /// From each fault to the next token shown, in milliseconds.
    pub(super) gaps_ms: Vec<u64>,
    /// Words shown to the first client when the turn was interrupted.
    pub(super) words_at_stop: u64,
}

/// What the model says it has sent, repetitions included.
#[derive(Debug, Clone, Default)]
pub(super) struct Sent {
    pub(super) words: Vec<String>,
    pub(super) thoughts: Vec<String>,
    /// Tokens that went out in two halves: what one answer ended with, and what the next began with.
    pub(super) halves: Vec<(String, String)>,
}

impl Sent {
    /// Adds the tokens of an answer, all of which begin with this letter.
    pub(super) fn add(&mut self, text: &str, letter: char) {
        let tokens = if letter == 't' { &mut self.words } else { &mut self.thoughts };
        let mut more = text.split_whitespace().peekable();
        // An answer that goes on in the middle of a token says the rest of it: one token, sent in two halves.
        if let (Some(rest), Some(half)) = (more.next_if(|token| !token.starts_with(letter)), tokens.last_mut()) {
            self.halves.push((half.clone(), rest.into()));
            half.push_str(rest);
        }
        tokens.extend(more.map(str::to_owned));
    }

    /// Whether a token can be made of two halves. Less of the first may have arrived than went out: then the
    /// second says more than was missing.
    pub(super) fn is_of_halves(&self, token: &str) -> bool {
        let fits = |half: &str, rest: &str| {
            token.strip_suffix(rest).is_some_and(|head| !head.is_empty() && half.starts_with(head))
        };
        self.halves.iter().any(|(half, rest)| fits(half, rest))
    }
}

/// What a client was shown in the end.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) client: &'static str,
    pub(super) messages: Vec<Message>,
    /// How often it was told to forget everything: once, when it came.
    pub(super) resets: u32,
}

/// A line of the side file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
pub(super) struct Line {
    pub(super) chat: String,
    pub(super) call: String,
    pub(super) tool: String,
    pub(super) number: u64,
    pub(super) what: What,
}

/// What a tool did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum What {
    /// It was started.
    Start,
    /// It took effect.
    Effect,
}

/// One lane in the books.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) scene: &'static str,
    pub(super) wire: &'static str,
    pub(super) sent: usize,
    pub(super) stored: usize,
    /// By client.
    pub(super) shown: Vec<usize>,
    pub(super) lost: usize,
    pub(super) duplicated: usize,
    /// Sent again after a fault.
    pub(super) paid_again: usize,
    /// Sent and not stored, because of an interrupt.
    pub(super) stopped: usize,
    pub(super) calls: Calls,
    pub(super) attempts: u64,
    pub(super) rungs: Vec<&'static str>,
    pub(super) cost_micros: u64,
    pub(super) gaps_ms: Vec<u64>,
    /// What does not balance.
    pub(super) wrong: Vec<String>,
}

/// Tools, as the side file tells of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) struct Calls {
    /// Calls that the transcript has.
    pub(super) made: usize,
    /// Results that say how it went.
    pub(super) done: usize,
    /// Results with an unknown outcome.
    pub(super) unknown: usize,
    /// Calls of the tool that must not run twice.
    pub(super) once: usize,
    /// How often it took effect.
    pub(super) once_effects: usize,
    /// How often a tool that may run again did.
    pub(super) run_again: usize,
}

/// All books.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Ledger {
    pub(super) seed: u64,
    pub(super) balanced: bool,
    pub(super) lost: usize,
    pub(super) duplicated: usize,
    pub(super) seconds: f64,
    pub(super) rows: Vec<Row>,
    pub(super) wrong: Vec<String>,
}

impl Ledger {
    /// Closes the books.
    pub(super) fn close(seed: u64, seconds: f64, played: &[Played]) -> Self {
        let rows: Vec<Row> = played.iter().map(judge::row).collect();
        let wrong: Vec<String> = rows.iter().flat_map(|row| row.wrong.iter().cloned()).collect();
        let (lost, duplicated) = (total(&rows, |row| row.lost), total(&rows, |row| row.duplicated));
        Self { seed, balanced: wrong.is_empty() && !rows.is_empty(), lost, duplicated, seconds, rows, wrong }
    }
}

/// A sum over rows.
pub(super) fn total(rows: &[Row], count: impl Fn(&Row) -> usize) -> usize {
    rows.iter().map(count).sum()
}
