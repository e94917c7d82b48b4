//! Whole turns with an MCP server, a sub-agent, an edit, a command and a job, in a daemon that is killed at every stage.
//!
//! Whatever is killed and when: the turn comes to its end, nothing with effects is done twice, an outcome that is not known is
//! said to be unknown, there is one sub-agent, no file is half-written, and no process is left.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use everturn::core::command::{Command as ChatCommand, Delivery};
use everturn::core::ids::ChatId;
use everturn::core::message::{CallResult, CallVerdict, Part, Stop};
use everturn::core::permission::{Otherwise, Permissions};
use everturn::core::prompt::{PromptPart, Request, Role};
use everturn::stores::sqlite::SqliteOptions;
use everturn::stores::{ChatQuery, NewChat, Sqlite, Store as _};
use everturn::{Agent, Engine, SubAgent};
use everturn_mcp::{McpOptions, McpServers, ServerConfig, ServerEntry};
use everturn_tools::{JobLife, Level, Probe, Workspace};
use everturn_understudy::{Script, Understudy, call, script, stop, text};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{UNDERSTUDY, checked};

/// The variable with the number of daemons to kill.
const KILLS: &str = "EVERTURN_TOOL_KILLS";
/// How many it is without the variable.
const KILLS_DEFAULT: usize = 36;
const CHAT: ChatId = ChatId::from_u128(7);
/// Lines of the file, so that half of it would be noticed.
const LINES: usize = 2_000;
/// Between the times at which a daemon is killed that nothing else says.
const STRIDE: Duration = Duration::from_millis(23);
/// How long processes of a killed daemon may live.
const LEFTOVER_MAX: Duration = Duration::from_secs(2);

