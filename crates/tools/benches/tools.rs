//! What a tool call costs: its start, its confinement, its steps, its search.
//!
//! Each figure stands beside a floor of the same run: a process that is started with a pipe, a command without confinement, a
//! step of a short turn, `rg` on the same files. Run with `cargo xtask bench tools [--json]`.

#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::unwrap_used, reason = "a bench that cannot go on ends")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use everturn::core::ids::{CallUid, ChatId, StepId};
use everturn::core::message::Stop;
use everturn::core::prompt::{PromptPart, Request};
use everturn::stores::Sqlite;
use everturn::stores::sqlite::SqliteOptions;
use everturn::{Agent, Engine, ToolContext, ToolError, tool};
use everturn_tools::{Level, Probe, Workspace};
use everturn_understudy::{Script, Understudy, call, script, stop, text};
use serde_json::{Value, json};

const HELPER: &str = env!("CARGO_BIN_EXE_everturn-tool-helper");
/// How often each figure is measured; the middle one counts.
const ROUNDS: usize = 21;
/// Steps of the short turn and of the long one.
const STEPS: [usize; 2] = [50, 400];
/// How much dearer a step of the long turn may be.
const STEPS_GOAL: f64 = 1.3;
/// How much slower than `rg` a search may be.
const SEARCH_GOAL: f64 = 1.5;
/// Files of the tree that is searched, and lines of each.
const FILES: usize = 4_000;
const LINES: usize = 400;

/// Where figures go.
struct Out {
    json: bool,
}

impl Out {
    fn line(&self, metric: &str, n: usize, value: f64, floor: f64, goal: Option<f64>) {
        let ratio = value / floor;
        if self.json {
            println!(
                "{{\"bench\":\"tools\",\"metric\":\"{metric}\",\"n\":{n},\"value\":{value:.3},\"unit\":\"ms\",\
                 \"floor\":{floor:.3},\"ratio\":{ratio:.3}}}"
            );
            return;
        }
        let goal = match goal {
            Some(goal) if ratio <= goal => format!("  (goal {goal}: kept)"),
            Some(goal) => format!("  (goal {goal}: missed)"),
            None => String::new(),
        };
        println!("{metric:<56} {value:>9.3} ms  floor {floor:>9.3}  ratio {ratio:.2}{goal}");
    }
}

fn main() {
    let out = Out { json: std::env::args().any(|arg| arg == "--json") };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let probe = Probe::run(Path::new(HELPER)).await;
        for reason in &probe.reasons {
            eprintln!("not measured here: {reason}");
        }
        commands(&out, probe.level).await;
        steps(&out).await;
        search(&out, probe.level).await;
    });
}

fn workspace(root: &Path, level: Level) -> Workspace {
    std::fs::create_dir_all(root.join("workspace")).unwrap();
    Workspace::new(root.join("workspace"), root.join("state"), level).unwrap().with_helper(HELPER)
}

/// Calls a tool outside of an engine.
async fn run(workspace: &Workspace, step: usize, name: &str, input: Value) -> String {
    let tool = workspace.tools().into_iter().find(|tool| tool.spec().name == name).unwrap();
    let call = CallUid { step: StepId(step as u64), ordinal: 0 };
    let output = tool.run(ToolContext::new(ChatId::from_u128(1), call), input).await.unwrap().output().unwrap();
    String::from_utf8_lossy(&output.bytes).into_owned()
}

/// The middle of several measurements, in milliseconds.
async fn median(mut measured: impl AsyncFnMut(usize)) -> f64 {
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let begun = Instant::now();
        measured(round).await;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    milliseconds(times[ROUNDS / 2])
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A command that does nothing, and a file that is read, beside a process that is started with a pipe.
async fn commands(out: &Out, level: Level) {
    let spawned = median(async |_| {
        let output = Command::new("/bin/bash").args(["-c", "true"]).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success());
    })
    .await;
    let mut levels = vec![Level::Off, Level::Partial, Level::Full];
    levels.retain(|one| *one == Level::Off || *one <= level);
    let mut unconfined = None;
    for level in levels {
        let root = tempfile::tempdir().unwrap();
        let workspace = workspace(root.path(), level);
        std::fs::write(root.path().join("workspace/file"), "kelp\n".repeat(100)).unwrap();
        let shell = median(async |round| {
            run(&workspace, round, "shell", json!({"command": "true"})).await;
        })
        .await;
        let read = median(async |round| {
            run(&workspace, round, "read", json!({"path": "file"})).await;
        })
        .await;
        out.line(&format!("shell `true`, level {level}, beside spawn and pipe"), 1, shell, spawned, None);
        out.line(&format!("read of a file, level {level}, beside spawn and pipe"), 1, read, spawned, None);
        let unconfined = *unconfined.get_or_insert(shell);
        if level != Level::Off {
            out.line(&format!("shell `true`, level {level}, beside level off"), 1, shell, unconfined, None);
        }
    }
}

