//! Every bound, by name.
//!
//! Whatever can grow or wait is bounded, or one bad tool, one slow client or one endless model would take the process
//! with it. The bounds stand together here, dimension last, so that they can be read, configured and made tiny by
//! tests. A bound that is reached is an event with a reason, never a silent end.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cost::Micros;
use crate::governor::GovernorLimits;
use crate::retry::{BreakerLimits, RetryLimits};

/// The bounds that an engine keeps. The defaults are meant for production.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// From dialling to a connection: 10 s. A provider that is there answers in one.
    pub connect_max: Duration,
    /// From sending a request to the first byte of the answer: 60 s. See [`Self::open_for`].
    pub open_max: Duration,
    /// From one piece of content to the next; pings do not count: 120 s. See [`Self::silence_for`].
    pub silence_max: Duration,
    /// One line of a provider's stream: 8 MiB. Providers write a frame on one line, so this is as much.
    pub line_bytes_max: usize,
    /// One frame of a provider's stream: 8 MiB. An image comes in one, and so does a whole answer at its end.
    pub frame_bytes_max: usize,
    /// One answer on the wire: 32 MiB.
    pub response_bytes_max: usize,

    /// Steps a turn: 200. Long coding turns pass 100 and are sound, so 50 would cut real work; a thousand would not be
    /// a bound, as money, tokens and time end a runaway turn sooner.
    pub steps_max: u32,
    /// Processes that die while a tool of the turn runs, and none came back since, before the turn is ended: 3.
    pub deaths_max: u32,
    /// Processes in a row that die with a turn that runs no tool and does not get on, before it is ended: 12.
    /// Waiting for a model kills no process, so more crashes are needed for suspicion: an operator may
    /// restart the process, or another chat may kill it.
    pub deaths_waiting_max: u32,
    /// How long a turn may work; waiting for a person does not count: 4 h. Whatever streams or runs then is stopped.
    pub turn_time_max: Duration,
    /// Tokens a turn, prompts included, reported and estimated: 50 million, two hundred full windows.
    pub turn_tokens_max: u64,
    /// Money a turn, reported and estimated, where the price is known: 50 units.
    pub turn_cost_max: Micros,
    /// In how many replies in a row a turn may make the same calls and get the same results: 5.
    pub same_call_max: u32,
    /// Overrides of `same_call_max` per tool name, as the model calls it.
    pub same_call_max_by_tool: BTreeMap<String, u32>,
    /// Compactions a turn; more would mean that they do not help: 3.
    pub compactions_max: u32,

    /// How long a tool may run, unless it declares its own time: 10 min.
    pub tool_time_max: Duration,
    /// Tools that run at the same time in one chat: 8.
    pub tools_at_once_max: usize,
    /// Sub-agents that one turn may ask: 8. Each costs a chat with turns of its own.
    pub sub_agents_max: u32,
    /// Sub-agents of one chat that work at the same time: 4. Further ones begin when one of them has ended.
    pub sub_agents_at_once_max: usize,
    /// How deep sub-agents may ask sub-agents: 2.
    pub sub_agents_depth_max: usize,
    /// Calls in one reply: 128. Further ones are answered with an error.
    pub calls_len_max: usize,
    /// What is kept of a tool's output, beyond what the model is shown: 10 MiB.
    pub tool_output_bytes_max: usize,
    /// What a running tool may show of its work: 4 KiB. Of more, the end is shown.
    pub progress_bytes_max: usize,
    /// How often that is stored and shown, at most: four times a second. In between, the newest waits.
    pub progress_every: Duration,
    /// How long client tools and approvals may stay unanswered: 24 h. A resting chat costs a row.
    pub awaiting_max: Duration,
    /// From an interrupt to the end of whatever ran, by force if need be: 3 s.
    pub interrupt_max: Duration,
    /// Of that, how long a tool may take to end by itself: 1 s.
    pub kill_grace_max: Duration,

    /// Messages that wait in a chat's queue: 20.
    pub queue_len_max: usize,
    /// What a person may send at once, files apart: 1 MiB.
    pub message_bytes_max: usize,
    /// Parts of what a person may send at once, texts and files: 1,000. Each takes memory beside its bytes.
    pub parts_len_max: usize,
    /// The draft of one step: 16 MiB.
    pub draft_bytes_max: usize,
    /// Deltas in one transaction of the journal: 1024.
    pub batch_len_max: usize,
    /// Bytes in one transaction of the journal: 1 MiB.
    pub batch_bytes_max: usize,

    /// When failed attempts are tried again.
    pub retry: RetryLimits,
    /// When a failing model is left alone.
    pub breaker: BreakerLimits,
    /// How many attempts go at once, and how they come back after an outage.
    pub governor: GovernorLimits,
}

