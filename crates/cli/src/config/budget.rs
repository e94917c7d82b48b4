//! Budgets of owners in the configuration file.

use std::time::Duration;

use everturn::core::budget::{Allowance, Budget};
use serde::Deserialize;

use super::money::Money;

/// A budget. `None` is no limit.
#[derive(Deserialize, Debug, Default, Clone, Copy, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Spending {
    chat_steps_max: Option<u64>,
    chat_minutes_max: Option<u32>,
    chat_tokens_max: Option<u64>,
    chat_cost_max: Option<Money>,
    day_steps_max: Option<u64>,
    day_minutes_max: Option<u32>,
    day_tokens_max: Option<u64>,
    day_cost_max: Option<Money>,
    month_steps_max: Option<u64>,
    month_minutes_max: Option<u32>,
    month_tokens_max: Option<u64>,
    month_cost_max: Option<Money>,
}

impl Spending {
    /// Cost limits without a token limit beside them: without a price they stop nothing.
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

    /// The limits that are set: key and value.
    pub fn told(&self) -> Vec<(&'static str, String)> {
        fn text<T: ToString>(value: Option<T>) -> Option<String> {
            value.map(|value| value.to_string())
        }
        let all = [
            ("chat_steps_max", text(self.chat_steps_max)),
            ("chat_minutes_max", text(self.chat_minutes_max)),
            ("chat_tokens_max", text(self.chat_tokens_max)),
            ("chat_cost_max", text(self.chat_cost_max)),
            ("day_steps_max", text(self.day_steps_max)),
            ("day_minutes_max", text(self.day_minutes_max)),
            ("day_tokens_max", text(self.day_tokens_max)),
            ("day_cost_max", text(self.day_cost_max)),
            ("month_steps_max", text(self.month_steps_max)),
            ("month_minutes_max", text(self.month_minutes_max)),
            ("month_tokens_max", text(self.month_tokens_max)),
            ("month_cost_max", text(self.month_cost_max)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

impl From<Spending> for Budget {
    fn from(told: Spending) -> Self {
        let allowance = |steps_max, minutes_max: Option<u32>, tokens_max, cost_max: Option<Money>| Allowance {
            steps_max,
            time_max: minutes_max.map(|minutes| Duration::from_secs(60) * minutes),
            tokens_max,
            cost_max: cost_max.map(|Money(cost)| cost),
        };
        Self {
            chat: allowance(told.chat_steps_max, told.chat_minutes_max, told.chat_tokens_max, told.chat_cost_max),
            day: allowance(told.day_steps_max, told.day_minutes_max, told.day_tokens_max, told.day_cost_max),
            month: allowance(told.month_steps_max, told.month_minutes_max, told.month_tokens_max, told.month_cost_max),
        }
    }
}
