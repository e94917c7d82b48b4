//! A chat that begins with what was said in another.
//!
//! A fork takes the messages of a chat up to one of them, under their numbers, as its first commit. It must be a
//! transcript like any other, so it may not end between a call and its result. What the other chat has paid, started and
//! been asked stays with it.

use std::sync::Arc;

use crate::chat::Chat;
use crate::ids::{CallUid, ChatId, InboxSeq, MessageId, StepId, Version};
use crate::message::{Body, Message};

/// A transcript cannot be taken up here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("call {0} has no result yet at that point")]
pub struct UnansweredCall(pub CallUid);

/// The step that comes next for whoever takes a transcript up that ends like this. `tail` begins with its newest reply,
/// if there is one: only calls of that one can be without a result.
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

/// A new chat like `chat` whose newest message is `newest`, and whose next step is `step`. It has seen one commit: the
/// one that took the messages over. Its receipts are counted on from `obeyed`, the other chat's newest: messages that were
/// taken over carry theirs, and none may be given twice.
#[must_use]
pub fn fork(chat: Chat, newest: MessageId, step: StepId, obeyed: InboxSeq) -> Chat {
    Chat { newest, step, obeyed, version: Version(1), ..chat }
}

/// An empty chat with a title, as it is made.
#[must_use]
pub fn titled(id: ChatId, agent: &str, owner: &str, title: &str) -> Chat {
    Chat { title: title.into(), ..Chat::new(id, agent, owner) }
}
