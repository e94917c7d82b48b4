//! How far a turn of an agent may go, as the file says it.

use std::time::Duration;

use everturn::Agent;
use everturn::core::cost::Micros;
use everturn::core::limits::Limits;

/// The bounds of a turn. What is left out is as usual.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Turns {
    pub steps_max: Option<u32>,
    pub minutes_max: Option<u64>,
    pub tokens_max: Option<u64>,
    pub cost_max: Option<u64>,
}

impl Turns {
    /// An agent with these bounds.
    pub fn of(self, mut agent: Agent) -> Agent {
        let limits = &mut agent.limits;
        limits.steps_max = self.steps_max.unwrap_or(limits.steps_max);
        limits.turn_tokens_max = self.tokens_max.unwrap_or(limits.turn_tokens_max);
        limits.turn_cost_max = self.cost_max.map_or(limits.turn_cost_max, Micros::units);
        let minutes = |minutes: u64| Duration::from_secs(minutes.saturating_mul(60));
        limits.turn_time_max = self.minutes_max.map_or(limits.turn_time_max, minutes);
        agent
    }

    /// What they are, each with whether the file says it.
    pub fn shown(self) -> [(&'static str, u64, bool); 4] {
        let usual = Limits::default();
        let steps = u64::from(self.steps_max.unwrap_or(usual.steps_max));
        let minutes = self.minutes_max.unwrap_or(usual.turn_time_max.as_secs() / 60);
        let tokens = self.tokens_max.unwrap_or(usual.turn_tokens_max);
        let cost = self.cost_max.unwrap_or(usual.turn_cost_max.0 / 1_000_000);
        [
            ("steps_max", steps, self.steps_max.is_some()),
            ("turn_minutes_max", minutes, self.minutes_max.is_some()),
            ("turn_tokens_max", tokens, self.tokens_max.is_some()),
            ("turn_cost_max", cost, self.cost_max.is_some()),
        ]
    }
}
