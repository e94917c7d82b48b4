//! Background jobs as real processes, also over the death of the program that started them.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use everturn::core::chat::Effect;
use everturn::core::ids::{CallUid, ChatId, StepId};
use everturn::core::message::Stop;
use everturn::core::permission::{Otherwise, Permissions};
use everturn::stores::Sqlite;
use everturn::stores::sqlite::SqliteOptions;
use everturn::{Agent, Engine, ErrorOutcome, LookResult, ToolReturn};
use everturn_tools::{JobEndCause, JobLife, JobState, Level, Workspace};
use everturn_understudy::{Understudy, call, script, stop, text};
use serde_json::{Value, json};

use crate::leftovers::{until, with_mark};
use crate::workspace::{Tools, all_levels};
use crate::{HELPER, Scratch};

/// Waits for a file of the workspace, so that a test decides when a job goes on.
const HOLD: &str = "for i in $(seq 3000); do [ -e go ] && break; sleep 0.02; done";

async fn start(tools: &Tools, command: &str) -> String {
    tools.call("shell", json!({"command": command, "background": true})).await.unwrap()
}

async fn job(tools: &Tools, input: Value) -> String {
    tools.call("job", input).await.unwrap()
}

/// Waits for a job as an engine does: the call rests and is looked at.
async fn wait(tools: &Tools, number: u32) -> String {
    let tool = tools.tool("job");
    let input = json!({"action": "wait", "number": number, "seconds": 600});
    let handle = match tool.run(tools.context.clone(), input).await.unwrap() {
        ToolReturn::Done(output) => return String::from_utf8(output.bytes).unwrap(),
        ToolReturn::Rests(rests) => rests.handle,
        ToolReturn::Asks(asks) => panic!("{asks:?}"),
    };
    loop {
        match tool.look(tools.context.clone(), handle.clone()).await.unwrap() {
            LookResult::Done(output) => return String::from_utf8(output.bytes).unwrap(),
            LookResult::Pending(_) => {}
            LookResult::Unreachable(why) => panic!("{why}"),
            LookResult::Asks(asks) => panic!("{asks:?}"),
            LookResult::AsksBelow(asks) => panic!("{asks:?}"),
        }
    }
}

#[tokio::test]
async fn a_job_goes_on_after_its_call() {
    for level in all_levels().await {
        let tools = Tools::new(level);
        let told = start(&tools, &format!("echo begun; {HOLD}; echo done >&2; exit 3")).await;
        assert!(told.starts_with("Job 1 was started and runs for at most 3600 s. It ends with the program"), "{told}");
        assert_eq!(start(&tools, "echo second").await[..5], *"Job 2");
        assert!(wait(&tools, 2).await.starts_with("job 2: exit 0 after "));
        let listed = job(&tools, json!({"action": "list"})).await;
        assert!(listed.starts_with("2 jobs\njob 1: running for "), "{level}: {listed}");
        tools.file("go", "");
        let told = wait(&tools, 1).await;
        assert!(told.starts_with("job 1: exit 3 after ") && told.ends_with("\nbegun\ndone\n"), "{level}: {told}");
        assert_eq!(wait(&tools, 1).await, told, "waiting again costs nothing");
        let error = tools.call("job", json!({"action": "read", "number": 7})).await.unwrap_err();
        assert_eq!(error.message, "there is no job 7 in this chat: `list` shows them");
    }
}

#[tokio::test]
async fn a_job_that_is_stopped_leaves_nothing() {
    for level in all_levels().await {
        let tools = Tools::new(level);
        let mark = format!("1000.{}{}", std::process::id(), level as u8);
        start(&tools, &format!("trap '' TERM; setsid sleep {mark} & echo ready; sleep {mark}")).await;
        let told = job(&tools, json!({"action": "stop", "number": 1})).await;
        assert!(told.starts_with("job 1: stopped after "), "{level}: {told}");
        assert_eq!(with_mark(&mark), 0, "{level}");
        assert_eq!(job(&tools, json!({"action": "stop", "number": 1})).await, told, "stopping again changes nothing");
    }
}

#[tokio::test]
async fn a_job_ends_when_its_time_is_up() {
    let tools = Tools::new(Level::Off);
    tools.call("shell", json!({"command": "sleep 1000", "background": true, "seconds": 1})).await.unwrap();
    let told = wait(&tools, 1).await;
    assert!(told.starts_with("job 1: ended because its time was up after 1."), "{told}");
}

