//! The confined child: applies the policy to itself and becomes the command.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use landlock::RulesetError;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::namespace::INSIDE;
use super::resources::Counted;
use super::{files, resources, syscalls};
use crate::wire::AccessPolicy;

/// The exit code of a child that could not be confined. It is the shell's code for a command that cannot be run.
pub const NOT_CONFINED: i32 = 126;

/// Why a process is not confined. It does not run then.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The policy did not arrive.
    #[error("the policy cannot be read: {0}")]
    Policy(#[from] serde_json::Error),
    /// No command was given.
    #[error("there is no command to run: write it after `--`")]
    NoCommand,
    /// The kernel refused a resource limit or a privilege.
    #[error("the kernel refused a limit: {0}")]
    Resources(#[from] rustix::io::Errno),
    /// Landlock is missing or too old.
    #[error("Landlock (ABI 3 or later, Linux 6.2) is needed to confine files: {0}")]
    Files(#[from] RulesetError),
    /// Landlock accepted the rules and does not enforce them.
    #[error("Landlock is not enabled in this kernel: add `landlock` to its `lsm=` parameter")]
    NotEnforced,
    /// seccomp is missing or refused the filter.
    #[error("seccomp is needed to confine system calls: {0}")]
    Syscalls(String),
    /// The command could not be started.
    #[error("{program} cannot be run: {cause}")]
    Exec {
        /// The program's name.
        program: String,
        /// Why not.
        cause: std::io::Error,
    },
}

/// Runs `POLICY COMMAND…`, and returns only if that fails.
pub(crate) fn main(args: impl Iterator<Item = OsString>) -> i32 {
    let error = match run(args) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    eprintln!("everturn: not started: {error}");
    NOT_CONFINED
}

fn run(mut args: impl Iterator<Item = OsString>) -> Result<std::convert::Infallible, ConfineError> {
    let policy: AccessPolicy = serde_json::from_str(&args.next().unwrap_or_default().to_string_lossy())?;
    let program = args.next().ok_or(ConfineError::NoCommand)?;
    apply(&policy)?;
    let cause = Command::new(&program).args(args).exec();
    Err(ConfineError::Exec { program: program.to_string_lossy().into_owned(), cause })
}

/// Confines this process and everything it will start.
fn apply(policy: &AccessPolicy) -> Result<(), ConfineError> {
    let is_inside = std::env::current_exe().is_ok_and(|program| program == Path::new(INSIDE));
    resources::limit(if is_inside { Counted::ByCommand } else { Counted::ByUser })?;
    rustix::thread::set_no_new_privs(true)?;
    files::restrict(policy)?;
    // A daemon of root has privileges that neither of them knows of. Without new privileges they do not come back.
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    syscalls::restrict(policy)
}
