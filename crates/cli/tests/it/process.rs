//! What the system lets a daemon do, and what others can see of it.

use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::daemon::{Daemon, Scratch, everturn};

/// A user id that is not root.
const SOMEBODY: u32 = 65_534;

/// A command of another user than root, with a directory of its own. Root ignores permissions, so a test as
/// root would show nothing.
fn of_somebody(arguments: &[&str], data: &Path) -> Command {
    let mut command = everturn(arguments);
    command.arg("--data").arg(data).env("HOME", "/nowhere");
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        std::fs::create_dir_all(data).unwrap();
        std::fs::set_permissions(data, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        chown(data, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
        command.uid(SOMEBODY).gid(SOMEBODY);
    }
    command
}

/// Whether a process is closed to others of its user: then what the system shows of it is root's.
fn is_closed(pid: u32) -> bool {
    std::fs::metadata(format!("/proc/{pid}/environ")).unwrap().uid() == 0
}

/// S24: no other process of the same user reads the keys of a daemon out of its memory or environment.
#[tokio::test]
async fn a_daemon_is_closed_to_other_processes() {
    let scratch = Scratch::new();
    let command = of_somebody(&["serve", "--listen", "127.0.0.1:0"], scratch.path());
    let daemon = Daemon::spawn(scratch.path(), command).await;
    assert!(is_closed(daemon.child.id().unwrap()));
    daemon.end().await;
}

/// S24, S35: a command that is a daemon for a while is closed too, and keeps the audit.
#[tokio::test]
async fn a_command_that_is_a_daemon_is_closed_too() {
    let scratch = Scratch::new();
    let mut command = of_somebody(&["run", "--model", "understudy/numbered", "count to 100000"], scratch.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !scratch.path().join("audit.jsonl").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        tokio::task::yield_now().await;
    }
    assert!(is_closed(child.id().unwrap()));
    child.kill().await.unwrap();
}

async fn limited(scratch: &Scratch, limit: &str) -> Daemon {
    let own = everturn(&[]);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {limit} && exec \"$@\""), "sh"]).arg(own.as_std().get_program());
    command.args(["serve", "--listen", "127.0.0.1:0", "--model", "understudy/persona", "--data"]).arg(scratch.path());
    for (name, value) in own.as_std().get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(Stdio::null()).kill_on_drop(true);
    Daemon::spawn(scratch.path(), command).await
}

/// As many connections are had as the system allows, and few are told of.
#[tokio::test]
async fn as_many_files_are_open_as_may_be() {
    let scratch = Scratch::new();
    let daemon = limited(&scratch, "-Sn 256").await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.child.id().unwrap())).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let mut numbers = line.split_whitespace();
    assert_eq!(numbers.next(), numbers.next(), "{line}");
    daemon.end().await;
    let daemon = limited(&scratch, "-n 256").await;
    let logged = daemon.end().await;
    assert!(logged.contains("ulimit -n") && logged.contains("256"), "{logged}");
}