/// A call that waits says so when its own time is up, and the job goes on.
#[tokio::test]
async fn waiting_for_a_job_ends_by_itself() {
    let tools = Tools::new(Level::Off);
    start(&tools, "echo begun; sleep 1000").await;
    let tool = tools.tool("job");
    let input = json!({"action": "wait", "number": 1, "seconds": 1});
    let ToolReturn::Rests(rests) = tool.run(tools.context.clone(), input).await.unwrap() else { panic!() };
    let LookResult::Done(output) = tool.look(tools.context.clone(), rests.handle).await.unwrap() else { panic!() };
    let told = String::from_utf8(output.bytes).unwrap();
    assert!(told.starts_with("job 1: running for 1 s of at most 3600 s") && told.ends_with("\nbegun\n"), "{told}");
}

/// Of an output without end the first and the newest are kept, and what is missing is counted.
#[tokio::test]
async fn the_output_of_a_job_is_bounded() {
    let tools = Tools::new(Level::Off);
    start(&tools, "seq 4000000").await;
    let told = wait(&tools, 1).await;
    assert!(told.starts_with("job 1: exit 0 after ") && told.ends_with("\n3999999\n4000000\n"), "{}", &told[..100]);
    let all: String = (1..=4_000_000).map(|line| format!("{line}\n")).collect();
    let chat = tools.context.chat;
    let kept = tools.workspace.job_output(chat, 1, 0, u64::MAX).await.unwrap().unwrap();
    let kept = String::from_utf8(kept).unwrap();
    let (head, rest) = kept.split_once('[').unwrap();
    let (missing, tail) = rest.split_once(" bytes are missing here, and were not kept]\n").unwrap();
    assert!(all.starts_with(head) && all.ends_with(tail));
    assert_eq!(head.len() + missing.parse::<usize>().unwrap() + tail.len(), all.len());
    assert!(head.len() >= 5 << 20 && tail.len() >= 5 << 20 && kept.len() <= 12 << 20, "{}", kept.len());
    let read = job(&tools, json!({"action": "read", "number": 1, "from": 6})).await;
    assert!(
        read.contains("\n[bytes 6–40966]\n4\n5\n") && read.ends_with("\n[go on with from 40966]"),
        "{}",
        &read[..100]
    );
}

/// A call that is repeated after a crash finds its job, and starts no second one.
#[tokio::test]
async fn a_repeated_call_finds_its_job() {
    let tools = Tools::new(Level::Off);
    let uid = CallUid { step: StepId(90), ordinal: 0 };
    let input = json!({"command": format!("echo x >> count; {HOLD}"), "background": true});
    assert_eq!(tools.tool("shell").policy_for(&input).effect, Effect::Idempotent);
    tools.call_as(tools.context.chat, uid, "shell", input.clone()).await.unwrap();
    until(|| tools.scratch.workspace().join("count").exists()).await;
    let again = tools.call_as(tools.context.chat, uid, "shell", input.clone()).await.unwrap();
    assert!(again.starts_with("job 1: running for "), "{again}");
    tools.file("go", "");
    wait(&tools, 1).await;
    let again = tools.call_as(tools.context.chat, uid, "shell", input).await.unwrap();
    assert!(again.starts_with("job 1: exit 0 after "), "{again}");
    assert_eq!(tools.content("count"), "x\n");
}

#[tokio::test]
async fn a_chat_has_at_most_eight_jobs_that_run() {
    let tools = Tools::new(Level::Off);
    let mark = format!("1000.{}9", std::process::id());
    for _ in 0..8 {
        start(&tools, &format!("sleep {mark}")).await;
    }
    let input = json!({"command": "true", "background": true});
    let error = tools.call("shell", input).await.unwrap_err();
    assert_eq!(error.message, "8 background jobs of this chat run already: stop one, or wait for it");
    job(&tools, json!({"action": "stop", "number": 3})).await;
    assert_eq!(start(&tools, "true").await[..5], *"Job 9");
    // A chat that is deleted takes its jobs along.
    tools.workspace.forget(tools.context.chat).await.unwrap();
    assert_eq!(with_mark(&mark), 0);
    assert_eq!(tools.workspace.jobs().await.unwrap(), []);
}

