//! Changes of files whose processes are killed at every step.
//!
//! A daemon is this program again, started as one of its ignored tests. Whatever is killed and when: the file is the old
//! one or the new one, and the repeated call makes the change if it was not made, once.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod turns;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use everturn::ToolContext;
use everturn::core::ids::{CallUid, ChatId, StepId};
use everturn_tools::{FileChangeStatus, Level, Probe, Workspace};
use serde_json::json;

const HELPER: &str = env!("CARGO_BIN_EXE_everturn-tool-helper");
const CHAT: ChatId = ChatId::from_u128(7);
/// Named places of the process that changes a file, in the order it comes by.
const PLACES: [&str; 6] =
    ["file-read", "file-changed-in-memory", "file-prepared", "file-beside", "file-replaced", "file-made"];
/// How often the process is killed at each of them.
const DEATHS: usize = 20;
/// What is there when the daemon is killed, with everything it started: a directory, and what a name in it ends in.
const SIGHTS: [(&str, &str); 4] = [("call", ""), ("call", "prepared.json"), ("workspace", ".0"), ("call", "made.json")];
/// Lines of the file, so that half of it would be noticed.
const LINES: usize = 2_000;
/// How often the daemon is killed at each of them.
const DAEMON_DEATHS: usize = 20;

struct Scene {
    root: tempfile::TempDir,
    level: Level,
}

impl Scene {
    async fn new() -> Self {
        let root = tempfile::Builder::new().prefix("everturn-kill").tempdir().unwrap();
        std::fs::create_dir(root.path().join("workspace")).unwrap();
        let filling = "filling\n".repeat(LINES);
        std::fs::write(root.path().join("workspace/file"), format!("{filling}counter\n")).unwrap();
        Self { root, level: Probe::run(HELPER.as_ref()).await.level }
    }

    fn counter(&self) -> String {
        let text = std::fs::read_to_string(self.root.path().join("workspace/file")).unwrap();
        assert_eq!(text.matches("filling\n").count(), LINES, "half a file");
        text.lines().last().unwrap().to_owned()
    }

    /// The names of what was left beside the file.
    fn leftovers(&self) -> Vec<String> {
        names(&self.root.path().join("workspace")).into_iter().filter(|name| name != "file").collect()
    }

    fn daemon(&self, part: &str, step: u64, failpoint: Option<&str>) -> Child {
        let mut daemon = Command::new(std::env::current_exe().unwrap());
        daemon.args(["--ignored", "--exact", part]).stdout(Stdio::null()).stderr(Stdio::null());
        daemon.env("SCENE", self.root.path()).env("STEP", step.to_string()).env("LEVEL", self.level.to_string());
        daemon.envs(failpoint.map(|place| ("EVERTURN_FAILPOINT", place)));
        daemon.spawn().unwrap()
    }

