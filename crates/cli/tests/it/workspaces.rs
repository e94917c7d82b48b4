//! Agents that work in a directory, on the command itself.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use everturn_server::wire::{Body, Part, View};
use reqwest::Method;
use serde_json::{Value, json};

use crate::daemon::{Daemon, Scratch, everturn};
use crate::pty::Terminal;
use crate::reader::{reply, rests};

/// A project with a test that fails: `add` multiplies.
fn project(root: &Path) {
    std::fs::create_dir_all(root).unwrap();
    let source = "# Arithmetic.\n\nadd() {\n    echo $(($1 * $2))\n}\n\ntwice() {\n    echo $(($1 * 2))\n}\n";
    std::fs::write(root.join("calc.sh"), source).unwrap();
    let test = "#!/bin/sh\n. ./calc.sh\ngot=$(add 2 3)\n[ \"$got\" = 5 ] || { echo \"add 2 3: expected 5, got $got\"; exit 1; }\n\
                [ \"$(twice 4)\" = 8 ] || { echo \"twice 4: expected 8\"; exit 1; }\necho all tests pass\n";
    std::fs::write(root.join("test.sh"), test).unwrap();
    std::fs::write(root.join("README.md"), "# Calculator\n\nTODO: subtraction.\n").unwrap();
}

/// The source when it is right.
const MENDED: &str = "# Arithmetic.\n\nadd() {\n    echo $(($1 + $2))\n}\n\ntwice() {\n    echo $(($1 * 2))\n}\n";

/// What came of a command: its exit code, its output, its errors.
async fn ran(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = everturn(arguments).output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// R32: a server has the workspace of its flag, and says so wherever an operator looks.
#[tokio::test]
async fn a_workspace_is_told_wherever_one_looks() {
    let (data, root) = (Scratch::new(), Scratch::new());
    project(root.path());
    let path = data.path().to_str().unwrap();
    let mut command = everturn(&["serve", "--listen", "127.0.0.1:0", "--data", path, "--workspace"]);
    command.arg(root.path()).env("EVERTURN_LOG", "info");
    let daemon = Daemon::spawn(data.path(), command).await;
    daemon.until_logged("tool confinement").await;
    let root = root.path().canonicalize().unwrap().display().to_string();
    let name = format!("default@{root}");
    let agents = daemon.get("/v1/agents").await;
    let agent = agents["agents"].as_array().unwrap().iter().find(|agent| agent["name"] == *name).unwrap().clone();
    let level = agent["workspace"]["confinement"].as_str().unwrap().to_owned();
    assert_eq!((&agent["workspace"]["path"], &agent["workspace"]["network"]), (&json!(root), &json!("off")));
    let tools: Vec<&str> =
        agent["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    for tool in ["read", "list", "search", "write", "edit"] {
        assert!(tools.contains(&tool), "{tools:?}");
    }
    assert_eq!(tools.contains(&"shell"), level != "files");
    let ready = daemon.ask(Method::GET, "/readyz").send().await.unwrap().text().await.unwrap();
    assert_eq!(ready, format!("ready\nconfinement {level}\n"));
    let (code, told, _) = ran(&["status", "--data", path]).await;
    let line = format!("tools   of the agent {name} work in {root} · confinement {level} · network off");
    assert!(code == Some(0) && told.lines().any(|told| told == line), "{told}");
    // A chat that names no agent works there.
    let chat = daemon.post("/v1/chats", &json!({})).await;
    assert_eq!(chat["agent"], json!(name));
    let shown = everturn(&["config", "show", "--json", "--workspace", &root]).output().await.unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["confinement"]["value"], json!(level));
    assert_eq!(shown["workspace"], json!({"value": root, "origin": "--workspace"}));
}