/// What is there when a daemon is killed.
#[derive(Debug, Clone, Copy)]
enum Sight {
    /// The server was sent a call by this caller.
    Sent(&'static str),
    /// A file, of the workspace or of the chat's state.
    File(&'static str),
    /// The file has its new content.
    Edited,
}

const SIGHTS: [Sight; 8] = [
    Sight::Sent("parent"),
    Sight::Sent("reader"),
    Sight::Edited,
    Sight::File("workspace/shell"),
    Sight::File("state/CHAT/jobs/1/control"),
    Sight::File("state/CHAT/jobs/1/end.json"),
    Sight::Sent("child"),
    Sight::File("chats/everturn.db"),
];
/// Rounds of a cycle that are killed after a time instead.
const TIMED: usize = 4;

/// The next reply, by how many results there are: of the agent, or of the sub-agent.
fn step(request: &Request, mark: &str) -> Script {
    let is_child = request.entries.iter().filter(|entry| entry.role == Role::User).any(|entry| {
        entry.parts.iter().any(|part| matches!(part, PromptPart::Text(text) if text.text.contains("child task")))
    });
    let parts = request.entries.iter().flat_map(|entry| &entry.parts);
    let results = parts.filter(|part| matches!(part, PromptPart::Result(_))).count();
    let edits = json!([{"old": "counter\n", "new": "counter+\n"}]);
    let next = match (is_child, results) {
        (true, 0) => call("mcp__x__slow", json!({"who": "child"})),
        (true, _) => return script([text("It is found."), stop(Stop::End)]),
        (false, 0) => call("mcp__x__slow", json!({"who": "parent"})),
        (false, 1) => call("mcp__x__echo", json!({"who": "reader"})),
        (false, 2) => call("read", json!({"path": "file", "from": LINES})),
        (false, 3) => call("edit", json!({"path": "file", "edits": edits})),
        (false, 4) => call("shell", json!({"command": format!("echo x >> shell; sleep 0.05; : {mark}")})),
        (false, 5) => {
            let job = format!("echo x >> job; sleep 0.2; : {mark}");
            call("shell", json!({"command": job, "background": true}))
        }
        (false, 6) => call("job", json!({"action": "wait", "number": 1})),
        (false, 7) => call("ask_helper", json!({"task": "child task"})),
        (false, _) => return script([text("Done."), stop(Stop::End)]),
    };
    script([next, stop(Stop::ToolUse)])
}

/// What the agent calls, in order.
const CALLED: [&str; 8] = ["mcp__x__slow", "mcp__x__echo", "read", "edit", "shell", "shell", "job", "ask_helper"];

fn store(root: &Path) -> Sqlite {
    Sqlite::open(&root.join("chats"), &SqliteOptions::default()).unwrap()
}

fn log(root: &Path) -> PathBuf {
    root.join("server.log")
}

fn server(root: &Path) -> ServerConfig {
    let args = ["--log".to_owned(), log(root).display().to_string()];
    let tools = serde_json::from_value(json!({"echo": {"effect": "read"}})).unwrap();
    checked("x", ServerEntry { command: Some(UNDERSTUDY.into()), args: args.into(), tools, ..ServerEntry::default() })
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap()
}

/// Plays a daemon: begins the turn, or goes on with it, and returns when it is over.
#[tokio::test]
#[ignore = "a part that is played in another process"]
async fn part_turn() {
    let root = PathBuf::from(variable("SCENE"));
    let levels = [Level::Full, Level::Partial, Level::Off];
    let level = levels.into_iter().find(|level| level.to_string() == variable("LEVEL")).unwrap();
    let workspace = Workspace::new(root.join("workspace"), root.join("state"), level).unwrap().with_helper(UNDERSTUDY);
    let workspace = workspace.with_jobs(if variable("KEPT") == "1" { JobLife::Kept } else { JobLife::WithProgram });
    let servers = McpServers::new([server(&root)], McpOptions::new(root.join("mcp")).with_helper(UNDERSTUDY));
    if servers.status("x").unwrap().known.is_none() {
        servers.learn("x").await.unwrap();
    }
    let agent = || {
        let agent = Agent::new("understudy/any".parse().unwrap()).live_tools(servers.toolbox(["x"]).unwrap());
        Agent { permissions: Permissions::default().otherwise(Otherwise::Allow), ..agent }
    };
    let parent = agent().tools(workspace.tools()).unwrap().tool(SubAgent::new("helper", "Helps.")).unwrap();
    let mark = variable("MARK");
    let model = Understudy::improvising(move |request| step(request, &mark));
    let engine = Engine::builder().store(Arc::new(store(&root))).provider(model);
    let engine = engine.agent("a", parent).agent("helper", agent()).start();
    let chat = engine.make(&NewChat { key: Some("chat".into()), ..NewChat::of(CHAT, "a", "") }).await.unwrap();
    let send = ChatCommand::Send { parts: Arc::new([Part::text("Go.")]), when: Delivery::Queue };
    chat.submit(send, Some("go".into())).await.unwrap();
    engine.resume().await.unwrap();
    chat.rest().await.unwrap();
    engine.shutdown().await;
}

struct Round {
    root: tempfile::TempDir,
    level: Level,
    life: JobLife,
}

impl Round {
    fn new(level: Level, life: JobLife) -> Self {
        let root = tempfile::Builder::new().prefix("everturn-kills").tempdir().unwrap();
        std::fs::create_dir(root.path().join("workspace")).unwrap();
        let filling = "filling\n".repeat(LINES);
        std::fs::write(root.path().join("workspace/file"), format!("{filling}counter\n")).unwrap();
        Self { root, level, life }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name.replace("CHAT", &CHAT.to_string()))
    }

    /// Everything that this round starts has this in its command line.
    fn mark(&self) -> String {
        self.root.path().file_name().unwrap().to_string_lossy().into_owned()
    }

    fn daemon(&self) -> Child {
        let mut daemon = Command::new(std::env::current_exe().unwrap());
        daemon.args(["--ignored", "--exact", "kills::part_turn"]).stdout(Stdio::null()).stderr(Stdio::null());
        daemon.env("SCENE", self.root.path()).env("LEVEL", self.level.to_string()).env("MARK", self.mark());
        daemon.env("KEPT", if self.life == JobLife::Kept { "1" } else { "0" });
        daemon.spawn().unwrap()
    }

    /// Runs a daemon until something holds, and kills it then.
    fn kill_when(&self, holds: impl Fn() -> bool) {
        let mut daemon = self.daemon();
        while !holds() && daemon.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    fn sees(&self, sight: Sight) -> bool {
        match sight {
            Sight::Sent(who) => self.sent(who) > 0,
            Sight::File(name) => self.path(name).exists(),
            Sight::Edited => self.text("file").ends_with("counter+\n"),
        }
    }

    /// How often the server was sent a call by this caller.
    fn sent(&self, who: &str) -> usize {
        let log = std::fs::read_to_string(log(self.root.path())).unwrap_or_default();
        let is_sent = |message: &Value| message["params"]["arguments"]["who"] == who;
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(is_sent).count()
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path("workspace").join(name)).unwrap_or_default()
    }

    /// Processes that this round has started and that still run.
    fn left(&self) -> Vec<String> {
        let mark = self.mark();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok());
        lines.filter(|line| line.contains(&mark)).collect()
    }

