//! Changes of files: each call once, told as a diff, and undone.

use std::os::unix::fs::PermissionsExt as _;

use everturn::core::chat::Effect;
use everturn::core::ids::{CallUid, ChatId, StepId};
use everturn_tools::{ChangesError, FileChange, FileChangeKind, FileChangeStatus, Level, Workspace};
use serde_json::{Value, json};

use crate::HELPER;
use crate::workspace::{Tools, all_levels};

async fn tools() -> Tools {
    Tools::new(all_levels().await[0])
}

impl Tools {
    async fn changes(&self) -> Vec<FileChange> {
        self.workspace.changes(self.context.chat).await.unwrap()
    }

    /// Reads and edits a file, and gives the call of the edit.
    async fn edit(&self, path: &str, old: &str, new: &str) -> CallUid {
        self.call("read", json!({"path": path})).await.unwrap();
        self.call("edit", edit(path, old, new)).await.unwrap();
        self.newest()
    }

    async fn undo(&self, calls: &[CallUid]) -> Result<Vec<FileChange>, String> {
        match self.workspace.undo(self.context.chat, calls).await {
            Ok(changes) => Ok(changes),
            Err(ChangesError::Refused(cause)) => Err(cause),
            Err(ChangesError::Failed(error)) => panic!("{error}"),
        }
    }
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "edits": [{"old": old, "new": new}]})
}

#[tokio::test]
async fn a_repeated_call_answers_the_same_and_changes_nothing() {
    for level in all_levels().await {
        let tools = Tools::new(level);
        assert_eq!(tools.tool("edit").policy().effect, Effect::Idempotent);
        tools.file("a", "one two");
        tools.call("read", json!({"path": "a"})).await.unwrap();
        let call = CallUid { step: StepId(90), ordinal: 3 };
        let chat = tools.context.chat;
        let first = tools.call_as(chat, call, "edit", edit("a", "two", "two two")).await.unwrap();
        assert!(first.contains("-one two") && first.contains("+one two two"), "{level}: {first}");
        let again = tools.call_as(chat, call, "edit", edit("a", "two", "two two")).await.unwrap();
        assert_eq!((first, tools.content("a").as_str()), (again, "one two two"), "{level}");
        tools.file("a", "a person's");
        tools.call_as(chat, call, "edit", edit("a", "two", "two two")).await.unwrap();
        assert_eq!(tools.content("a"), "a person's", "{level}: it was made before, and is not made again");
    }
}

/// TW03: what a chat has read is known after a restart, and a file that a person changed meanwhile is left alone.
#[tokio::test]
async fn what_was_read_is_known_after_a_restart() {
    let mut tools = tools().await;
    tools.file("a", "old");
    tools.file("b", "old");
    for path in ["a", "b"] {
        tools.call("read", json!({"path": path})).await.unwrap();
    }
    let restarted = Workspace::new(tools.scratch.workspace(), tools.scratch.state(), all_levels().await[0]);
    tools.workspace = restarted.unwrap().with_helper(HELPER);
    tools.file("b", "a person's");
    tools.call("write", json!({"path": "a", "content": "new"})).await.unwrap();
    assert!(tools.refused("write", json!({"path": "b", "content": "new"})).await.contains("read it again"));
    assert_eq!((tools.content("a").as_str(), tools.content("b").as_str()), ("new", "a person's"));
}

/// TW12: of two chats that edit one file, the second is refused until it has read what the first wrote. When both do it at
/// the same time, one of them is.
#[tokio::test]
async fn two_chats_do_not_lose_each_others_writes() {
    let tools = tools().await;
    let chats = [1, 2].map(ChatId::from_u128);
    let call = |step| CallUid { step: StepId(step), ordinal: 0 };
    for round in 1..=10 {
        let old = format!("round {round}");
        tools.file("a", &old);
        for chat in chats {
            tools.call_as(chat, call(2 * round), "read", json!({"path": "a"})).await.unwrap();
        }
        let edits = chats.map(|chat| {
            let input = edit("a", &old, &format!("by {chat}"));
            tools.call_as(chat, call(2 * round + 1), "edit", input)
        });
        let [first, second] = edits;
        let (first, second) = tokio::join!(first, second);
        let winner = if first.is_ok() { chats[0] } else { chats[1] };
        assert_eq!(tools.content("a"), format!("by {winner}"));
        let refusal = first.and(second).unwrap_err().message;
        assert!(refusal.contains("has changed since it was read"), "{refusal}");
    }
}

#[tokio::test]
async fn a_link_inside_is_followed_and_one_that_leads_outside_is_not() {
    for level in all_levels().await.into_iter().chain([Level::Files]) {
        let tools = Tools::new(level);
        let at = |name: &str| tools.scratch.workspace().join(name);
        tools.file("real", "old");
        std::os::unix::fs::symlink("real", at("inside")).unwrap();
        std::os::unix::fs::symlink(tools.scratch.outside().join("secret"), at("outside")).unwrap();
        std::os::unix::fs::symlink(tools.scratch.outside(), at("dir")).unwrap();
        tools.edit("inside", "old", "new").await;
        assert_eq!(tools.content("real"), "new", "{level}");
        assert!(at("inside").is_symlink(), "{level}: the link stays");
        for path in ["outside", "dir/secret", "dir/new"] {
            assert!(!tools.refused("read", json!({"path": path})).await.contains("the secret"), "{level}: {path}");
            tools.refused("write", json!({"path": path, "content": "x"})).await;
        }
        assert!(!tools.scratch.outside().join("new").exists(), "{level}");
        assert!(tools.refused("list", json!({"path": "dir"})).await.contains("dir"), "{level}");
    }
}

