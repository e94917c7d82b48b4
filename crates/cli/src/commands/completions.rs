//! `everturn completions`: the completion script of a shell.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

/// Examples below the help text.
pub const EXAMPLES: &str =
    "Example:\n  everturn completions bash > ~/.local/share/bash-completion/completions/everturn";

/// Prints the script. It is generated first: generating cannot fail, printing can.
pub fn print(shell: Shell, mut command: Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "everturn", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
