//! `everturn delete`: delete chats for good.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::bail;

use crate::daemon::{ChatArgs, DaemonArgs, DaemonConnection, IfNoDaemon};
use crate::find_chat::find;
use crate::output::{self, println};
use crate::render::short_title;

/// Examples below the help text.
pub const EXAMPLES: &str = "Examples:
  everturn delete 9n2x4c
  everturn chats --json | jq -r 'select(.status == \"failed\").id' | xargs everturn delete --yes";

/// Arguments of `everturn delete`.
#[derive(clap::Args)]
pub struct Delete {
    /// Chat ids, or unique beginnings or ends of ids.
    #[arg(required = true)]
    chats: Vec<String>,
    /// Do not ask for confirmation.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

impl Delete {
    /// Deletes each chat after a confirmation.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        if !self.yes && !std::io::stdin().is_terminal() {
            bail!(
                "a chat is deleted for good, with all its messages and files: add --yes to delete without confirmation"
            );
        }
        let connection = self.daemon.open(&ChatArgs::default(), IfNoDaemon::Start).await?;
        let done = self.each(&connection).await;
        connection.leave().await;
        done
    }

    async fn each(&self, connection: &DaemonConnection) -> anyhow::Result<ExitCode> {
        let mut code = ExitCode::SUCCESS;
        for piece in &self.chats {
            let chat = find(&connection.client, piece).await?;
            let about = format!("{}  {}", chat.id, short_title(&chat));
            if self.yes || output::is_sure(format_args!("{about}\nDelete it for good? [y/N] "))? {
                connection.client.delete(&chat.id).await?;
                println!("{}  deleted  {}", chat.id, short_title(&chat));
            } else {
                output::aside("nothing was deleted");
                code = ExitCode::from(1);
            }
        }
        Ok(code)
    }
}
