//! Quarantine: chats that crash their process.
//!
//! After a crash every chat resumes, and a chat that caused the crash causes it again. So a process that
//! takes a chat over in the middle of its work commits that before it works on it. After three takeovers with
//! a started tool and no tool result since, or a dozen in a row without any progress, the chat is not
//! resumed: its turn fails with a reason, other chats go on, and the next message releases it. Tools can kill
//! a process; waiting for a model mostly does not, so a turn that only waited is suspected later.
//!
//! A chat that was only present when the process died for another reason makes progress between two crashes,
//! which resets the count: one delta or one tool result is enough.

use crate::chat::{CallState, Chat};
use crate::draft::Draft;
use crate::ids::{MessageId, StepId};
use crate::limits::Limits;

/// Takeovers of a chat in the middle of its work, and its state at the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TakeoverCount {
    /// Takeovers in a row without progress.
    pub still: u32,
    /// Takeovers in a row with a started tool, and no tool result since.
    pub in_tools: u32,
    /// The open step.
    pub step: StepId,
    /// The newest attempt at it that had produced output.
    pub attempt: u32,
    /// The newest message.
    pub newest: MessageId,
}

impl TakeoverCount {
    /// Counts one more takeover.
    #[must_use]
    pub fn again(chat: &Chat, draft: Option<&Draft>) -> Self {
        let before = chat.taken;
        let spoke = draft.filter(|draft| draft.current_bytes() > 0).and_then(Draft::current);
        let earlier = if before.step == chat.step { before.attempt } else { 0 };
        let attempt = spoke.map_or(earlier, |began| began.number);
        let stands = (before.step, before.attempt, before.newest) == (chat.step, attempt, chat.newest);
        let in_tools = chat.calls.iter().any(|open| matches!(open.state, CallState::Started { .. }));
        Self {
            still: if stands { before.still.saturating_add(1) } else { 1 },
            in_tools: before.in_tools.saturating_add(u32::from(in_tools)),
            step: chat.step,
            attempt,
            newest: chat.newest,
        }
    }

    /// Whether it may be the cause of the crashes. Then it should run alone until it makes progress;
    /// otherwise chats that are only present at its crashes are counted as often as it is.
    #[must_use]
    pub const fn is_suspect(&self, limits: &Limits) -> bool {
        self.still.saturating_add(1) >= limits.deaths_waiting_max || self.are_tools_suspect(limits)
    }

    /// Whether its tools may be the cause. Then output of its model does not clear it.
    #[must_use]
    pub const fn are_tools_suspect(&self, limits: &Limits) -> bool {
        self.in_tools.saturating_add(1) >= limits.deaths_max
    }

    /// Whether the limit is reached: the turn must fail.
    #[must_use]
    pub const fn is_deadly(&self, limits: &Limits) -> bool {
        self.still >= limits.deaths_waiting_max || self.in_tools >= limits.deaths_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;
    use crate::chat::{Effect, TurnEnd};
    use crate::delta::{AttemptBegan, Delta, Rung};
    use crate::fact::Fact;
    use crate::ids::{CallUid, ChatId, Timestamp};
    use crate::message::{CallResult, CallVerdict, Meta, Output};
    use crate::status::Status;

    fn running() -> Chat {
        let mut chat = Chat::new(ChatId::from_u128(1), "it", "");
        chat.apply(&[Fact::TurnBegan(Timestamp(0)), Fact::Moved(Status::Running)]);
        chat
    }

    /// Takes the chat over after this many attempts; `said` is the output of the last one.
    fn take_up(chat: &mut Chat, attempts: u32, said: &str) -> bool {
        let mut draft = Draft::new(chat.step);
        for number in 1..=attempts {
            let began = AttemptBegan { number, model: "a/b".parse().expect("a model"), rung: Rung::First };
            draft.push(Timestamp(0), &Delta::Attempt(Box::new(began))).expect("it fits");
        }
        if !said.is_empty() {
            draft.push(Timestamp(0), &Delta::Text(said.into())).expect("it fits");
        }
        let taken = TakeoverCount::again(chat, Some(&draft));
        chat.apply(&[Fact::TakenUp(taken)]);
        taken.is_deadly(&Limits { deaths_waiting_max: 3, ..Limits::default() })
    }

    /// Three takeovers without progress are too many; a delta or a new turn resets the count.
    #[test]
    fn standing_still_is_counted() {
        let mut chat = running();
        assert_eq!([1, 2, 3].map(|attempts| take_up(&mut chat, attempts, "")), [false, false, true]);
        let mut chat = running();
        assert_eq!([1, 2].map(|attempts| take_up(&mut chat, attempts, "")), [false, false]);
        assert!(!take_up(&mut chat, 3, "Hel"), "it has got on");
        assert!(!take_up(&mut chat, 3, "Hel"), "and died before it could ask again");
        assert!(take_up(&mut chat, 4, ""));
        chat.apply(&[Fact::TurnEnded(TurnEnd::Done), Fact::Moved(Status::Idle)]);
        assert_eq!(chat.taken, TakeoverCount::default());
    }

    /// A tool that kills its process is found although its model goes on; a result of a tool clears the
    /// count.
    #[test]
    fn deaths_in_tools_are_counted_until_one_comes_back() {
        let mut chat = running();
        let uid = |ordinal| CallUid { step: StepId(1), ordinal };
        let started = |chat: &mut Chat, ordinal| {
            let call = crate::message::Call::new(uid(ordinal), "t", "{}");
            let open = crate::chat::OpenCall::new(&call, CallState::Ready);
            let started = Fact::Started { call: uid(ordinal), effect: Effect::Once, at: Timestamp(0) };
            chat.apply(&[Fact::Opened(vec![open]), started]);
        };
        let answered = |chat: &mut Chat, ordinal, verdict| {
            let result = CallResult {
                call: uid(ordinal),
                tool: "t".into(),
                verdict,
                output: Output::default(),
                began: Some(Timestamp(0)),
                ended: Timestamp(0),
                meta: Meta::new(),
            };
            let facts = {
                let mut change = Change::new(chat, Timestamp(0));
                change.result(result);
                change.facts()
            };
            chat.apply(&facts);
        };
        started(&mut chat, 0);
        assert!(!take_up(&mut chat, 0, ""));
        answered(&mut chat, 0, CallVerdict::Unknown);
        assert!(!take_up(&mut chat, 1, "Hel"), "it had got on");
        started(&mut chat, 1);
        assert!(!take_up(&mut chat, 0, ""));
        answered(&mut chat, 1, CallVerdict::Unknown);
        started(&mut chat, 2);
        assert!(take_up(&mut chat, 0, ""), "the third death in a tool");
        answered(&mut chat, 2, CallVerdict::Done);
        assert_eq!(chat.taken.in_tools, 0);
    }
}
