//! The everturn command.
#![warn(clippy::print_stdout, clippy::print_stderr, reason = "they panic on a closed pipe: `output` does not")]

mod atomic_file;
mod clock;
mod commands;
mod config;
mod daemon;
mod find_chat;
mod hooks;
mod mcp;
mod offline_store;
mod persona_tools;
mod process;
mod recording;
mod render;
mod server;
mod skills;
mod sub_agents;
mod terminal;
mod turn;
mod workspaces;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, Parser, Subcommand};
use everturn_frontend::{client, entropy, output};

use commands::{
    archive, asks, backup, chat, chats, completions, delete, demo, doctor, export, mcp as mcp_command, open, replay,
    run, serve, status, tokens, understudy,
};
use server::Extension;

/// Deltas allocate little, and are mostly freed on another thread: see `docs/adr/0018-what-a-delta-wakes.md`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long a finished command waits for its threads.
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
    /// Connects to the running daemon of the data directory. If none is running, starts one inside this
    /// command. Everything is stored as it arrives: leave, close the window or pull the plug, and continue
    /// with --last or --resume.
    #[command(after_help = chat::EXAMPLES)]
    Chat(chat::Args),
    /// List chats, the most recently used first.
    ///
    /// Read-only: unfinished turns of a daemon that has ended stay unfinished until a daemon is started.
    #[command(after_help = chats::EXAMPLES)]
    Chats(chats::Chats),
    /// List calls of all chats that wait for an answer, and allow or deny them.
    #[command(after_help = asks::EXAMPLES)]
    Asks(asks::Asks),
    /// Archive chats, so that lists leave them out.
    #[command(after_help = archive::EXAMPLES)]
    Archive(archive::Archive),
    /// Delete chats for good, with all their messages and files.
    #[command(after_help = delete::EXAMPLES)]
    Delete(delete::Delete),
    /// Show whether the server is running and ready, its models, and its chats by status.
    #[command(after_help = status::EXAMPLES)]
    Status(status::Status),
    /// Export a whole chat as Markdown or JSON.
    #[command(after_help = export::EXAMPLES)]
    Export(export::Export),
    /// Run one turn and print the answer as it arrives.
    ///
    /// Connects to the running daemon of the data directory. If none is running, starts one inside this
    /// command. Ctrl-C interrupts the turn and keeps the answer so far.
    #[command(after_help = run::EXAMPLES)]
    Run(run::Run),
    /// Back up a data directory into one file, also while a server uses it.
    ///
    /// The copy is verified before the file appears. To restore it, put it into an empty directory as
    /// `everturn.db`.
    #[command(after_help = "Examples:\n  everturn backup monday.db\n  everturn backup monday.db --data ./data")]
    Backup(backup::Backup),
    /// Serve chats over HTTP, with a stream of events per chat.
    ///
    /// Listens on loopback, or on a socket with `--listen unix:PATH`; on another address only with --expose
    /// and TLS. Every request needs a token; the first start writes one into the data directory. Ctrl-C or
    /// SIGTERM stops it in good order: streams end, and running turns are handed over.
    ///
    /// Providers are enabled by their keys: ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN, a bearer token),
    /// OPENAI_API_KEY (billed to OPENAI_ORG_ID and OPENAI_PROJECT_ID, if set), GEMINI_API_KEY,
    /// OPENROUTER_API_KEY, and OLLAMA_API_KEY for an Ollama that needs one. Without any key, the understudy
    /// stands in for a model.
    ///
    /// Chats are stored in the data directory, or in the Postgres of DATABASE_URL, which several servers may
    /// share.
    ///
    /// Most flags have an environment variable and a key in the configuration file: --listen is
    /// EVERTURN_LISTEN and `listen`, --host is EVERTURN_HOSTS and `hosts`. A flag overrides a variable, a
    /// variable overrides the file; `everturn config show` prints the effective values. EVERTURN_LOG sets the
    /// log filter, such as `info` or `everturn_server=debug`; logs go to standard error.
    #[command(after_help = serve::EXAMPLES)]
    Serve(config::Flags),
    /// Open the web page of the running daemon, logged in.
    ///
    /// Makes a link that works once, within a minute, and opens it in the browser; prints it where there is no
    /// browser. The session ends after 30 days, or after 12 hours if it may approve calls or manage tokens.
    #[command(after_help = open::EXAMPLES)]
    Open(open::Open),
    /// Break everything, and prove that nothing was lost.
    ///
    /// Starts a daemon and a stand-in for the models in a temporary directory, chats over four wire formats,
    /// and cuts streams, stalls them, refuses requests, kills the daemon with SIGKILL in the middle of words
    /// and tools, connects late, steers and interrupts. Needs no key and no network, and takes less than a
    /// minute. It ends with a ledger: what the models sent, what is stored, what each client was shown, and
    /// how often each tool took effect.
    ///
    /// Exit codes: 0 the ledger balances, 1 it does not, 2 wrong usage, 130 interrupted.
    #[command(after_help = demo::EXAMPLES)]
    Demo(demo::Demo),
    /// List, create and revoke access tokens.
    #[command(after_help = tokens::EXAMPLES)]
    Tokens(tokens::Tokens),
    /// List MCP servers and their tools, and try whether one starts.
    ///
    /// Servers are configured with [mcpServers] in the configuration file.
    #[command(after_help = mcp_command::EXAMPLES)]
    Mcp(mcp_command::Mcp),
    /// Print the completion script of a shell.
    #[command(after_help = completions::EXAMPLES)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Find flaws in stored chats and in session files, and repair them.
    ///
    /// Without an argument, checks the data directory and every chat in it, row by row. With a chat, explains
    /// that chat. With a file, checks a session of another program (arrays of OpenAI or Anthropic messages,
    /// sessions of Claude Code and the Codex CLI). A check only reads, so a server may be running.
    ///
    /// --fix repairs stored chats, and turns the repaired copy of a session file into a chat. Stop the server
    /// first.
    ///
    /// Exit codes: 0 no flaws, or all repaired; 1 flaws are left; 2 wrong usage.
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::Doctor),
    /// Replay a chat as it happened: attempts, faults, seams, tools and costs.
    #[command(after_help = replay::EXAMPLES)]
    Replay(replay::Replay),
    /// Show the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Serve a stand-in for the models of four providers, without a key and without the network.
    ///
    /// Speaks Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini on one loopback port,
    /// refuses requests that the real provider would refuse, and fails on demand. Use its address as a
    /// client's base URL. The key is `understudy`, sent in the provider's own way.
    ///
    /// Models: `persona` chats and tries the tools it is offered; `numbered` answers t1 t2 t3 …, as many as
    /// the prompt says, so that a lost or doubled token shows; `drill` follows the prompt, as in "think
    /// r1..r20, say t1..t80, call look:1". Any model takes faults in its name: `numbered-faults:cut@20`.
    /// Requests and answers are listed at /understudy/requests, with the key as a bearer token.
    ///
    /// Faults are name[@number][xtimes], joined by `+` in a model's name. Before the answer: a status such as
    /// 429 or 529 (@seconds to wait), late (@milliseconds), silent, html, empty, redirect. In the answer,
    /// after @number events: cut, truncate, reset, goaway, stall, chatter, malformed, error; the first five
    /// also after @number bytes, or within a word, thought or call's input: reset-at-byte@4711,
    /// cut-at-word@37, stall-at-input@2. All along: slow (@milliseconds), drip.
    #[command(after_help = understudy::EXAMPLES)]
    Understudy(understudy::Serve),
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Print the configuration that `serve` would use with these flags, and the origin of each value, without
    /// keys.
    #[command(after_help = commands::config::EXAMPLES)]
    Show(commands::config::Show),
}

