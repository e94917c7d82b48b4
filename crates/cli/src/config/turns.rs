//! Limits of an agent's turn in the configuration file.

use std::time::Duration;

use everturn::Agent;
use everturn::core::limits::Limits;

use super::money::Money;

/// Limits of a turn. `None` is the default.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Turns {
    pub steps_max: Option<u32>,
    pub minutes_max: Option<u64>,
    pub tokens_max: Option<u64>,
    pub cost_max: Option<Money>,
    pub same_call_max: Option<u32>,
}

impl Turns {
    /// Applies these limits to an agent.
    pub fn of(self, mut agent: Agent) -> Agent {
        let limits = &mut agent.limits;
        limits.steps_max = self.steps_max.unwrap_or(limits.steps_max);
        limits.turn_tokens_max = self.tokens_max.unwrap_or(limits.turn_tokens_max);
        limits.turn_cost_max = self.cost_max.map_or(limits.turn_cost_max, |Money(cost)| cost);
        let minutes = |minutes: u64| Duration::from_secs(minutes.saturating_mul(60));
        limits.turn_time_max = self.minutes_max.map_or(limits.turn_time_max, minutes);
        limits.same_call_max = self.same_call_max.unwrap_or(limits.same_call_max);
        agent
    }

    /// Whether cost is limited and tokens are not: without a price, only the general limits stop such a turn.
    pub const fn is_cost_alone(self) -> bool {
        self.cost_max.is_some() && self.tokens_max.is_none()
    }

    /// Key, value as in the file, and whether the file sets it.
    pub fn shown(self) -> [(&'static str, String, bool); 5] {
        let usual = Limits::default();
        let steps = u64::from(self.steps_max.unwrap_or(usual.steps_max));
        let minutes = self.minutes_max.unwrap_or(usual.turn_time_max.as_secs() / 60);
        let tokens = self.tokens_max.unwrap_or(usual.turn_tokens_max);
        let cost = self.cost_max.unwrap_or(Money(usual.turn_cost_max));
        let same_call = self.same_call_max.unwrap_or(usual.same_call_max);
        [
            ("steps_max", steps.to_string(), self.steps_max.is_some()),
            ("turn_minutes_max", minutes.to_string(), self.minutes_max.is_some()),
            ("turn_tokens_max", tokens.to_string(), self.tokens_max.is_some()),
            ("turn_cost_max", cost.to_string(), self.cost_max.is_some()),
            ("same_call_max", same_call.to_string(), self.same_call_max.is_some()),
        ]
    }
}
