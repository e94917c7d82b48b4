//! The workspace tools as a model calls them: real confined processes on a real directory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use everturn::core::chat::Effect;
use everturn::core::ids::{CallUid, ChatId, StepId};
use everturn::{SharedTool, ToolContext, ToolError};
use everturn_tools::{Level, Workspace};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use crate::leftovers::with_mark;
use crate::{HELPER, Scratch, levels};

/// Every level that starts commands, confined or not.
pub async fn all_levels() -> Vec<Level> {
    levels().await.into_iter().chain([Level::Off]).collect()
}

pub struct Tools {
    pub scratch: Scratch,
    pub workspace: Workspace,
    pub context: ToolContext,
    calls: AtomicU64,
}

impl Tools {
    pub fn new(level: Level) -> Self {
        let scratch = Scratch::new();
        let workspace = Workspace::new(scratch.workspace(), scratch.state(), level).unwrap().with_helper(HELPER);
        let context = ToolContext::new(ChatId::from_u128(7), CallUid { step: StepId(0), ordinal: 0 });
        Self { workspace, scratch, context, calls: AtomicU64::new(1) }
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.scratch.workspace().join(name), content).unwrap();
    }

    pub fn content(&self, name: &str) -> String {
        std::fs::read_to_string(self.scratch.workspace().join(name)).unwrap()
    }

    pub async fn call(&self, name: &str, input: Value) -> Result<String, ToolError> {
        let step = StepId(self.calls.fetch_add(1, Ordering::Relaxed));
        self.call_as(self.context.chat, CallUid { step, ordinal: 0 }, name, input).await
    }

    /// The newest call of `call`.
    pub fn newest(&self) -> CallUid {
        CallUid { step: StepId(self.calls.load(Ordering::Relaxed) - 1), ordinal: 0 }
    }

    pub async fn call_as(&self, chat: ChatId, call: CallUid, name: &str, input: Value) -> Result<String, ToolError> {
        let mut context = self.context.clone();
        context.chat = chat;
        context.call = call;
        let output = self.tool(name).run(context, input).await?.output().unwrap();
        Ok(String::from_utf8(output.bytes).unwrap())
    }

    pub fn tool(&self, name: &str) -> SharedTool {
        self.workspace.tools().into_iter().find(|tool| tool.spec().name == name).unwrap()
    }

    pub async fn refused(&self, name: &str, input: Value) -> String {
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

/// TW01, TC35: whatever a path leads to, the answer is bounded and comes at once.
#[tokio::test]
async fn odd_files_are_answered_and_never_hang() {
    let tools = Tools::new(all_levels().await[0]);
    let at = |name: &str| tools.scratch.workspace().join(name);
    tools.file("empty", "");
    tools.file("binary", [0xff, 0xfe, 0x00]);
    tools.file("long", "x".repeat(1 << 20));
    tools.file("one", "1");
    std::fs::File::create(at("huge")).unwrap().set_len(1 << 30).unwrap();
    std::os::unix::fs::symlink("/dev/zero", at("device")).unwrap();
    tools.file("image", b"\x89PNG\r\n\x1a\n rest");
    assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    std::os::unix::fs::symlink(tools.scratch.outside().join("secret"), at("link")).unwrap();
    assert!(tools.call("read", json!({"path": "empty"})).await.unwrap().contains("no lines of 0"));
    assert!(tools.refused("read", json!({"path": "binary"})).await.contains("not UTF-8"));
    assert!(tools.call("read", json!({"path": "long"})).await.unwrap().contains("[line cut]"));
    assert!(tools.call("read", json!({"path": "one"})).await.unwrap().ends_with("     1\t1\n"));
    assert!(tools.refused("read", json!({"path": "huge"})).await.contains("use shell"));
    assert!(tools.call("read", json!({"path": "."})).await.unwrap().contains("huge"));
    tools.refused("read", json!({"path": "device"})).await;
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

/// TW03: a file is overwritten only as it was read.
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

/// TW02: an edit that does not fit exactly once changes nothing, and says why.
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
    let same = tools.refused("edit", edit(json!([{"old": "pub", "new": "pub"}]))).await;
    assert!(same.contains("are the same"), "{same}");
    let overlapping = json!([{"old": "pub fn d() {}", "new": "mod x;"}, {"old": "fn d() {}", "new": ""}]);
    assert!(tools.refused("edit", edit(overlapping)).await.contains("edit 2 of 2"));
    tools.file("bom", "\u{feff}one\ntwo");
    tools.call("read", json!({"path": "bom"})).await.unwrap();
    tools.call("edit", json!({"path": "bom", "edits": [{"old": "two", "new": "three"}]})).await.unwrap();
    assert_eq!(tools.content("bom"), "\u{feff}one\nthree");
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

/// TW06: a pattern that would take other engines for ever is linear here, and matches are bounded.
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

/// TW08: a command that only looks can look at everything in the workspace, and change nothing.
#[tokio::test]
async fn a_command_that_only_looks_cannot_write() {
    let changes = ["touch b", "rm a", "chmod 777 a", "curl -m 5 http://127.0.0.1:1", "git commit --allow-empty -m x"];
    let looks = ["git log --oneline", "git status --short", "grep -r text .", "find . -name a", "wc a"];
    for level in levels().await {
        let tools = Tools::new(level);
        tools.file("a", "text");
        let repository = "git init -q . && git add a && git -c user.name=a -c user.email=a@b commit -qm first";
        let mut shell = std::process::Command::new("sh");
        let made = shell.args(["-c", repository]).current_dir(tools.scratch.workspace()).status();
        assert!(made.unwrap().success());
        for (command, works) in
            changes.map(|command| (command, false)).into_iter().chain(looks.map(|look| (look, true)))
        {
            let text = tools.call("shell", json!({"command": command, "read_only": true})).await.unwrap();
            assert_eq!(text.contains("[exit 0 · "), works, "{level}: {command}: {text}");
            assert!(text.ends_with("confined: no network]\n"), "{level}: {text}");
        }
        assert_eq!(tools.content("a"), "text");
        assert!(!tools.scratch.workspace().join("b").exists());
    }
}

/// TW08: such a command is of the kind that is repeated after a crash, where the kernel sees to it.
#[tokio::test]
async fn the_effect_of_a_command_follows_from_its_confinement() {
    let reading = json!({"command": "ls", "read_only": true});
    for level in all_levels().await {
        let tool = Tools::new(level).tool("shell");
        let effect = if level == Level::Off { Effect::Once } else { Effect::Read };
        assert_eq!(tool.policy_for(&reading).effect, effect, "{level}");
        assert_eq!(tool.policy_for(&json!({"command": "ls"})).effect, Effect::Once, "{level}");
    }
}

/// TW07, I10: what a command leaves running is killed before its result is there.
#[tokio::test]
async fn nothing_that_a_command_leaves_goes_on() {
    for level in all_levels().await {
        let tools = Tools::new(level);
        let mark = format!("left-{}-{}", std::process::id(), level as u8);
        let left =
            format!("setsid sh -c ': {mark}; trap \"\" TERM; sleep 1000; :' > /dev/null 2>&1 & echo started; exit 0");
        let text = tools.call("shell", json!({"command": left})).await.unwrap();
        assert!(text.starts_with("started\n"), "{level}: {text}");
        assert_eq!(with_mark(&mark), 0, "{level}: {text}");
        assert!(text.contains("left running were killed"), "{level}: {text}");
    }
}

/// TW07: a command that leaves nothing is not said to have left something.
#[tokio::test]
async fn a_command_that_leaves_nothing_killed_nothing() {
    for level in all_levels().await {
        let tools = Tools::new(level);
        let mut told = 0;
        for _ in 0..20 {
            let text = tools.call("shell", json!({"command": "true"})).await.unwrap();
            told += usize::from(text.contains("left running"));
        }
        // The first process of a namespace may be killed while it ends by itself: one in 300 was.
        let told_max = if level == Level::Full { 10 } else { 0 };
        assert!(told <= told_max, "{level}: {told} of 20");
    }
}

/// TW07: of a flood the beginning and the end are kept, and how much is missing is told twice: where it is missing, and in
/// the last line.
#[tokio::test]
async fn a_flood_is_drained_and_its_ends_are_kept() {
    let tools = Tools::new(all_levels().await[0]);
    let flood = "echo first; head -c 30000000 /dev/zero | tr '\\0' x; echo; echo last";
    let text = tools.call("shell", json!({"command": flood})).await.unwrap();
    assert!(text.starts_with("first\nxxx") && text.len() <= 10 << 20, "{} bytes", text.len());
    assert_eq!(text.matches("MB are missing here").count(), 1);
    let end: Vec<&str> = text.lines().rev().take(2).collect();
    assert!(end[1] == "last" && end[0].contains(" · cut 19.6 MB · "), "{end:?}");
}

/// TC38: a program of the workspace that people run can be written, and is listed.
#[tokio::test]
async fn files_that_a_command_changed_are_listed() {
    for level in all_levels().await {
        let tools = Tools::new(level);
        tools.file("old", "x");
        let text = tools.call("shell", json!({"command": "echo y > new; rm old; mkdir dir"})).await.unwrap();
        assert!(text.starts_with("[files that changed: 2]\nnew      new\ngone     old\n[exit 0"), "{level}: {text}");
        let program = "mkdir -p node_modules/.bin; echo x > node_modules/.bin/tsc; echo y >> Makefile";
        let text = tools.call("shell", json!({"command": program})).await.unwrap();
        assert!(text.contains("new      Makefile\nnew      node_modules/.bin/tsc\n"), "{level}: {text}");
        let many = "for i in $(seq 50); do echo > dir/$i; done";
        let text = tools.call("shell", json!({"command": many})).await.unwrap();
        assert!(text.contains("[files that changed: 50]\n") && text.contains("\n[and 20 more]\n"), "{level}: {text}");
    }
}

/// TW09: what an interrupted command has printed is kept and shown.
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
    let names: Vec<String> = tools.workspace.tools().iter().map(|tool| tool.spec().name).collect();
    assert_eq!(names, ["read", "list", "search", "write", "edit", "recall"]);
}

/// TC04: while a directory is swapped with a link to the outside, the file tools read and write nothing there.
#[tokio::test]
async fn a_directory_that_becomes_a_link_leads_nowhere() {
    for level in levels().await {
        let tools = Tools::new(level);
        let at = |name: &str| tools.scratch.workspace().join(name);
        std::fs::create_dir(at("dir")).unwrap();
        std::os::unix::fs::symlink(tools.scratch.outside(), at("link")).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let swapping = std::thread::spawn({
            let (dir, link, is_over) = (at("dir"), at("link"), Arc::clone(&is_over));
            move || {
                while !is_over.load(Ordering::Relaxed) {
                    renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                }
            }
        });
        for _ in 0..10 {
            let read = tools.call("read", json!({"path": "dir/secret"})).await;
            let found = tools.call("search", json!({"path": "dir", "pattern": "secret"})).await;
            for text in [read, found].into_iter().flatten() {
                assert!(!text.contains("the secret"), "{level}: {text}");
            }
            let _ = tools.call("write", json!({"path": "dir/new", "content": "x"})).await;
        }
        is_over.store(true, Ordering::Relaxed);
        swapping.join().unwrap();
        let outside: Vec<_> = std::fs::read_dir(tools.scratch.outside()).unwrap().collect();
        assert_eq!(outside.len(), 1, "{level}: {outside:?}");
    }
}

/// TC20: a chat's commands see neither the temporary files of another chat nor what is kept of any.
#[tokio::test]
async fn chats_do_not_see_each_others_temporary_files() {
    for level in levels().await {
        let tools = Tools::new(level);
        let call = CallUid { step: StepId(1), ordinal: 0 };
        let first = ChatId::from_u128(1);
        let note = json!({"command": "echo private > $TMPDIR/note; cat $TMPDIR/note; echo $TMPDIR"});
        let text = tools.call_as(first, call, "shell", note).await.unwrap();
        let temporary = text.lines().nth(1).unwrap().to_owned();
        assert!(text.starts_with("private\n") && temporary.contains(&first.to_string()), "{level}: {text}");
        let state = tools.scratch.state();
        let look = format!("cat {temporary}/note; ls {0}; ls {0}/{first}; echo x > {temporary}/x", state.display());
        let text = tools.call("shell", json!({"command": look})).await.unwrap();
        assert!(!text.contains("private") && !text.contains("seen") && !text.contains("lock"), "{level}: {text}");
        assert!(!state.join(first.to_string()).join("temporary/x").exists(), "{level}");
    }
}

/// TC30: nothing that a command sets is there for the next one.
#[tokio::test]
async fn a_command_starts_with_a_clean_environment() {
    for level in all_levels().await {
        let tools = Tools::new(level);
        let poison = "for f in ~/.bashrc ~/.profile ~/.bash_profile poison; do echo 'echo poisoned' > $f; done; \
                      export BASH_ENV=poison ENV=poison PROMPT_COMMAND='echo poisoned' LD_PRELOAD=/x.so GIT_SSH=poison";
        tools.call("shell", json!({"command": poison})).await.unwrap();
        let text = tools.call("shell", json!({"command": "env"})).await.unwrap();
        for word in ["poison", "LD_", "BASH_ENV", "GIT_SSH", "EVERTURN", "CARGO"] {
            assert!(!text.contains(word), "{level}: {word}: {text}");
        }
    }
}

/// TC36: odd paths are answered, and lead nowhere else.
#[tokio::test]
async fn odd_paths_are_answered() {
    let tools = Tools::new(all_levels().await[0]);
    tools.file("file", "text");
    let long = "x/".repeat(2_048);
    for path in ["a\0b", "..", "../outside", "~/x", "/etc/passwd", "file/", "FILE", &long, "", " "] {
        let answer = tools.call("read", json!({"path": path})).await;
        let text = answer.unwrap_or_else(|error| error.message);
        assert!(!text.contains("the secret") && !text.contains("root:") && text.len() < 8_000, "{path:?}: {text}");
    }
    for path in [".", "..", "./", "/", "../x", "a\0b", "file/below", &long] {
        let refusal = tools.refused("write", json!({"path": path, "content": "x"})).await;
        assert!(refusal.len() < 8_000, "{path:?}: {refusal}");
    }
    tools.call("write", json!({"path": "new\nline", "content": "x"})).await.unwrap();
    assert_eq!(tools.content("new\nline"), "x");
    assert_eq!(std::fs::read_dir(tools.scratch.outside()).unwrap().count(), 1);
}

/// TC39: nothing that a call says widens what its command may do.
#[tokio::test]
async fn a_call_cannot_ask_for_less_confinement() {
    for level in levels().await {
        let tools = Tools::new(level);
        let secret = tools.scratch.outside().join("secret");
        let command = format!("cat {0}; echo Y2F0ICQx | base64 -d | sh -s {0}", secret.display());
        let input = json!({"command": command, "sandbox": "off", "level": "off", "network": "on", "workspace": "/"});
        let text = tools.call("shell", input).await.unwrap();
        assert!(!text.contains("the secret") && text.ends_with("confined: no network]\n"), "{level}: {text}");
        for cwd in ["../outside", "/etc", "~"] {
            tools.refused("shell", json!({"command": "pwd", "cwd": cwd})).await;
        }
    }
}

/// Permission rules are checked against this list, on machines too that cannot confine commands.
#[test]
fn all_tools_are_listed() {
    let tools = Tools::new(Level::Off).workspace.tools();
    let own: Vec<_> = tools.iter().map(|tool| (tool.spec().name, tool.pattern())).collect();
    assert_eq!(own, Workspace::TOOLS.map(|(name, pattern)| (name.to_owned(), pattern)));
}
