//! The processes below this one.

use std::collections::BTreeMap;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};

/// Every process that descends from this one, parents before their children.
pub fn descendants() -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = children.remove(&getpid().as_raw_nonzero().get()).unwrap_or_default();
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        found.extend(children.remove(&pid).unwrap_or_default());
        next += 1;
    }
    found.into_iter().filter_map(Pid::from_raw).collect()
}

fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain anything, also a closing one.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Sends a signal to all of them, and says to how many.
pub fn signal(signal: Signal) -> usize {
    descendants().into_iter().filter(|pid| kill_process(*pid, signal).is_ok()).count()
}

/// So many processes may be starting others as fast as they are killed.
const MANY: usize = 64;
/// How often they are looked for again.
const FREEZES_MAX: usize = 1_000;

/// Kills and reaps until nothing is left, and says how many processes that ended.
pub fn kill_all() -> usize {
    let mut killed = 0;
    loop {
        if signal(Signal::KILL) > MANY {
            freeze();
        }
        // One blocking wait, then whatever else is there: orphans become children as their parents die.
        match wait(WaitOptions::empty()) {
            Ok(ended) => killed += ended.map_or(0, count_killed),
            Err(Errno::INTR) => continue,
            Err(_) => return killed, // ECHILD: nothing is left.
        }
        while let Ok(Some(ended)) = wait(WaitOptions::NOHANG) {
            killed += count_killed(ended);
        }
    }
}

/// A process that ended by itself before it was reaped was not killed.
fn count_killed((_, status): (Pid, WaitStatus)) -> usize {
    usize::from(status.terminating_signal() == Some(Signal::KILL.as_raw()))
}

/// Stops all of them until no new one is found: a process that is stopped starts no other.
fn freeze() {
    let mut found = 0;
    for _ in 0..FREEZES_MAX {
        let stopped = signal(Signal::STOP);
        if stopped <= found {
            return;
        }
        found = stopped;
    }
}

/// Reaps orphans that ended by themselves, up to the command if it ended. What dies because the command did, such as its
/// namespace, is left to [`kill_all`], which counts it.
pub fn reap(command: Pid) -> Option<WaitStatus> {
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if pid == command {
            return Some(status);
        }
    }
    None
}
