//! Whole turns that edit a file, run a command and start a job, in a daemon that is killed at every stage.
//!
//! Whatever is killed and when: the turn comes to its end, nothing is done twice, an outcome that is not known is said to be
//! unknown, and no process is left.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use everturn::core::command::{Command as ChatCommand, Delivery};
use everturn::core::message::{CallVerdict, Part, Stop};
use everturn::core::permission::{Otherwise, Permissions};
use everturn::core::prompt::{PromptPart, Request};
use everturn::stores::sqlite::SqliteOptions;
use everturn::stores::{NewChat, Sqlite};
use everturn::{Agent, Engine};
use everturn_tools::JobLife;
use everturn_understudy::{Script, Understudy, call, script, stop, text};
use serde_json::json;
use tokio::time::Instant;

use crate::{CHAT, LINES, Scene, names, of_daemon};

/// The variable with the number of daemons to kill.
const KILLS: &str = "EVERTURN_TOOL_KILLS";
/// How many it is without the variable.
const KILLS_DEFAULT: usize = 30;
/// Places at which the daemon dies by itself.
const PLACES: [&str; 4] = ["shell-started", "shell-ended", "job-recorded", "job-started"];
/// What is there when the daemon is killed: files of the workspace, and of the chat's state.
const SIGHTS: [&str; 6] = [
    "workspace/shell",
    "workspace/job",
    "state/CHAT/jobs/1/job.json",
    "state/CHAT/jobs/1/control",
    "state/CHAT/jobs/1/end.json",
    "chats/everturn.db",
];
/// Between the times at which a daemon is killed that nothing else says.
const STRIDE: Duration = Duration::from_millis(17);
/// How long processes of a killed daemon may live.
const LEFTOVER_MAX: Duration = Duration::from_secs(2);

/// The step that comes after so many results.
fn step(request: &Request, mark: &str) -> Script {
    let parts = request.entries.iter().flat_map(|entry| &entry.parts);
    let results = parts.filter(|part| matches!(part, PromptPart::Result(_))).count();
    let edits = json!([{"old": "counter\n", "new": "counter+\n"}]);
    let job = format!("echo x >> job; sleep 0.3; : {mark}");
    let next = match results {
        0 => call("read", json!({"path": "file", "from": LINES})),
        1 => call("edit", json!({"path": "file", "edits": edits})),
        2 => call("shell", json!({"command": format!("echo x >> shell; sleep 0.05; : {mark}")})),
        3 => call("shell", json!({"command": job, "background": true})),
        4 => call("job", json!({"action": "wait", "number": 1})),
        _ => return script([text("Done."), stop(Stop::End)]),
    };
    script([next, stop(Stop::ToolUse)])
}

fn store(root: &Path) -> Sqlite {
    Sqlite::open(&root.join("chats"), &SqliteOptions::default()).unwrap()
}

/// Plays a daemon: begins the turn, or goes on with it, and returns when it is over.
#[tokio::test]
#[ignore = "a part that is played in another process"]
async fn part_turn() {
    let (workspace, _) = of_daemon();
    let root = std::path::PathBuf::from(std::env::var("SCENE").unwrap());
    let life = if std::env::var_os("KEPT").is_some() { JobLife::Kept } else { JobLife::WithProgram };
    let mark = std::env::var("MARK").unwrap();
    let permissions = Permissions::default().otherwise(Otherwise::Allow);
    let agent = Agent::new("understudy/any".parse().unwrap()).tools(workspace.with_jobs(life).tools()).unwrap();
    let model = Understudy::improvising(move |request| step(request, &mark));
    let engine = Engine::builder().store(Arc::new(store(&root))).provider(model);
    let engine = engine.agent("a", Agent { permissions, ..agent }).start();
    let chat = engine.make(&NewChat { key: Some("chat".into()), ..NewChat::of(CHAT, "a", "") }).await.unwrap();
    let send = ChatCommand::Send { parts: Arc::new([Part::text("Go.")]), when: Delivery::Queue };
    chat.submit(send, Some("go".into())).await.unwrap();
    engine.resume().await.unwrap();
    chat.rest().await.unwrap();
    engine.shutdown().await;
}

struct Round {
    scene: Scene,
    mark: String,
    life: JobLife,
}

impl Round {
    fn daemon(&self, failpoint: Option<&str>) -> Child {
        let mut daemon = Command::new(std::env::current_exe().unwrap());
        daemon.args(["--ignored", "--exact", "turns::part_turn"]).stdout(Stdio::null()).stderr(Stdio::null());
        daemon.env("SCENE", self.scene.root.path()).env("STEP", "0").env("LEVEL", self.scene.level.to_string());
        daemon.env("MARK", &self.mark).envs(failpoint.map(|place| ("EVERTURN_FAILPOINT", place)));
        if self.life == JobLife::Kept {
            daemon.env("KEPT", "");
        }
        daemon.spawn().unwrap()
    }