/// A model that calls the tool for so many steps, with another input each time.
fn calls(steps: usize) -> Understudy {
    Understudy::improvising(move |request: &Request| -> Script {
        let parts = request.entries.iter().flat_map(|entry| &entry.parts);
        let done = parts.filter(|part| matches!(part, PromptPart::Result(_))).count();
        match done < steps {
            true => script([call("count", json!({ "n": done })), stop(Stop::ToolUse)]),
            false => script([text("Done."), stop(Stop::End)]),
        }
    })
}

/// A turn of so many steps on SQLite, each with one call of a tool in this process: the time per step, and how long calls
/// take from their intents to their results.
async fn turn(steps: usize) -> f64 {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Input {
        n: usize,
    }
    let root = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&root.path().join("chats"), &SqliteOptions::default()).unwrap();
    let count =
        tool("count", "Counts.", |_, input: Input| async move { Ok::<_, ToolError>((input.n + 1).to_string()) });
    let mut agent = Agent::new("understudy/any".parse().unwrap()).tool(count).unwrap();
    agent.limits.steps_max = u32::try_from(steps).unwrap() + 2;
    let engine = Engine::builder().store(Arc::new(store)).provider(calls(steps)).agent("a", agent).start();
    let chat = engine.create("a").await.unwrap();
    let begun = Instant::now();
    chat.send("Count.").await.unwrap();
    chat.rest().await.unwrap();
    let took = milliseconds(begun.elapsed()) / steps as f64;
    assert_eq!(chat.newest_results(steps).await.unwrap().len(), steps, "each step has a result");
    engine.shutdown().await;
    took
}

/// A step with a call, beside a process that is started with a pipe; and a step of a long turn beside one of a short turn.
async fn steps(out: &Out) {
    let spawned = median(async |_| {
        let output = Command::new("/bin/true").stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success());
    })
    .await;
    let direct = median(async |round| drop(std::hint::black_box((round + 1).to_string()))).await;
    turn(STEPS[0]).await; // Warms up.
    let short = turn(STEPS[0]).await.min(turn(STEPS[0]).await);
    let long = turn(STEPS[1]).await;
    out.line("step with a call in the process, beside spawn and pipe", STEPS[0], short, spawned, None);
    out.line("step with a call in the process, beside a plain call", STEPS[0], short, direct.max(1e-6), None);
    out.line("step of a turn of 400, beside one of 50", STEPS[1], long, short, Some(STEPS_GOAL));
}

/// `search` beside `rg` on the same files.
async fn search(out: &Out, level: Level) {
    if Command::new("rg").arg("--version").output().is_err() {
        eprintln!("not measured here: ripgrep is missing (apt install ripgrep)");
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let workspace = workspace(root.path(), if level == Level::Files { Level::Off } else { level });
    let files = root.path().join("workspace");
    for file in 0..FILES {
        let directory = files.join(format!("{}", file / 100));
        std::fs::create_dir_all(&directory).unwrap();
        let lines = (0..LINES).map(|line| format!("let value_{line} = compute({file}, {line}); // plain words\n"));
        let rare = if file % 40 == 0 { "let kelp = 1;\n" } else { "" };
        std::fs::write(directory.join(format!("{file}.rs")), lines.collect::<String>() + rare).unwrap();
    }
    for pattern in ["kelp", r"value_\d*7 = compute\(\d+, 1\d7\)"] {
        let rg = median(async |_| {
            let output = Command::new("rg").args(["--line-number", pattern, "."]).current_dir(&files).output();
            assert!(output.unwrap().status.success());
        })
        .await;
        let ours = median(async |round| {
            run(&workspace, round, "search", json!({ "pattern": pattern })).await;
        })
        .await;
        let name = if pattern == "kelp" { "search for a word" } else { "search for a pattern" };
        out.line(&format!("{name} in {FILES} files, beside rg"), FILES, ours, rg, Some(SEARCH_GOAL));
    }
}
