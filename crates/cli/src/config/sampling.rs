//! Sampling parameters that a model would refuse, found at the start.
//!
//! Requests to that model leave them out, and the operator is warned.

use everturn::core::ids::ModelId;
use everturn::core::prompt::Sampling;

use super::{AGENT, Config};

/// Least output limit that every wire format accepts.
pub const OUTPUT_TOKENS_MIN: u32 = 16;

impl Config {
    /// Warnings about parameters that an agent's models do not accept. `usual` is the model of the default
    /// agent.
    pub fn untaken(&self, usual: &ModelId) -> Vec<String> {
        let company = self.company();
        let mut warnings = Vec::new();
        let mut look = |agent: &str, model: &ModelId, sampling: &Sampling, effort| {
            let Some(target) = company.target(model) else { return };
            let names = sampling.changed_in(&sampling.clone().fitting(&target, effort));
            if !names.is_empty() {
                let names = names.join("`, `");
                warnings.push(format!(
                    "{model} does not take `{names}` as the agent `{agent}` has it: requests to it go without, or with the \
                     highest temperature it takes"
                ));
            }
        };
        let (sampling, effort) = (self.usual.sampling(), self.usual.agent_options().effort());
        for model in [usual].into_iter().chain(&self.fallbacks) {
            look(AGENT, model, &sampling, effort);
        }
        for (name, profile) in &self.agents {
            let (sampling, effort) = (profile.sampling(), profile.agent_options().effort());
            for model in [&profile.model].into_iter().chain(&profile.fallbacks).filter_map(|model| model.parse().ok()) {
                look(name, &model, &sampling, effort);
            }
        }
        warnings
    }
}

/// The parameters that are set: key, and value as in the file.
pub fn shown(sampling: &Sampling, output_tokens_max: Option<u32>) -> Vec<(&'static str, String)> {
    let Sampling { temperature, top_p, top_k, seed, stop } = sampling;
    let numbers = [
        ("temperature", temperature.map(|value| format!("{value:?}"))),
        ("top_p", top_p.map(|value| format!("{value:?}"))),
        ("top_k", top_k.map(|value| value.to_string())),
        ("seed", seed.map(|value| value.to_string())),
        ("stop", (!stop.is_empty()).then(|| format!("{stop:?}"))),
        ("output_tokens_max", output_tokens_max.map(|value| value.to_string())),
    ];
    numbers.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Flags;
    use super::super::tests::read;
    use super::*;

    const KEYS: &str =
        "temperature = 0.2\ntop_p = 1\ntop_k = 40\nseed = 7\nstop = [\"END\"]\noutput_tokens_max = 500\n";

    #[test]
    fn an_agent_samples_as_the_file_says() {
        let config = read(Flags::default(), &[], &format!("{KEYS}[agents.a]\nmodel = \"a/b\"\n{KEYS}")).unwrap();
        let stop = vec!["END".to_owned()];
        let told = Sampling { temperature: Some(0.2), top_p: Some(1.0), top_k: Some(40), seed: Some(7), stop };
        for agent in [config.named_agent("a").unwrap(), config.usual_agent("a/b".parse().unwrap()).unwrap()] {
            assert_eq!((&agent.sampling, agent.output_tokens_max), (&told, Some(500)));
        }
    }

    #[test]
    fn a_parameter_that_no_provider_takes_is_refused_at_the_start() {
        for (text, said) in [
            ("temperature = 3", "`temperature` is 3; it has to be from 0 to 2"),
            ("[agents.a]\nmodel = \"a/b\"\ntop_p = 1.5", "the agent `a`: `top_p` is 1.5"),
            ("top_k = 0", "`top_k` is 0"),
            ("stop = [\" \"]", "more than white space"),
            ("output_tokens_max = 9", "`output_tokens_max` is 9; it must be 16 or more"),
            ("temprature = 1", "did you mean `temperature`?"),
        ] {
            let error = format!("{:#}", read(Flags::default(), &[], text).unwrap_err());
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_parameter_that_a_model_does_not_take_is_a_warning() {
        let untaken = |text: &str, model: &str| {
            let config = read(Flags::default(), &[], text).unwrap();
            config.untaken(&model.parse().unwrap())
        };
        for (text, model, said) in [
            ("temperature = 0.2", "openai/gpt-5-mini", "openai/gpt-5-mini does not take `temperature`"),
            ("seed = 2\nstop = [\"a\"]", "openai/gpt-4.1", "does not take `seed`, `stop`"),
            ("temperature = 1.5", "anthropic/claude-sonnet-4-5", "`temperature`"),
            ("top_k = 5", "ollama/qwen3", "`top_k`"),
            ("[agents.a]\nmodel = \"google/gemini-3-pro\"\ntop_p = 0.5", "ollama/qwen3", "the agent `a`"),
        ] {
            let warnings = untaken(text, model);
            assert!(warnings.len() == 1 && warnings[0].contains(said), "{text}: {warnings:?}");
        }
        for (text, model) in [
            ("temperature = 0.2\neffort = \"none\"", "openai/gpt-5.1"),
            ("temperature = 0.2", "anthropic/claude-sonnet-4-5"),
            ("temperature = 0.2\nseed = 1", "google/gemini-2.5-flash"),
            ("temperature = 0.2\ntop_k = 3", "understudy/persona"),
            ("", "openai/gpt-5-mini"),
        ] {
            assert_eq!(untaken(text, model), [""; 0], "{text}");
        }
    }
}
