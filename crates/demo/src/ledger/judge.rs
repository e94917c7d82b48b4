//! Whether one lane balances.

use std::collections::BTreeSet;

use everturn_server::wire::{Body, Call, Ended, Message, Part, ResultOf, Rung, Verdict};
use serde_json::Value;

use super::{Calls, Played, Row, Shown, What};
use crate::count::{Answer, Diff, answers};
use crate::story::{Order, Trace};

/// The most tokens named in one sentence.
const NAMED_MAX: usize = 5;

/// The row of a lane.
pub(super) fn row(played: &Played) -> Row {
    let mut judge = Judge { played, wrong: Vec::new(), lost: 0, duplicated: 0 };
    judge.end();
    let stored = answers(&played.stored);
    judge.messages(&stored);
    judge.tokens("the store", &stored);
    judge.invented(&stored);
    for shown in &played.shown {
        judge.client(shown);
    }
    let calls = judge.calls();
    judge.struck(&stored);
    let stored_len: usize = stored.iter().map(Answer::len).sum();
    let sent = played.sent.words.len() + played.sent.thoughts.len();
    let is_stopped = judge.is_stopped();
    let over = sent.saturating_sub(stored_len);
    let shown = |shown: &Shown| answers(&shown.messages).iter().map(Answer::len).sum();
    Row {
        scene: played.kind.name(),
        wire: played.wire,
        sent,
        stored: stored_len,
        shown: played.shown.iter().map(shown).collect(),
        lost: judge.lost,
        duplicated: judge.duplicated,
        paid_again: if is_stopped { 0 } else { over },
        stopped: if is_stopped { over } else { 0 },
        calls,
        attempts: played.usage.attempts,
        rungs: rungs(played),
        cost_micros: played.usage.cost.known_micros + played.usage.cost.estimated_micros,
        gaps_ms: played.gaps_ms.clone(),
        wrong: judge.wrong,
    }
}

struct Judge<'a> {
    played: &'a Played,
    wrong: Vec<String>,
    lost: usize,
    duplicated: usize,
}