    /// Runs a daemon until something holds, and kills it then.
    fn kill_when(&self, holds: impl Fn() -> bool) {
        let mut daemon = self.daemon(None);
        while !holds() && daemon.try_wait().unwrap().is_none() {
            std::hint::spin_loop();
        }
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    fn lines(&self, name: &str) -> usize {
        let text = std::fs::read_to_string(self.scene.root.path().join("workspace").join(name)).unwrap_or_default();
        text.lines().count()
    }

    /// Processes that this turn has started and that still run.
    fn left(&self) -> Vec<String> {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok());
        lines.filter(|line| line.contains(&self.mark)).collect()
    }

    fn ends_leftovers(&self, how: &str) {
        let begun = Instant::now();
        while self.life == JobLife::WithProgram && !self.left().is_empty() {
            assert!(begun.elapsed() < LEFTOVER_MAX, "{how}: {:?}", self.left());
        }
    }

    /// The turn after the kill: a second daemon brings it to its end, and what is there fits what is told.
    async fn check(&self, how: &str) {
        self.ends_leftovers(how);
        assert!(self.daemon(None).wait().unwrap().success(), "{how}: the next daemon");
        assert_eq!(self.left(), Vec::<String>::new(), "{how}");
        let engine = Engine::builder().store(Arc::new(store(self.scene.root.path()))).start();
        let mut results = engine.chat(CHAT).newest_results(9).await.unwrap();
        results.reverse();
        let told: Vec<_> = results.iter().map(|result| (result.tool.as_str(), result.verdict)).collect();
        let how = format!("{how}: {told:?}: {}", results.last().map_or("", |last| &last.output.text));
        assert_eq!(told.len(), 5, "{how}");
        assert_eq!(told[1], ("edit", CallVerdict::Done), "{how}");
        assert_eq!(self.scene.counter(), "counter+", "{how}");
        assert!([CallVerdict::Done, CallVerdict::Unknown].contains(&told[2].1), "{how}");
        assert!([CallVerdict::Done, CallVerdict::Unknown].contains(&told[3].1), "{how}");
        assert_eq!(told[4], ("job", CallVerdict::Done), "{how}");
        let end = results[4].output.text.as_str();
        let is_known = end.starts_with("job 1: exit 0 after ");
        let is_named = end.starts_with("job 1: ended with the program") || end.starts_with("job 1: outcome unknown");
        assert!(is_known || is_named, "{how}");
        // What is said to be done was done once; what is not known, at most once.
        for (is_done, file) in [(told[2].1 == CallVerdict::Done, "shell"), (is_known, "job")] {
            let times = self.lines(file);
            assert!(times == 1 || times == 0 && !is_done, "{how}: {file} {times} times");
        }
        let mut left = names(&self.scene.root.path().join("workspace"));
        left.retain(|name| !["file", "shell", "job"].contains(&name.as_str()));
        assert_eq!(left, Vec::<String>::new(), "{how}");
    }
}

/// TW04, TW10: a daemon is killed at every stage of a turn with an edit, a command and a job: nothing is done twice, each
/// unknown outcome is named, no file is half-written and no process is left.
#[tokio::test]
async fn a_turn_with_tools_survives_each_kill() {
    let kills = std::env::var(KILLS).ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS_DEFAULT);
    for round in 0..kills {
        let scene = Scene::new().await;
        let mark = format!("kill-{}-{round}-mark", std::process::id());
        let life = if round % 2 == 0 { JobLife::WithProgram } else { JobLife::Kept };
        let round_of = Round { scene, mark, life };
        let stage = round / 2 % (PLACES.len() + SIGHTS.len() + 5);
        let how = if let Some(place) = PLACES.get(stage) {
            assert!(!round_of.daemon(Some(place)).wait().unwrap().success(), "it dies at {place}");
            format!("{round}: died at {place}")
        } else if let Some(sight) = SIGHTS.get(stage - PLACES.len()) {
            let path = round_of.scene.root.path().join(sight.replace("CHAT", &CHAT.to_string()));
            round_of.kill_when(|| path.exists());
            format!("{round}: killed at the sight of {sight}")
        } else {
            let begun = Instant::now();
            let after = STRIDE * u32::try_from(round).unwrap();
            round_of.kill_when(|| begun.elapsed() >= after);
            format!("{round}: killed after {after:?}")
        };
        round_of.check(&how).await;
    }
}
