//! What calls changed in the files of a workspace.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The files that calls of a chat changed, in the order of the calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedFiles {
    /// One entry per call and file.
    pub changes: Vec<ChangedFile>,
}

/// What one call did to one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangedFile {
    /// The call.
    #[schema(example = "3.0")]
    pub call: String,
    /// The user's message before the call, by its number: changes with the same number are of one turn. Left out if the
    /// call is no longer in the transcript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<u64>,
    /// The file, relative to the workspace.
    #[schema(example = "src/main.rs")]
    pub path: String,
    /// What happened to it.
    pub kind: ChangeKind,
    /// Whether the change still holds.
    pub state: ChangeState,
    /// The unified diff, at most 64 KiB.
    pub diff: String,
}

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It was made.
    Created,
    /// Its content changed.
    Changed,
    /// Its content changed, and was too large to be kept: this cannot be undone.
    ChangedForGood,
}

/// Whether a change of a file still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeState {
    /// It was not made: a crash came before it, and the call was not repeated.
    NotMade,
    /// It was made.
    Made,
    /// It was undone.
    Undone,
}

/// Calls whose changes of files are to be undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UndoCalls {
    /// The calls, 1 to 1000. Those that changed no file or were undone already are left out.
    #[schema(example = json!(["3.0"]))]
    pub calls: Vec<String>,
}
