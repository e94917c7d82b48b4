//! Nothing is left of a server.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::{Scratch, UNDERSTUDY, until};

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// TM03: after SIGKILL of the program none of its servers is alive, though they ignore the end of their input and SIGTERM.
#[tokio::test]
async fn nothing_is_left_of_a_killed_programs_servers() {
    let scratch = Scratch::new();
    let stubborn = format!("trap '' TERM; {UNDERSTUDY} --stays; sleep 1000");
    let data = scratch.path("data").display().to_string();
    let mut program = Command::new(UNDERSTUDY)
        .args(["--host", &data, "20", "/bin/sh", "-c", &stubborn])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pids = Vec::new();
    for line in BufReader::new(program.stdout.take().unwrap()).lines() {
        match line.unwrap() {
            line if line == "ready" => break,
            pid => pids.push(pid),
        }
    }
    assert_eq!(pids.len(), 20);
    assert!(pids.iter().all(|pid| is_alive(pid)));
    program.kill().unwrap();
    program.wait().unwrap();
    until("the servers' end", || !pids.iter().any(|pid| is_alive(pid))).await;
}

/// Servers end when they are stopped, and when the last holder drops them.
#[tokio::test]
async fn servers_end_when_they_are_stopped() {
    let scratch = Scratch::new();
    let mut entry = scratch.entry("x", &[]);
    let command = format!("trap '' TERM; {UNDERSTUDY} --stays; sleep 1000");
    entry.args = vec!["-c".into(), command];
    entry.command = Some("/bin/sh".into());
    let servers = scratch.servers([crate::checked("x", entry)]);
    servers.learn("x").await.unwrap();
    let first = crate::text(&servers, "x", "pid").await;
    servers.stop();
    until("its end", || !is_alive(&first)).await;
    let second = crate::text(&servers, "x", "pid").await;
    drop(servers);
    until("its end", || !is_alive(&second)).await;
}
