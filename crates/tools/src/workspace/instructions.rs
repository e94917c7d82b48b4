//! Instructions of a project: `AGENTS.md` and its like, at the top of the workspace.
//!
//! A chat keeps the text that it began with, so that what was sent to the provider stays the same, over restarts too. If
//! the files change later, the model is told at the beginning of the next turn.

use std::io;

use async_trait::async_trait;
use everturn::Hook;
use everturn::core::chat::Chat;
use everturn::core::ids::ChatId;

use super::Workspace;
use super::state::{ChatState, hash};
use crate::wire::{Access, FileReply, FileRequest, ToldInstructions};

/// The instructions in files of a workspace.
#[derive(Debug, Clone)]
pub(super) struct WorkspaceInstructions {
    workspace: Workspace,
    files: Vec<String>,
}

impl WorkspaceInstructions {
    pub(super) const fn new(workspace: Workspace, files: Vec<String>) -> Self {
        Self { workspace, files }
    }

    async fn read(&self, chat: ChatId) -> io::Result<String> {
        let request = FileRequest::Instructions { files: self.files.clone() };
        match self.workspace.ask(chat, Access::Read, &request).await? {
            FileReply::Text(text) => Ok(text),
            FileReply::Refused(cause) => Err(io::Error::other(cause)),
            FileReply::Changes(_) | FileReply::Image { .. } => Err(io::Error::other("not a text")),
        }
    }

    async fn first(&self, chat: ChatId) -> io::Result<String> {
        let state = self.workspace.chat_state(chat)?;
        if let Some(told) = state.instructions()? {
            return Ok(told.first);
        }
        let first = self.read(chat).await?;
        let told = ToldInstructions { newest: hash(first.as_bytes()), first, step: None };
        state.tell_instructions(&told)?;
        Ok(told.first)
    }

    /// What to tell a chat before a step, if the files are not as it was told last.
    async fn change(&self, chat: ChatId, step: u64) -> io::Result<Option<String>> {
        let state: ChatState = self.workspace.chat_state(chat)?;
        let Some(told) = state.instructions()? else { return Ok(None) };
        let now = self.read(chat).await?;
        let newest = hash(now.as_bytes());
        // A step that is begun again was told, but perhaps not stored.
        if newest == told.newest && told.step != Some(step) {
            return Ok(None);
        }
        state.tell_instructions(&ToldInstructions { newest, step: Some(step), ..told })?;
        Ok(Some(match now.is_empty() {
            true => "The instructions of the project were removed: what they said no longer holds.".into(),
            false => format!("The instructions of the project have changed. In place of the earlier ones:\n\n{now}"),
        }))
    }
}

#[async_trait]
impl Hook for WorkspaceInstructions {
    async fn before_step(&self, chat: &Chat) -> Option<String> {
        if self.files.is_empty() || chat.turn.as_ref().is_none_or(|turn| turn.steps > 0) {
            return None; // Only where a turn begins.
        }
        logged(self.change(chat.id, chat.step.0).await).flatten()
    }

    async fn instructions(&self, chat: &Chat) -> Option<String> {
        if self.files.is_empty() {
            return None;
        }
        logged(self.first(chat.id).await).filter(|text| !text.is_empty())
    }
}

/// A turn goes on without instructions that cannot be read.
fn logged<T>(outcome: io::Result<T>) -> Option<T> {
    outcome.inspect_err(|error| tracing::warn!("the instructions of a workspace cannot be read: {error}")).ok()
}
