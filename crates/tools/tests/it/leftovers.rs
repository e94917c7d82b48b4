//! A command ends with everything it started, however it ends.

use std::time::Duration;

use everturn_tools::{Level, ToolCommand};
use futures_util::poll;
use tokio::io::AsyncReadExt as _;

use crate::{Scratch, levels, run, script, shell};

/// Starts children that go away from their parent, and tells their numbers.
const FAMILY: &str = "
    trap '' TERM
    (setsid sleep 1000 > /dev/null 2>&1 < /dev/null & echo $! >> pids)
    (setsid bash -c 'trap \"\" TERM HUP; (sleep 1000 & echo $! >> pids); sleep 1000 & echo $! >> pids' > /dev/null 2>&1 &)
    sleep 1000 > /dev/null 2>&1 & echo $! >> pids
    while [ $(wc -l < pids) -lt 4 ]; do :; done
";

fn survivors(scratch: &Scratch) -> Vec<String> {
    let pids = std::fs::read_to_string(scratch.workspace().join("pids")).unwrap();
    assert_eq!(pids.lines().count(), 4, "the family was never complete");
    let is_alive = |pid: &&str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains("(sleep)") && !stat.contains(") Z ")
    };
    pids.lines().filter(is_alive).map(str::to_owned).collect()
}

/// How many processes have this in their command line.
pub fn with_mark(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(mark)).count()
}

/// How many children of this process still run.
fn children() -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    let parent = format!(" {} ", std::process::id());
    let is_ours = |stat: &String| {
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        !after_name.starts_with(" Z") && after_name.get(2..).is_some_and(|rest| rest.starts_with(&parent))
    };
    stats.filter(is_ours).count()
}

#[tokio::test]
async fn a_command_reports_its_output_and_exit() {
    let scratch = Scratch::new();
    let (ended, output) = run(script(&scratch, "echo one; echo two >&2; pwd; exit 3")).await;
    assert_eq!(output, format!("one\ntwo\n{}\n", scratch.workspace().display()));
    assert_eq!((ended.code, ended.signal, ended.killed), (Some(3), None, 0));
    let (ended, _) = run(script(&scratch, "kill -SEGV $$")).await;
    assert_eq!((ended.code, ended.signal), (None, Some(11)));
}

#[tokio::test]
async fn a_command_has_the_given_environment_and_no_more_descriptors() {
    let scratch = Scratch::new();
    let (_, output) =
        run(script(&scratch, "/usr/bin/env | sort; ls /proc/self/fd | tr '\\n' ' '").variable("A", "b")).await;
    let seen: Vec<_> =
        output.lines().filter(|line| !["PWD=", "SHLVL=", "_="].iter().any(|own| line.starts_with(own))).collect();
    let outside = format!("OUTSIDE={}", scratch.outside().display());
    assert_eq!(seen, ["A=b", &outside, "PATH=/usr/bin:/bin", "0 1 2 3 "], "3 is the directory that ls reads");
}

#[tokio::test]
async fn a_program_that_is_missing_is_an_error_with_its_name() {
    let scratch = Scratch::new();
    let missing = ToolCommand::new(["/no/such/program"], scratch.workspace()).with_helper(crate::HELPER);
    let error = missing.start().await.unwrap_err().to_string();
    assert!(error.contains("/no/such/program cannot be run"), "{error}");
}

/// TC33: processes that leave their session, close everything and ignore SIGTERM are gone when the command ends.
#[tokio::test]
async fn nothing_is_left_when_the_command_ends() {
    let scratch = Scratch::new();
    let (ended, _) = run(script(&scratch, &format!("{FAMILY} exit 0"))).await;
    assert_eq!(ended.code, Some(0));
    assert_eq!(survivors(&scratch), Vec::<String>::new());
    assert!(ended.killed >= 4, "{ended:?}");
}

