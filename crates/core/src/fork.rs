//! Forks: a chat that begins with the messages of another.
//!
//! A fork takes the messages of a chat up to one of them, under their numbers, as its first commit. It must
//! be a transcript like any other, so it may not end between a call and its result. Costs, started calls and
//! open questions stay with the other chat.

use std::sync::Arc;

use crate::chat::Chat;
use crate::ids::{CallUid, ChatId, InboxSeq, MessageId, StepId, Version};
use crate::message::{Body, Message};

/// The transcript cannot be forked here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("call {0} has no result yet at that point")]
pub struct UnansweredCall(pub CallUid);

/// The next step of a fork with this end. `tail` begins with the newest reply, if there is one: only its
/// calls can lack a result.
pub fn next_step(tail: &[Arc<Message>]) -> Result<StepId, UnansweredCall> {
    let is_answered = |uid: CallUid| {
        let answers = |message: &Arc<Message>| matches!(&message.body, Body::Result(result) if result.call == uid);
        tail.iter().any(answers)
    };
    let newest = tail.iter().rev().find_map(|message| match &message.body {
        Body::Reply(reply) => Some(reply),
        Body::User(_) | Body::Context(_) | Body::Result(_) | Body::Summary(_) => None,
    });
    let Some(reply) = newest else { return Ok(StepId(1)) };
    match reply.calls().find(|call| !is_answered(call.uid)) {
        Some(open) => Err(UnansweredCall(open.uid)),
        None => Ok(reply.step.next()),
    }
}

/// A new chat like `chat` with the newest message `newest` and the next step `step`. Its version is 1: the
/// commit that copied the messages. Its receipts continue after `obeyed`, the other chat's newest, because
/// copied messages carry theirs and no receipt may be given twice.
#[must_use]
pub fn fork(chat: Chat, newest: MessageId, step: StepId, obeyed: InboxSeq) -> Chat {
    Chat { newest, step, obeyed, version: Version(1), ..chat }
}

/// An empty chat with a title, as it is made.
#[must_use]
pub fn titled(id: ChatId, agent: &str, owner: &str, title: &str) -> Chat {
    Chat { title: title.into(), ..Chat::new(id, agent, owner) }
}
