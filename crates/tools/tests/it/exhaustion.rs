//! Commands that use up what the machine has: processes, and room on the disk.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use everturn::ToolContext;
use everturn::core::ids::{CallUid, ChatId, StepId};
use everturn_tools::{JobState, Level, Probe, Workspace};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use crate::leftovers::{until, with_mark};
use crate::{HELPER, Scratch, levels, shell};

/// Processes that the user of the bomb may have, in all. In a namespace a command has a lower bound of its own.
const fn processes_max(level: Level) -> usize {
    match level {
        Level::Full => 3_000,
        Level::Partial | Level::Files | Level::Off => 1_000,
    }
}

/// How long a bomb may take to end. Three seconds on a machine that does nothing else; tests run beside others.
const END_MAX: Duration = Duration::from_secs(20);

/// A helper with a bound on processes. The kernel does not bound those of root, so they are another user's.
fn bounded_helper(scratch: &Scratch, level: Level) -> PathBuf {
    let processes = processes_max(level);
    let user = if rustix::process::geteuid().is_root() {
        "setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs"
    } else {
        ""
    };
    let helper = scratch.root.path().join("helper");
    let text = format!("#!/bin/sh\nexec /usr/bin/prlimit --nproc={processes} {user} {HELPER} \"$@\"\n");
    std::fs::write(&helper, text).unwrap();
    for path in [scratch.root.path(), &scratch.workspace(), &scratch.root.path().join("temporary"), &helper] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    helper
}

/// TC31, TW07: a bomb of forks is bounded, and soon after it is stopped nothing of it is left.
#[tokio::test]
async fn nothing_is_left_of_a_fork_bomb() {
    for level in levels().await {
        let scratch = Scratch::new();
        let mark = format!("bomb-{}-{}", std::process::id(), level as u8);
        let text = format!("bomb() {{ bomb | bomb & }}; : {mark}; bomb; while :; do sleep 1; done");
        let command = shell(&text, &scratch.workspace())
            .with_helper(bounded_helper(&scratch, level))
            .with_grace(Duration::from_millis(500));
        let mut running = command.confine(scratch.writing(), level).unwrap().start().await.unwrap();
        let mut output = String::new();
        let mut buffer = [0; 4_096];
        let refused = async {
            while !output.contains("Resource temporarily unavailable") {
                let len = running.stdout.read(&mut buffer).await.unwrap();
                assert!(len > 0, "{level}: it ended by itself: {output}");
                output.push_str(&String::from_utf8_lossy(&buffer[..len]));
            }
        };
        timeout(Duration::from_secs(30), refused).await.expect("the kernel refuses more processes");
        running.stop().await.unwrap();
        let rest = async { while running.stdout.read(&mut buffer).await.unwrap() > 0 {} };
        timeout(END_MAX, rest).await.expect("its output ends");
        timeout(END_MAX, running.wait()).await.expect("it ends").unwrap();
        assert_eq!(with_mark(&mark), 0, "{level}");
    }
}

/// TC31, TW07: a full disk ends no tool and damages no file, and what became of a job is known.
#[tokio::test]
async fn a_full_disk_damages_nothing() {
    let scratch = Scratch::new();
    let own = std::env::current_exe().unwrap();
    let script =
        "mount -t tmpfs -o size=8m everturn \"$DISK\" && exec \"$0\" --ignored --exact exhaustion::part_full_disk";
    let mut part = tokio::process::Command::new("unshare");
    part.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).arg(own);
    let part =
        part.env("DISK", scratch.outside()).stdout(Stdio::piped()).stderr(Stdio::piped()).output().await.unwrap();
    let told = format!("{}{}", String::from_utf8_lossy(&part.stdout), String::from_utf8_lossy(&part.stderr));
    if told.contains("mount") && told.contains("permission denied") || told.contains("unshare failed") {
        assert!(std::env::var_os(crate::REQUIRED).is_none(), "a small disk cannot be mounted here: {told}");
        eprintln!("not tested here: a small disk cannot be mounted: {told}");
        return;
    }
    assert!(part.status.success(), "{told}");
}

/// Plays the program whose workspace and state are on a small disk.
#[tokio::test]
#[ignore = "a part that is played in another process"]
async fn part_full_disk() {
    let disk = PathBuf::from(std::env::var_os("DISK").unwrap());
    std::fs::create_dir(disk.join("workspace")).unwrap();
    std::fs::write(disk.join("workspace/file"), "old\n").unwrap();
    let level = Probe::run(Path::new(HELPER)).await.level;
    let level = if level == Level::Files { Level::Off } else { level };
    let workspace = Workspace::new(disk.join("workspace"), disk.join("state"), level).unwrap().with_helper(HELPER);
    let chat = ChatId::from_u128(7);
    let mut steps = 1..;
    let mut run = async |name: &str, input: serde_json::Value| {
        let tool = workspace.tools().into_iter().find(|tool| tool.spec().name == name).unwrap();
        let call = CallUid { step: StepId(steps.next().unwrap()), ordinal: 0 };
        let output = tool.run(ToolContext::new(chat, call), input).await?.output().unwrap();
        Ok::<_, everturn::ToolError>(String::from_utf8(output.bytes).unwrap())
    };
    run("read", json!({"path": "file"})).await.unwrap();
    // A job that is under way when the disk becomes full, and prints more than there is room for.
    let job = "while [ ! -e full ]; do sleep 0.01; done; seq 2000000; exit 4";
    run("shell", json!({"command": job, "background": true})).await.unwrap();
    let filled =
        run("shell", json!({"command": "touch full; head -c 100M /dev/zero > big; echo code $?"})).await.unwrap();
    assert!(filled.contains("No space left on device\ncode 1\n"), "{filled}");
    let end = disk.join(format!("state/{chat}/jobs/1/end.json"));
    until(|| end.exists()).await;
    let jobs = workspace.jobs().await.unwrap();
    let JobState::Ended(end) = &jobs[0].state else { panic!("{jobs:?}") };
    assert_eq!((end.code, end.output_bytes), (Some(4), 14_888_896));
    let edit = json!({"path": "file", "edits": [{"old": "old", "new": "new".repeat(100_000)}]});
    let error = run("edit", edit.clone()).await.unwrap_err();
    assert!(error.message.contains("No space left on device"), "{}", error.message);
    assert_eq!(std::fs::read_to_string(disk.join("workspace/file")).unwrap(), "old\n");
    run("shell", json!({"command": "rm big"})).await.unwrap();
    run("edit", edit).await.unwrap();
    assert_eq!(std::fs::read_to_string(disk.join("workspace/file")).unwrap(), format!("{}\n", "new".repeat(100_000)));
}
