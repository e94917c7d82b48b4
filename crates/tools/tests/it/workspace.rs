//! The workspace tools as a model calls them: real confined processes on a real directory.

use std::time::Duration;

use everturn::core::ids::{CallUid, ChatId, StepId};
use everturn::{SharedTool, ToolContext, ToolError};
use everturn_tools::{Level, Workspace};
use serde_json::{Value, json};

use crate::{HELPER, Scratch, levels};

/// Every level that starts commands, confined or not.
async fn all_levels() -> Vec<Level> {
    levels().await.into_iter().chain([Level::Off]).collect()
}

struct Tools {
    scratch: Scratch,
    tools: Vec<SharedTool>,
    context: ToolContext,
}

impl Tools {
    fn new(level: Level) -> Self {
        let scratch = Scratch::new();
        let workspace = Workspace::new(scratch.workspace(), scratch.root.path().join("temporary"), level).unwrap();
        let context = ToolContext::new(ChatId::from_u128(7), CallUid { step: StepId(1), ordinal: 0 });
        Self { tools: workspace.with_helper(HELPER).tools(), scratch, context }
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.scratch.workspace().join(name), content).unwrap();
    }

    fn content(&self, name: &str) -> String {
        std::fs::read_to_string(self.scratch.workspace().join(name)).unwrap()
    }

    async fn call(&self, name: &str, input: Value) -> Result<String, ToolError> {
        let tool = self.tools.iter().find(|tool| tool.spec().name == name).unwrap();
        let output = tool.run(self.context.clone(), input).await?;
        Ok(String::from_utf8(output.bytes).unwrap())
    }

    async fn refused(&self, name: &str, input: Value) -> String {
        self.call(name, input).await.unwrap_err().message
    }
}

#[tokio::test]
async fn a_file_is_read_with_numbers() {
    for level in all_levels().await {
        let tools = Tools::new(level);
        tools.file("a.txt", "one\ntwo\r\nthree");
        let text = tools.call("read", json!({"path": "a.txt", "from": 2, "lines": 1})).await.unwrap();
        assert!(text.starts_with("a.txt: lines 2–2 of 3, sha ") && text.ends_with("     2\ttwo\n"), "{level}: {text}");
    }
}

#[tokio::test]
async fn odd_files_are_answered_and_never_hang() {
    let tools = Tools::new(all_levels().await[0]);
    let at = |name: &str| tools.scratch.workspace().join(name);
    tools.file("empty", "");
    tools.file("binary", [0xff, 0xfe, 0x00]);
    tools.file("long", "x".repeat(1 << 20));
    tools.file("image", b"\x89PNG\r\n\x1a\n rest");
    assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    std::os::unix::fs::symlink(tools.scratch.outside().join("secret"), at("link")).unwrap();
    assert!(tools.call("read", json!({"path": "empty"})).await.unwrap().contains("no lines of 0"));
    assert!(tools.refused("read", json!({"path": "binary"})).await.contains("not UTF-8"));
    assert!(tools.call("read", json!({"path": "long"})).await.unwrap().contains("[line cut]"));
    assert!(tools.call("read", json!({"path": "image"})).await.unwrap().contains("image/png"));
    assert!(tools.refused("read", json!({"path": "pipe"})).await.contains("not a regular file"));
    tools.refused("read", json!({"path": "socket"})).await;
    if !levels().await.is_empty() {
        assert!(!tools.refused("read", json!({"path": "link"})).await.contains("the secret"));
    }
    assert!(tools.refused("read", json!({"path": "../outside/secret"})).await.contains("outside the workspace"));
    assert!(tools.refused("read", json!({"path": "emty"})).await.contains("is not there"));
    assert!(tools.refused("read", json!({"path": "empty.txt"})).await.contains("similar: empty"));
}

