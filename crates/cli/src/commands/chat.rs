//! `everturn chat`: a chat in the terminal.

mod attach;
mod facts;
mod live;
mod order;
mod outbox;
mod pick;
mod session;
mod slash;
mod story;
mod templates;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::bail;
use everturn_server::wire::{Chat, Create};
use tokio::sync::mpsc;

use crate::daemon::{ChatArgs, DaemonArgs, DaemonConnection, IfNoDaemon};
use crate::find_chat::find;
use crate::output::Asides;
use crate::process::signals::Ends;
use crate::terminal::style::Colours;
use crate::turn::{Turn, stoppable};
use session::{Begin, Session};
use templates::Templates;

/// Examples below the help text.
pub const EXAMPLES: &str = "Examples:
  everturn chat
  everturn chat --last
  everturn chat --resume 7k2f9q
  everturn chat --workspace .

While it answers: Enter queues what you type, Ctrl-S steers with it, Ctrl-C stops and keeps what was said. /help says more.";

/// Exit code after an interruption, as of a process that Ctrl-C ended.
const STOPPED: u8 = 130;

/// Arguments of `everturn chat`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    daemon: DaemonArgs,
    #[command(flatten)]
    own: ChatArgs,
    /// Continue this chat: its id, or a unique beginning or end of it. Without an id, choose from a list.
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "", conflicts_with = "last")]
    resume: Option<String>,
    /// Continue the chat with the newest message.
    #[arg(long)]
    last: bool,
    /// Agent of a new chat; the daemon's default if left out.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["resume", "last"])]
    agent: Option<String>,
}

impl Args {
    /// Runs the chat until the user leaves or standard input ends.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let mut connection = self.daemon.open(&self.own, IfNoDaemon::Start).await?;
        let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        if is_terminal {
            let colours = Colours::wanted(|name| std::env::var(name).ok());
            return self.in_terminal(connection, colours).await;
        }
        let talked = self.plainly(&mut connection).await;
        connection.leave().await;
        talked
    }

    async fn in_terminal(self, connection: DaemonConnection, colours: Colours) -> anyhow::Result<ExitCode> {
        let chosen = match &self.resume {
            Some(id) if id.is_empty() => match pick::pick(&connection.client, colours).await {
                Ok(Some(id)) => self.found(&connection, &id).await.map(Some),
                Ok(None) => {
                    connection.leave().await;
                    return Ok(ExitCode::SUCCESS);
                }
                Err(error) => Err(error),
            },
            _ => self.chosen(&connection).await,
        };
        match chosen {
            Ok(chat) => {
                let (model, debug) = (self.own.model(), self.own.debug);
                let agent = connection.agent(self.agent.as_deref());
                let templates = Templates::beside(self.daemon.config_file().as_deref());
                Session::run(connection, chat, Begin { agent, model, debug }, templates, colours).await
            }
            Err(error) => {
                connection.leave().await;
                Err(error)
            }
        }
    }

    /// The chat of `--resume` or `--last`; `None` for a new one.
    async fn chosen(&self, connection: &DaemonConnection) -> anyhow::Result<Option<Chat>> {
        match &self.resume {
            Some(id) if id.is_empty() => {
                bail!("--resume needs an id without a terminal to choose in: `everturn chats` lists them")
            }
            Some(id) => self.found(connection, id).await.map(Some),
            None if self.last => {
                let chats = connection.client.list("archived=false&limit=1").await?;
                let Some(newest) = chats.chats.first() else { bail!("there is no chat yet") };
                self.found(connection, &newest.id).await.map(Some)
            }
            None => Ok(None),
        }
    }

    /// The chat with this piece of an id, with the model and recording of the flags applied.
    async fn found(&self, connection: &DaemonConnection, piece: &str) -> anyhow::Result<Chat> {
        let chat = find(&connection.client, piece).await?;
        connection.is_of_workspace(&chat)?;
        Ok(self.own.choose(&connection.client, chat).await?)
    }

    /// One turn for each line of the input, as plain text.
    async fn plainly(&self, connection: &mut DaemonConnection) -> anyhow::Result<ExitCode> {
        let chat = match self.chosen(connection).await? {
            Some(chat) => chat,
            None => {
                let (agent, model) = (connection.agent(self.agent.as_deref()), self.own.model());
                connection.create(&Create { agent, model, debug: self.own.debug, ..Create::default() }).await?
            }
        };
        let (mut lines, mut ends, client) = (lines(), Ends::listen()?, connection.client.clone());
        let mut code = 0;
        loop {
            let line = tokio::select! {
                biased;
                () = ends.next() => return Ok(ExitCode::from(STOPPED)),
                line = lines.recv() => line,
            };
            let Some(line) = line.transpose()? else { return Ok(ExitCode::from(code)) };
            if line.trim().is_empty() {
                continue;
            }
            let turn = async {
                let mut turn = Turn::begin(connection, &chat.id, &line, Asides::On).await?;
                let mut words = turn.words(std::io::stdout());
                turn.follow(connection, &mut words).await
            };
            let end = stoppable(client.clone(), &chat.id, &mut ends, turn).await?;
            let ended = end.report(&chat);
            code = if code == 0 { ended } else { code }; // A script needs the first failure.
            if ended == STOPPED {
                return Ok(ExitCode::from(code));
            }
        }
    }
}

/// The lines of standard input as they arrive. They are read on a thread that the process does not wait for
/// when it exits.
fn lines() -> mpsc::Receiver<std::io::Result<String>> {
    let (read, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            if read.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}
