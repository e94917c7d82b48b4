//! `everturn asks`: calls of all chats that wait for a person or a client.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use everturn_server::wire::{Answer, Ask, AskKind, ChatAsks};

use crate::daemon::{ChatArgs, DaemonArgs, DaemonConnection, IfNoDaemon};
use crate::find_chat::{find, short};
use crate::output::{self, println};
use crate::render::pretty;
use crate::terminal::visible;

/// Examples below the help text.
pub const EXAMPLES: &str = "Examples:
  everturn asks
  everturn asks allow 9n2x4c
  everturn asks allow 9n2x4c 3.0 --always
  everturn asks deny 9n2x4c --reason 'Not on a Friday.'
  everturn asks answer 9n2x4c '{\"colour\": \"green\"}'
  everturn asks --json | jq -r '.chat'";

/// Characters of a title and of a line of input that are shown.
const CHARS_MAX: usize = 200;

/// Arguments of `everturn asks`.
#[derive(clap::Args)]
pub struct Asks {
    #[command(subcommand)]
    verb: Option<AsksVerb>,
    /// Print each chat with its open calls as one line of JSON, as `GET /v1/asks` shows it.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

#[derive(clap::Subcommand)]
enum AsksVerb {
    /// Let a call run.
    Allow {
        #[command(flatten)]
        what: AskedCall,
        /// Allow the next calls like it too, in this chat and for 30 days; `asks` shows what that covers.
        #[arg(long)]
        always: bool,
    },
    /// Answer the question of a tool.
    Answer {
        /// Id of the chat, or a unique beginning or end of it.
        chat: String,
        /// The answer: a JSON object that fits the schema of the question.
        answer: String,
        /// The call, such as 3.0; needed if several wait.
        call: Option<String>,
    },
    /// Do not let a call run, or do not answer a question. The turn goes on, and the model reads why.
    Deny {
        #[command(flatten)]
        what: AskedCall,
        /// Reason for the model.
        #[arg(long, default_value = "", hide_default_value = true)]
        reason: String,
    },
}

#[derive(clap::Args)]
struct AskedCall {
    /// Id of the chat, or a unique beginning or end of it.
    chat: String,
    /// The call, such as 3.0; needed if several wait.
    call: Option<String>,
}

impl Asks {
    /// Lists the open calls, or answers one.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let absent = if self.verb.is_some() { IfNoDaemon::Start } else { IfNoDaemon::Answer };
        let connection = self.daemon.open(&ChatArgs::default(), absent).await?;
        let done = match &self.verb {
            None => self.list(&connection).await,
            Some(verb) => answer(&connection, verb).await,
        };
        connection.leave().await;
        done.map(|()| ExitCode::SUCCESS)
    }

    async fn list(&self, connection: &DaemonConnection) -> anyhow::Result<()> {
        let chats = connection.client.asks().await?.chats;
        if chats.is_empty() && !self.json {
            output::aside("no call waits for an answer");
        }
        for chat in &chats {
            if self.json { output::json(chat)? } else { show(chat) }
        }
        Ok(())
    }
}

fn show(chat: &ChatAsks) {
    let whose = chat.parent.as_ref().map(|parent| format!("  (sub-agent {} of {})", chat.agent, short(parent)));
    let whose = visible::line(&whose.unwrap_or_default(), CHARS_MAX);
    println!("{}  {}{whose}", chat.chat, visible::line(&chat.title, CHARS_MAX));
    for ask in &chat.asks {
        let wants = match ask.wants {
            AskKind::Approval => "waits for approval",
            AskKind::Result => "waits for a client's result",
            AskKind::Answer => "asks a question",
        };
        println!("  {}  {}  {wants}", ask.call, visible::line(&ask.tool, CHARS_MAX));
        for line in pretty(ask.input.as_deref().unwrap_or_default()).lines() {
            println!("    {}", visible::visible(line));
        }
        let facts = [("rule", &ask.rule), ("path", &ask.path), ("confinement", &ask.confinement)];
        for (name, fact) in facts.into_iter().filter_map(|(name, fact)| Some((name, fact.as_ref()?))) {
            println!("    {name}: {}", visible::line(fact, CHARS_MAX));
        }
        if let Some(grant) = &ask.grant {
            println!("    --always would allow: {}", visible::line(grant, CHARS_MAX));
        }
    }
}

async fn answer(connection: &DaemonConnection, verb: &AsksVerb) -> anyhow::Result<()> {
    let (chat, call, wanted): (_, _, &[AskKind]) = match verb {
        AsksVerb::Allow { what, .. } => (&what.chat, &what.call, &[AskKind::Approval]),
        AsksVerb::Deny { what, .. } => (&what.chat, &what.call, &[AskKind::Approval, AskKind::Answer]),
        AsksVerb::Answer { chat, call, .. } => (chat, call, &[AskKind::Answer]),
    };
    let chat = find(&connection.client, chat).await?;
    let ask = chosen(&chat.standing.asks, wanted, call.as_deref(), short(&chat.id))?;
    let (call, input_hash) = (ask.call.clone(), ask.input_hash.clone());
    let (answer, done) = match verb {
        AsksVerb::Allow { always: false, .. } => (Answer::Approve { call, input_hash }, "allowed"),
        AsksVerb::Allow { always: true, .. } => {
            let told = || format!("`{}` can only be allowed once: leave --always out", ask.tool);
            ask.grant.as_ref().with_context(told)?;
            (Answer::Grant { call, input_hash, until: None }, "allowed, and the next ones like it")
        }
        AsksVerb::Answer { answer, .. } => (Answer::Result { call, output: answer.clone() }, "answered"),
        AsksVerb::Deny { reason, .. } if ask.wants == AskKind::Answer => {
            (Answer::Error { call, output: reason.clone() }, "not answered")
        }
        AsksVerb::Deny { reason, .. } => (Answer::Deny { call, reason: reason.clone() }, "denied"),
    };
    connection.client.answer(&chat.id, vec![answer]).await?;
    println!("{}  {}  {}  {done}", chat.id, ask.call, visible::line(&ask.tool, CHARS_MAX));
    Ok(())
}

/// The call that waits for this: the named one, or the only one.
fn chosen<'a>(asks: &'a [Ask], wanted: &[AskKind], call: Option<&str>, chat: &str) -> anyhow::Result<&'a Ask> {
    let mut open = asks.iter().filter(|ask| wanted.contains(&ask.wants));
    let found = match call {
        Some(call) => open.find(|ask| ask.call == call),
        None => match (open.next(), open.next()) {
            (Some(_), Some(_)) => bail!("several calls wait in {chat}: name one; `everturn asks` lists them"),
            (first, _) => first,
        },
    };
    found.with_context(|| format!("no such call waits for that in {chat}: `everturn asks` lists those that do"))
}
