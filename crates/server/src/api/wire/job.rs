//! Commands that run in the background of a chat.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The background jobs of a chat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobsList {
    /// The jobs, oldest first. Those that ended are kept for a while.
    pub jobs: Vec<JobInfo>,
}

/// A command that goes on after the call that started it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobInfo {
    /// Its number in the chat.
    pub number: u32,
    /// The call that started it.
    #[schema(example = "3.0")]
    pub call: String,
    /// The command.
    pub command: String,
    /// When it was started.
    pub started: i64,
    /// When it ended, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<i64>,
    /// How many seconds it may take.
    pub seconds_max: u64,
    /// Whether it outlives a restart of the server.
    pub kept: bool,
    /// What became of it.
    pub state: JobStatus,
    /// Its exit code, if it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// How many bytes it has printed.
    pub output_bytes: u64,
}

/// What became of a background job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// It runs.
    Running,
    /// It ended by itself.
    Exited,
    /// It was stopped.
    Stopped,
    /// Its time was up.
    TimeUp,
    /// It ended with the server.
    ServerGone,
    /// Nothing is known of its end: its supervisor was killed, or the machine was restarted.
    Lost,
}
