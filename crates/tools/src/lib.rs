//! Tools for agents: processes that are confined by the kernel and leave nothing behind.
//!
//! A model's tool call starts programs that were not reviewed. Two things must hold whatever they do: they reach only what
//! the operator's [`AccessPolicy`] gives them, and they end when they should, with everything they started. [`confine`] is the
//! first: Landlock, seccomp and resource limits, and a mount namespace of the system's bubblewrap where that works.
//! [`supervisor`] is the second: each tool process has a small parent of its own, which adopts every orphan below it and
//! kills all of them when the command ends, when it is told to, or when the daemon dies.
//!
//! [`Workspace`] builds on both: tools with which a model reads, searches and changes the files of one directory and runs
//! commands in it.
//!
//! Both run in processes of their own, made from the program's own executable. Its `main` calls [`init`] first:
//!
//! ```no_run
//! use everturn::Agent;
//! use everturn_tools::{Probe, Workspace};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     everturn_tools::init();
//!     let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//!     let probe = runtime.block_on(Probe::run("/proc/self/exe".as_ref()));
//!     let workspace = Workspace::new("/srv/site", "/var/lib/site-state", probe.level)?;
//!     let agent = Agent::new("anthropic/claude-sonnet-4-5".parse()?).tools(workspace.tools())?;
//!     # drop(agent);
//!     Ok(())
//! }
//! ```

mod clock;
pub mod confine;
mod failpoint;
mod recall;
mod skills;
pub mod supervisor;
mod wire;
pub mod workspace;

pub use confine::probe::{Level, Probe};
pub use recall::Recall;
pub use skills::Skills;
pub use supervisor::{CommandProcess, Ended, RunningCommand, ToolCommand};
pub use wire::{Access, AccessPolicy, JobEnd, JobEndCause, JobLife, Network, TreeChanges};
pub use workspace::{
    BackgroundJob, ChangesError, FileChange, FileChangeKind, FileChangeStatus, JobState, LongCommands, Workspace,
};

/// Takes over if this process was started as a helper, and returns otherwise. Call it first in `main`.
///
/// A program that embeds tools starts itself again as the supervisor and as the confined child, so that no second
/// executable has to be found.
pub fn init() {
    let mut args = std::env::args_os().skip(1);
    let code = match args.next().as_deref().and_then(std::ffi::OsStr::to_str) {
        Some(supervisor::ROLE) => supervisor::process::main(),
        Some(confine::ROLE) => confine::process::main(args),
        Some(workspace::ROLE) => workspace::process::main(),
        Some(confine::probe::ROLE) => confine::probe::main(args),
        Some(_) | None => return supervisor::remember_umask(),
    };
    std::process::exit(code);
}