    fn is_there(&self, step: u64, directory: &str, end: &str) -> bool {
        let directory = match directory {
            "call" => self.root.path().join(format!("state/{CHAT}/{step}.0")),
            other => self.root.path().join(other),
        };
        names(&directory).iter().any(|name| name.ends_with(end))
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn workspace(root: &Path, level: Level) -> Workspace {
    Workspace::new(root.join("workspace"), root.join("state"), level).unwrap().with_helper(HELPER)
}

const fn call(step: u64) -> CallUid {
    CallUid { step: StepId(step), ordinal: 0 }
}

async fn run(workspace: &Workspace, step: u64, tool: &str, input: serde_json::Value) -> Result<String, String> {
    let tool = workspace.tools().into_iter().find(|found| found.spec().name == tool).unwrap();
    let output =
        tool.run(ToolContext::new(CHAT, call(step)), input).await.map_err(|error| error.message)?.output().unwrap();
    Ok(String::from_utf8(output.bytes).unwrap())
}

/// One more `+` at the counter. Made twice it is two more.
async fn count(workspace: &Workspace, step: u64) -> Result<String, String> {
    let old = format!("counter{}\n", "+".repeat(step as usize - 1));
    let new = format!("counter{}\n", "+".repeat(step as usize));
    run(workspace, step, "edit", json!({"path": "file", "edits": [{"old": old, "new": new}]})).await
}

fn of_daemon() -> (Workspace, u64) {
    let variable = |name: &str| std::env::var(name).unwrap();
    let levels = [Level::Full, Level::Partial, Level::Files, Level::Off];
    let level = levels.into_iter().find(|level| level.to_string() == variable("LEVEL")).unwrap();
    (workspace(&PathBuf::from(variable("SCENE")), level), variable("STEP").parse().unwrap())
}

#[tokio::test]
#[ignore = "a part that is played in another process"]
async fn part_edit() {
    let (workspace, step) = of_daemon();
    let _ = count(&workspace, step).await;
}

#[tokio::test]
#[ignore = "a part that is played in another process"]
async fn part_undo() {
    let (workspace, step) = of_daemon();
    let _ = workspace.undo(CHAT, &[call(step)]).await;
}

/// The file after a kill, the repeated call, and the call once more.
async fn check(scene: &Scene, step: u64, where_killed: &str) {
    let counter = scene.counter();
    let expected = format!("counter{}", "+".repeat(step as usize));
    assert!(counter == expected || counter == expected[..expected.len() - 1], "{where_killed}: {counter}");
    let workspace = workspace(scene.root.path(), scene.level);
    let answer = count(&workspace, step).await;
    assert!(answer.as_ref().is_ok_and(|answer| answer.starts_with("file: changed\n")), "{where_killed}: {answer:?}");
    assert_eq!(scene.counter(), expected, "{where_killed}");
    assert_eq!(count(&workspace, step).await, answer, "{where_killed}");
    assert_eq!(scene.counter(), expected, "{where_killed}");
    assert_eq!(scene.leftovers(), Vec::<String>::new(), "{where_killed}");
}

/// TW04: the process that changes a file is killed at each step, or the daemon is when it sees traces of one: two hundred
/// deaths, each change made once.
#[tokio::test]
async fn a_change_is_made_once_whatever_is_killed() {
    let scene = Scene::new().await;
    run(&workspace(scene.root.path(), scene.level), 0, "read", json!({"path": "file"})).await.unwrap();
    let mut step = 0;
    for place in PLACES {
        for _ in 0..DEATHS {
            step += 1;
            assert!(scene.daemon("part_edit", step, Some(place)).wait().unwrap().success());
            check(&scene, step, place).await;
        }
    }
    for (directory, end) in SIGHTS {
        for _ in 0..DAEMON_DEATHS {
            step += 1;
            let mut daemon = scene.daemon("part_edit", step, None);
            while !scene.is_there(step, directory, end) && daemon.try_wait().unwrap().is_none() {
                std::hint::spin_loop();
            }
            daemon.kill().unwrap();
            daemon.wait().unwrap();
            check(&scene, step, &format!("a daemon that saw {directory} {end}")).await;
        }
    }
    assert_eq!(step, 200);
    let changes = workspace(scene.root.path(), scene.level).changes(CHAT).await.unwrap();
    assert!(changes.iter().all(|change| change.status == FileChangeStatus::Made));
    assert_eq!(changes.len(), 200);
}

/// TW04, TW05: an undo that is killed is repeated.
#[tokio::test]
async fn an_undo_is_made_once_whatever_is_killed() {
    let scene = Scene::new().await;
    let workspace = workspace(scene.root.path(), scene.level);
    for (place, step) in ["file-beside", "file-restored"].into_iter().zip([1, 2]) {
        run(&workspace, 10 * step, "read", json!({"path": "file"})).await.unwrap();
        let edit = json!({"path": "file", "edits": [{"old": "counter", "new": "counted"}]});
        run(&workspace, step, "edit", edit).await.unwrap();
        assert!(scene.daemon("part_undo", step, Some(place)).wait().unwrap().success());
        let undone = workspace.undo(CHAT, &[call(step)]).await.unwrap();
        assert_eq!(undone[0].status, FileChangeStatus::Undone, "{place}");
        assert_eq!(scene.counter(), "counter", "{place}");
        assert_eq!(scene.leftovers(), Vec::<String>::new(), "{place}");
    }
}