impl Default for Limits {
    fn default() -> Self {
        const KIB: usize = 1024;
        const MIB: usize = 1024 * KIB;
        Self {
            connect_max: Duration::from_secs(10),
            open_max: Duration::from_secs(60),
            silence_max: Duration::from_secs(120),
            line_bytes_max: 8 * MIB,
            frame_bytes_max: 8 * MIB,
            response_bytes_max: 32 * MIB,
            steps_max: 200,
            deaths_max: 3,
            deaths_waiting_max: 12,
            turn_time_max: Duration::from_secs(4 * 60 * 60),
            turn_tokens_max: 50_000_000,
            turn_cost_max: Micros::units(50),
            same_call_max: 5,
            same_call_max_by_tool: BTreeMap::new(),
            compactions_max: 3,
            tool_time_max: Duration::from_secs(10 * 60),
            tools_at_once_max: 8,
            sub_agents_max: 8,
            sub_agents_at_once_max: 4,
            sub_agents_depth_max: 2,
            calls_len_max: 128,
            tool_output_bytes_max: 10 * MIB,
            progress_bytes_max: 4 * KIB,
            progress_every: Duration::from_millis(250),
            awaiting_max: Duration::from_secs(24 * 60 * 60),
            interrupt_max: Duration::from_secs(3),
            kill_grace_max: Duration::from_secs(1),
            queue_len_max: 20,
            message_bytes_max: MIB,
            parts_len_max: 1_000,
            draft_bytes_max: 16 * MIB,
            batch_len_max: 1024,
            batch_bytes_max: MIB,
            retry: RetryLimits::default(),
            breaker: BreakerLimits::default(),
            governor: GovernorLimits::default(),
        }
    }
}

/// Whether a model may think before it speaks: it is made for reasoning, or an effort is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinking {
    /// It may be long silent, and well.
    Yes,
    /// Silence means trouble.
    No,
}

impl Limits {
    /// How long the first byte of an answer may take.
    #[must_use]
    pub fn open_for(&self, thinking: Thinking) -> Duration {
        patient(self.open_max, thinking)
    }

    /// How often a tool may be called in vain: see [`Self::same_call_max`].
    #[must_use]
    pub fn same_call_max_of(&self, tool: &str) -> u32 {
        self.same_call_max_by_tool.get(tool).copied().unwrap_or(self.same_call_max)
    }

    /// How long content may stay away.
    #[must_use]
    pub fn silence_for(&self, thinking: Thinking) -> Duration {
        patient(self.silence_max, thinking)
    }

    /// How long the end of a stream may stay away once the answer has said why it stops: an eighth of the silence, 15 s.
    /// Nothing but a count is missing then.
    #[must_use]
    pub fn tail_max(&self) -> Duration {
        self.silence_max / 8
    }

    /// The longest wait that is stored with a chat. A longer one is invalid: the clock was changed.
    #[must_use]
    pub fn wait_max(&self) -> Duration {
        let asked_for = self.retry.retry_after_max.saturating_add(self.retry.delay_base);
        let broken = self.breaker.open_max.max(self.breaker.probe_max).saturating_add(self.breaker.behind_min);
        asked_for.max(self.retry.delay_max).max(broken)
    }
}

fn patient(window: Duration, thinking: Thinking) -> Duration {
    match thinking {
        Thinking::Yes => window.saturating_mul(2),
        Thinking::No => window,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model that thinks is long silent and well.
    #[test]
    fn thinking_models_get_twice_the_time() {
        let limits = Limits::default();
        assert_eq!(limits.silence_for(Thinking::No), limits.silence_max);
        assert_eq!(limits.silence_for(Thinking::Yes), limits.silence_max * 2);
        assert_eq!(limits.open_for(Thinking::No), limits.open_max);
        assert_eq!(limits.open_for(Thinking::Yes), limits.open_max * 2);
        let endless = Limits { silence_max: Duration::MAX, ..limits };
        assert_eq!(endless.silence_for(Thinking::Yes), Duration::MAX);
    }

    /// I18: no wait that is stored is longer than what a stored wait is believed to be.
    #[test]
    fn every_wait_is_within_the_longest() {
        let limits = Limits::default();
        assert_eq!(limits.wait_max(), Duration::from_secs(121));
        assert!(limits.retry.delay_max <= limits.wait_max() && limits.breaker.open_max <= limits.wait_max());
        let mut patient = limits;
        patient.retry.delay_max = Duration::from_secs(600);
        assert_eq!(patient.wait_max(), Duration::from_secs(600));
    }

    /// Bounds that rest on each other must fit; the forerunner's lease and heartbeat did not (W6).
    #[test]
    fn the_defaults_fit_together() {
        let limits = Limits::default();
        assert!(limits.kill_grace_max < limits.interrupt_max);
        assert!(limits.connect_max < limits.open_max && limits.open_max < limits.silence_max);
        assert!(limits.breaker.probe_max >= limits.silence_max, "a slow probe is not a lost one");
        assert!(limits.governor.ramp_from > 0 && limits.governor.ramp_from <= limits.governor.ramp_max);
        assert!(limits.governor.ramp_max <= limits.governor.at_once_max);
        assert!(!limits.breaker.behind_min.is_zero(), "blocked attempts do not poll without a pause");
        assert_eq!(limits.line_bytes_max, limits.frame_bytes_max, "a frame is one line");
        assert!(limits.frame_bytes_max <= limits.draft_bytes_max);
        assert!(limits.draft_bytes_max <= limits.response_bytes_max);
        assert!(limits.retry.cost_max <= limits.turn_cost_max);
        assert!(limits.retry.time_max <= limits.turn_time_max);
    }
}
