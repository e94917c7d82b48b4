//! TA07: the instructions of a project, at every level.

use std::sync::Arc;

use everturn::Hook;
use everturn::core::chat::{Chat, Turn};
use everturn::core::ids::{CallUid, ChatId, StepId};
use serde_json::json;

use crate::workspace::{Tools, all_levels};

/// A chat whose turn begins with this step.
fn at_step(step: u64) -> Chat {
    let turn = Some(Turn::default());
    Chat { turn, step: StepId(step), ..Chat::new(ChatId::from_u128(7), "it", "me") }
}

fn files(tools: &Tools) -> Arc<dyn Hook> {
    tools.workspace.hook(["AGENTS.md", "more/RULES.md"])
}

/// The text that a chat began with stays; a change is told once, at the beginning of a turn, and again to a step that is
/// begun again.
#[tokio::test]
async fn a_chat_keeps_its_instructions_and_is_told_of_changes() {
    for level in all_levels().await {
        let tools = Tools::new(level);
        tools.file("AGENTS.md", "Use tabs.\n");
        let first = files(&tools).instructions(&at_step(1)).await.unwrap();
        assert_eq!(first, "Instructions of the project, from AGENTS.md in the workspace:\n\nUse tabs.", "{level}");
        assert_eq!(files(&tools).before_step(&at_step(1)).await, None);
        tools.file("AGENTS.md", "Use spaces.\n");
        assert_eq!(files(&tools).instructions(&at_step(2)).await.unwrap(), first, "another process");
        let busy = Chat { turn: Some(Turn { steps: 1, ..Turn::default() }), ..at_step(2) };
        assert_eq!(files(&tools).before_step(&busy).await, None, "in the middle of a turn");
        for process in 0..2 {
            let note = files(&tools).before_step(&at_step(3)).await.unwrap();
            assert!(note.contains("have changed") && note.ends_with("Use spaces."), "{process}: {note}");
        }
        assert_eq!(files(&tools).before_step(&at_step(4)).await, None);
        std::fs::remove_file(tools.scratch.workspace().join("AGENTS.md")).unwrap();
        let note = files(&tools).before_step(&at_step(5)).await.unwrap();
        assert!(note.contains("were removed"), "{note}");
    }
}

/// What is too long is cut, and what is elsewhere or no text is left out, with the reason.
#[tokio::test]
async fn odd_files_of_instructions_do_no_harm() {
    for level in all_levels().await {
        let tools = Tools::new(level);
        assert_eq!(files(&tools).instructions(&at_step(1)).await, None, "there are none");
        let told = async |tools: &Tools| files(tools).instructions(&at_step(1)).await.unwrap();

        let tools = Tools::new(level);
        tools.file("AGENTS.md", "é".repeat(512 * 1024));
        let long = told(&tools).await;
        assert!(long.len() < 33 * 1024 && long.ends_with("are left out: read it where you need them.]"), "{level}");

        let tools = Tools::new(level);
        std::os::unix::fs::symlink("/etc/passwd", tools.scratch.workspace().join("AGENTS.md")).unwrap();
        let link = told(&tools).await;
        assert!(link.contains("left out") && !link.contains("root:"), "{level}: {link}");

        let tools = Tools::new(level);
        tools.file("AGENTS.md", [0xff, 0xfe, 0x00]);
        assert!(told(&tools).await.contains("AGENTS.md is not UTF-8 text"), "{level}");
    }
}

fn nested(level: everturn_tools::Level) -> Tools {
    let mut tools = Tools::new(level);
    tools.workspace = tools.workspace.clone().with_nested_instructions(["AGENTS.md", "more/RULES.md"]);
    for directory in ["src/api/v1", "docs"] {
        std::fs::create_dir_all(tools.scratch.workspace().join(directory)).unwrap();
    }
    tools.file("AGENTS.md", "Top.\n");
    tools.file("src/AGENTS.md", "Use tabs.\n");
    tools.file("src/api/AGENTS.md", "Use spaces.\n");
    tools.file("src/api/v1/chat.rs", "mod a;\n");
    tools.file("src/lib.rs", "mod api;\n");
    tools.file("docs/a.md", "words\n");
    tools
}

/// TA07: instructions of directories are told behind the result of the first call that works below them, the nearest last, and
/// again when they have changed; to a call that is run again after a crash, too. Other chats are told for themselves.
#[tokio::test]
async fn nested_instructions_are_told_once_where_work_is_done() {
    for level in all_levels().await {
        let tools = nested(level);
        let read = async |path: &str| tools.call("read", json!({"path": path})).await.unwrap();
        assert!(!read("docs/a.md").await.contains("Instructions"), "{level}: none hold there");
        let first = read("src/lib.rs").await;
        assert!(first.ends_with("nearest count.]\nUse tabs."), "{level}: {first}");
        assert!(first.contains("[Instructions of the project for files below src, from src/AGENTS.md."), "{first}");
        let deeper = read("src/api/v1/chat.rs").await;
        assert!(deeper.ends_with("Use spaces.") && !deeper.contains("Use tabs."), "{level}: {deeper}");
        assert!(!read("src/api/v1/chat.rs").await.contains("Instructions"), "{level}: it was told");
        let write = json!({"path": "src/api/v1/new.rs", "content": "x"});
        let again = tools.call_as(tools.context.chat, tools.newest(), "write", write.clone()).await.unwrap();
        assert!(!again.contains("Instructions"), "{again}");

        let other = ChatId::from_u128(8);
        let call = CallUid { step: StepId(1), ordinal: 0 };
        let input = json!({"path": "src/api/v1/chat.rs"});
        for process in 0..2 {
            let told = tools.call_as(other, call, "read", input.clone()).await.unwrap();
            let tabs = told.find("Use tabs.").unwrap();
            assert!(tabs < told.find("Use spaces.").unwrap(), "{process}: the nearest is last: {told}");
        }
        tools.file("src/AGENTS.md", "Use neither.\n");
        let changed = read("src/lib.rs").await;
        assert!(changed.ends_with("Use neither."), "{changed}");
    }
}

/// TA07: nested instructions are bounded, and what is elsewhere or no text does no harm.
#[tokio::test]
async fn odd_nested_instructions_do_no_harm() {
    for level in all_levels().await {
        let tools = nested(level);
        tools.file("src/AGENTS.md", "é".repeat(512 * 1024));
        let long = tools.call("read", json!({"path": "src/lib.rs"})).await.unwrap();
        assert!(long.len() < 18 * 1024 && long.contains("more bytes are left out"), "{level}: {}", long.len());
        let none_left = tools.call("read", json!({"path": "src/api/v1/chat.rs"})).await.unwrap();
        assert!(none_left.ends_with("Use spaces."), "each call has its own: {none_left}");

        let tools = nested(level);
        std::fs::remove_file(tools.scratch.workspace().join("src/AGENTS.md")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", tools.scratch.workspace().join("src/AGENTS.md")).unwrap();
        let link = tools.call("read", json!({"path": "src/lib.rs"})).await.unwrap();
        assert!(!link.contains("root:"), "{level}: {link}");
        tools.file("src/api/AGENTS.md", [0xff, 0xfe, 0x00]);
        let odd = tools.call("read", json!({"path": "src/api/v1/chat.rs"})).await.unwrap();
        assert!(odd.contains("src/api/AGENTS.md is not UTF-8 text"), "{level}: {odd}");
    }
}
