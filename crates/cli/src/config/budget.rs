//! What owners may use, as the file says it.

use everturn::core::budget::{Allowance, Budget};
use serde::Deserialize;

use super::money::Money;

/// A budget. What is left out is not bounded.
#[derive(Deserialize, Debug, Default, Clone, Copy, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Spending {
    chat_tokens_max: Option<u64>,
    chat_cost_max: Option<Money>,
    day_tokens_max: Option<u64>,
    day_cost_max: Option<Money>,
    month_tokens_max: Option<u64>,
    month_cost_max: Option<Money>,
}

impl Spending {
    /// The bounds on money beside which none on tokens would stop anybody.
    pub fn costs_alone(&self) -> Vec<&'static str> {
        let by_time = self.day_tokens_max.or(self.month_tokens_max);
        let all = [
            ("chat_cost_max", self.chat_cost_max, self.chat_tokens_max.or(by_time)),
            ("day_cost_max", self.day_cost_max, by_time),
            ("month_cost_max", self.month_cost_max, by_time),
        ];
        let alone = all.into_iter().filter(|(_, cost, tokens)| cost.is_some() && tokens.is_none());
        alone.map(|(name, ..)| name).collect()
    }

    /// What is bounded, by its name in the file.
    pub fn told(&self) -> Vec<(&'static str, String)> {
        let number = |number: &u64| number.to_string();
        let money = |money: &Money| money.to_string();
        let all = [
            ("chat_tokens_max", self.chat_tokens_max.as_ref().map(number)),
            ("chat_cost_max", self.chat_cost_max.as_ref().map(money)),
            ("day_tokens_max", self.day_tokens_max.as_ref().map(number)),
            ("day_cost_max", self.day_cost_max.as_ref().map(money)),
            ("month_tokens_max", self.month_tokens_max.as_ref().map(number)),
            ("month_cost_max", self.month_cost_max.as_ref().map(money)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

impl From<Spending> for Budget {
    fn from(told: Spending) -> Self {
        let cost = |told: Option<Money>| told.map(|Money(cost)| cost);
        Self {
            chat: Allowance { tokens_max: told.chat_tokens_max, cost_max: cost(told.chat_cost_max) },
            day: Allowance { tokens_max: told.day_tokens_max, cost_max: cost(told.day_cost_max) },
            month: Allowance { tokens_max: told.month_tokens_max, cost_max: cost(told.month_cost_max) },
        }
    }
}