fn main() -> ExitCode {
    everturn_tools::init(); // First: this program is also the helper process of its tools.
    let Args { command } = Args::parse();
    process::private::make_files_private();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ran = runtime.map_err(Into::into).and_then(|runtime| {
        let ran = runtime.block_on(async {
            match command {
                Command::Chat(chat) => chat.run().await,
                Command::Chats(chats) => chats.run().await,
                Command::Asks(asks) => asks.run().await,
                Command::Archive(archive) => archive.run().await,
                Command::Delete(delete) => delete.run().await,
                Command::Status(status) => status.run().await,
                Command::Export(export) => export.run().await,
                Command::Run(run) => run.run().await,
                Command::Open(open) => open.run().await,
                Command::Tokens(tokens) => tokens.run().await,
                Command::Mcp(mcp) => mcp.run().await,
                Command::Completions { shell } => completions::print(shell, Args::command()),
                Command::Backup(backup) => backup.run(),
                Command::Doctor(doctor) => doctor.run().await,
                Command::Replay(replay) => replay.run().await,
                Command::Serve(flags) => {
                    if flags.is_restarted() {
                        process::parent::end_with_parent();
                    }
                    let demo = demo::DaemonTools::of(&flags);
                    serve::run(&flags, demo.as_ref().map(|tools| tools as &dyn Extension)).await
                }
                Command::Demo(demo) => demo.run().await,
                Command::Config(ConfigCommand::Show(show)) => commands::config::show(&show).await,
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

/// Stops the runtime of a finished command. A thread that resolves a host name or waits for a disk cannot be
/// cancelled and may take minutes; its result is not needed.
fn leave(runtime: tokio::runtime::Runtime) {
    runtime.shutdown_timeout(LEFTOVERS_MAX);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    /// A host look-up that never returns, such as that of `DATABASE_URL` without a network, does not delay
    /// the exit.
    #[test]
    fn a_blocked_thread_does_not_delay_the_exit() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let ((began, has_begun), (_never, answer)) = (mpsc::channel(), mpsc::channel::<()>());
        runtime.spawn_blocking(move || {
            began.send(()).unwrap();
            let _ = answer.recv(); // Blocks for ever: the sender neither sends nor is dropped.
        });
        has_begun.recv().unwrap();
        super::leave(runtime);
    }
}