    /// Nothing is left of a killed daemon but jobs that are kept.
    fn ends_leftovers(&self, how: &str) {
        let begun = Instant::now();
        let is_kept = |line: &String| self.life == JobLife::Kept && line.contains("echo x >> job");
        while self.left().iter().any(|line| !is_kept(line)) {
            assert!(begun.elapsed() < LEFTOVER_MAX, "{how}: {:?}", self.left());
            std::thread::yield_now();
        }
    }

    /// The turn after the kill: a second daemon brings it to its end, and what is there fits what is told.
    async fn check(&self, how: &str) {
        self.ends_leftovers(how);
        assert!(self.daemon().wait().unwrap().success(), "{how}: the next daemon");
        let begun = Instant::now();
        while !self.left().is_empty() {
            assert!(begun.elapsed() < LEFTOVER_MAX, "{how}: {:?}", self.left());
        }
        let store = Arc::new(store(self.root.path()));
        let chats = store.headings(&ChatQuery::default()).await.unwrap();
        assert_eq!(chats.iter().filter(|chat| chat.agent == "helper").count(), 1, "{how}: one sub-agent");
        let engine = Engine::builder().store(store).start();
        let mut results = engine.chat(CHAT).newest_results(20).await.unwrap();
        results.reverse();
        let told: Vec<_> = results.iter().map(|result| (result.tool.as_str(), result.verdict)).collect();
        let how = format!("{how}: {told:?}: {}", results.last().map_or("", |last| &last.output.text));
        assert_eq!(told.iter().map(|(tool, _)| *tool).collect::<Vec<_>>(), CALLED, "{how}");
        for certain in [1, 2, 3, 6, 7] {
            assert_eq!(told[certain].1, CallVerdict::Done, "{how}");
        }
        assert!(self.sent("reader") >= 1, "{how}");
        let answer = results[7].output.text.as_str();
        assert!(answer.starts_with("It is found.\n\n[answer of `helper`, chat "), "{how}");
        let child = answer.rsplit("chat ").next().unwrap().trim_end_matches(']').parse().unwrap();
        let of_child = engine.chat(child).newest_results(9).await.unwrap();
        assert_eq!(of_child.len(), 1, "{how}: {of_child:?}");
        assert_eq!(std::fs::read_dir(self.path("state")).unwrap().count(), 2, "{how}: one chat with tools, and a lock");
        // What is said to be done was done once; what is not known, at most once.
        let done = |result: &CallResult| {
            assert!([CallVerdict::Done, CallVerdict::Unknown].contains(&result.verdict), "{how}");
            result.verdict == CallVerdict::Done
        };
        let is_known = results[6].output.text.starts_with("job 1: exit 0 after ");
        let is_named = ["job 1: ended with the program", "job 1: outcome unknown"];
        assert!(is_known || is_named.iter().any(|named| results[6].output.text.starts_with(named)), "{how}");
        let lines = |name: &str| self.text(name).lines().count();
        done(&results[5]);
        for (what, is_done, times) in [
            ("the call", done(&results[0]), self.sent("parent")),
            ("the sub-agent's call", done(&of_child[0]), self.sent("child")),
            ("the command", done(&results[4]), lines("shell")),
            ("the job", is_known, lines("job")),
        ] {
            assert!(times == 1 || times == 0 && !is_done, "{how}: {what} was made {times} times");
        }
        assert_eq!(self.text("file"), format!("{}counter+\n", "filling\n".repeat(LINES)), "{how}");
        let names = std::fs::read_dir(self.path("workspace")).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        left.retain(|name| !["file", "shell", "job"].contains(&name.as_str()));
        assert_eq!(left, Vec::<String>::new(), "{how}");
    }
}

/// TR01, TM04, TA01, TW10: a daemon is killed at every stage of a turn with a server's call, an edit, a command, a job and a
/// sub-agent that calls the server too.
#[tokio::test]
async fn a_turn_of_many_kinds_survives_each_kill() {
    let kills = std::env::var(KILLS).ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS_DEFAULT);
    let level = match Probe::run(UNDERSTUDY.as_ref()).await.level {
        Level::Files => Level::Off,
        level => level,
    };
    for round in 0..kills {
        let life = if round % 2 == 0 { JobLife::WithProgram } else { JobLife::Kept };
        let scene = Round::new(level, life);
        let how = match SIGHTS.get(round / 2 % (SIGHTS.len() + TIMED)) {
            Some(sight) => {
                scene.kill_when(|| scene.sees(*sight));
                format!("{round}: killed at {sight:?}")
            }
            None => {
                let begun = Instant::now();
                let after = STRIDE * u32::try_from(round).unwrap();
                scene.kill_when(|| begun.elapsed() >= after);
                format!("{round}: killed after {after:?}")
            }
        };
        scene.check(&how).await;
    }
}