#[tokio::test]
async fn a_file_that_was_not_read_or_has_changed_is_not_overwritten() {
    let tools = Tools::new(all_levels().await[0]);
    tools.file("a", "old");
    let write = json!({"path": "a", "content": "new"});
    assert!(tools.refused("write", write.clone()).await.contains("read it first"));
    tools.call("read", json!({"path": "a"})).await.unwrap();
    tools.file("a", "changed by a person");
    assert!(tools.refused("write", write.clone()).await.contains("read it again"));
    assert_eq!(tools.content("a"), "changed by a person");
    tools.call("read", json!({"path": "./a"})).await.unwrap();
    assert!(tools.call("write", write).await.unwrap().contains("+new"));
    tools.call("write", json!({"path": "a", "content": "newer"})).await.unwrap();
    assert_eq!(tools.content("a"), "newer", "what was written counts as read");
    tools.call("write", json!({"path": "deep/er/b", "content": "b"})).await.unwrap();
    assert_eq!(tools.content("deep/er/b"), "b");
}

#[tokio::test]
async fn edits_are_exact_unique_and_all_or_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let tools = Tools::new(all_levels().await[0]);
    let old = "fn a() {}\r\nfn b() {}\r\nfn c() { a() }\r\n";
    tools.file("a.rs", old);
    let path = tools.scratch.workspace().join("a.rs");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    tools.call("read", json!({"path": "a.rs"})).await.unwrap();
    let edit = |edits: Value| json!({"path": "a.rs", "edits": edits});
    let several = tools.refused("edit", edit(json!([{"old": "fn", "new": "pub fn"}]))).await;
    assert!(several.contains("3 times, in lines [1, 2, 3]"), "{several}");
    let missing = json!([{"old": "fn b() {}", "new": "fn d() {}"}, {"old": "fn x() { a() }", "new": ""}]);
    let missing = tools.refused("edit", edit(missing)).await;
    assert!(missing.contains("edit 2 of 2, nothing was changed") && missing.contains("3\tfn c() { a() }"), "{missing}");
    assert_eq!(tools.content("a.rs"), old);
    let edits =
        json!([{"old": "     1\tfn a() {}\n     2\tfn b() {}", "new": "fn d() {}"}, {"old": "a()", "new": "d()"}]);
    tools.call("edit", edit(edits)).await.unwrap();
    assert_eq!(tools.content("a.rs"), "fn d() {}\r\nfn c() { d() }\r\n", "its line ends stay");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o755, "its mode stays");
    tools.call("edit", edit(json!([{"old": "fn", "new": "pub fn", "all": true}]))).await.unwrap();
    assert_eq!(tools.content("a.rs").matches("pub fn").count(), 2);
}

#[tokio::test]
async fn a_hard_link_to_elsewhere_is_replaced_and_not_written_through() {
    let tools = Tools::new(all_levels().await[0]);
    std::fs::hard_link(tools.scratch.outside().join("secret"), tools.scratch.workspace().join("hard")).unwrap();
    tools.call("read", json!({"path": "hard"})).await.unwrap();
    tools.call("write", json!({"path": "hard", "content": "mine"})).await.unwrap();
    assert_eq!(std::fs::read_to_string(tools.scratch.outside().join("secret")).unwrap(), "the secret");
}

