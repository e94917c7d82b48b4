//! What is worth keeping of who came and who decided.
//!
//! Each is an event of its own target, [`everturn::AUDIT`], beside those of the engine's tools. The command writes them to
//! a file that only grows; what a program that embeds this does with them is its own. No secret and nothing that was said
//! is in any of them.

use std::net::IpAddr;

use everturn::AUDIT;
use everturn::core::command::{Answer, Answered};
use everturn::core::ids::{CallUid, ChatId};
use everturn::stores::Token;

/// Somebody came with a token that opens nothing.
pub fn login_failed(peer: Option<IpAddr>) {
    let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
    tracing::info!(target: AUDIT, event = "login_failed", peer);
}

/// A token was made or taken back.
pub fn token(event: &'static str, by: &Token, token: &Token) {
    let (id, scopes) = (token.hash.id(), token.scopes);
    tracing::info!(target: AUDIT, event, by = by.name, token = id, name = token.name, owner = token.owner, ?scopes);
}

/// What was decided about which call.
pub fn decided(answers: &[Answer]) -> Vec<(CallUid, &'static str)> {
    let word = |what: &Answered| match what {
        Answered::Approve { .. } => "approved",
        Answered::Deny { .. } => "denied",
        Answered::Output(_) | Answered::Error(_) => "answered",
    };
    answers.iter().map(|Answer { call, what }| (*call, word(what))).collect()
}

/// Somebody answered what a chat asked.
pub fn answered(by: &Token, chat: ChatId, decided: &[(CallUid, &'static str)]) {
    for (call, what) in decided {
        tracing::info!(target: AUDIT, event = what, by = by.name, owner = by.owner, %chat, %call);
    }
}