/// The model is told of an end once, unless it has asked before.
#[tokio::test]
async fn the_model_is_told_of_an_end_once() {
    let tools = Tools::new(Level::Off);
    let hook = tools.workspace.hook([""; 0]);
    let chat = everturn::core::chat::Chat::new(tools.context.chat, "a", "");
    let next = everturn::core::chat::Chat { step: StepId(chat.step.0 + 1), ..chat.clone() };
    start(&tools, &format!("{HOLD}; exit 2")).await;
    assert_eq!(hook.before_step(&chat).await, None);
    tools.file("go", "");
    until(|| tools.scratch.state().join(format!("{}/jobs/1/end.json", tools.context.chat)).exists()).await;
    let told = hook.before_step(&chat).await.unwrap();
    assert!(told.starts_with("job 1: exit 2 after "), "{told}");
    assert_eq!(hook.before_step(&chat).await, Some(told), "the process may have died before it stored that");
    assert_eq!(hook.before_step(&next).await, None);
    start(&tools, "true").await;
    wait(&tools, 2).await;
    assert_eq!(hook.before_step(&next).await, None);
}

/// Plays the program that starts a job and is killed.
#[tokio::test]
#[ignore = "a part that is played in another process"]
async fn part_job_daemon() {
    let root = std::path::PathBuf::from(std::env::var_os("SCRATCH").unwrap());
    let life = if std::env::var_os("KEPT").is_some() { JobLife::Kept } else { JobLife::WithProgram };
    let workspace = workspace_of(&root, life);
    let shell = workspace.tools().into_iter().find(|tool| tool.spec().name == "shell").unwrap();
    let input = json!({"command": std::env::var("COMMAND").unwrap(), "background": true});
    shell.run(everturn::ToolContext::new(CHAT, CALL), input).await.unwrap();
    std::fs::write(root.join("started"), "").unwrap();
    std::future::pending::<()>().await;
}

const CHAT: ChatId = ChatId::from_u128(7);
const CALL: CallUid = CallUid { step: StepId(1), ordinal: 0 };

fn workspace_of(root: &Path, life: JobLife) -> Workspace {
    Workspace::new(root.join("workspace"), root.join("state"), Level::Off).unwrap().with_helper(HELPER).with_jobs(life)
}

