//! What is committed of a repair.
//!
//! A transcript is mended as an edit is made: from the first message that changes on, everything is taken back and said
//! again, in one commit. What was there stays in the store, taken back, so that nothing is lost by a mistake of ours.

use std::sync::Arc;

use super::Repaired;
use crate::chat::{Chat, TranscriptTail, TurnEnd};
use crate::fact::Fact;
use crate::ids::{MessageId, StepId};
use crate::message::{Body, Message};

/// The commit that mends a chat that rests. Nothing if it is healthy.
#[must_use]
pub fn of_repair(chat: &Chat, transcript: &[Arc<Message>], repaired: &Repaired) -> Vec<Fact> {
    let again = &repaired.messages[repaired.kept..];
    let rewound = transcript.get(repaired.kept).map(|first| Fact::Rewound { from: first.id });
    let mut facts: Vec<Fact> = rewound.into_iter().chain(again.iter().map(said)).collect();
    if let Some(StepId(last)) = newest_step(again) {
        // Saying an old reply again leads back to its step, and no step may be used twice.
        let ended = chat.ended.clone().unwrap_or(TurnEnd::Done);
        let behind = chat.step.0.saturating_sub(last + 1);
        facts.extend((0..behind).map(|_| Fact::TurnEnded(ended.clone())));
    }
    facts
}

/// The commit that makes an empty chat one in which these were said.
#[must_use]
pub fn of_import(messages: &[Arc<Message>]) -> Vec<Fact> {
    let numbered = (1..).zip(messages).map(|(number, message)| {
        // Receipts are another chat's.
        let message = Message { id: MessageId(number), sent: None, ..Message::clone(message) };
        said(&Arc::new(message))
    });
    numbered.chain([Fact::TurnEnded(TurnEnd::Done)]).collect()
}

/// No answer to it is expected.
fn said(message: &Arc<Message>) -> Fact {
    Fact::Said(message.clone(), TranscriptTail::Nothing)
}

fn newest_step(messages: &[Arc<Message>]) -> Option<StepId> {
    messages.iter().rev().find_map(|message| match &message.body {
        Body::Reply(reply) => Some(reply.step),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{TranscriptOrigin, repair};
    use crate::ids::ChatId;
    use crate::prompt::tests::build::{calls, reply, result, says, transcript, user};

    fn messages<const N: usize>(bodies: [Body; N]) -> Vec<Arc<Message>> {
        transcript(bodies).into_iter().map(Arc::new).collect()
    }

    /// A chat in which these were said; it rests.
    fn resting(messages: &[Arc<Message>]) -> Chat {
        let mut chat = Chat::new(ChatId::from_u128(1), "agent", "owner");
        chat.apply(&of_import(messages));
        chat
    }

    /// No step is used twice, and no answer is expected.
    #[test]
    fn a_mended_chat_rests_where_it_was() {
        let broken = messages([user("a"), reply([calls(0, "look", "{}")]), user("b"), reply([says("c")])]);
        let mut chat = resting(&broken);
        chat.step = StepId(9);
        let before = chat.clone();
        let repaired = repair(&broken, TranscriptOrigin::Foreign);
        chat.apply(&of_repair(&before, &broken, &repaired));
        assert_eq!((chat.step, chat.status, chat.tail), (StepId(9), before.status, TranscriptTail::Nothing));
        assert_eq!((chat.newest, chat.ended, chat.title), (MessageId(7), before.ended, "a".into()));
    }

    #[test]
    fn a_repair_adds_missing_results_and_rewinds_nothing() {
        let broken = messages([user("a"), reply([calls(0, "look", "{}")])]);
        let facts = of_repair(&resting(&broken), &broken, &repair(&broken, TranscriptOrigin::Foreign));
        assert!(
            matches!(&facts[..], [Fact::Said(message, TranscriptTail::Nothing)] if message.id == MessageId(3)),
            "{facts:?}"
        );
        let healthy = messages([user("a"), reply([calls(0, "look", "{}")]), result(0, "ok")]);
        assert_eq!(of_repair(&resting(&healthy), &healthy, &repair(&healthy, TranscriptOrigin::Foreign)), []);
    }
}
