//! Commands that take longer than their calls wait, and commands whose program is killed.

use std::process::Stdio;
use std::time::Duration;

use everturn::core::ids::{CallUid, ChatId, StepId};
use everturn::{ErrorOutcome, ToolContext, ToolError, ToolOutput};
use everturn_tools::{JobLife, Level, LongCommands, Workspace};
use serde_json::json;
use tokio::time::Instant;

use crate::leftovers::{until, with_mark};
use crate::workspace::{Tools, all_levels};
use crate::{HELPER, Scratch};

/// How long anything of an ended command may live.
const LEFT_MAX: Duration = Duration::from_secs(3);

fn tools(level: Level, long: LongCommands) -> Tools {
    let mut tools = Tools::new(level);
    tools.workspace = tools.workspace.with_long_commands(long);
    tools
}

/// Commands that would never end. Each has the mark in its command line.
fn endless(mark: &str) -> [String; 5] {
    [
        format!(": {mark}; sleep 1e9; :"),
        format!(": {mark}; trap '' TERM; while :; do :; done"),
        format!(": {mark}; setsid nohup sh -c ': {mark}; trap \"\" TERM; sleep 1000; :' & sleep 1000"),
        format!(": {mark}; yes; :"),
        format!(": {mark}; for i in $(seq 40); do sh -c ': {mark}; sleep 1000; :' & done; wait"),
    ]
}

/// TW07: whatever a command does, it ends in time, its output is bounded, and three seconds later nothing is left of it.
#[tokio::test]
async fn hostile_commands_are_bounded_and_ended() {
    let tools = tools(all_levels().await[0], LongCommands::End);
    let mark = format!("hostile-{}", std::process::id());
    for command in endless(&mark) {
        let begun = Instant::now();
        let text = tools.call("shell", json!({"command": command, "seconds": 1})).await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(1) + LEFT_MAX, "{command}: {:?}", begun.elapsed());
        assert!(text.contains("time is up") && text.len() <= 10 << 20, "{command}: {} bytes", text.len());
        assert_eq!(with_mark(&mark), 0, "{command}");
    }
    let text = tools.call("shell", json!({"command": "cat; tty; read x < /dev/tty; echo done"})).await.unwrap();
    assert!(text.contains("not a tty") && text.contains("done"), "{text}");
}

/// TW07: a command that takes longer than its call waits goes on as a job: the call says which and what was printed so far.
/// Nothing of what it printed is lost, and when the job is stopped nothing is left of it.
#[tokio::test]
async fn a_long_command_becomes_a_job() {
    for level in all_levels().await {
        let tools = tools(level, LongCommands::BecomeJobs);
        let mark = format!("long-{}-{}", std::process::id(), level as u8);
        for (number, command) in (1..).zip(endless(&mark)) {
            let text = tools.call("shell", json!({"command": format!("echo begun; {command}"), "seconds": 1})).await;
            let text = text.unwrap();
            let note =
                format!("[still running after 1 s: it goes on as job {number}, for at most 3600 s. It ends with");
            assert!(text.starts_with("begun\n") && text.contains(&note), "{level}: {}", &text[..text.len().min(500)]);
            assert!(with_mark(&mark) > 0, "{level}: {command}");
            let begun = Instant::now();
            let told = tools.call("job", json!({"action": "stop", "number": number})).await.unwrap();
            assert!(told.starts_with(&format!("job {number}: stopped after ")), "{level}: {told}");
            assert!(begun.elapsed() < LEFT_MAX, "{level}: {command}: {:?}", begun.elapsed());
            assert_eq!(with_mark(&mark), 0, "{level}: {command}");
        }
        let slow = "seq 100000; touch up; while [ ! -e go ]; do sleep 0.02; done; seq 100001 200000; exit 3";
        let text = tools.call("shell", json!({"command": slow, "seconds": 1})).await.unwrap();
        assert!(text.starts_with("1\n2\n") && text.contains("\n100000\n[still running after 1 s"), "{level}");
        tools.file("go", "");
        until(|| tools.scratch.state().join(format!("{}/jobs/6/end.json", tools.context.chat)).exists()).await;
        let told = tools.call("job", json!({"action": "read", "number": 6})).await.unwrap();
        assert!(told.starts_with("job 6: exit 3 after "), "{level}: {told}");
        let output = tools.workspace.job_output(tools.context.chat, 6, 0, u64::MAX).await.unwrap().unwrap();
        let all: String = (1..=200_000).map(|line| format!("{line}\n")).collect();
        assert!(output == all.as_bytes(), "{level}: the output is whole");
    }
}

/// TW07: a chat that has all the jobs it may have gets no more of them: the command ends.
#[tokio::test]
async fn a_long_command_ends_if_there_are_too_many_jobs() {
    let tools = Tools::new(Level::Off);
    let mark = format!("many-{}", std::process::id());
    for _ in 0..8 {
        let input = json!({"command": format!(": {mark}; sleep 1000"), "background": true});
        tools.call("shell", input).await.unwrap();
    }
    let text = tools.call("shell", json!({"command": "echo begun; sleep 1000", "seconds": 1})).await.unwrap();
    assert!(text.starts_with("begun\n[ended by signal 15 · 1.") && text.contains("time is up"), "{text}");
    tools.workspace.forget(tools.context.chat).await.unwrap();
    assert_eq!(with_mark(&mark), 0);
}