impl Judge<'_> {
    fn say(&mut self, what: &str) {
        self.wrong.push(format!("{} on {}: {what}", self.played.kind.name(), self.played.wire));
    }

    fn end(&mut self) {
        match &self.played.ended {
            Some(Ended::Done) => {}
            Some(Ended::Failed(failure)) => self.say(&format!("the turn failed: {}", failure.message)),
            other => self.say(&format!("the turn did not end well: {other:?}")),
        }
    }

    /// Every message that was sent is there, once, in order.
    fn messages(&mut self, stored: &[Answer]) {
        let sent: Vec<String> = self.played.orders.iter().map(|order| order.prompt()).collect();
        if !stored.iter().map(|answer| &answer.prompt).eq(&sent) {
            self.say(&format!("{} messages were sent and {} are stored, or they differ", sent.len(), stored.len()));
        }
    }

    fn tokens(&mut self, whose: &str, answers: &[Answer]) {
        let mut diff = Diff::default();
        for (answer, order) in answers.iter().zip(&self.played.orders) {
            diff.add(answer.diff(order));
            let newest = answer.words.len() as u64 + order.first - 1;
            if order.is_stopped && newest < self.played.words_at_stop {
                self.say(&format!(
                    "{whose} has {newest} words of an answer stopped after {}",
                    self.played.words_at_stop
                ));
            }
        }
        self.lost += diff.lost.len();
        self.duplicated += diff.doubled.len();
        for (tokens, what) in [(&diff.lost, "lost"), (&diff.doubled, "has twice"), (&diff.strange, "never heard")] {
            if !tokens.is_empty() {
                self.say(&format!("{whose} {what} {} of the tokens: {}", tokens.len(), named(tokens)));
            }
        }
        if diff.is_disordered {
            self.say(&format!("{whose} has tokens in another order"));
        }
    }

    /// Nothing is stored that the model did not send.
    fn invented(&mut self, stored: &[Answer]) {
        let said = |tokens: &[String]| tokens.iter().cloned().collect::<BTreeSet<String>>();
        let (words, thoughts) = (said(&self.played.sent.words), said(&self.played.sent.thoughts));
        let invented = stored.iter().flat_map(|answer| {
            // The last word of what was stopped may be half of one.
            let whole = answer.words.iter().rev().skip(1).filter(|word| !words.contains(*word));
            whole.chain(answer.thoughts.iter().filter(|thought| !thoughts.contains(*thought)))
        });
        let sent = &self.played.sent;
        let invented: Vec<String> = invented.filter(|token| !sent.is_of_halves(token)).cloned().collect();
        if !invented.is_empty() {
            self.say(&format!("tokens are stored that the model never sent: {}", named(&invented)));
        }
    }

    fn client(&mut self, shown: &Shown) {
        let whose = format!("client {}", shown.client);
        if shown.resets != 1 {
            self.say(&format!("{whose} had to begin anew {} times", shown.resets.saturating_sub(1)));
        }
        if shown.messages != self.played.stored {
            let wrong = self.wrong.len();
            self.tokens(&whose, &answers(&shown.messages));
            if self.wrong.len() == wrong {
                self.say(&format!("{whose} was shown something else than what is stored"));
            }
        }
    }

    /// Every call has one result, and every effect happened as often as its result says it may have.
    fn calls(&mut self) -> Calls {
        let (mut calls, stored) = (Calls::default(), &self.played.stored);
        let made: Vec<&Call> = stored.iter().flat_map(calls_of).collect();
        let results: Vec<&ResultOf> = stored.iter().filter_map(result_of).collect();
        let planned: Vec<(&str, u64)> = self.played.orders.iter().flat_map(|order| order.calls.clone()).collect();
        let mut numbers: Vec<(&str, u64)> = made.iter().map(|call| (call.tool.as_str(), number_of(call))).collect();
        let mut expected = planned.clone();
        numbers.sort_unstable();
        expected.sort_unstable();
        if numbers != expected {
            self.say(&format!("the model made the calls {expected:?}, the transcript has {numbers:?}"));
        }
        if results.len() != made.len() {
            self.say(&format!("{} calls have {} results", made.len(), results.len()));
        }
        for call in made {
            let its: Vec<&&ResultOf> = results.iter().filter(|result| result.call == call.id).collect();
            let [result] = its.as_slice() else {
                self.say(&format!("{} {} has {} results", call.tool, number_of(call), its.len()));
                continue;
            };
            self.effects(call, result.verdict, &mut calls);
        }
        let is_known = |number: u64| planned.iter().any(|(_, planned)| *planned == number);
        if let Some(line) = self.played.effects.iter().find(|line| !is_known(line.number)) {
            self.say(&format!("{} {} ran without a call", line.tool, line.number));
        }
        calls
    }

    fn effects(&mut self, call: &Call, verdict: Verdict, calls: &mut Calls) {
        let number = number_of(call);
        let count = |what| {
            let lines = self.played.effects.iter();
            lines.filter(|line| line.number == number && line.tool == call.tool && line.what == what).count()
        };
        let (starts, effects) = (count(What::Start), count(What::Effect));
        calls.made += 1;
        match verdict {
            Verdict::Done => calls.done += 1,
            Verdict::Unknown => calls.unknown += 1,
            Verdict::Error | Verdict::Denied | Verdict::Interrupted => {}
        }
        let (name, kills) = (format!("{} {number}", call.tool), self.played.kind.kills());
        let must_not_repeat = call.tool == "note";
        if must_not_repeat {
            calls.once += 1;
            calls.once_effects += effects;
            if starts > 1 || effects > 1 {
                self.say(&format!(
                    "{name} ran twice, and must not: {starts} starts, {effects} effects in the side file"
                ));
            }
        } else {
            calls.run_again += starts.saturating_sub(1);
            if starts > 1 && !kills {
                self.say(&format!("{name} ran {starts} times, and nothing was killed"));
            }
        }
        match verdict {
            Verdict::Done if effects == 0 => self.say(&format!("{name} is said to be done and left no effect")),
            Verdict::Unknown if !must_not_repeat => {
                self.say(&format!("{name} may run again, and its outcome is still called unknown"));
            }
            Verdict::Unknown if !kills => {
                self.say(&format!("the outcome of {name} is called unknown, and nothing was killed"));
            }
            Verdict::Interrupted if !self.is_stopped() => {
                self.say(&format!("{name} is said to be interrupted, but there was no interrupt"));
            }
            Verdict::Error | Verdict::Denied => self.say(&format!("{name} ended with {verdict:?}")),
            Verdict::Done | Verdict::Unknown | Verdict::Interrupted => {}
        }
    }

    fn is_stopped(&self) -> bool {
        self.played.orders.iter().any(|order| order.is_stopped)
    }

    /// The trouble came: books of a lane in which nothing went wrong prove nothing.
    fn struck(&mut self, stored: &[Answer]) {
        let (played, climbed) = (self.played, rungs(self.played));
        let steps: u64 = played.orders.iter().map(Order::steps).sum();
        let lacks = match played.kind.trace() {
            Trace::Rung(rungs) if !climbed.iter().any(|rung| rungs.contains(rung)) => {
                format!("no attempt had to {}", rungs.join(" or "))
            }
            Trace::Attempts if played.usage.attempts <= steps => {
                format!("{} attempts were enough for {steps} steps", played.usage.attempts)
            }
            Trace::Gap if played.gaps_ms.is_empty() => "no client had to wait for it".into(),
            Trace::Message if played.orders.len() < 2 => "no message came in".into(),
            Trace::Short if !stored.iter().zip(&played.orders).any(|(answer, order)| is_short(answer, order)) => {
                "no answer was cut short".into()
            }
            Trace::Rung(_) | Trace::Attempts | Trace::Gap | Trace::Message | Trace::Short => return,
        };
        self.say(&format!("the fault did not strike: {lacks}"));
    }
}

