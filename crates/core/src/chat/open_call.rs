//! Calls that wait for their results.

use std::sync::Arc;

use crate::change::input_hash;
use crate::ids::{CallUid, Timestamp};
use crate::message::Call;

/// A call without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    /// Our name for it.
    pub uid: CallUid,
    /// The tool.
    pub tool: String,
    /// Hash of the input, for approvals.
    pub input_hash: u64,
    /// How far it is.
    pub state: CallState,
    /// The input as it came, while a client or a person must answer.
    pub input: Option<Arc<str>>,
    /// What the tool showed of its work last, while it runs.
    pub progress: Option<Arc<str>>,
}

impl OpenCall {
    /// A call that has just been made.
    #[must_use]
    pub fn new(call: &Call, state: CallState) -> Self {
        Self {
            uid: call.uid,
            tool: call.tool.clone(),
            input_hash: input_hash(&call.tool, &call.input),
            state,
            input: state.asks().then(|| call.input.as_str().into()),
            progress: None,
        }
    }
}

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallState {
    /// It may run, if no approval is needed.
    Ready,
    /// A person was asked, and allows it.
    Approved,
    /// Its start was recorded; whether and how it ended is not.
    Started {
        /// The tool's effect, which decides recovery if its outcome is unknown.
        effect: Effect,
        /// When.
        at: Timestamp,
    },
    /// A client runs it.
    AsksClient,
    /// A person decides on it.
    AsksApproval,
}

impl CallState {
    /// Whether it waits for a client or a person.
    #[must_use]
    pub const fn asks(self) -> bool {
        match self {
            Self::AsksClient | Self::AsksApproval => true,
            Self::Ready | Self::Approved | Self::Started { .. } => false,
        }
    }
}

/// What running a tool twice would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Effect {
    /// Nothing: it only looks.
    Read,
    /// No more than running it once.
    Idempotent,
    /// Harm: it must not happen.
    #[default]
    Once,
}
