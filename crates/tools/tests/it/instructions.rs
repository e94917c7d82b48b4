//! TA07: the instructions of a project, at every level.

use std::sync::Arc;

use everturn::Hook;
use everturn::core::chat::{Chat, Turn};
use everturn::core::ids::{ChatId, StepId};

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
