//! Timeouts and concurrency limits of an agent in the configuration file.

use std::num::NonZeroU32;
use std::time::Duration;

use everturn::Agent;
use everturn::core::limits::Limits;
use everturn::core::parent::DEPTH_MAX;

/// Limits of an agent besides those of its turns. `None` is the default.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct AgentBounds {
    pub open_seconds_max: Option<NonZeroU32>,
    pub silence_seconds_max: Option<NonZeroU32>,
    pub tool_seconds_max: Option<NonZeroU32>,
    pub awaiting_minutes_max: Option<NonZeroU32>,
    pub attempts_max: Option<NonZeroU32>,
    pub tools_at_once_max: Option<NonZeroU32>,
    pub sub_agents_max: Option<NonZeroU32>,
    pub sub_agents_at_once_max: Option<NonZeroU32>,
    pub sub_agents_depth_max: Option<NonZeroU32>,
    pub queue_len_max: Option<NonZeroU32>,
}

impl AgentBounds {
    /// Applies these limits to an agent.
    pub fn of(self, mut agent: Agent) -> Agent {
        self.set(&mut agent.limits);
        agent
    }

    fn set(self, limits: &mut Limits) {
        let seconds =
            |told: Option<NonZeroU32>, usual| told.map_or(usual, |told| Duration::from_secs(told.get().into()));
        let len = |told: Option<NonZeroU32>, usual| told.map_or(usual, |told| told.get() as usize);
        limits.open_max = seconds(self.open_seconds_max, limits.open_max);
        limits.silence_max = seconds(self.silence_seconds_max, limits.silence_max);
        // The circuit breaker must not count a probe as lost that is only slow.
        limits.breaker.probe_max = limits.breaker.probe_max.max(limits.silence_max);
        limits.tool_time_max = seconds(self.tool_seconds_max, limits.tool_time_max);
        limits.awaiting_max = self
            .awaiting_minutes_max
            .map_or(limits.awaiting_max, |told| Duration::from_secs(60 * u64::from(told.get())));
        limits.retry.attempts_max = self.attempts_max.map_or(limits.retry.attempts_max, NonZeroU32::get);
        limits.tools_at_once_max = len(self.tools_at_once_max, limits.tools_at_once_max);
        limits.sub_agents_max = self.sub_agents_max.map_or(limits.sub_agents_max, NonZeroU32::get);
        limits.sub_agents_at_once_max = len(self.sub_agents_at_once_max, limits.sub_agents_at_once_max);
        limits.sub_agents_depth_max = len(self.sub_agents_depth_max, limits.sub_agents_depth_max).min(DEPTH_MAX);
        limits.queue_len_max = len(self.queue_len_max, limits.queue_len_max);
    }

    /// Key, value as in the file, and whether the file sets it.
    pub fn shown(self) -> [(&'static str, String, bool); 10] {
        let mut limits = Limits::default();
        self.set(&mut limits);
        [
            ("open_seconds_max", limits.open_max.as_secs(), self.open_seconds_max),
            ("silence_seconds_max", limits.silence_max.as_secs(), self.silence_seconds_max),
            ("tool_seconds_max", limits.tool_time_max.as_secs(), self.tool_seconds_max),
            ("awaiting_minutes_max", limits.awaiting_max.as_secs() / 60, self.awaiting_minutes_max),
            ("attempts_max", limits.retry.attempts_max.into(), self.attempts_max),
            ("tools_at_once_max", limits.tools_at_once_max as u64, self.tools_at_once_max),
            ("sub_agents_max", limits.sub_agents_max.into(), self.sub_agents_max),
            ("sub_agents_at_once_max", limits.sub_agents_at_once_max as u64, self.sub_agents_at_once_max),
            ("sub_agents_depth_max", limits.sub_agents_depth_max as u64, self.sub_agents_depth_max),
            ("queue_len_max", limits.queue_len_max as u64, self.queue_len_max),
        ]
        .map(|(name, value, told)| (name, value.to_string(), told.is_some()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Flags;
    use super::super::tests::read;
    use super::*;

    #[test]
    fn an_agent_has_the_bounds_of_the_file() {
        let keys = "open_seconds_max = 7\nsilence_seconds_max = 900\ntool_seconds_max = 30\nawaiting_minutes_max = 5\n\
            attempts_max = 2\ntools_at_once_max = 3\nsub_agents_max = 6\nsub_agents_at_once_max = 5\n\
            sub_agents_depth_max = 1\nqueue_len_max = 4\n";
        let text = format!("requests_max = 9\nconnect_seconds_max = 3\n{keys}[agents.a]\nmodel = \"a/b\"\n{keys}");
        let config = read(Flags::default(), &[], &text).unwrap();
        let usual = config.usual_agent("a/b".parse().unwrap()).unwrap();
        for limits in [config.named_agent("a").unwrap().limits, usual.limits] {
            assert_eq!(limits.open_max, Duration::from_secs(7));
            assert_eq!(limits.silence_max, Duration::from_secs(900));
            assert_eq!(limits.breaker.probe_max, Duration::from_secs(900));
            assert_eq!(limits.tool_time_max, Duration::from_secs(30));
            assert_eq!(limits.awaiting_max, Duration::from_secs(300));
            assert_eq!((limits.retry.attempts_max, limits.tools_at_once_max, limits.queue_len_max), (2, 3, 4));
            let sub_agents = (limits.sub_agents_max, limits.sub_agents_at_once_max, limits.sub_agents_depth_max);
            assert_eq!(sub_agents, (6, 5, 1));
            assert_eq!((limits.governor.at_once_max, limits.governor.ramp_max), (9, 9));
        }
        let wire = config.wire_limits();
        assert_eq!((wire.connect_max, wire.open_max), (Duration::from_secs(3), Duration::from_secs(60)));
        let patient = read(Flags::default(), &[], "[agents.a]\nmodel = \"a/b\"\nopen_seconds_max = 600").unwrap();
        assert_eq!(
            patient.wire_limits().open_max,
            Duration::from_secs(600),
            "the connection waits for the most patient"
        );
        let told = read(Flags::default(), &[("EVERTURN_REQUESTS_MAX", "2")], "requests_max = 9").unwrap();
        assert_eq!(told.usual_agent("a/b".parse().unwrap()).unwrap().limits.governor.at_once_max, 2);
    }

    /// A limit of 0 would be a server that does nothing.
    #[test]
    fn a_bound_of_zero_is_refused() {
        for key in ["requests_max", "silence_seconds_max", "tool_seconds_max", "attempts_max"] {
            let error = format!("{:#}", read(Flags::default(), &[], &format!("{key} = 0")).unwrap_err());
            assert!(error.contains("1 or more"), "{error}");
        }
    }
}
