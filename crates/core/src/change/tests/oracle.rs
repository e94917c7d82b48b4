//! Checks that must hold after every commit.

use std::collections::BTreeSet;

use crate::chat::{Chat, TurnEnd};
use crate::command::{Command, Delivery};
use crate::fact::Fact;
use crate::ids::{CallUid, InboxSeq, MessageId, StepId, Version};
use crate::message::{Body, Message, text_of};
use crate::rehearsal::Stage;
use crate::status::{Status, Verb, next};

/// The words of the message that command `seq` brings. No two commands say the same.
pub(super) fn words_of(seq: InboxSeq) -> String {
    format!("m{seq}")
}

/// Watches a chat from its first commit on.
#[derive(Default)]
pub(super) struct Oracle {
    version: Version,
    newest: MessageId,
    replied: StepId,
    open_step: StepId,
    newest_is_users: bool,
    /// The edit that the newest commit obeyed.
    edited: Option<InboxSeq>,
    said: Vec<InboxSeq>,
    deleted: BTreeSet<InboxSeq>,
    promoted: BTreeSet<InboxSeq>,
}

impl Oracle {
    /// Looks at `facts`, which have just brought the chat from where `before` says to where `stage` stands.
    pub(super) fn commit(&mut self, (before, half_said): (&Chat, bool), facts: &[Fact], stage: &Stage) {
        self.version = self.version.next();
        assert_eq!(stage.chat.version, self.version, "versions are 1, 2, 3…");
        let (mut status, mut half_said, edited) = (before.status, half_said, self.edited.take());
        for fact in facts {
            match fact {
                Fact::Said(message, _) if half_said && matches!(message.body, Body::User(_)) => {
                    panic!("message {} was put before what was shown before it", message.id)
                }
                _ => half_said &= !ends_the_step(fact),
            }
            match fact {
                Fact::Moved(to) => {
                    assert!(Verb::ALL.iter().any(|verb| next(status, *verb) == Some(*to)), "{status:?} to {to:?}");
                    status = *to;
                }
                Fact::Said(message, _) => self.said(message),
                Fact::TurnEnded(end) => {
                    assert!(!(is_bound(end) && self.newest_is_users), "{end:?} swallowed a message")
                }
                Fact::Obeyed(seq, Ok(())) => self.obeyed(*seq, &stage.inbox[seq.0 as usize - 1].0.command),
                Fact::Obeyed(seq, Err(refusal)) => {
                    assert_eq!(facts.len(), 1, "a refusal changes nothing");
                    let command = &stage.inbox[seq.0 as usize - 1].0.command;
                    let is_stop = *command == Command::Interrupt;
                    assert!(!is_stop || edited.is_none_or(|edit| edit.0 + 1 != seq.0), "{seq} stops an edit");
                    assert!(!is_promised(command), "{command:?} was accepted, then refused: {refusal}");
                }
                _ => {}
            }
        }
        assert!(stage.chat.step >= self.open_step, "a step is never opened again");
        self.open_step = stage.chat.step;
        pairs(stage);
        stands(stage);
    }

    fn said(&mut self, message: &Message) {
        assert!(message.id > self.newest, "message ids grow, over edits too");
        self.newest = message.id;
        self.newest_is_users = matches!(message.body, Body::User(_));
        match &message.body {
            Body::Reply(reply) => {
                assert!(reply.step > self.replied, "a step has one reply, ever");
                self.replied = reply.step;
            }
            Body::User(parts) => {
                let seq = InboxSeq(text_of(parts)[1..].parse().unwrap());
                assert!(!self.said.contains(&seq), "{seq} was said before");
                assert!(!self.deleted.contains(&seq), "{seq} was deleted");
                self.said.push(seq);
            }
            Body::Context(_) | Body::Result(_) | Body::Summary(_) => {}
        }
    }

    fn obeyed(&mut self, seq: InboxSeq, command: &Command) {
        match command {
            Command::Unqueue(id) => assert!(self.deleted.insert(*id), "{id} was deleted twice, by {seq}"),
            Command::Promote(id) => drop(self.promoted.insert(*id)),
            Command::Edit { .. } => self.edited = Some(seq),
            _ => {}
        }
    }