/// A chat never continues in another directory than its own, and a daemon that runs keeps its workspaces.
#[tokio::test]
async fn a_chat_keeps_its_directory() {
    let (data, one, other) = (Scratch::new(), Scratch::new(), Scratch::new());
    project(one.path());
    project(other.path());
    let path = data.path().to_str().unwrap();
    let [one, other] = [&one, &other].map(|scratch| scratch.path().canonicalize().unwrap().display().to_string());
    let run = async |more: &[&str]| ran(&[&["run", "--data", path][..], more].concat()).await;
    let (code, said, error) = run(&["--workspace", &one, "look around in my workspace"]).await;
    assert_eq!(code, Some(0), "{error}");
    assert!(said.contains("**Calculator**") && said.contains("1 marked places"), "{said}");
    let id = error.trim().rsplit(' ').next().unwrap().to_owned();
    let (code, _, error) = run(&["--workspace", &other, "--resume", &id, "look around"]).await;
    assert!(code == Some(1) && error.contains(&format!("works in {one}: name that as --workspace")), "{error}");
    let (code, _, error) = run(&["--resume", &id, "look around"]).await;
    assert!(code == Some(1) && error.contains(&format!("default@{one}")), "{error}");
    let (code, _, error) = run(&["--workspace", &one, "--resume", &id, "look around"]).await;
    assert_eq!(code, Some(0), "{error}");
    let _daemon = Daemon::start(data.path(), "understudy/persona").await;
    let (code, _, error) = run(&["--workspace", &one, "look around"]).await;
    assert!(code == Some(1) && error.contains("has its own workspaces"), "{error}");
}

/// What would give tools the chats and the token, or is not there, is refused with what to do.
#[tokio::test]
async fn a_workspace_that_cannot_be_had_is_refused() {
    let (data, root) = (Scratch::new(), Scratch::new());
    project(root.path());
    let file = root.path().join("config.toml");
    let root_text = root.path().to_str().unwrap();
    let inside = root.path().join("data");
    let (data, inside) = (data.path().to_str().unwrap(), inside.to_str().unwrap());
    for (text, data, more, said) in [
        ("", inside, &["--workspace", root_text][..], "must not contain each other"),
        ("", data, &["--workspace", "/nowhere/at/all"], "/nowhere/at/all"),
        ("", data, &["--workspace", "/etc/hostname"], "is not a directory"),
        ("", data, &["--sandbox", "maybe"], "choose `best`, `full` or `off`"),
        ("workspace = 'site'", data, &[], "there is no [workspaces.site]"),
        (
            "workspace = 'a'\nworkspace_tools = ['reed']\n[workspaces.a]\npath = '.'",
            data,
            &[],
            "`reed`, which is not offered",
        ),
        ("network = 'maybe'", data, &[], "`off` or `on`"),
    ] {
        std::fs::write(&file, text).unwrap();
        let mut command = everturn(&["serve", "--listen", "127.0.0.1:0", "--data", data, "--config"]);
        let output = command.arg(&file).args(more).output().await.unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(said), "{said}: {error}");
    }
}

