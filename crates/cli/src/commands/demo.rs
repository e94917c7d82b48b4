//! `everturn demo`, and the hidden `--demo-tools` of `serve`, which starts the demo's daemon.

use std::path::PathBuf;

use everturn::{Agent, Builder};
use everturn_demo::backstage;
pub use everturn_demo::{Demo, EXAMPLES};

use crate::config::Flags;
use crate::process::parent::end_with_parent;
use crate::server::Extension;

/// Providers and tools of the demo's daemon.
pub struct DaemonTools {
    /// The file in which tools record their effects.
    side_file: PathBuf,
}

impl DaemonTools {
    /// The demo's tools, if the flags of `serve` ask for them. Such a daemon ends with the demo that started
    /// it.
    pub fn of(flags: &Flags) -> Option<Self> {
        let side_file = flags.demo_tools()?.to_owned();
        end_with_parent();
        Some(Self { side_file })
    }
}

impl Extension for DaemonTools {
    fn add_providers(&self, builder: Builder) -> anyhow::Result<Builder> {
        backstage::provide(builder, |name| std::env::var(name).ok())
    }

    fn add_tools(&self, agent: Agent) -> anyhow::Result<Agent> {
        backstage::equip(agent, &self.side_file)
    }
}
