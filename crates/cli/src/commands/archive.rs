//! `everturn archive`: archive chats, or take them out of the archive.

use std::process::ExitCode;

use everturn_server::wire::Patch;

use crate::daemon::{ChatArgs, DaemonArgs, DaemonConnection, IfNoDaemon};
use crate::find_chat::find;
use crate::output::println;
use crate::render::short_title;

/// Examples below the help text.
pub const EXAMPLES: &str = "Examples:
  everturn archive 9n2x4c
  everturn archive 9n2x4c --undo
  everturn chats --all";

/// Arguments of `everturn archive`.
#[derive(clap::Args)]
pub struct Archive {
    /// Chat ids, or unique beginnings or ends of ids.
    #[arg(required = true)]
    chats: Vec<String>,
    /// Take the chats out of the archive.
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

impl Archive {
    /// Archives each chat, or takes it out.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let connection = self.daemon.open(&ChatArgs::default(), IfNoDaemon::Start).await?;
        let done = self.each(&connection).await;
        connection.leave().await;
        done
    }

    async fn each(&self, connection: &DaemonConnection) -> anyhow::Result<ExitCode> {
        for piece in &self.chats {
            let chat = find(&connection.client, piece).await?;
            let patch = Patch { archived: Some(!self.undo), ..Patch::default() };
            let chat = connection.client.patch(&chat.id, &patch).await?;
            println!("{}  {}  {}", chat.id, if self.undo { "taken out" } else { "archived" }, short_title(&chat));
        }
        Ok(ExitCode::SUCCESS)
    }
}
