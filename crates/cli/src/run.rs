//! One turn, from the command line.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use everturn::core::chat::TurnEnd;
use everturn::core::delta::Delta;
use everturn::core::ids::ChatId;
use everturn::core::message::Body;
use everturn::core::status::Status;
use everturn::core::view::{Event, View};
use everturn::stores::sqlite::{Options, Sqlite};
use everturn::{Agent, ChatHandle, Engine};
use everturn_understudy::Understudy;

/// What a newcomer can try.
pub const EXAMPLES: &str = "Examples:
  everturn run \"What are you?\"
  echo \"What are you?\" | everturn run";

/// What to say, and to whom.
#[derive(clap::Args)]
pub struct Run {
    /// What to say; read from standard input if left out.
    prompt: Option<String>,
    /// Instructions for the model.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Where to keep the chat. Made if it is not there; one process uses it at a time.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The chat to go on with, as it was named when it began; a new one if left out.
    #[arg(long, value_name = "ID", requires = "data")]
    chat: Option<ChatId>,
}

impl Run {
    /// Runs the turn.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let Self { prompt, system, data, chat: id } = self;
        let prompt = match prompt {
            Some(prompt) => prompt,
            None => read_prompt()?,
        };
        if prompt.trim().is_empty() {
            bail!("there is nothing to say: give a prompt, or write one to standard input");
        }
        let mut agent = Agent::new("understudy/persona".parse()?);
        agent.system.extend(system);
        let mut builder = Engine::builder().provider(Understudy::persona()).agent("run", agent);
        if let Some(dir) = &data {
            builder = builder.store(Arc::new(Sqlite::open(dir, &Options::default())?));
        }
        let engine = builder.start();
        let chat = match id {
            Some(id) => engine.chat(id),
            None => engine.create("run").await?,
        };
        let interrupt = chat.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                let _ = interrupt.interrupt().await; // Whatever comes of it, the turn's end is seen below.
            }
        });
        let ended = show(&chat, prompt).await;
        if data.is_some() {
            eprintln!("everturn: this was chat {}", chat.id());
        }
        engine.shutdown().await;
        ended
    }
}

fn read_prompt() -> anyhow::Result<String> {
    if std::io::stdin().is_terminal() {
        bail!("there is nothing to say: give a prompt, for example: everturn run \"What are you?\"");
    }
    let mut prompt = String::new();
    std::io::stdin().read_to_string(&mut prompt).context("standard input cannot be read")?;
    Ok(prompt)
}

/// Says something, prints text as it becomes durable, and says how the turn ended.
async fn show(chat: &ChatHandle, prompt: String) -> anyhow::Result<ExitCode> {
    let (mut events, mut view, mut printed) = (chat.events(None), View::default(), String::new());
    let mut out = std::io::stdout();
    view.fold(&events.next().await?)?;
    let before = view.messages.last().map(|message| message.id);
    chat.send(prompt).await?;
    loop {
        let event = events.next().await?;
        view.fold(&event)?;
        match &event {
            Event::Delta(row) => match &*row.delta {
                Delta::Text(text) => print(&mut out, &mut printed, text)?,
                Delta::RetractAll if !printed.is_empty() => print(&mut out, &mut String::new(), "\n")?,
                _ => {}
            },
            Event::Message(message) => {
                // A reply stands for its draft: whatever of it was not seen as deltas is in here.
                if let Body::Reply(reply) = &message.body {
                    let seen = std::mem::take(&mut printed);
                    print(&mut out, &mut String::new(), reply.text().strip_prefix(&seen).unwrap_or_default())?;
                }
            }
            Event::Rewound(_) | Event::Standing(_) | Event::Reset(_) => {}
        }
        let is_told = matches!(event, Event::Standing(_) | Event::Reset(_));
        if !is_told || view.messages.last().map(|message| message.id) <= before {
            continue; // What is known to have ended is an earlier turn.
        }
        let rests = view.standing.as_ref().filter(|standing| matches!(standing.status, Status::Idle | Status::Failed));
        let Some(end) = rests.and_then(|standing| standing.ended.as_ref()) else { continue };
        writeln!(out)?;
        return Ok(match end {
            TurnEnd::Done => ExitCode::SUCCESS,
            TurnEnd::Interrupted => ExitCode::from(130),
            TurnEnd::Failed(failure) => {
                eprintln!("everturn: {}", failure.message);
                ExitCode::from(1)
            }
            other => {
                eprintln!("everturn: the turn ended early: {other:?}");
                ExitCode::from(1)
            }
        });
    }
}

fn print(out: &mut impl std::io::Write, printed: &mut String, text: &str) -> std::io::Result<()> {
    printed.push_str(text);
    write!(out, "{text}")?;
    out.flush()
}
