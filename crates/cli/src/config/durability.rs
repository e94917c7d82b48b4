//! What the words of an answer survive that is still arriving, as the file says it.

use std::fmt;
use std::str::FromStr;

use everturn::stores::Durability;
use serde::Deserialize;

/// What deltas survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Drafts {
    /// The death of the process.
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
