//! How a model picks its words, and what ends its answer.
//!
//! Every wire has some of these parameters and none has all; many reasoning models refuse those that pick words. An agent
//! states what it wants once, [`Sampling::check`] refuses values that no provider takes, and [`Sampling::fitting`] leaves
//! out what the model asked would refuse. So a parameter is sent where it works, and never sent to fail.

use super::request::Effort;
use super::target::{Target, WireFormat};

/// The highest temperature any wire takes.
pub const TEMPERATURE_MAX: f64 = 2.0;
/// The highest temperature of Anthropic's wire.
const TEMPERATURE_MAX_ANTHROPIC: f64 = 1.0;
/// How many stop sequences every wire that has them takes.
pub const STOPS_MAX: usize = 4;
/// The longest stop sequence, in bytes.
pub const STOP_BYTES_MAX: usize = 256;

/// How a model picks its words, and what ends its answer. What is absent is left to the model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sampling {
    /// How much chance there is in each word: 0 to 2.
    pub temperature: Option<f64>,
    /// Pick among the likeliest words that together have this probability: 0 to 1.
    pub top_p: Option<f64>,
    /// Pick among so many of the likeliest words: 1 or more.
    pub top_k: Option<u32>,
    /// Makes picks repeatable, as far as the provider can.
    pub seed: Option<i32>,
    /// The answer ends before any of these texts.
    pub stop: Vec<String>,
}

/// When a model takes `temperature`, `top_p` and `top_k`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TakesSampling {
    /// With every request.
    #[default]
    Always,
    /// Unless the request asks it to reason.
    UnlessReasoning,
    /// If the request says that it must not reason; it reasons otherwise.
    IfNotReasoning,
    /// With no request.
    Never,
}

/// A value that no provider takes.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BadSampling {
    /// Outside its range.
    #[error("`temperature` is {0}; it has to be from 0 to 2")]
    Temperature(f64),
    /// Outside its range.
    #[error("`top_p` is {0}; it has to be from 0 to 1")]
    TopP(f64),
    /// None to pick from.
    #[error("`top_k` is 0; it has to be 1 or more")]
    TopK,
    /// More than some wires take.
    #[error("`stop` has {0} sequences; at most {STOPS_MAX} can be given")]
    Stops(usize),
    /// A sequence that some wires refuse.
    #[error("`stop` has the sequence {0:?}; each needs 1 to {STOP_BYTES_MAX} bytes and more than white space")]
    Stop(String),
}

impl Sampling {
    /// Refuses values that no provider takes.
    ///
    /// # Errors
    /// The first such value.
    pub fn check(&self) -> Result<(), BadSampling> {
        if let Some(value) = self.temperature.filter(|value| !is_within(*value, TEMPERATURE_MAX)) {
            return Err(BadSampling::Temperature(value));
        }
        if let Some(value) = self.top_p.filter(|value| !is_within(*value, 1.0)) {
            return Err(BadSampling::TopP(value));
        }
        if self.top_k == Some(0) {
            return Err(BadSampling::TopK);
        }
        if self.stop.len() > STOPS_MAX {
            return Err(BadSampling::Stops(self.stop.len()));
        }
        match self.stop.iter().find(|stop| !is_stop(stop)) {
            Some(stop) => Err(BadSampling::Stop(stop.clone())),
            None => Ok(()),
        }
    }

    /// What of it `target` takes from a request with this effort. A temperature above the wire's highest becomes that.
    #[must_use]
    pub fn fitting(self, target: &Target, effort: Option<Effort>) -> Self {
        let picks = match target.takes_sampling {
            TakesSampling::Always => true,
            TakesSampling::UnlessReasoning => effort.is_none_or(|effort| effort == Effort::None),
            TakesSampling::IfNotReasoning => effort == Some(Effort::None),
            TakesSampling::Never => false,
        };
        let highest = if target.wire == WireFormat::Anthropic { TEMPERATURE_MAX_ANTHROPIC } else { TEMPERATURE_MAX };
        let temperature = self.temperature.filter(|value| picks && is_within(*value, TEMPERATURE_MAX));
        // Anthropic's newer models refuse the two together.
        let is_second = target.wire == WireFormat::Anthropic && temperature.is_some();
        let mut stop = self.stop;
        stop.retain(|stop| target.takes_stop && is_stop(stop));
        stop.truncate(STOPS_MAX);
        Self {
            temperature: temperature.map(|value| value.min(highest)),
            top_p: self.top_p.filter(|value| picks && !is_second && is_within(*value, 1.0)),
            top_k: self.top_k.filter(|value| picks && target.takes_top_k && *value > 0),
            seed: self.seed.filter(|_| target.takes_seed),
            stop,
        }
    }

