//! `everturn run`: one turn, for scripts.

use std::io::{IsTerminal as _, Read as _};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use everturn_server::wire::{Chat, Create};

use crate::daemon::{ChatArgs, DaemonArgs, DaemonConnection, IfNoDaemon};
use crate::find_chat::find;
use crate::output::{self, Asides};
use crate::process::signals::Ends;
use crate::turn::{End, Lines, Turn, stoppable};

/// Examples below the help text.
pub const EXAMPLES: &str = "Examples:
  everturn run \"What are you?\"
  everturn run -q \"What are you?\" > answer.md
  git diff | everturn run --stdin \"Review this change:\"
  everturn run --resume 7k2f9q \"And now?\"
  everturn run --workspace . \"Fix the failing test\"
  everturn run --json \"What are you?\" | jq -r 'select(.event == \"delta\") | .data.text // empty'

Exit codes:
  0    the turn is done
  1    it failed, or could not begin
  2    wrong usage
  3    it ended early: a limit was reached, or the answer was cut or filtered
  4    it waits: a person has to allow a call, or a client that has the tool has to run it
  130  it was stopped; what was said is kept. A second Ctrl-C leaves at once";

/// Limit of standard input.
const INPUT_BYTES_MAX: u64 = 20 * 1024 * 1024;

/// Arguments of `everturn run`.
#[derive(clap::Args)]
pub struct Run {
    /// The message; read from standard input if left out.
    prompt: Option<String>,
    /// Append standard input to the prompt.
    #[arg(long)]
    stdin: bool,
    /// Print each event as one line of JSON: `event` is its name, `data` what docs/http-api.md says. The
    /// first is `chat`.
    #[arg(long)]
    json: bool,
    /// Continue this chat: its id, or a unique beginning or end of it.
    #[arg(long, value_name = "ID", alias = "chat")]
    resume: Option<String>,
    /// Agent of a new chat; the daemon's default if left out.
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    agent: Option<String>,
    /// Print only failures on standard error: no retries, recoveries, lost connections or chat id.
    #[arg(long, short)]
    quiet: bool,
    /// Store nothing: use a daemon of its own, in memory.
    #[arg(long, conflicts_with_all = ["url", "data", "resume"])]
    ephemeral: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
    #[command(flatten)]
    own: ChatArgs,
}

impl Run {
    /// Runs the turn.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let prompt = self.prompt()?;
        // Dropping it deletes the temporary directory of the daemon.
        let (mut connection, _room) = if self.ephemeral {
            let (connection, room) = DaemonConnection::ephemeral(&self.daemon, &self.own).await?;
            (connection, Some(room))
        } else {
            (self.daemon.open(&self.own, IfNoDaemon::Start).await?, None)
        };
        let ran = self.turn(&mut connection, &prompt).await;
        connection.leave().await;
        ran
    }

    async fn turn(&self, connection: &mut DaemonConnection, prompt: &str) -> anyhow::Result<ExitCode> {
        let chat = match &self.resume {
            Some(piece) => {
                let chat = find(&connection.client, piece).await?;
                connection.is_of_workspace(&chat)?;
                self.own.choose(&connection.client, chat).await?
            }
            None => {
                let (agent, model) = (connection.agent(self.agent.as_deref()), self.own.model());
                connection.create(&Create { agent, model, debug: self.own.debug, ..Create::default() }).await?
            }
        };
        let (client, mut ends) = (connection.client.clone(), Ends::listen()?);
        let ended = stoppable(client, &chat.id, &mut ends, self.followed(connection, &chat, prompt)).await?;
        if !self.ephemeral && !self.json && !self.quiet {
            output::aside(format_args!("this was chat {}", chat.id));
        }
        Ok(ExitCode::from(ended.report(&chat)))
    }

    async fn followed(&self, connection: &mut DaemonConnection, chat: &Chat, prompt: &str) -> anyhow::Result<End> {
        if self.json {
            let mut lines = Lines::new(std::io::stdout());
            lines.line("chat", chat)?;
            return Turn::begin(connection, &chat.id, prompt, self.asides())
                .await?
                .follow(connection, &mut lines)
                .await;
        }
        let mut turn = Turn::begin(connection, &chat.id, prompt, self.asides()).await?;
        let mut words = turn.words(std::io::stdout());
        turn.follow(connection, &mut words).await
    }

    const fn asides(&self) -> Asides {
        if self.quiet { Asides::Off } else { Asides::On }
    }

    /// The message: the argument, standard input, or both.
    fn prompt(&self) -> anyhow::Result<String> {
        let mut input = String::new();
        // Read only if needed: standard input may belong to another program of the script, or never end.
        if self.stdin || self.prompt.is_none() && !std::io::stdin().is_terminal() {
            let read = std::io::stdin().take(INPUT_BYTES_MAX + 1).read_to_string(&mut input);
            if read.context("standard input cannot be read")? as u64 > INPUT_BYTES_MAX {
                bail!("standard input has more than {INPUT_BYTES_MAX} bytes");
            }
        }
        let parts = [self.prompt.as_deref().unwrap_or_default(), &input];
        let said: Vec<&str> = parts.into_iter().filter(|part| !part.trim().is_empty()).collect();
        if said.is_empty() {
            let missing = clap::error::ErrorKind::MissingRequiredArgument;
            let why = "the prompt is empty: give one, for example: everturn run \"What are you?\"\n";
            clap::Command::new("everturn").error(missing, why).exit();
        }
        Ok(said.join("\n\n"))
    }
}
