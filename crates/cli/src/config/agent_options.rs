//! Request options of an agent in the configuration file.

use everturn::core::context::CompactionThreshold;
use everturn::core::prompt::Effort;
use everturn::providers::catalogue::label;
use everturn::{Agent, Background};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Default share of the context window at which the transcript is summarised.
const COMPACTION_PERCENT: u8 = 70;

/// Request options of an agent. `None` is the default.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct AgentOptions {
    /// Whether to request background generations, which outlive their stream, where the provider has them.
    pub background: Option<bool>,
    /// Reasoning effort, where the model has that option.
    pub effort: Option<Word>,
    /// Share of the context window at which the transcript is summarised; 100 switches that off.
    pub compaction_percent: Option<Percent>,
}

impl AgentOptions {
    /// Applies these options to an agent.
    pub fn of(self, mut agent: Agent) -> Agent {
        if let Some(is_on) = self.background {
            agent.background = if is_on { Background::On } else { Background::Off };
        }
        if let Some(Word(effort)) = self.effort {
            agent.effort = Some(effort);
        }
        if let Some(Percent(percent)) = self.compaction_percent {
            agent.compaction = CompactionThreshold::percent(percent.into());
        }
        agent
    }

    /// The reasoning effort, if it is set.
    pub fn effort(self) -> Option<Effort> {
        self.effort.map(|Word(effort)| effort)
    }

    /// Key, value as in the file, and whether the file sets it.
    pub fn shown(self) -> Vec<(&'static str, String, bool)> {
        let percent = self.compaction_percent.map_or(COMPACTION_PERCENT, |Percent(percent)| percent);
        let background = self.background.unwrap_or_default().to_string();
        let mut shown = vec![("background", background, self.background.is_some())];
        shown.extend(self.effort.map(|Word(effort)| ("effort", format!("{:?}", label(effort)), true)));
        shown.push(("compaction_percent", percent.to_string(), self.compaction_percent.is_some()));
        shown
    }
}

/// A level of effort by its name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Word(Effort);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let found = Effort::ALL.into_iter().find(|effort| label(*effort) == text);
        let names = || Effort::ALL.map(label).join(", ");
        found
            .map(Self)
            .ok_or_else(|| D::Error::custom(format!("`{text}` is not an effort level: use one of {}", names())))
    }
}

/// A percentage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percent(u8);

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u8::deserialize(deserializer)? {
            percent @ 0..=100 => Ok(Self(percent)),
            more => Err(D::Error::custom(format!("{more} is more than 100 percent"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Flags;
    use super::super::tests::read;
    use super::*;

    #[test]
    fn an_agent_has_the_options_of_the_file() {
        let words = "background = true\neffort = \"high\"\ncompaction_percent = 55\n";
        let text = format!("{words}\n[agents.a]\nmodel = \"a/b\"\n{words}\n[agents.b]\nmodel = \"a/b\"");
        let config = read(Flags::default(), &[], &text).unwrap();
        let usual = Agent::new("a/b".parse().unwrap());
        let agents = [
            config.agents["a"].agent().unwrap(),
            config.usual.agent_options().of(usual.clone()),
            config.agents["b"].agent().unwrap(),
        ];
        let options = agents.map(|agent| (agent.background, agent.effort, agent.compaction));
        let told = (Background::On, Some(Effort::High), CompactionThreshold::percent(55));
        assert_eq!(options, [told, told, (Background::Off, None, CompactionThreshold::default())]);
        assert_eq!(CompactionThreshold::default(), CompactionThreshold::percent(COMPACTION_PERCENT.into()));
        assert_eq!(usual.compaction, CompactionThreshold::default());
    }

    #[test]
    fn an_invalid_option_is_refused_with_the_valid_ones() {
        for (text, said) in [
            ("effort = \"hard\"", "use one of none, minimal, low"),
            ("compaction_percent = 101", "more than 100"),
            ("[agents.a]\nmodel = \"a/b\"\neffrt = \"low\"", "did you mean `effort`?"),
        ] {
            let error = format!("{:#}", read(Flags::default(), &[], text).unwrap_err());
            assert!(error.contains(said), "{error}");
        }
    }
}