/// TC31, TC34: a command that starts processes as fast as it can while it is stopped leaves none of them.
#[tokio::test]
async fn nothing_is_left_of_a_command_that_starts_more_while_it_is_stopped() {
    for round in 0..5 {
        let scratch = Scratch::new();
        let mark = format!("1000.{}{round}", std::process::id());
        let text = format!(
            "trap '' TERM; echo ready; for i in $(seq 300); do setsid sleep {mark} > /dev/null 2>&1 & done; wait"
        );
        let mut running = script(&scratch, &text).with_grace(Duration::from_millis(100)).start().await.unwrap();
        let mut ready = [0; 6];
        running.stdout.read_exact(&mut ready).await.unwrap();
        running.stop().await.unwrap();
        running.wait().await.unwrap();
        assert_eq!(with_mark(&mark), 0, "round {round}");
    }
}

#[tokio::test]
async fn nothing_is_left_when_the_command_is_stopped() {
    let scratch = Scratch::new();
    let mut running = script(&scratch, &format!("{FAMILY} echo ready; sleep 1000")).start().await.unwrap();
    let mut ready = [0; 6];
    running.stdout.read_exact(&mut ready).await.unwrap();
    running.stop().await.unwrap();
    let ended = running.wait().await.unwrap();
    assert_eq!(ended.signal, Some(9), "it ignores SIGTERM");
    assert_eq!(survivors(&scratch), Vec::<String>::new());
}

#[tokio::test]
async fn a_command_that_obeys_ends_in_good_order() {
    let scratch = Scratch::new();
    let text = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done";
    let mut running = script(&scratch, text).start().await.unwrap();
    let mut ready = [0; 6];
    running.stdout.read_exact(&mut ready).await.unwrap();
    running.stop().await.unwrap();
    let mut rest = String::new();
    running.stdout.read_to_string(&mut rest).await.unwrap();
    assert!(rest.ends_with("bye\n"), "{rest}");
    assert_eq!(running.wait().await.unwrap().code, Some(7));
}

/// Plays the daemon that is killed in `nothing_is_left_when_the_daemon_is_killed`.
#[tokio::test]
#[ignore = "a part that is played in another process"]
async fn part_daemon() {
    let directory = std::path::PathBuf::from(std::env::var_os("SCRATCH").unwrap());
    let family = shell(&format!("{FAMILY} touch ready; sleep 1000"), &directory);
    let mut running = family.start().await.unwrap();
    let _ = running.wait().await;
}

#[tokio::test]
async fn nothing_is_left_when_the_daemon_is_killed() {
    for round in 0..10 {
        let scratch = Scratch::new();
        let mut daemon = tokio::process::Command::new(std::env::current_exe().unwrap());
        daemon.args(["--ignored", "--exact", "leftovers::part_daemon"]).env("SCRATCH", scratch.workspace());
        let mut daemon = daemon.stdout(std::process::Stdio::null()).kill_on_drop(true).spawn().unwrap();
        until(|| scratch.workspace().join("ready").exists()).await;
        daemon.kill().await.unwrap();
        until(|| survivors(&scratch).is_empty()).await;
        assert_eq!(survivors(&scratch), Vec::<String>::new(), "round {round}");
    }
}

/// A daemon may be killed before it is told that its command runs. Nothing is left of that either, at any level.
#[tokio::test]
async fn nothing_is_left_of_a_command_that_nobody_waits_for() {
    for level in [Level::Off].into_iter().chain(levels().await) {
        let scratch = Scratch::new();
        let mark = format!("1000.{}{}", std::process::id(), level as u8);
        let command = script(&scratch, &format!("sleep {mark}")).confine(scratch.writing(), level).unwrap();
        let mut start = Box::pin(command.start());
        assert!(poll!(&mut start).is_pending(), "the supervisor is started");
        drop(start);
        until(|| children() + with_mark(&mark) == 0).await;
        assert_eq!((children(), with_mark(&mark)), (0, 0), "{level}");
        assert_eq!(std::fs::read_dir(scratch.workspace()).unwrap().count(), 0, "{level}");
    }
}

/// Waits until it holds, at most two seconds: how long a killed daemon's tools may live.
pub async fn until(holds: impl Fn() -> bool) {
    for _ in 0..200 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
