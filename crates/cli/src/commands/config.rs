//! `everturn config`: look at the configuration.

use std::io::Write as _;
use std::process::ExitCode;

use crate::config::{Config, Flags, variables_set};
use crate::output;
use crate::workspaces::Confinement;

/// Examples below the help text.
pub const EXAMPLES: &str = "Examples:
  everturn config show
  everturn config show --config ./config.toml --model understudy/persona
  everturn config show --json | jq -r .model.value";

/// Arguments of `everturn config show`.
#[derive(clap::Args)]
pub struct Show {
    /// Print one line of JSON: `{"KEY": {"value": …, "origin": …}}`, tables as objects.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: Flags,
}

/// Prints what `serve` would use with the same flags.
pub async fn show(Show { json, flags }: &Show) -> anyhow::Result<ExitCode> {
    let variable = |name: &str| std::env::var(name).ok();
    let config = Config::read(flags, variable)?;
    config.refuse_unknown(variables_set())?;
    let confinement = match config.has_workspace() {
        true => Some(Confinement::find(config.sandbox.value).await?),
        false => None,
    };
    let sheet = config.shown(confinement.as_ref(), variable);
    match json {
        true => output::json(&sheet.json())?,
        false => std::io::stdout().write_all(sheet.text().as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}