/// A session in the terminal: tools with their input, the change in colour, approvals with their place.
#[tokio::test]
async fn a_coding_session_in_the_terminal() {
    let (data, root) = (Scratch::new(), Scratch::new());
    project(root.path());
    let script = root.path().join("test.sh");
    let test = std::fs::read_to_string(&script).unwrap() + "touch made\n";
    std::fs::write(&script, test).unwrap();
    let (path, directory) = (data.path().to_str().unwrap(), root.path().to_str().unwrap());
    let arguments = ["chat", "--data", path, "--workspace", directory];
    let mut terminal = Terminal::start(&arguments, &[("EVERTURN_SANDBOX", "off")], (100, 40));
    terminal.shows("confinement off").await;
    terminal.keys("/tools\r").await;
    terminal.has("shell: Runs a command").await;
    terminal.keys("fix the failing test\r").await;
    for _ in 0..2 {
        terminal.shows("Allow shell?").await;
        let real = root.path().canonicalize().unwrap().display().to_string();
        let all = terminal.all();
        assert!(
            all.contains("\"command\": \"sh test.sh\"") && all.contains(&format!("│ in {real} · confinement off")),
            "{all}"
        );
        terminal.keys("y\r").await;
        terminal.until("the approval to be over", |window| !window.contains("Allow shell?")).await;
    }
    terminal.has("passes now").await;
    let all = terminal.all();
    assert!(all.contains("▸ list . · depth 4") && all.contains("▸ edit calc.sh · edits: 1"), "{all}");
    assert!(all.contains("+    echo $(($1 + $2))") && all.contains("    [exit 0 · "), "{all}");
    assert_eq!(std::fs::read_to_string(root.path().join("calc.sh")).unwrap(), MENDED);
    terminal.has("not by understanding the code.").await;
    terminal.has("understudy/persona · ").await;
    terminal.keys("/diff\r").await;
    terminal.has("changed calc.sh").await;
    terminal.keys("/undo\r").await;
    terminal.has("undone: ").await;
    let undone = std::fs::read_to_string(root.path().join("calc.sh")).unwrap();
    assert!(undone.contains("echo $(($1 * $2))"), "{undone}");
    terminal.keys("/undo\r").await;
    terminal.has("There is nothing to undo").await;
    terminal.keys("/permissions\r").await;
    terminal.has("Nothing was allowed in advance").await;
    terminal.keys("/jobs\r").await;
    terminal.has("No command runs in the background").await;
    terminal.keys("/agents\r").await;
    terminal.has("/new AGENT starts a chat with another one").await;
    terminal.keys("/mcp\r").await;
    terminal.has("No MCP server is configured").await;
    // The daemon's own files are private; those of a command are as any other program's.
    let mode = |name: &str| std::fs::metadata(root.path().join(name)).unwrap().permissions().mode();
    assert_eq!(mode("made"), mode("README.md"));
}

/// Calls that wait are listed over all chats, and allowed or denied from the command line; what calls changed is listed
/// and undone over the API, but not while a turn runs.
#[tokio::test]
async fn asks_are_answered_and_changes_undone_from_outside() {
    let (data, root) = (Scratch::new(), Scratch::new());
    project(root.path());
    let path = data.path().to_str().unwrap();
    let mut command =
        everturn(&["serve", "--listen", "127.0.0.1:0", "--data", path, "--sandbox", "off", "--workspace"]);
    command.arg(root.path());
    let daemon = Daemon::spawn(data.path(), command).await;
    let (code, _, error) = ran(&["asks", "--data", path]).await;
    assert!(code == Some(0) && error.contains("no call waits for an answer"), "{error}");
    let made = daemon.post("/v1/chats", &json!({})).await;
    let id = made["id"].as_str().unwrap();
    let chat = format!("/v1/chats/{id}");
    daemon.post(&format!("{chat}/messages"), &json!({"text": "Please fix the failing test"})).await;
    let mut reader = daemon.watch(&chat).await;
    let asks = |view: &View| view.status.as_ref().is_some_and(|status| !status.asks.is_empty());
    reader.until(asks).await;
    let (code, listed, _) = ran(&["asks", "--data", path]).await;
    for said in [id, "shell  waits for approval", "\"command\": \"sh test.sh\"", "rule: policy of the tool"] {
        assert!(code == Some(0) && listed.contains(said), "{said}: {listed}");
    }
    let refused = daemon.ask(Method::POST, &format!("{chat}/undo")).json(&json!({"calls": ["1.0"]})).send();
    let refused: Value = refused.await.unwrap().json().await.unwrap();
    assert!(refused["type"].as_str().unwrap().ends_with("status"), "{refused}");
    let (code, _, error) = ran(&["asks", "allow", id, "--always", "--data", path]).await;
    assert!(code == Some(1) && error.contains("can only be allowed once"), "{error}");
    let (code, _, error) = ran(&["asks", "allow", id, "77.0", "--data", path]).await;
    assert!(code == Some(1) && error.contains("no such call waits"), "{error}");
    let (code, told, error) = ran(&["asks", "allow", &id[20..], "--data", path]).await;
    assert!(code == Some(0) && told.contains("shell  allowed"), "{told} {error}");
    reader.until(|view| !asks(view)).await;
    reader.until(asks).await;
    let (code, told, error) = ran(&["asks", "deny", id, "--reason", "Enough tests.", "--data", path]).await;
    assert!(code == Some(0) && told.contains("shell  denied"), "{told} {error}");
    reader.until(rests).await;
    let listed = daemon.get(&format!("{chat}/changes")).await;
    let change = &listed["changes"][0];
    let shown = ["path", "kind", "state"].map(|key| change[key].as_str().unwrap());
    assert_eq!(shown, ["calc.sh", "changed", "made"], "{listed}");
    assert_eq!(change["message"], json!(1), "the message of the turn");
    assert!(change["diff"].as_str().unwrap().contains("+    echo $(($1 + $2))"), "{listed}");
    let undo = async |calls: Value| {
        let sent = daemon.ask(Method::POST, &format!("{chat}/undo")).json(&json!({ "calls": calls })).send();
        sent.await.unwrap().json::<Value>().await.unwrap()
    };
    for bad in [json!([]), json!(["edit"])] {
        assert!(undo(bad).await["type"].as_str().unwrap().ends_with("invalid"));
    }
    let undone = undo(json!([change["call"]])).await;
    assert_eq!(undone["changes"][0]["state"], "undone", "{undone}");
    assert!(std::fs::read_to_string(root.path().join("calc.sh")).unwrap().contains("echo $(($1 * $2))"));
    assert_eq!(undo(json!([change["call"]])).await["changes"], json!([]), "a repeat changes nothing");
}