    /// I12: every message that was accepted and obeyed was said once, deleted, or still waits; and those that only ever
    /// waited were said in the order in which they came.
    pub(super) fn queue(&self, stage: &Stage) {
        let obeyed = stage.inbox.iter().zip(1..).take(stage.chat.obeyed.0 as usize);
        let mut waited = (Vec::new(), Vec::new());
        for ((inbound, _), seq) in obeyed {
            let Command::Send { when, .. } = &inbound.command else { continue };
            let seq = InboxSeq(seq);
            let waits = stage.chat.queue.iter().filter(|queued| queued.id == seq).count();
            let fates = [usize::from(self.said.contains(&seq)), usize::from(self.deleted.contains(&seq)), waits];
            assert_eq!(fates.iter().sum::<usize>(), 1, "{seq}: said, deleted, waiting: {fates:?}");
            let place = self.said.iter().position(|said| *said == seq);
            match when {
                _ if self.promoted.contains(&seq) => {}
                Delivery::Queue => waited.0.extend(place),
                Delivery::Steer => waited.1.extend(place),
                Delivery::Now => {}
            }
        }
        assert!(waited.0.is_sorted() && waited.1.is_sorted(), "out of order: {waited:?}");
    }
}

/// Whether nothing can be added to what was shown of the step's answer any more.
fn ends_the_step(fact: &Fact) -> bool {
    match fact {
        Fact::Said(message, _) => matches!(message.body, Body::Reply(_)),
        Fact::TurnEnded(_) | Fact::Rewound { .. } => true,
        _ => false,
    }
}

/// Whether a turn ended because it may not go on.
fn is_bound(end: &TurnEnd) -> bool {
    use TurnEnd::{CostMax, SameCallMax, StepsMax, TimeMax, TokensMax};
    matches!(end, StepsMax | TimeMax | TokensMax | CostMax | SameCallMax)
}

/// Whether an accepted command of this kind is always obeyed: nothing the driver does can come in its way.
fn is_promised(command: &Command) -> bool {
    match command {
        Command::Send { .. } | Command::Edit { .. } | Command::Compact | Command::Archive => true,
        Command::Unarchive | Command::Rename(_) | Command::Patch { .. } => true,
        Command::Promote(_) | Command::Unqueue(_) | Command::Interrupt | Command::Answer(_) => false,
        Command::Revoke(_) => false, // It may end meanwhile.
    }
}

/// I8, MC27: every call has one result before anything else is said, no result is without its call, and what is open is
/// what the chat says is open.
fn pairs(stage: &Stage) {
    let mut open: Vec<CallUid> = Vec::new();
    for message in &stage.transcript {
        match &message.body {
            Body::Result(result) => {
                let place = open.iter().position(|uid| *uid == result.call);
                open.remove(place.unwrap_or_else(|| panic!("a result for {}, which is not open", result.call)));
            }
            Body::Reply(_) | Body::User(_) | Body::Context(_) | Body::Summary(_) => {
                assert_eq!(open, [], "message {} was said over open calls", message.id);
            }
        }
        if let Body::Reply(reply) = &message.body {
            open.extend(reply.calls().map(|call| call.uid));
        }
    }
    assert_eq!(open, stage.chat.calls.iter().map(|open| open.uid).collect::<Vec<_>>());
}

/// The parts of a chat fit each other.
fn stands(stage: &Stage) {
    let chat = &stage.chat;
    match chat.status {
        Status::Idle | Status::Failed => {
            assert!(chat.turn.is_none() && !chat.compaction_asked && chat.compacting.is_none() && chat.wait.is_none());
        }
        Status::Awaiting => assert!(chat.turn.is_some() && chat.asks().next().is_some()),
        Status::Running | Status::Interrupting => {}
    }
    assert!(chat.status != Status::Idle || chat.queue.is_empty(), "a chat at rest has no queue");
    assert!(!chat.archived || !chat.is_busy());
    let waits = chat.turn.as_ref().is_some_and(|turn| turn.rests_since.is_some());
    let all_rest = chat.status == Status::Running && waits && chat.calls.iter().all(|open| open.state.rests());
    assert_eq!(chat.awaits_until.is_some(), chat.status == Status::Awaiting || all_rest);
    assert_eq!(chat.totals.attempts, stage.attempts.len() as u64);
    assert_eq!(Some(chat.newest).max(stage.transcript.last().map(|message| message.id)), Some(chat.newest));
    assert!(stage.draft.as_ref().is_none_or(|draft| draft.step() == chat.step));
}
