//! Durability of an answer that is still arriving, in the configuration file.

use std::fmt;
use std::str::FromStr;

use everturn::stores::Durability;
use serde::Deserialize;

/// Which failure stored deltas survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Drafts {
    /// A crash of the process.
    Process,
    /// A power cut.
    Full,
}

impl From<Drafts> for Durability {
    fn from(drafts: Drafts) -> Self {
        match drafts {
            Drafts::Process => Self::Process,
            Drafts::Full => Self::Full,
        }
    }
}

impl fmt::Display for Drafts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "process",
            Self::Full => "full",
        })
    }
}

impl FromStr for Drafts {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "process" => Ok(Self::Process),
            "full" => Ok(Self::Full),
            _ => Err("expected process or full"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Flags;
    use super::super::tests::read;
    use super::*;

    #[test]
    fn durability_comes_from_the_file_or_the_environment() {
        let told = |set: &[(&str, &str)], text: &str| {
            read(Flags::default(), set, text).map(|config| Durability::from(config.durability.value))
        };
        let variable = |value| [("EVERTURN_DURABILITY", value)];
        assert_eq!(told(&[], "").unwrap(), Durability::Process);
        assert_eq!(told(&[], "durability = \"full\"").unwrap(), Durability::Full);
        assert_eq!(told(&variable("full"), "durability = \"process\"").unwrap(), Durability::Full);
        assert_eq!(told(&variable("process"), "durability = \"full\"").unwrap(), Durability::Process);
        assert!(told(&variable("none"), "").is_err() && told(&[], "durability = \"none\"").is_err());
    }
}
