//! `everturn config`: look at the configuration.

use std::io::Write as _;
use std::process::ExitCode;

use crate::config::{Config, Flags, variables_set};

/// Examples below the help text.
pub const EXAMPLES: &str = "Examples:
  everturn config show
  everturn config show --config ./config.toml --model understudy/persona";

/// Prints what `serve` would use with the same flags.
pub fn show(flags: &Flags) -> anyhow::Result<ExitCode> {
    let variable = |name: &str| std::env::var(name).ok();
    let config = Config::read(flags, variable)?;
    config.refuse_unknown(variables_set())?;
    std::io::stdout().write_all(config.shown(variable).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
