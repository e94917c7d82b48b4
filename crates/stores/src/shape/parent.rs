//! The parents of a sub-agent's chat, and what chats below it used.

use std::borrow::Cow;
use std::sync::Arc;

use everturn_core::budget;
use everturn_core::chat;
use everturn_core::cost::Micros;
use everturn_core::ids::ChatId;
use everturn_core::parent;
use serde::{Deserialize, Serialize};

use super::value::{AsText, Nanos, Uid, unset};

#[derive(Serialize, Deserialize)]
pub(super) struct ParentCall<'a> {
    call: Uid,
    above: Vec<ParentChat<'a>>,
}

#[derive(Serialize, Deserialize)]
struct ParentChat<'a> {
    chat: AsText<ChatId>,
    agent: Cow<'a, str>,
    tokens_max: u64,
    cost_max: u64,
}

impl<'a> From<&'a parent::ParentCall> for ParentCall<'a> {
    fn from(parent::ParentCall { call, above }: &'a parent::ParentCall) -> Self {
        let chat = |above: &'a parent::ParentChat| ParentChat {
            chat: AsText(above.chat),
            agent: Cow::from(&above.agent),
            tokens_max: above.most.tokens,
            cost_max: above.most.cost.0,
        };
        Self { call: (*call).into(), above: above.iter().map(chat).collect() }
    }
}

impl From<ParentCall<'_>> for Option<Arc<parent::ParentCall>> {
    fn from(ParentCall { call, above }: ParentCall<'_>) -> Self {
        let chat = |above: ParentChat<'_>| parent::ParentChat {
            chat: above.chat.0,
            agent: above.agent.into_owned(),
            most: parent::SubAgentsMax { tokens: above.tokens_max, cost: Micros(above.cost_max) },
        };
        let above: Vec<_> = above.into_iter().map(chat).collect();
        let parent = parent::ParentCall { call: call.into(), above };
        (!parent.above.is_empty()).then(|| Arc::new(parent))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct BudgetUse {
    #[serde(default, skip_serializing_if = "unset")]
    steps: u64,
    #[serde(default, skip_serializing_if = "unset")]
    time_ns: Nanos,
    #[serde(default, skip_serializing_if = "unset")]
    alive_ns: Nanos,
    #[serde(default, skip_serializing_if = "unset")]
    tokens: u64,
    #[serde(default, skip_serializing_if = "unset")]
    cost: u64,
}

impl From<budget::BudgetUse> for BudgetUse {
    fn from(budget::BudgetUse { steps, time, alive, tokens, cost }: budget::BudgetUse) -> Self {
        Self { steps, time_ns: Nanos(time), alive_ns: Nanos(alive), tokens, cost: cost.0 }
    }
}

impl From<BudgetUse> for budget::BudgetUse {
    fn from(BudgetUse { steps, time_ns, alive_ns, tokens, cost }: BudgetUse) -> Self {
        Self { steps, time: time_ns.0, alive: alive_ns.0, tokens, cost: Micros(cost) }
    }
}

/// A call of a chat below that asks.
#[derive(Serialize, Deserialize)]
pub(super) struct AskBelow(AsText<ChatId>, Uid);

impl From<chat::AskBelow> for AskBelow {
    fn from(chat::AskBelow { chat, call }: chat::AskBelow) -> Self {
        Self(AsText(chat), call.into())
    }
}

impl From<AskBelow> for chat::AskBelow {
    fn from(AskBelow(chat, call): AskBelow) -> Self {
        Self { chat: chat.0, call: call.into() }
    }
}
