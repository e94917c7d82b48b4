//! Workspaces in the configuration: directories that agents work in, and how far their commands are confined.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use everturn_tools::{LongCommands, Network};
use serde::{Deserialize, Deserializer};

/// An entry of `[workspaces]`.
#[derive(Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceEntry {
    /// The directory; a relative path starts at the configuration file.
    pub path: PathBuf,
}

/// How far commands of tools must be confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    /// As far as the machine can.
    Best,
    /// Fully; the server does not start otherwise.
    Full,
    /// Not at all.
    Off,
}

impl fmt::Display for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Best => "best",
            Self::Full => "full",
            Self::Off => "off",
        })
    }
}

impl FromStr for Sandbox {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Best, Self::Full, Self::Off]
            .into_iter()
            .find(|sandbox| sandbox.to_string() == text.trim())
            .ok_or_else(|| format!("`{text}` is not a sandbox: choose `best`, `full` or `off`"))
    }
}

impl<'de> Deserialize<'de> for Sandbox {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What becomes of commands that take longer than their calls wait.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LongCommandsUse {
    Job,
    End,
}

impl LongCommandsUse {
    /// As in the configuration file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::End => "end",
        }
    }
}

impl From<LongCommandsUse> for LongCommands {
    fn from(told: LongCommandsUse) -> Self {
        match told {
            LongCommandsUse::Job => Self::BecomeJobs,
            LongCommandsUse::End => Self::End,
        }
    }
}

/// Whether commands of an agent may use the network.
#[derive(Deserialize, Debug, Default, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum NetworkUse {
    #[default]
    Off,
    On,
}

impl NetworkUse {
    /// Its word in the file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
        }
    }
}

impl From<NetworkUse> for Network {
    fn from(network: NetworkUse) -> Self {
        match network {
            NetworkUse::Off => Self::Off,
            NetworkUse::On => Self::On,
        }
    }
}