/// The first of some tokens.
fn named(tokens: &[String]) -> String {
    let named = tokens.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if tokens.len() > NAMED_MAX { " and more" } else { "" };
    format!("{named}{more}")
}

fn is_short(answer: &Answer, order: &Order) -> bool {
    order.is_stopped && answer.words.len() < order.words().len()
}

fn calls_of(message: &Message) -> Vec<&Call> {
    let Body::Reply(reply) = &message.body else { return Vec::new() };
    let calls = reply.parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(call),
        _ => None,
    });
    calls.collect()
}

const fn result_of(message: &Message) -> Option<&ResultOf> {
    match &message.body {
        Body::Result(result) => Some(result),
        _ => None,
    }
}

fn number_of(call: &Call) -> u64 {
    let input: Value = serde_json::from_str(&call.input).unwrap_or_default();
    input["number"].as_u64().unwrap_or(0)
}

/// The rungs that were climbed: those of attempts, and calls that were run although their stream broke.
fn rungs(played: &Played) -> Vec<&'static str> {
    let mut rungs: Vec<&'static str> = played.rungs.iter().copied().filter_map(name_of).collect();
    let each = &played.usage.each;
    let is_last = |at: usize| each.get(at + 1).is_none_or(|next| next.step != each[at].step);
    let is_salvaged = |at: &usize| is_last(*at) && !matches!(each[*at].outcome.as_str(), "answered" | "interrupted");
    rungs.extend((0..each.len()).filter(is_salvaged).map(|_| "salvage"));
    rungs
}

const fn name_of(rung: Rung) -> Option<&'static str> {
    match rung {
        Rung::First => None,
        Rung::Reattach => Some("re-attach"),
        Rung::Continue => Some("continue"),
        Rung::Restart => Some("restart"),
        Rung::FallBack => Some("fall back"),
    }
}
