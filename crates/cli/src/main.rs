//! The everturn command.
#![warn(clippy::print_stdout, clippy::print_stderr, reason = "they panic when nobody reads: `out` does not")]

mod atomic_file;
mod clock;
mod commands;
mod config;
mod daemon;
mod find_chat;
mod offline_store;
mod persona_tools;
mod process;
mod recording;
mod render;
mod server;
mod terminal;
mod turn;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, Parser, Subcommand};
use everturn_frontend::{client, entropy, output};

use commands::{
    archive, backup, chat, chats, completions, delete, demo, doctor, export, replay, run, serve, status, tokens,
    understudy,
};
use server::Extension;

/// What a delta needs is small, and mostly let go on another thread than it came on: see decision 18.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long a command that is done waits for its threads.
const LEFTOVERS_MAX: Duration = Duration::from_secs(1);

/// The agent loop that never loses a token, a tool result or a turn.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Chat in the terminal.
    ///
    /// Talks to the daemon of the data directory, or is one for as long as it lasts. What was said is kept: stop, close
    /// the window, pull the plug, and go on later with --last or --resume.
    #[command(after_help = chat::EXAMPLES)]
    Chat(chat::Args),
    /// List chats, those first in which something was said last.
    ///
    /// Only looks: turns that were under way when their daemon ended stay where they are until one is started.
    #[command(after_help = chats::EXAMPLES)]
    Chats(chats::Chats),
    /// Put chats away, so that lists leave them out.
    #[command(after_help = archive::EXAMPLES)]
    Archive(archive::Archive),
    /// Delete chats for good, with all their messages and files.
    #[command(after_help = delete::EXAMPLES)]
    Delete(delete::Delete),
    /// Say whether the server runs and is ready, which models it asks, and where its chats stand.
    #[command(after_help = status::EXAMPLES)]
    Status(status::Status),
    /// Write a chat whole, as Markdown or JSON.
    #[command(after_help = export::EXAMPLES)]
    Export(export::Export),
    /// Run one turn and print the answer as it arrives.
    ///
    /// Talks to the daemon of the data directory, or is one for as long as the turn lasts. Ctrl-C stops the turn and keeps
    /// what was said so far.
    #[command(after_help = run::EXAMPLES)]
    Run(run::Run),
    /// Copy a data directory into one file, while it is used.
    ///
    /// The copy is checked before it gets its name. To restore it, put it into an empty directory as `everturn.db`.
    #[command(after_help = "Examples:\n  everturn backup monday.db\n  everturn backup monday.db --data ./data")]
    Backup(backup::Backup),
    /// Serve chats over HTTP, with a stream of events per chat.
    ///
    /// Listens on loopback, or on a socket with `--listen unix:PATH`; on another address only with --expose and TLS. Every
    /// request needs the token that the first start writes into the data directory. Models come
    /// with the keys in ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN, a bearer token), OPENAI_API_KEY (billed to OPENAI_ORG_ID
    /// and OPENAI_PROJECT_ID, if set), GEMINI_API_KEY and OPENROUTER_API_KEY; without any, the understudy stands in. An
    /// Ollama that wants a key gets OLLAMA_API_KEY.
    /// Ctrl-C or SIGTERM ends it in good order: streams end, and turns under way are handed over.
    ///
    /// Chats are kept in the data directory, or in the Postgres that DATABASE_URL names, which several servers may share.
    ///
    /// Most flags have a twin in the environment and a key in the file: --listen is EVERTURN_LISTEN and `listen`, --host is
    /// EVERTURN_HOSTS and `hosts`. A flag beats a variable, a variable beats the file; `everturn config show` says what
    /// counts. EVERTURN_LOG says what is logged to standard error, such as `info` or `everturn_server=debug`.
    #[command(after_help = serve::EXAMPLES)]
    Serve(config::Flags),
    /// Break everything, and prove that nothing was lost.
    ///
    /// Starts the daemon and a stand-in for the models in a directory of their own, lets four wires talk, and cuts streams,
    /// stalls them, refuses requests, kills the daemon with SIGKILL in the middle of words and tools, joins late, steers
    /// and stops. Needs no key and no network, and takes less than a minute. At the end stands the ledger: what the
    /// models sent, what is stored, what each client was shown, and how often each tool took effect.
    ///
    /// Exit codes: 0 the ledger balances, 1 it does not, 2 wrong usage, 130 it was stopped.
    #[command(after_help = demo::EXAMPLES)]
    Demo(demo::Demo),
    /// Say who may come in: list, make and revoke tokens.
    #[command(after_help = tokens::EXAMPLES)]
    Tokens(tokens::Tokens),
    /// Print what a shell needs to complete these commands.
    #[command(after_help = completions::EXAMPLES)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Say what is wrong with what is kept, and mend it.
    ///
    /// Without an argument it looks at the data directory and every chat in it, row by row; it only reads, so a server may
    /// be running. With a chat it explains that one. With a file it reads a session of another program (arrays of OpenAI
    /// or Anthropic messages, sessions of Claude Code and the Codex CLI), says what is wrong with it, and with --fix makes
    /// a mended copy a chat. To mend what is kept, or to make a chat, --fix needs the data directory for itself: stop the
    /// server first.
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
    /// says, so that a lost or doubled token shows; `drill` says what the prompt orders, as in "think r1..r20, say
    /// t1..t80, call look:1". Any model takes faults in its name: `numbered-faults:cut@20`. What was asked and what
    /// went out can be read at /understudy/requests, with the key as a bearer token.
    ///
    /// Faults are name[@number][xtimes], joined by `+` in a model's name. Before the answer: a status such as 429 or 529
    /// (@seconds to wait), late (@milliseconds), silent, html, empty, redirect. In the answer, after @number events: cut,
    /// truncate, reset, goaway, stall, chatter, malformed, error; the first five also after @number bytes, or within a
    /// word, thought or call's input: reset-at-byte@4711, cut-at-word@37, stall-at-input@2. All along: slow (@milliseconds), drip.
    #[command(after_help = understudy::EXAMPLES)]
    Understudy(understudy::Serve),
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Say what `serve` would be told with the same flags, and where each value came from. Keys are not shown.
    #[command(after_help = commands::config::EXAMPLES)]
    Show(config::Flags),
}