#[tokio::test]
async fn listing_and_searching_leave_out_what_git_ignores() {
    for level in all_levels().await {
        let tools = Tools::new(level);
        std::fs::create_dir_all(tools.scratch.workspace().join("src")).unwrap();
        tools.file(".gitignore", "target\n");
        tools.file("target", "needle");
        tools.file("src/a.rs", "hay\nneedle one\nhay");
        tools.file("src/b.txt", "Needle two");
        let list = tools.call("list", json!({"depth": 2})).await.unwrap();
        assert_eq!(list, ".: 4 entries\n.gitignore\nsrc/\nsrc/a.rs\nsrc/b.txt\n", "{level}");
        let found = tools.call("search", json!({"pattern": "needle", "context": 1})).await.unwrap();
        assert_eq!(found, "1 matches\nsrc/a.rs\n     1- hay\n     2: needle one\n     3- hay\n", "{level}");
        let both = tools.call("search", json!({"pattern": "needle", "ignore_case": true})).await.unwrap();
        assert!(both.starts_with("2 matches"), "{level}: {both}");
        let names = tools.call("search", json!({"pattern": r"\.rs$", "names": true})).await.unwrap();
        assert_eq!(names, "1 matches\nsrc/a.rs\n", "{level}");
        let some =
            tools.call("search", json!({"pattern": "needle", "ignore_case": true, "glob": "*.txt"})).await.unwrap();
        assert!(some.contains("src/b.txt") && !some.contains("a.rs"), "{level}: {some}");
        assert!(tools.refused("search", json!({"pattern": "("})).await.contains("pattern cannot be used"));
    }
}

#[tokio::test]
async fn a_million_matches_are_counted_and_two_hundred_shown() {
    let tools = Tools::new(all_levels().await[0]);
    tools.file("many", "a\n".repeat(1_000_000));
    let found = tools.call("search", json!({"pattern": "(a+)+$"})).await.unwrap();
    assert!(found.starts_with("1000000 matches, the first 200 shown\n"), "{}", &found[..80]);
    assert_eq!(found.lines().count(), 202);
}

#[tokio::test]
async fn a_command_says_how_it_ended() {
    for level in all_levels().await {
        let tools = Tools::new(level);
        let text = tools.call("shell", json!({"command": "echo out; echo err >&2; exit 3"})).await.unwrap();
        assert!(text.starts_with("out\nerr\n[exit 3 · ") && text.ends_with("]\n"), "{level}: {text}");
        let confined = if level == Level::Off { "not confined]" } else { "confined: no network]" };
        assert!(text.trim_end().ends_with(confined), "{level}: {text}");
    }
}

#[tokio::test]
async fn a_command_that_only_looks_cannot_write() {
    for level in levels().await {
        let tools = Tools::new(level);
        tools.file("a", "text");
        let text =
            tools.call("shell", json!({"command": "cat a; touch b || echo no", "read_only": true})).await.unwrap();
        assert!(text.starts_with("text") && text.contains("no\n"), "{level}: {text}");
        assert!(!tools.scratch.workspace().join("b").exists());
    }
}

#[tokio::test]
async fn hostile_commands_are_bounded_and_ended() {
    let tools = Tools::new(all_levels().await[0]);
    for command in ["sleep 1000", "trap '' TERM; while :; do :; done", "setsid sleep 1000 & sleep 1000", "yes"] {
        let text = tools.call("shell", json!({"command": command, "seconds": 1})).await.unwrap();
        assert!(text.contains("time is up") && text.len() < 11 << 20, "{command}: {} bytes", text.len());
    }
    let text = tools.call("shell", json!({"command": "cat; tty; read x < /dev/tty; echo done"})).await.unwrap();
    assert!(text.contains("not a tty") && text.contains("done"), "{text}");
}

#[tokio::test]
async fn an_interrupted_command_keeps_what_it_printed() {
    let tools = Tools::new(all_levels().await[0]);
    let cancel = tools.context.cancel.clone();
    let ready = tools.scratch.workspace().join("ready");
    let call = tools.call("shell", json!({"command": "echo before; touch ready; sleep 1000"}));
    let interrupt = async {
        while !ready.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let (text, ()) = tokio::join!(call, interrupt);
    let text = text.unwrap();
    assert!(text.starts_with("before\n[") && text.contains("interrupted"), "{text}");
}

#[tokio::test]
async fn a_machine_that_cannot_confine_has_file_tools_only() {
    let tools = Tools::new(Level::Files);
    let names: Vec<String> = tools.tools.iter().map(|tool| tool.spec().name).collect();
    assert_eq!(names, ["read", "list", "search", "write", "edit"]);
}