/// TW05: a call is undone, and so are several, in any order of naming them.
#[tokio::test]
async fn changes_are_listed_and_undone() {
    let tools = tools().await;
    tools.file("a", "one\n");
    let path = tools.scratch.workspace().join("a");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
    let first = tools.edit("a", "one", "two").await;
    let second = tools.edit("a", "two", "three").await;
    tools.call("write", json!({"path": "deep/b", "content": "new\n"})).await.unwrap();
    let third = tools.newest();
    let changes = tools.changes().await;
    assert_eq!(changes.iter().map(|change| change.call).collect::<Vec<_>>(), [first, second, third]);
    assert_eq!(changes[0].diff, "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+two\n");
    assert_eq!(changes[2].diff, "--- /dev/null\n+++ b/deep/b\n@@ -0,0 +1 @@\n+new\n");
    assert_eq!((changes[2].kind, changes[2].status), (FileChangeKind::Created, FileChangeStatus::Made));

    let cause = tools.undo(&[first]).await.unwrap_err();
    assert!(cause.contains("a was changed since"), "{cause}");
    let undone = tools.undo(&[second]).await.unwrap();
    assert_eq!((undone.len(), undone[0].status), (1, FileChangeStatus::Undone));
    assert_eq!(tools.content("a"), "two\n");
    assert_eq!(tools.undo(&[second]).await.unwrap(), [], "a repeat changes nothing");
    assert!(tools.refused("edit", edit("a", "two", "four")).await.contains("read it again"), "the model is told");

    let fourth = tools.edit("a", "two", "four").await;
    let undone = tools.undo(&[fourth, third, first]).await.unwrap();
    assert_eq!(undone.iter().map(|change| change.call).collect::<Vec<_>>(), [first, third, fourth]);
    assert_eq!(tools.content("a"), "one\n");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o750, "its mode stays");
    assert!(!tools.scratch.workspace().join("deep/b").exists(), "a created file is removed");
}

/// TW05: where a file has changed since, nothing is undone, and the file is named.
#[tokio::test]
async fn an_undo_that_would_lose_something_is_refused_as_a_whole() {
    let tools = tools().await;
    for name in ["a", "b", "c"] {
        tools.file(name, "old");
    }
    let calls = [tools.edit("a", "old", "new").await, tools.edit("b", "old", "new").await];
    tools.file("b", "a person's");
    let cause = tools.undo(&calls).await.unwrap_err();
    assert!(cause.contains("nothing was undone: b was changed since"), "{cause}");
    assert_eq!(tools.content("a"), "new");
    std::fs::remove_file(tools.scratch.workspace().join("b")).unwrap();
    assert!(tools.undo(&calls).await.unwrap_err().contains("b was removed since"));

    let first = tools.edit("c", "old", "mine").await;
    tools.file("c", "theirs");
    let second = tools.edit("c", "theirs", "mine again").await;
    let cause = tools.undo(&[first, second]).await.unwrap_err();
    assert!(cause.contains("something else between the calls"), "{cause}");
    tools.undo(&[second]).await.unwrap();
    assert_eq!(tools.content("c"), "theirs");
    assert_eq!(tools.undo(&[CallUid { step: StepId(999), ordinal: 0 }]).await.unwrap(), []);
}

#[tokio::test]
async fn a_file_too_large_to_keep_is_changed_and_the_model_is_told() {
    let tools = tools().await;
    tools.file("large", "word\n".repeat(3 << 20) + "last");
    tools.call("read", json!({"path": "large"})).await.unwrap();
    let text = tools.call("edit", edit("large", "last", "end")).await.unwrap();
    assert!(text.contains("cannot be undone") && text.contains("+end"), "{text}");
    assert!(tools.content("large").ends_with("word\nend"));
    assert_eq!(tools.changes().await[0].kind, FileChangeKind::ChangedForGood);
    let cause = tools.undo(&[tools.newest()]).await.unwrap_err();
    assert!(cause.contains("too large to be kept"), "{cause}");
}

#[tokio::test]
async fn a_forgotten_chat_has_no_changes_and_others_keep_theirs() {
    let tools = tools().await;
    tools.file("a", "old");
    tools.edit("a", "old", "new").await;
    tools.workspace.forget(ChatId::from_u128(8)).await.unwrap();
    assert_eq!(tools.changes().await.len(), 1);
    tools.workspace.forget(tools.context.chat).await.unwrap();
    assert_eq!(tools.changes().await, []);
    assert_eq!(tools.content("a"), "new");
}

#[tokio::test]
async fn the_state_is_kept_outside_of_the_workspace() {
    let tools = tools().await;
    for (root, state) in [("", "state"), ("", "."), ("inner", "..")] {
        let root = tools.scratch.workspace().join(root);
        std::fs::create_dir_all(&root).unwrap();
        let error = Workspace::new(&root, root.join(state), Level::Off).unwrap_err().to_string();
        assert!(error.contains("must not contain each other"), "{error}");
    }
}
