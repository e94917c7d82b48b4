//! Replies that were left out of loaded messages because their turn was under way.
//!
//! A page loads the messages and then resumes. A turn that ends in between would be in neither answer, so for a while a
//! client that resumes is told a turn that was left out, although it is over. Kept in memory only: behind several servers
//! a page that meets another one in just that moment shows the reply with the next load.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everturn::core::ids::ChatId;
use tokio::time::Instant;

use crate::fronts::follow::WhichTurn;

/// How long after it has loaded a page may resume.
const RESUMES_WITHIN: Duration = Duration::from_secs(60);
/// Chats that are remembered at most.
const CHATS_LEN_MAX: usize = 10_000;

/// The turns that were left out, by chat.
#[derive(Default)]
pub(crate) struct LeftOut(Mutex<HashMap<ChatId, (WhichTurn, Instant)>>);

impl LeftOut {
    fn turns(&self) -> MutexGuard<'_, HashMap<ChatId, (WhichTurn, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // Every change is made whole.
    }

    /// Remembers what the newest load of a chat left out, if anything.
    pub(super) fn note(&self, chat: ChatId, turn: Option<WhichTurn>) {
        let (now, mut turns) = (Instant::now(), self.turns());
        let Some(turn) = turn else {
            turns.remove(&chat);
            return;
        };
        if turns.len() >= CHATS_LEN_MAX {
            turns.retain(|_, (_, at)| now < *at + RESUMES_WITHIN);
        }
        if turns.len() < CHATS_LEN_MAX {
            turns.insert(chat, (turn, now));
        }
    }

    /// The turn that a page may still wait for.
    pub(super) fn of(&self, chat: ChatId) -> Option<WhichTurn> {
        let turns = self.turns();
        turns.get(&chat).filter(|(_, at)| Instant::now() < *at + RESUMES_WITHIN).map(|(turn, _)| *turn)
    }
}

#[cfg(test)]
mod tests {
    use everturn::core::ids::{MessageId, Timestamp};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_remembered_until_the_next_load_or_for_a_minute() {
        let (left_out, chat) = (LeftOut::default(), ChatId::new(Timestamp(0), 1));
        let turn = WhichTurn::Message(MessageId(1));
        left_out.note(chat, Some(turn));
        assert_eq!(left_out.of(chat), Some(turn));
        assert_eq!(left_out.of(ChatId::new(Timestamp(0), 2)), None);
        left_out.note(chat, None);
        assert_eq!(left_out.of(chat), None);
        left_out.note(chat, Some(turn));
        tokio::time::advance(RESUMES_WITHIN).await;
        assert_eq!(left_out.of(chat), None);
        for other in 0..CHATS_LEN_MAX as u128 + 10 {
            left_out.note(ChatId::new(Timestamp(0), other), Some(turn));
        }
        assert!(left_out.turns().len() <= CHATS_LEN_MAX);
    }
}