fn main() -> ExitCode {
    let Args { command } = Args::parse();
    process::private::make_files_private();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ran = runtime.map_err(Into::into).and_then(|runtime| {
        let ran = runtime.block_on(async {
            match command {
                Command::Chat(chat) => chat.run().await,
                Command::Chats(chats) => chats.run().await,
                Command::Archive(archive) => archive.run().await,
                Command::Delete(delete) => delete.run().await,
                Command::Status(status) => status.run().await,
                Command::Export(export) => export.run().await,
                Command::Run(run) => run.run().await,
                Command::Tokens(tokens) => tokens.run().await,
                Command::Completions { shell } => completions::print(shell, Args::command()),
                Command::Backup(backup) => backup.run(),
                Command::Doctor(doctor) => doctor.run().await,
                Command::Replay(replay) => replay.run().await,
                Command::Serve(flags) => {
                    let demo = demo::DaemonTools::of(&flags);
                    serve::run(&flags, demo.as_ref().map(|tools| tools as &dyn Extension)).await
                }
                Command::Demo(demo) => demo.run().await,
                Command::Config(ConfigCommand::Show(flags)) => commands::config::show(&flags),
                Command::Understudy(serve) => serve.run().await,
            }
        });
        leave(runtime);
        ran
    });
    match ran {
        Ok(code) => code,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::aside(output::causes(&error));
            ExitCode::from(1)
        }
    }
}

/// Ends what is left of a command that is done. A thread that looks up a name, or waits for a disk, cannot be told to stop,
/// and may be at it for minutes: nobody waits for what it finds.
fn leave(runtime: tokio::runtime::Runtime) {
    runtime.shutdown_timeout(LEFTOVERS_MAX);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    /// A look-up that never comes back, such as of the host in `DATABASE_URL` without a network, keeps nobody from ending.
    #[test]
    fn what_never_comes_back_is_not_waited_for() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let ((began, has_begun), (_never, answer)) = (mpsc::channel(), mpsc::channel::<()>());
        runtime.spawn_blocking(move || {
            began.send(()).unwrap();
            let _ = answer.recv(); // For ever: nobody says anything, and nobody goes away.
        });
        has_begun.recv().unwrap();
        super::leave(runtime);
    }
}
