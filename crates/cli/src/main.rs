//! The everturn command.

mod backup;
mod clock;
mod config;
mod doctor;
mod kept;
mod replay;
mod serve;
mod understudy;
mod visible;

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::{Parser, Subcommand};
use everturn::core::chat::TurnEnd;
use everturn::core::delta::Delta;
use everturn::core::ids::ChatId;
use everturn::core::message::Body;
use everturn::core::status::Status;
use everturn::core::view::{Event, View};
use everturn::stores::sqlite::{Options, Sqlite};
use everturn::{Agent, ChatHandle, Engine};
use everturn_understudy::Understudy;

/// The agent loop that never loses a token, a tool result or a turn.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one turn and print the answer as it arrives.
    ///
    /// The model is the understudy, a stand-in that needs no key. The chat lives in memory, or with --data in a directory,
    /// where it can go on later. Ctrl-C stops the turn and keeps what was said so far.
    ///
    /// Exit codes: 0 the turn is done, 1 it failed, 2 wrong usage, 130 it was stopped.
    #[command(after_help = "Examples:\n  everturn run \"What are you?\"\n  echo \"What are you?\" | everturn run")]
    Run {
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
    },
    /// Copy a data directory into one file, while it is used.
    ///
    /// The copy is checked before it gets its name. To restore it, put it into an empty directory as `everturn.db`.
    #[command(after_help = "Example:\n  everturn backup monday.db --data ./data")]
    Backup(backup::Backup),
    /// Serve chats over HTTP, with a stream of events per chat.
    ///
    /// Listens on loopback. Every request needs the token that the first start writes into the data directory. Models come
    /// with the keys in ANTHROPIC_API_KEY, OPENAI_API_KEY and GEMINI_API_KEY; without any, the understudy stands in.
    /// Ctrl-C or SIGTERM ends it in good order: streams end, and turns under way are handed over.
    ///
    /// EVERTURN_LOG says what is logged to standard error, such as `info` or `everturn_server=debug`.
    #[command(after_help = serve::EXAMPLES)]
    Serve(config::Flags),
    /// Say what is wrong with what is kept, and mend it.
    ///
    /// Without an argument it looks at the data directory and every chat in it, row by row; it only reads, so a server may
    /// be running. With a chat it explains that one. With a file it reads a session of another program (arrays of OpenAI
    /// or Anthropic messages, sessions of Claude Code and the Codex CLI), says what is wrong with it, and with --fix makes
    /// a mended copy a chat.
    ///
    /// Exit codes: 0 nothing is wrong, or not any more; 1 something is; 2 wrong usage.
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::Doctor),
    /// Show a chat as it happened: attempts, faults, seams, tools and what they cost.
    #[command(after_help = replay::EXAMPLES)]
    Replay(replay::Replay),
    /// Look at the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Serve a stand-in for the models of four providers, without a key and without the network.
    ///
    /// It speaks Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini on one loopback port, answers
    /// by itself, refuses requests the real provider would refuse, and breaks on demand. Point any client at it as its
    /// base URL. The key is `understudy`, sent the way each provider wants it.
    ///
    /// Models: `persona` chats and tries the tools it is offered; `numbered` answers t1 t2 t3 …, as many as the prompt
    /// says, so that a lost or doubled token shows. Any model takes faults in its name: `numbered-faults:cut@20`.
    ///
    /// Faults are name[@number][xtimes], joined by `+` in a model's name. Before the answer: a status such as 429 or 529
    /// (@seconds to wait), late (@milliseconds), silent, html, empty, redirect. In the answer, after @number events: cut,
    /// truncate, reset, goaway, stall, chatter, malformed, error; the first five also after @number bytes, as in
    /// reset-at-byte@4711. All along: slow (@milliseconds), drip.
    #[command(after_help = understudy::EXAMPLES)]
    Understudy(understudy::Serve),
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Say what `serve` would be told with the same flags, and where each value came from. Keys are not shown.
    Show(config::Flags),
}

fn main() -> ExitCode {
    let Args { command } = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ran = runtime.map_err(Into::into).and_then(|runtime| {
        runtime.block_on(async {
            match command {
                Command::Run { prompt, system, data, chat } => run(prompt, system, data, chat).await,
                Command::Backup(backup) => backup.run(),
                Command::Doctor(doctor) => doctor.run().await,
                Command::Replay(replay) => replay.run().await,
                Command::Serve(flags) => serve::run(&flags).await,
                Command::Config(ConfigCommand::Show(flags)) => {
                    let variable = |name: &str| std::env::var(name).ok();
                    config::Config::read(&flags, variable).map(|config| config.show(variable))
                }
                Command::Understudy(serve) => serve.run().await,
            }
        })
    });
    match ran {
        Ok(code) => code,
        Err(error) => {
            eprintln!("everturn: {error:#}");
            ExitCode::from(1)
        }
    }
}

async fn run(
    prompt: Option<String>,
    system: Option<String>,
    data: Option<PathBuf>,
    id: Option<ChatId>,
) -> anyhow::Result<ExitCode> {
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
