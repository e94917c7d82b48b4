//! What can be seen of a daemon from outside.
#![cfg(target_os = "linux")]

use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;

use tokio::process::Command;

use crate::daemon::{Daemon, EVERTURN, Scratch, without_keys};
use crate::operations::KEY;

/// A user without privileges: root sees everything.
const NOBODY: u32 = 65_534;

/// What this user finds in a file of a process; `None` if it may not look.
async fn seen(user: u32, pid: u32, file: &str) -> Option<Vec<u8>> {
    let read =
        Command::new("head").args(["-c", "65536", &format!("/proc/{pid}/{file}")]).uid(user).output().await.unwrap();
    read.status.success().then_some(read.stdout)
}

fn has_key(bytes: &[u8]) -> bool {
    bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes())
}

/// S24, I23: another process of the user who runs the daemon, such as a tool, finds no key in its
/// environment, its memory or its arguments. It finds those of other programs, so the daemon hides its own.
#[tokio::test]
async fn keys_of_a_daemon_cannot_be_read_by_others() {
    let own = std::fs::metadata("/proc/self").unwrap().uid();
    let user = if own == 0 { NOBODY } else { own };
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path()).unwrap();
    chown(scratch.path(), Some(user), None).unwrap();
    let mut open =
        Command::new("sleep").arg("600").env("ANTHROPIC_API_KEY", KEY).uid(user).kill_on_drop(true).spawn().unwrap();
    let told = seen(user, open.id().unwrap(), "environ").await.expect("anybody may look at one's own");
    assert!(has_key(&told));
    open.kill().await.unwrap();

    let (data, program) = (scratch.path().join("data"), scratch.path().join("everturn"));
    std::fs::copy(EVERTURN, &program).unwrap(); // This one may be where only its owner comes, such as below /root.
    let mut command = without_keys(&program);
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data);
    command.env("ANTHROPIC_API_KEY", KEY).env("EVERTURN_MODEL", "understudy/persona").uid(user);
    let daemon = Daemon::spawn(&data, command).await;
    let pid = daemon.child.id().unwrap();
    assert!(Path::new("/proc").join(pid.to_string()).exists());
    for file in ["environ", "mem", "maps", "auxv"] {
        assert_eq!(seen(user, pid, file).await, None, "{file}");
    }
    let arguments = seen(user, pid, "cmdline").await.expect("everybody may see those");
    assert!(!arguments.is_empty() && !has_key(&arguments));
    daemon.end().await;
}
