//! Budgets and usage of owners.

use std::time::Duration;

use everturn::core::budget;
use everturn::core::cost::Micros;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::usage::Currency;

/// Budget and usage of an owner over all chats. Days and months are in UTC.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Account {
    /// Since midnight.
    pub day: Used,
    /// Since the first of the month.
    pub month: Used,
    /// The limit per day.
    pub day_max: Bounds,
    /// The limit per month.
    pub month_max: Bounds,
    /// The limit per chat, over its whole life.
    pub chat_max: Bounds,
    /// The currency of all amounts here.
    #[serde(default)]
    pub currency: Currency,
}

/// Usage.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Used {
    /// Replies.
    pub steps: u64,
    /// Sum of the times of provider calls and finished tool calls, in milliseconds.
    pub time_ms: u64,
    /// How long turns were at work, in milliseconds: provider calls, waits between their attempts, and tools;
    /// overlapping times count once.
    #[serde(default)]
    pub alive_ms: u64,
    /// Prompt and output, reported and estimated.
    pub tokens: u64,
    /// The cost of the tokens, in millionths of the currency, where the price is known.
    pub cost_micros: u64,
}

/// Limits. A missing one is not limited.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Bounds {
    /// Replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// How long provider calls and tools may take, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// Prompt and output, reported and estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money, in millionths of the currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
}

impl From<budget::BudgetAccount> for Account {
    fn from(budget::BudgetAccount { budget, day, month }: budget::BudgetAccount) -> Self {
        let budget::Budget { chat: chat_max, day: day_max, month: month_max } = budget;
        Self {
            day: day.into(),
            month: month.into(),
            day_max: day_max.into(),
            month_max: month_max.into(),
            chat_max: chat_max.into(),
            currency: Currency::Usd,
        }
    }
}

impl From<budget::BudgetUse> for Used {
    fn from(budget::BudgetUse { steps, time, alive, tokens, cost: Micros(cost_micros) }: budget::BudgetUse) -> Self {
        Self { steps, time_ms: millis(time), alive_ms: millis(alive), tokens, cost_micros }
    }
}

impl From<budget::Allowance> for Bounds {
    fn from(budget::Allowance { steps_max, time_max, tokens_max, cost_max }: budget::Allowance) -> Self {
        let cost_micros = cost_max.map(|Micros(cost)| cost);
        Self { steps: steps_max, time_ms: time_max.map(millis), tokens: tokens_max, cost_micros }
    }
}

const fn millis(time: Duration) -> u64 {
    time.as_millis() as u64
}
