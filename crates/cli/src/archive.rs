//! Putting chats away, and deleting them.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::bail;
use everturn_server::wire::{Chat, Patch};

use crate::chat::find;
use crate::house::{House, Otherwise, Own, Which};
use crate::out::{self, println};
use crate::terminal::visible;

/// What a newcomer can try.
pub const ARCHIVE_EXAMPLES: &str = "Examples:
  everturn archive 9n2x4c
  everturn archive 9n2x4c --undo
  everturn chats --all";
pub const DELETE_EXAMPLES: &str = "Examples:
  everturn delete 9n2x4c
  everturn chats --json | jq -r 'select(.status == \"failed\").id' | xargs everturn delete --yes";

/// How much of a title is shown.
const TITLE_CHARS_MAX: usize = 60;

/// Which chats to put away.
#[derive(clap::Args)]
pub struct Archive {
    /// Each chat, or the beginning or the end of its id.
    #[arg(required = true)]
    chats: Vec<String>,
    /// Take them out again.
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    which: Which,
}

/// Which chats to delete.
#[derive(clap::Args)]
pub struct Delete {
    /// Each chat, or the beginning or the end of its id.
    #[arg(required = true)]
    chats: Vec<String>,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    which: Which,
}

impl Archive {
    /// Puts them away.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let house = self.which.open(&Own::default(), Otherwise::Start).await?;
        let done = self.each(&house).await;
        house.leave().await;
        done
    }

    async fn each(&self, house: &House) -> anyhow::Result<ExitCode> {
        for piece in &self.chats {
            let chat = find(&house.client, piece).await?;
            let patch = Patch { archived: Some(!self.undo), ..Patch::default() };
            let chat = house.client.patch(&chat.id, &patch).await?;
            println!("{}  {}  {}", chat.id, if self.undo { "taken out" } else { "archived" }, title(&chat));
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Delete {
    /// Deletes them, those that somebody is sure of.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        if !self.yes && !std::io::stdin().is_terminal() {
            bail!(
                "a chat is deleted for good, with all its messages and files: add --yes to delete without a question"
            );
        }
        let house = self.which.open(&Own::default(), Otherwise::Start).await?;
        let done = self.each(&house).await;
        house.leave().await;
        done
    }

    async fn each(&self, house: &House) -> anyhow::Result<ExitCode> {
        let mut code = ExitCode::SUCCESS;
        for piece in &self.chats {
            let chat = find(&house.client, piece).await?;
            let about = format!("{}  {}", chat.id, title(&chat));
            if self.yes || out::is_sure(format_args!("{about}\nDelete it for good? [y/N] "))? {
                house.client.delete(&chat.id).await?;
                println!("{}  deleted  {}", chat.id, title(&chat));
            } else {
                out::aside("nothing was deleted");
                code = ExitCode::from(1);
            }
        }
        Ok(code)
    }
}

fn title(chat: &Chat) -> String {
    visible::line(&chat.standing.title, TITLE_CHARS_MAX)
}
