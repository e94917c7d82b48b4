//! The parents of a sub-agent's chat.
//!
//! A sub-agent works in a chat of its own, which a call of another chat created. The chat knows the chats above it: it is
//! deleted with them, its rules are at most as permissive as theirs, and what it uses counts against their turns.

use std::fmt;

use crate::budget::BudgetUse;
use crate::cost::Micros;
use crate::ids::{CallUid, ChatId};

/// How deep sub-agents may ask sub-agents at all. Limits of an agent may say less.
pub const DEPTH_MAX: usize = 8;

/// What a sub-agent's chat was created for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentCall {
    /// The call of the parent that waits for it.
    pub call: CallUid,
    /// The chats above it, from the one that a person began down to the parent. Never empty.
    pub above: Vec<ParentChat>,
}

/// One of the chats above a sub-agent's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentChat {
    /// Its id.
    pub chat: ChatId,
    /// Its agent, whose rules hold below it too.
    pub agent: String,
    /// How much all chats below it may have used together: what its turn had left when it made the call.
    pub most: SubAgentsMax,
}

/// How much all chats below one may have used, counted since the chat exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubAgentsMax {
    /// Tokens.
    pub tokens: u64,
    /// Money.
    pub cost: Micros,
}

/// Why a sub-agent may use no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubAgentsExhausted {
    /// The agent of the chat above whose turn has nothing left.
    pub agent: String,
    /// What there is nothing left of.
    pub what: &'static str,
}

impl fmt::Display for SubAgentsExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the turn of `{}`, which asked, has used the {} that a turn may use", self.agent, self.what)
    }
}

impl ParentCall {
    /// The chat whose call it is.
    ///
    /// # Panics
    /// If there is no chat above, which no store writes.
    #[must_use]
    pub fn parent(&self) -> ChatId {
        self.above.last().expect("a sub-agent's chat has a parent").chat
    }

    /// How deep it is below the chat that a person began.
    #[must_use]
    pub const fn depth(&self) -> usize {
        self.above.len()
    }
}

impl ParentChat {
    /// Why the chats below it may use no more, if they may not. `used` is what they have used together.
    #[must_use]
    pub fn exhausted(&self, used: BudgetUse) -> Option<SubAgentsExhausted> {
        let what = match () {
            () if used.tokens >= self.most.tokens => "tokens",
            () if used.cost >= self.most.cost => "money",
            () => return None,
        };
        Some(SubAgentsExhausted { agent: self.agent.clone(), what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What all chats below one have used is compared with what its turn had left, tokens and money each for itself.
    #[test]
    fn chats_below_use_at_most_what_was_left() {
        let most = SubAgentsMax { tokens: 100, cost: Micros(50) };
        let above = ParentChat { chat: ChatId::from_u128(1), agent: "coder".into(), most };
        let after = |tokens, cost| {
            let used = BudgetUse { tokens, cost: Micros(cost), ..BudgetUse::default() };
            above.exhausted(used).map(|exhausted| exhausted.to_string())
        };
        assert_eq!(after(99, 49), None);
        let said = "the turn of `coder`, which asked, has used the";
        assert_eq!(after(100, 49), Some(format!("{said} tokens that a turn may use")));
        assert_eq!(after(99, 50), Some(format!("{said} money that a turn may use")));
    }
}
