//! How long a turn was at work.
//!
//! People are billed by it, and it tells why an answer took as long as it did: the time of provider calls, of the waits
//! between their attempts, and of tools. Times that overlap count once. Waiting for a person, for a place in line or for a
//! server that is down is no work, and does not count.

use std::time::Duration;

use crate::chat::{CallState, Chat};
use crate::fact::Fact;
use crate::ids::Timestamp;
use crate::message::Body;

/// How far the work of a turn was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Alive {
    /// Up to this moment.
    pub until: Timestamp,
    /// Of that, since the newest reply.
    pub since_reply: Duration,
}

impl Alive {
    /// How far the work of a chat's turn is counted after a commit.
    pub(crate) fn after(before: &Chat, facts: &[Fact]) -> Self {
        let (added, replied) = (AliveSpans::by(before, facts), facts.iter().any(Fact::is_reply));
        let earlier = before.turn.as_ref().map_or_else(Self::default, |turn| turn.alive);
        let since_reply = earlier.since_reply.saturating_add(added.sum());
        Self {
            until: if added.spans.is_empty() { earlier.until } else { added.until },
            since_reply: if replied { Duration::ZERO } else { since_reply },
        }
    }
}

/// What a commit adds to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AliveSpans {
    /// Spans of work that were not counted before, with the moment each began.
    pub spans: Vec<(Timestamp, Duration)>,
    /// Up to where the work is counted then.
    pub until: Timestamp,
}

impl AliveSpans {
    /// What a commit to a chat adds.
    #[must_use]
    pub fn by(before: &Chat, facts: &[Fact]) -> Self {
        let Some(turn) = &before.turn else { return Self::default() };
        let mut added = Self { spans: Vec::new(), until: turn.alive.until.max(turn.began) };
        let mut waits_until = before.wait.as_ref().map(|wait| wait.until);
        for fact in facts {
            match fact {
                Fact::Attempted(row, _) => {
                    if let Some(until) = waits_until.take() {
                        added.count(added.until, until.min(row.began));
                    }
                    added.count(row.began, row.began + row.took);
                }
                Fact::Rested { call, at, .. } | Fact::Asked { call, at, .. } => {
                    if let Some(CallState::Started { at: began, .. }) = before.call_state(*call) {
                        added.count(began, *at);
                    }
                }
                Fact::Said(message, _) => {
                    if let Body::Result(result) = &message.body
                        && let Some((began, took)) = before.ran_here(result)
                    {
                        added.count(began, began + took);
                    }
                }
                _ => {}
            }
        }
        added
    }

    /// All of it.
    #[must_use]
    pub fn sum(&self) -> Duration {
        self.spans.iter().map(|(_, span)| *span).sum()
    }

    fn count(&mut self, from: Timestamp, to: Timestamp) {
        let from = from.max(self.until);
        let span = to.since(from);
        if !span.is_zero() {
            self.spans.push((from, span));
            self.until = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::budget;
    use crate::chat::{Effect, OpenCall, RetryWait, StepAttempts, TranscriptTail, Turn};
    use crate::cost::{Spend, Tally};
    use crate::error::ErrorKind;
    use crate::fact::{AttemptOutcome, AttemptPurpose, AttemptRecord};
    use crate::ids::{CallUid, ChatId, MessageId, StepId};
    use crate::message::{Call, CallResult, CallVerdict, Message, Meta, Output};

    fn attempt(began: i64, took: u64) -> Fact {
        let row = AttemptRecord {
            step: StepId(1),
            number: 1,
            model: "a/b".parse().unwrap(),
            aim: AttemptPurpose::Unknown,
            began: Timestamp(began),
            took: Duration::from_millis(took),
            tally: Tally::default(),
            spend: Spend::default(),
            outcome: AttemptOutcome::Answered,
        };
        Fact::Attempted(Box::new(row), StepAttempts::default())
    }

    fn tool(began: i64, ended: i64) -> Fact {
        let result = CallResult {
            call: CallUid { step: StepId(1), ordinal: 0 },
            tool: "look".into(),
            verdict: CallVerdict::Done,
            output: Output::text("kelp"),
            began: Some(Timestamp(began)),
            ended: Timestamp(ended),
            meta: Meta::new(),
        };
        let message =
            Message { id: MessageId(1), at: Timestamp(ended), body: Body::Result(Box::new(result)), sent: None };
        Fact::Said(Arc::new(message), TranscriptTail::Input)
    }

    fn chat(until: i64, waits_until: Option<i64>) -> Chat {
        let alive = Alive { until: Timestamp(until), since_reply: Duration::ZERO };
        let turn = Some(Turn { began: Timestamp(100), alive, ..Turn::default() });
        let wait = |until| RetryWait {
            until: Timestamp(until),
            kind: ErrorKind::Overloaded,
            message: String::new(),
            attempt: 1,
        };
        Chat { turn, wait: waits_until.map(wait), ..Chat::new(ChatId::new(Timestamp(1), 1), "", "") }
    }

    fn sum(chat: &Chat, facts: &[Fact]) -> u128 {
        AliveSpans::by(chat, facts).sum().as_millis()
    }

    #[test]
    fn calls_tools_and_waits_between_attempts_count() {
        assert_eq!(sum(&chat(0, None), &[attempt(150, 40)]), 40, "not the time in line before it");
        assert_eq!(sum(&chat(200, Some(900)), &[attempt(950, 40)]), 700 + 40, "the wait, and not the line after it");
        assert_eq!(
            sum(&chat(200, Some(900)), &[attempt(300, 40)]),
            100 + 40,
            "of a wait that was cut short, what there was"
        );
        assert_eq!(sum(&chat(0, None), &[tool(150, 450)]), 300);
        assert_eq!(sum(&Chat::new(ChatId::new(Timestamp(1), 1), "", ""), &[attempt(1, 2)]), 0, "without a turn");
    }

    /// A call that goes on elsewhere counts until it rests, and not again when its result comes.
    #[test]
    fn work_that_goes_on_elsewhere_does_not_count() {
        let uid = CallUid { step: StepId(1), ordinal: 0 };
        let started = CallState::Started { effect: Effect::Once, at: Timestamp(150) };
        let open = OpenCall::new(&Call::new(uid, "look", "{}"), started);
        let mut chat = Chat { calls: vec![open], ..chat(0, None) };
        let look_at = Timestamp(500);
        let rested = Fact::Rested { call: uid, handle: "1".into(), at: Timestamp(180), look_at, misses: 0 };
        assert_eq!(sum(&chat, std::slice::from_ref(&rested)), 30);
        chat.apply(&[rested]);
        assert_eq!(sum(&chat, &[tool(150, 90_000)]), 0);
        assert!(budget::used(&chat, &[tool(150, 90_000)]).is_empty(), "nor does a budget of time");
    }

    #[test]
    fn overlapping_work_counts_once() {
        assert_eq!(sum(&chat(0, None), &[tool(150, 450), tool(200, 500), tool(160, 400)]), 350);
        let added = AliveSpans::by(&chat(300, None), &[tool(150, 450)]);
        assert_eq!((added.spans, added.until), (vec![(Timestamp(300), Duration::from_millis(150))], Timestamp(450)));
        assert_eq!(sum(&chat(500, None), &[tool(150, 450)]), 0, "all of it was counted before");
    }
}
