//! Real programs for tests and chores.
//!
//! A stand-in shows what we think of a database; only a database shows what it does. This starts one that belongs to the
//! tests alone and stops it when they are over. Needs nothing but the standard library, so the chores can use it too.

pub mod pooler;
pub mod server;
pub mod shared;

pub use pooler::Pooler;
pub use server::{PostgresServer, ShutdownMode};
pub use shared::{database, psql};

use std::io;
use std::path::PathBuf;
use std::process::{Command, Output};

/// What to install where Postgres is missing.
pub const PACKAGE: &str = "postgresql";

/// The directory with `initdb`, `pg_ctl` and `psql`: on the path, or where Debian puts them, the newest.
pub fn postgres_bin() -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|entries| entries.flatten().map(|entry| entry.path().join("bin")).collect())
        .unwrap_or_default();
    versions.sort();
    dirs.extend(versions.into_iter().rev());
    let found =
        dirs.into_iter().find(|dir| ["initdb", "pg_ctl", "psql"].iter().all(|program| dir.join(program).exists()));
    found.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("no Postgres server here: apt-get install {PACKAGE}"))
    })
}

/// Runs a program that must succeed.
fn run(command: &mut Command) -> io::Result<String> {
    let Output { status, stdout, stderr } = command.output()?;
    if !status.success() {
        let said = String::from_utf8_lossy(&stderr);
        return Err(io::Error::other(format!("{command:?} ended with {status}: {said}")));
    }
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

/// Servers refuse to run as root, so they run as an unprivileged user then.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// A command that does not run as root.
fn unprivileged(program: impl AsRef<std::ffi::OsStr>) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", "nobody", "--"]).arg(program);
    command
}

/// Gives a directory to the user of [`unprivileged`].
fn hand_over(dir: &std::path::Path) -> io::Result<()> {
    if is_root() {
        run(Command::new("chown").arg("nobody").arg(dir))?;
    }
    Ok(())
}

/// A port that was free a moment ago.
fn free_port() -> io::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