    /// The names of the parameters that are set here and not in `sent`, or are otherwise there.
    #[must_use]
    pub fn changed_in(&self, sent: &Self) -> Vec<&'static str> {
        let all = [
            ("temperature", self.temperature != sent.temperature),
            ("top_p", self.top_p != sent.top_p),
            ("top_k", self.top_k != sent.top_k),
            ("seed", self.seed != sent.seed),
            ("stop", self.stop != sent.stop),
        ];
        all.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

fn is_within(value: f64, highest: f64) -> bool {
    (0.0..=highest).contains(&value)
}

fn is_stop(stop: &str) -> bool {
    !stop.trim().is_empty() && stop.len() <= STOP_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Sampling {
        let stop = vec!["END".to_owned()];
        Sampling { temperature: Some(1.5), top_p: Some(0.9), top_k: Some(40), seed: Some(7), stop }
    }

    #[test]
    fn values_that_no_provider_takes_are_refused_by_name() {
        let refused = |change: fn(&mut Sampling)| {
            let mut sampling = all();
            change(&mut sampling);
            sampling.check().unwrap_err().to_string()
        };
        assert_eq!(all().check(), Ok(()));
        assert!(refused(|all| all.temperature = Some(2.1)).contains("`temperature` is 2.1"));
        assert!(refused(|all| all.temperature = Some(f64::NAN)).contains("from 0 to 2"));
        assert!(refused(|all| all.top_p = Some(-0.1)).contains("`top_p`"));
        assert!(refused(|all| all.top_k = Some(0)).contains("`top_k`"));
        assert!(refused(|all| all.stop = vec!["a".into(); 5]).contains("5 sequences"));
        assert!(refused(|all| all.stop = vec!["\n".into()]).contains(r#""\n""#));
        assert!(refused(|all| all.stop = vec!["a".repeat(STOP_BYTES_MAX + 1)]).contains("256 bytes"));
    }

    /// One row a wire: what is left of all parameters.
    #[test]
    fn each_wire_is_sent_what_it_has() {
        let left = |wire| all().changed_in(&all().fitting(&Target::new(wire, "p"), None));
        assert_eq!(
            left(WireFormat::Anthropic),
            ["temperature", "top_p", "seed"],
            "one is lower, one of two is left out"
        );
        assert_eq!(left(WireFormat::OpenAiResponses), ["top_k", "seed", "stop"]);
        assert_eq!(left(WireFormat::OpenAiChat), ["top_k"]);
        assert_eq!(left(WireFormat::Gemini), [""; 0]);
        let lowered = all().fitting(&Target::new(WireFormat::Anthropic, "p"), None);
        assert_eq!((lowered.temperature, lowered.top_p), (Some(1.0), None));
        let alone = Sampling { temperature: None, ..all() }.fitting(&Target::new(WireFormat::Anthropic, "p"), None);
        assert_eq!(alone.top_p, Some(0.9));
    }

    #[test]
    fn a_model_that_reasons_is_not_told_how_to_pick_words() {
        let picks = |takes_sampling, effort| {
            let target = Target { takes_sampling, ..Target::new(WireFormat::Gemini, "p") };
            let sent = all().fitting(&target, effort);
            assert_eq!((sent.seed, sent.stop.len()), (Some(7), 1), "these are no matter of reasoning");
            sent.temperature.is_some() && sent.top_p.is_some() && sent.top_k.is_some()
        };
        let efforts = [None, Some(Effort::None), Some(Effort::Low)];
        for (takes, expected) in [
            (TakesSampling::Always, [true, true, true]),
            (TakesSampling::UnlessReasoning, [true, true, false]),
            (TakesSampling::IfNotReasoning, [false, true, false]),
            (TakesSampling::Never, [false, false, false]),
        ] {
            assert_eq!(efforts.map(|effort| picks(takes, effort)), expected, "{takes:?}");
        }
    }
}
