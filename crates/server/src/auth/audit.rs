//! What is worth keeping of who came and who decided.
//!
//! Each is an event of its own target, [`everturn::AUDIT`], beside those of the engine's tools. The command writes them to
//! a file that only grows; what a program that embeds this does with them is its own. No secret and nothing that was said
//! is in any of them.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use everturn::AUDIT;
use everturn::core::command::{AnswerContent, CallAnswer};
use everturn::core::ids::{CallUid, ChatId, InboxSeq};
use everturn::stores::{Receipt, Token};

/// Answers under a request id that are remembered, to tell when they come again.
const REMEMBERED_MAX: usize = 10_000;

/// Somebody came with a token that opens nothing.
pub fn login_failed(peer: Option<IpAddr>) {
    let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
    tracing::info!(target: AUDIT, event = "login_failed", peer);
}

/// A token was made or taken back.
pub fn token(event: &'static str, by: &Token, token: &Token) {
    let (id, scopes) = (token.hash.id(), token.scopes.names());
    tracing::info!(target: AUDIT, event, by = by.name, token = id, name = token.name, owner = token.owner, scopes);
}

/// What was decided about which call.
pub fn decided(answers: &[CallAnswer]) -> Vec<(CallUid, &'static str)> {
    let word = |what: &AnswerContent| match what {
        AnswerContent::Approve { .. } => "approved",
        AnswerContent::Deny { .. } => "denied",
        AnswerContent::Output(_) | AnswerContent::Error(_) => "answered",
    };
    answers.iter().map(|CallAnswer { call, what }| (*call, word(what))).collect()
}

/// Answers that this process has written down. Whoever repeats a request that a process before it took, or another one, may
/// be written down twice: nobody knows whether that one came to it.
#[derive(Debug, Default)]
pub struct Remembered(Mutex<(BTreeSet<Answering>, VecDeque<Answering>)>);

type Answering = (ChatId, InboxSeq);

impl Remembered {
    /// Whether this one comes for the first time. From now on it does not.
    pub fn is_first(&self, Receipt { chat, seq }: Receipt) -> bool {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, order) = &mut *remembered;
        let is_first = known.insert((chat, seq));
        if is_first {
            order.push_back((chat, seq));
        }
        if order.len() > REMEMBERED_MAX
            && let Some(oldest) = order.pop_front()
        {
            known.remove(&oldest);
        }
        is_first
    }
}

/// Somebody answered what a chat asked.
pub fn answered(by: &Token, chat: ChatId, decided: &[(CallUid, &'static str)]) {
    for (call, what) in decided {
        tracing::info!(target: AUDIT, event = what, by = by.name, owner = by.owner, %chat, %call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_are_remembered() {
        let (remembered, chat) = (Remembered::default(), ChatId::from_u128(7));
        let is_first = |seq| remembered.is_first(Receipt { chat, seq: InboxSeq(seq) });
        assert!((0..=REMEMBERED_MAX as u64).all(is_first));
        assert_eq!([REMEMBERED_MAX as u64, 1, 0].map(is_first), [false, false, true]);
        let (known, order) = &*remembered.0.lock().unwrap();
        assert_eq!((known.len(), order.len()), (REMEMBERED_MAX, REMEMBERED_MAX));
    }
}