/// A program that has started a job and was killed.
async fn killed(scratch: &Scratch, life: JobLife, command: &str) {
    let mut daemon = tokio::process::Command::new(std::env::current_exe().unwrap());
    daemon.args(["--ignored", "--exact", "jobs::part_job_daemon"]).env("SCRATCH", scratch.root.path());
    daemon.env("COMMAND", command).stdout(Stdio::null()).kill_on_drop(true);
    if life == JobLife::Kept {
        daemon.env("KEPT", "");
    }
    let mut daemon = daemon.spawn().unwrap();
    while !scratch.root.path().join("started").exists() {
        assert!(daemon.try_wait().unwrap().is_none(), "the daemon failed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    daemon.kill().await.unwrap();
}

/// An ordinary job ends with the program: nothing is left two seconds later, and its output so far is there.
#[tokio::test]
async fn a_job_ends_with_its_program() {
    let scratch = Scratch::new();
    let mark = format!("1000.{}8", std::process::id());
    killed(&scratch, JobLife::WithProgram, &format!("echo begun; touch up; setsid sleep {mark} & sleep {mark}")).await;
    until(|| with_mark(&mark) == 0).await;
    assert_eq!(with_mark(&mark), 0);
    let workspace = workspace_of(scratch.root.path(), JobLife::WithProgram);
    let shell = workspace.tools().into_iter().find(|tool| tool.spec().name == "shell").unwrap();
    let input = json!({"command": "touch twice", "background": true});
    let error = shell.run(everturn::ToolContext::new(CHAT, CALL), input).await.unwrap_err();
    assert_eq!(error.outcome, ErrorOutcome::Unknown);
    assert!(error.message.starts_with("job 1: ended with the program that started it after "), "{}", error.message);
    assert!(!scratch.workspace().join("twice").exists());
    let jobs = workspace.jobs().await.unwrap();
    let JobState::Ended(end) = &jobs[0].state else { panic!("{jobs:?}") };
    assert_eq!((end.cause, end.code), (JobEndCause::ProgramGone, None));
}

/// TW10: a job that is kept goes on over the death of its program, and the next one finds it: while it runs, and after it
/// ended. If its supervisor is killed too, as when the machine restarts, its outcome is unknown and its output is kept.
#[tokio::test]
async fn a_kept_job_is_found_again() {
    let scratch = Scratch::new();
    killed(&scratch, JobLife::Kept, &format!("seq 1000; {HOLD}; seq 1001 200000; exit 5")).await;
    let workspace = workspace_of(scratch.root.path(), JobLife::Kept);
    let jobs = workspace.jobs().await.unwrap();
    assert_eq!((jobs.len(), jobs[0].number, &jobs[0].state, jobs[0].life), (1, 1, &JobState::Running, JobLife::Kept));
    let mut tools = Tools::new(Level::Off);
    tools.workspace = workspace;
    std::fs::write(scratch.workspace().join("go"), "").unwrap();
    let told = wait(&tools, 1).await;
    assert!(told.starts_with("job 1: exit 5 after ") && told.ends_with("\n200000\n"), "{}", &told[..100]);
    let output = tools.workspace.job_output(CHAT, 1, 0, u64::MAX).await.unwrap().unwrap();
    let all: String = (1..=200_000).map(|line| format!("{line}\n")).collect();
    assert!(output == all.as_bytes(), "the output is whole");
}

#[tokio::test]
async fn a_job_whose_supervisor_was_killed_is_unknown() {
    let tools = Tools::new(Level::Off);
    let mark = format!("held-{}", std::process::id());
    start(&tools, &format!(": {mark}; echo begun; touch up; {HOLD}")).await;
    until(|| tools.scratch.workspace().join("up").exists()).await;
    let supervisor = supervisors().remove(0);
    let kill = |pid: i32| {
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL)
    };
    kill(supervisor).unwrap();
    let told = wait(&tools, 1).await;
    tools.file("go", ""); // The command itself has no supervisor any more.
    until(|| with_mark(&mark) == 0).await;
    assert_eq!(with_mark(&mark), 0);
    assert!(told.starts_with("job 1: outcome unknown: its supervisor was killed, or the machine restarted"), "{told}");
    assert!(told.ends_with("\nbegun\n"), "{told}");
}

/// The supervisors that this process has started.
fn supervisors() -> Vec<i32> {
    let parent = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_ours = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)) == Some(&parent)
    };
    pids.filter(is_ours).collect()
}

/// A turn that waits for a job goes on after a restart, with the end that came meanwhile.
#[tokio::test]
async fn a_turn_waits_for_a_job_over_a_restart() {
    let scratch = Scratch::new();
    let workspace = workspace_of(scratch.root.path(), JobLife::Kept);
    let engine = |steps: Vec<everturn_understudy::Script>| {
        let model = Understudy::new(steps);
        let agent = Agent::new("understudy/any".parse().unwrap()).tools(workspace.tools()).unwrap();
        let permissions = Permissions::default().otherwise(Otherwise::Allow);
        let agent = Agent { permissions, ..agent };
        let store = Sqlite::open(scratch.root.path().join("chats").as_ref(), &SqliteOptions::default()).unwrap();
        (Engine::builder().store(Arc::new(store)).provider(model.clone()).agent("a", agent).start(), model)
    };
    let start = json!({"command": format!("echo begun; {HOLD}; echo done"), "background": true});
    let (first, _) = engine(vec![
        script([call("shell", start), stop(Stop::ToolUse)]),
        script([call("job", json!({"action": "wait", "number": 1})), stop(Stop::ToolUse)]),
    ]);
    let chat = first.create("a").await.unwrap();
    let id = chat.id();
    chat.send("Go.").await.unwrap();
    while chat.standing().await.unwrap().awaits_until.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    first.shutdown().await;
    drop((first, chat));
    std::fs::write(scratch.workspace().join("go"), "").unwrap();
    let (second, _) = engine(vec![script([text("Done."), stop(Stop::End)])]);
    second.resume().await.unwrap();
    let chat = second.chat(id);
    chat.rest().await.unwrap();
    let results = chat.newest_results(2).await.unwrap();
    assert!(results[0].output.text.starts_with("job 1: exit 0 after "), "{}", results[0].output.text);
    assert!(results[0].output.text.ends_with("\nbegun\ndone\n"));
}
