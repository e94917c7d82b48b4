//! Tools as real processes, on the kernel this machine has.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod changes;
mod escapes;
mod exhaustion;
mod instructions;
mod jobs;
mod leftovers;
mod long_commands;
mod recall;
mod skills;
mod workspace;

use std::path::{Path, PathBuf};

use everturn_tools::{AccessPolicy, Ended, Level, ToolCommand};
use tokio::io::AsyncReadExt as _;

const HELPER: &str = env!("CARGO_BIN_EXE_everturn-tool-helper");

/// A directory with a workspace and what must stay out of reach beside it.
struct Scratch {
    root: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        let root = tempfile::Builder::new().prefix("everturn-tools").tempdir().unwrap();
        for name in ["workspace", "outside", "temporary"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        std::fs::write(root.path().join("outside/secret"), "the secret").unwrap();
        Self { root }
    }

    fn workspace(&self) -> PathBuf {
        self.root.path().join("workspace")
    }

    fn outside(&self) -> PathBuf {
        self.root.path().join("outside")
    }

    fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    fn writing(&self) -> AccessPolicy {
        AccessPolicy { temporary: Some(self.root.path().join("temporary")), ..AccessPolicy::writing(self.workspace()) }
    }
}

/// A shell script in the workspace, with the paths of the scratch as variables.
fn script(scratch: &Scratch, script: &str) -> ToolCommand {
    shell(script, &scratch.workspace()).variable("OUTSIDE", scratch.outside().to_string_lossy())
}

fn shell(script: &str, directory: &Path) -> ToolCommand {
    ToolCommand::new(["/bin/bash", "-c", script], directory).variable("PATH", "/usr/bin:/bin").with_helper(HELPER)
}

/// The variable with the level that this machine must have. Without it, a level that cannot be had is told and left out.
const REQUIRED: &str = "EVERTURN_REQUIRED_LEVEL";

/// The levels at which commands can be confined here. A machine without bubblewrap, user namespaces or Landlock has fewer.
async fn levels() -> Vec<Level> {
    let probe = everturn_tools::Probe::run(Path::new(HELPER)).await;
    for reason in &probe.reasons {
        eprintln!("not tested here: {reason}");
    }
    if let Ok(required) = std::env::var(REQUIRED) {
        let required =
            [Level::Files, Level::Partial, Level::Full].into_iter().find(|level| level.to_string() == required);
        let required = required.unwrap_or_else(|| panic!("{REQUIRED} is files, partial or full"));
        assert!(probe.level >= required, "{required} is required here: {:?}", probe.reasons);
    }
    [Level::Full, Level::Partial].into_iter().filter(|level| *level <= probe.level).collect()
}

async fn run(command: ToolCommand) -> (Ended, String) {
    let mut running = command.start().await.unwrap();
    let mut output = Vec::new();
    running.stdout.read_to_end(&mut output).await.unwrap();
    (running.wait().await.unwrap(), String::from_utf8_lossy(&output).into_owned())
}

/// Runs a script at a level, and says what it printed.
async fn confined(scratch: &Scratch, policy: AccessPolicy, level: Level, text: &str) -> String {
    run(script(scratch, text).confine(policy, level).unwrap()).await.1
}