/// TW10: a long command of an agent that keeps its jobs outlives the program from when it became a job on.
#[tokio::test]
async fn a_long_command_that_is_kept_outlives_its_program() {
    let scratch = Scratch::new();
    let mark = format!("kept-{}", std::process::id());
    let command = format!("echo begun; : {mark}; while [ ! -e go ]; do sleep 0.02; done; echo done; exit 4");
    killed(&scratch, &command, 1, "returned").await;
    assert!(with_mark(&mark) > 0);
    let workspace = workspace_of(&scratch);
    std::fs::write(scratch.workspace().join("go"), "").unwrap();
    until(|| with_mark(&mark) == 0).await;
    until(|| chat_state(&scratch).join("jobs/1/end.json").exists()).await;
    let output = found(&workspace, &command).await.unwrap().unwrap();
    let told = String::from_utf8(output.bytes).unwrap();
    assert!(told.starts_with("job 1: exit 4 after "), "{told}");
    assert_eq!(workspace.job_output(CHAT, 1, 0, 100).await.unwrap().unwrap(), b"begun\ndone\n");
}

/// A command whose program is killed leaves nothing running. Its outcome is unknown, and all that it had printed is told.
#[tokio::test]
async fn what_a_killed_command_printed_is_kept() {
    let scratch = Scratch::new();
    let mark = format!("cut-{}", std::process::id());
    let command = format!(": {mark}; seq 200000; touch up; sleep 1000");
    killed(&scratch, &command, 600, "workspace/up").await;
    until(|| with_mark(&mark) == 0).await;
    assert_eq!(with_mark(&mark), 0);
    let error = found(&workspace_of(&scratch), &command).await.unwrap_err();
    assert_eq!(error.outcome, ErrorOutcome::Unknown);
    let why = "Whether this command did all it should is unknown: the program that ran it was killed, and the command \
               with it. It had printed:\n";
    let all: String = (1..=200_000).map(|line| format!("{line}\n")).collect();
    assert!(error.message.strip_prefix(why) == Some(&all), "{} bytes", error.message.len());
}

/// A command that had ended when its program was killed has a known outcome, although its result was never stored.
#[tokio::test]
async fn a_command_that_had_ended_is_known() {
    let scratch = Scratch::new();
    let end = format!("state/commands/{CALL}/end.json");
    killed(&scratch, "echo done; exit 5", 600, &end).await;
    let output = found(&workspace_of(&scratch), "echo done; exit 5").await.unwrap().unwrap();
    let text = String::from_utf8(output.bytes).unwrap();
    assert!(text.starts_with("done\n[exit 5 · 0.") && text.ends_with("s · not confined]\n"), "{text}");
    // Of a call that no command was recorded for nothing is known.
    let context = ToolContext::new(CHAT, CallUid { step: StepId(9), ordinal: 0 });
    let shell = shell_of(&workspace_of(&scratch));
    assert_eq!(shell.outcome_after_crash(context, json!({"command": "true"})).await.unwrap(), None);
}

const CHAT: ChatId = ChatId::from_u128(7);
const CALL: CallUid = CallUid { step: StepId(1), ordinal: 0 };

fn workspace_of(scratch: &Scratch) -> Workspace {
    let workspace = Workspace::new(scratch.workspace(), scratch.state(), Level::Off).unwrap();
    workspace.with_helper(HELPER).with_jobs(JobLife::Kept)
}

fn shell_of(workspace: &Workspace) -> everturn::SharedTool {
    workspace.tools().into_iter().find(|tool| tool.spec().name == "shell").unwrap()
}

fn chat_state(scratch: &Scratch) -> std::path::PathBuf {
    scratch.state().join(CHAT.to_string())
}

/// What the next program finds out about the call.
async fn found(workspace: &Workspace, command: &str) -> Result<Option<ToolOutput>, ToolError> {
    let shell = shell_of(workspace);
    shell.outcome_after_crash(ToolContext::new(CHAT, CALL), json!({"command": command})).await
}

/// Plays the program that runs a command and is killed. It stores no result.
#[tokio::test]
#[ignore = "a part that is played in another process"]
async fn part_shell_daemon() {
    let root = std::path::PathBuf::from(std::env::var_os("SCRATCH").unwrap());
    let workspace = Workspace::new(root.join("workspace"), root.join("state"), Level::Off).unwrap();
    let workspace = workspace.with_helper(HELPER).with_jobs(JobLife::Kept);
    let seconds: u64 = std::env::var("SECONDS").unwrap().parse().unwrap();
    let input = json!({"command": std::env::var("COMMAND").unwrap(), "seconds": seconds});
    let _ = shell_of(&workspace).run(ToolContext::new(CHAT, CALL), input).await;
    std::fs::write(root.join("returned"), "").unwrap();
    std::future::pending::<()>().await;
}

/// A program that runs a command and is killed when a file is there: of the scratch, or of the chat's state.
async fn killed(scratch: &Scratch, command: &str, seconds: u64, sight: &str) {
    let mut daemon = tokio::process::Command::new(std::env::current_exe().unwrap());
    daemon.args(["--ignored", "--exact", "long_commands::part_shell_daemon"]).env("SCRATCH", scratch.root.path());
    daemon.env("COMMAND", command).env("SECONDS", seconds.to_string()).stdout(Stdio::null()).kill_on_drop(true);
    let mut daemon = daemon.spawn().unwrap();
    let sight = match sight.strip_prefix("state/") {
        Some(name) => chat_state(scratch).join(name),
        None => scratch.root.path().join(sight),
    };
    while !sight.exists() {
        assert!(daemon.try_wait().unwrap().is_none(), "the daemon failed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    daemon.kill().await.unwrap();
}