/// A job of the stand-in is listed and stopped over the API, and the model hears of that.
#[tokio::test]
async fn a_background_job_is_listed_and_stopped() {
    let (data, root) = (Scratch::new(), Scratch::new());
    project(root.path());
    std::fs::write(root.path().join("test.sh"), "echo begun\nsleep 1000\n").unwrap();
    let daemon = at_work(data.path(), root.path()).await;
    let made = daemon.post("/v1/chats", &json!({})).await;
    let chat = format!("/v1/chats/{}", made["id"].as_str().unwrap());
    daemon.post(&format!("{chat}/messages"), &json!({"text": "run the tests in the background"})).await;
    follow(&daemon, &chat, |view| calls(view, "job")).await;
    let listed = daemon.get(&format!("{chat}/jobs")).await;
    let job = &listed["jobs"][0];
    assert_eq!((&job["number"], &job["command"], &job["state"]), (&json!(1), &json!("sh test.sh"), &json!("running")));
    let stopped = daemon.post(&format!("{chat}/jobs/1/stop"), &json!({})).await;
    assert_eq!(stopped["state"], "stopped", "{stopped}");
    let view = follow(&daemon, &chat, |_| false).await;
    let said = reply(&view);
    assert!(said.contains("The job is over") && said.contains("job 1: stopped"), "{said}");
    let state = data.path().join("tools").join(chat.rsplit('/').next().unwrap());
    assert!(state.join("jobs/1").is_dir());
    let deleted = daemon.ask(Method::DELETE, &chat).send().await.unwrap();
    assert!(deleted.status().is_success() && !state.exists(), "what was kept of the chat goes with it");
}

/// Starts a server on the project, and continues what another one left.
async fn at_work(data: &Path, root: &Path) -> Daemon {
    let path = data.to_str().unwrap();
    let mut command = everturn(&["serve", "--listen", "127.0.0.1:0", "--data", path, "--workspace"]);
    command.arg(root);
    Daemon::spawn(data, command).await
}

/// Whether the newest message calls this tool, which has no result yet.
fn calls(view: &View, tool: &str) -> bool {
    let last = view.messages.last().map(|message| &message.body);
    let Some(Body::Reply(reply)) = last else { return false };
    reply.parts.iter().any(|part| matches!(part, Part::Call(call) if call.tool == tool))
}

/// Whether the model is saying this.
fn says(view: &View, words: &str) -> bool {
    let parts = view.draft.iter().flat_map(|draft| &draft.parts);
    parts.filter_map(Part::text).any(|text| text.contains(words))
}

