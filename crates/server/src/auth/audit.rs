//! Audit events: failed logins, changes of tokens, and answers to calls.
//!
//! Each is a tracing event with the target [`everturn::AUDIT`], beside those of the engine's tools. The command writes
//! them to an append-only file; a program that embeds this crate may handle them as it likes. No event contains a secret
//! or any text of a chat.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use everturn::AUDIT;
use everturn::core::command::{AnswerContent, CallAnswer};
use everturn::core::ids::{CallUid, ChatId, InboxSeq};
use everturn::stores::{Receipt, Token};

/// Answers that are remembered, to recognise repeats.
const REMEMBERED_MAX: usize = 10_000;

/// Records a request with a token that is not valid.
pub fn login_failed(peer: Option<IpAddr>) {
    let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
    tracing::info!(target: AUDIT, event = "login_failed", peer);
}

/// Records that a token was created or revoked.
pub fn token(event: &'static str, by: &Token, token: &Token) {
    let (id, scopes) = (token.hash.id(), token.scopes.names());
    tracing::info!(target: AUDIT, event, by = by.name, token = id, name = token.name, owner = token.owner, scopes);
}

/// Records that changes of files were undone.
pub fn undone(by: &Token, chat: ChatId, files: usize) {
    tracing::info!(target: AUDIT, event = "undone", by = by.name, %chat, files);
}

/// Records that something was broken for show.
pub fn drilled(by: &Token, what: &'static str) {
    tracing::info!(target: AUDIT, event = "drilled", by = by.name, what);
}

/// Records that a background job was stopped.
pub fn job_stopped(by: &Token, chat: ChatId, job: u32) {
    tracing::info!(target: AUDIT, event = "job_stopped", by = by.name, %chat, job);
}

/// The calls that are answered, each with the name of its audit event.
pub fn decided(answers: &[CallAnswer]) -> Vec<(CallUid, &'static str)> {
    let word = |what: &AnswerContent| match what {
        AnswerContent::Approve { .. } => "approved",
        AnswerContent::Grant { .. } => "granted",
        AnswerContent::Deny { .. } => "denied",
        AnswerContent::Output(_) | AnswerContent::Error(_) => "answered",
    };
    answers.iter().map(|CallAnswer { call, what }| (*call, word(what))).collect()
}

/// Answers that this process has audited. A repeat of a request that another process took may be audited twice, because
/// it is not known whether that process got as far.
#[derive(Debug, Default)]
pub struct RecordedAnswers(Mutex<(BTreeSet<Answering>, VecDeque<Answering>)>);

type Answering = (ChatId, InboxSeq);

impl RecordedAnswers {
    /// Records a receipt, and returns whether it was new.
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

/// Records answers to the calls of a chat.
pub fn answered(by: &Token, chat: ChatId, decided: &[(CallUid, &'static str)]) {
    for (call, what) in decided {
        tracing::info!(target: AUDIT, event = what, by = by.name, owner = by.owner, %chat, %call);
    }
}

/// Records that a grant was revoked.
pub fn revoked(by: &Token, chat: ChatId, call: CallUid) {
    tracing::info!(target: AUDIT, event = "revoked", by = by.name, owner = by.owner, %chat, %call);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_are_remembered() {
        let (remembered, chat) = (RecordedAnswers::default(), ChatId::from_u128(7));
        let is_first = |seq| remembered.is_first(Receipt { chat, seq: InboxSeq(seq) });
        assert!((0..=REMEMBERED_MAX as u64).all(is_first));
        assert_eq!([REMEMBERED_MAX as u64, 1, 0].map(is_first), [false, false, true]);
        let (known, order) = &*remembered.0.lock().unwrap();
        assert_eq!((known.len(), order.len()), (REMEMBERED_MAX, REMEMBERED_MAX));
    }
}