/// Allows what waits for a person, until the view is as wanted or the turn is over.
async fn follow(daemon: &Daemon, chat: &str, is_so: impl Fn(&View) -> bool) -> View {
    let mut reader = daemon.watch(chat).await;
    loop {
        let asks = |view: &View| view.status.as_ref().is_some_and(|status| !status.asks.is_empty());
        let view = reader.until(|view| is_so(view) || asks(view) || rests(view)).await;
        if is_so(&view) || rests(&view) {
            return view;
        }
        for ask in view.status.unwrap().asks {
            let answer = json!({"kind": "approve", "call": ask.call, "input_hash": ask.input_hash});
            daemon.post(&format!("{chat}/answers"), &json!({ "answers": [answer] })).await;
        }
        reader.until(|view| !asks(view)).await;
    }
}

/// R32: a turn in the directory of a flag waits for a daemon with that directory, and goes on there.
#[tokio::test]
async fn a_daemon_without_the_directory_leaves_the_turn_alone() {
    let (data, root) = (Scratch::new(), Scratch::new());
    project(root.path());
    let mut daemon = at_work(data.path(), root.path()).await;
    let made = daemon.post("/v1/chats", &json!({})).await;
    let chat = format!("/v1/chats/{}", made["id"].as_str().unwrap());
    daemon.post(&format!("{chat}/messages"), &json!({"text": "look around in my workspace"})).await;
    daemon.watch(&chat).await.until(|view| says(view, "Let me") || calls(view, "list")).await;
    daemon.signal("KILL").await;
    daemon.child.wait().await.unwrap();
    let mut other = Daemon::start(data.path(), "understudy/persona").await;
    let sent = other.ask(Method::POST, &format!("{chat}/messages")).json(&json!({"text": "go on"})).send().await;
    assert_eq!(sent.unwrap().status().as_u16(), 409, "it has no such agent");
    assert_eq!(other.get(&chat).await["status"], "running");
    other.signal("TERM").await;
    other.child.wait().await.unwrap();
    daemon = at_work(data.path(), root.path()).await;
    let view = follow(&daemon, &chat, |_| false).await;
    assert!(reply(&view).contains("**Calculator**"), "{}", reply(&view));
}

/// Issue 22, 4: a coding task is done although the daemon is killed five times: while the model speaks, in a command, around an
/// edit. The tree is as it should be, and nothing of a killed command is left.
#[tokio::test]
async fn a_coding_task_survives_five_kills() {
    let (data, root) = (Scratch::new(), Scratch::new());
    project(root.path());
    let moments: [fn(&View) -> bool; 5] = [
        |view| says(view, "Let me"),
        |view| calls(view, "shell"),
        |view| says(view, "is in"),
        |view| calls(view, "edit"),
        |view| says(view, "passes now"),
    ];
    let mut daemon = at_work(data.path(), root.path()).await;
    let made = daemon.post("/v1/chats", &json!({})).await;
    let chat = format!("/v1/chats/{}", made["id"].as_str().unwrap());
    daemon.post(&format!("{chat}/messages"), &json!({"text": "Please fix the failing test"})).await;
    for (number, moment) in moments.into_iter().enumerate() {
        let view = follow(&daemon, &chat, moment).await;
        assert!(moment(&view), "moment {number} did not come: {:?}", view.messages.last());
        daemon.signal("KILL").await;
        daemon.child.wait().await.unwrap();
        daemon = at_work(data.path(), root.path()).await;
    }
    let view = follow(&daemon, &chat, |_| false).await;
    let said = reply(&view);
    assert!(said.contains("passes now") && said.contains("+    echo $(($1 + $2))"), "{said}");
    assert_eq!(std::fs::read_to_string(root.path().join("calc.sh")).unwrap(), MENDED);
    let mut files: Vec<_> = std::fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["README.md", "calc.sh", "test.sh"], "nothing else is left there");
}
