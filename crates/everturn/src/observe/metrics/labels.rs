//! The labels of metrics, and their fixed values.
//!
//! Dashboards are built on these values, so they do not change.

use everturn_core::chat::TurnEnd;
use everturn_core::cost::Usage;
use everturn_core::error::ErrorKind;
use everturn_core::fact::AttemptOutcome;
use everturn_core::ids::ModelId;
use everturn_core::message::Stop;
use everturn_core::status::Status;
use everturn_stores::{StoreError, WriteError};
use prometheus_client::encoding::EncodeLabelSet;

/// A fixed label value.
pub(crate) type Word = &'static str;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Model {
    pub(super) provider: String,
    pub(super) model: String,
}

impl Model {
    pub(super) fn of(model: &ModelId) -> Self {
        Self { provider: model.provider().into(), model: model.name().into() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Chats {
    pub(super) status: Word,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Failures {
    pub(super) kind: Word,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Turns {
    pub(super) end: Word,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Steps {
    #[prometheus(flatten)]
    pub(super) of: Model,
    pub(super) stop: Word,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Attempts {
    #[prometheus(flatten)]
    pub(super) of: Model,
    pub(super) rung: Word,
    pub(super) outcome: Word,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Compactions {
    #[prometheus(flatten)]
    pub(super) of: Model,
    pub(super) result: Word,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Retries {
    #[prometheus(flatten)]
    pub(super) of: Model,
    pub(super) kind: Word,
    pub(super) rung: Word,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Recovered {
    #[prometheus(flatten)]
    pub(super) of: Model,
    pub(super) rung: Word,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Tokens {
    #[prometheus(flatten)]
    pub(super) of: Model,
    pub(super) kind: Word,
    pub(super) basis: Word,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Cost {
    #[prometheus(flatten)]
    pub(super) of: Model,
    pub(super) basis: Word,
}

/// A tool, by the name it was registered under.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Tool {
    pub(super) tool: String,
}

/// A tool, and the model that called it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ToolOf {
    #[prometheus(flatten)]
    pub(super) of: Model,
    pub(super) tool: String,
}

/// Tokens or money that a provider reported.
pub(super) const KNOWN: Word = "known";
/// Tokens or money that were estimated.
pub(super) const ESTIMATED: Word = "estimated";
/// The rung of an attempt for a summary, which is on no ladder.
pub(crate) const SUMMARY: Word = "summary";
/// The rung on which no model is asked again.
pub(super) const SALVAGE: Word = "salvage";
/// The failure of a driver that panicked.
pub(super) const PANIC: Word = "panic";
/// The end of a turn whose message was replaced.
pub(super) const EDITED: Word = "edited";

pub(super) const fn status(status: Status) -> Word {
    match status {
        Status::Idle => "idle",
        Status::Running => "running",
        Status::Interrupting => "interrupting",
        Status::Awaiting => "awaiting",
        Status::Failed => "failed",
    }
}

pub(crate) const fn end(end: &TurnEnd) -> Word {
    match end {
        TurnEnd::Done => "done",
        TurnEnd::StopAfter(_) => "stop_after",
        TurnEnd::Interrupted => "interrupted",
        TurnEnd::Length => "length",
        TurnEnd::Filtered => "filtered",
        TurnEnd::Empty => "empty",
        TurnEnd::StepsMax => "steps_max",
        TurnEnd::TimeMax => "time_max",
        TurnEnd::TokensMax => "tokens_max",
        TurnEnd::CostMax => "cost_max",
        TurnEnd::SameCallMax => "same_call_max",
        TurnEnd::Failed(_) => "failed",
    }
}

pub(crate) const fn stop(stop: &Stop) -> Word {
    match stop {
        Stop::End => "end",
        Stop::ToolUse => "tool_use",
        Stop::Length => "length",
        Stop::Filtered { .. } => "filtered",
        Stop::Interrupted => "interrupted",
        Stop::Broken => "broken",
    }
}

pub(super) const fn outcome(outcome: AttemptOutcome) -> Word {
    match outcome {
        AttemptOutcome::Answered => "answered",
        AttemptOutcome::Broke(..) => "broke",
        AttemptOutcome::Interrupted => "interrupted",
        AttemptOutcome::Lost => "lost",
    }
}

/// The result of an attempt for a summary. Interrupted ones are not counted.
pub(super) const fn result(outcome: AttemptOutcome) -> Option<Word> {
    match outcome {
        AttemptOutcome::Answered => Some("success"),
        AttemptOutcome::Broke(_, ErrorKind::Silence) => Some("timeout"),
        AttemptOutcome::Broke(..) => Some("error"),
        AttemptOutcome::Interrupted | AttemptOutcome::Lost => None,
    }
}

/// Why a driver could not go on.
pub(super) const fn failure(error: &WriteError) -> Word {
    match error {
        WriteError::Fenced => "fenced",
        WriteError::OutOfPlace => "out_of_place",
        WriteError::Store(StoreError::NoSuchChat) => "no_such_chat",
        WriteError::Store(StoreError::Unavailable(_)) => "store_unavailable",
        WriteError::Store(StoreError::Unreadable(_)) => "unreadable",
        WriteError::Store(StoreError::Damaged(_)) => "damaged",
    }
}

/// Tokens by kind. Each token is of one kind, so that they can be added up.
pub(super) const fn kinds(usage: &Usage) -> [(Word, u64); 5] {
    [
        ("input", usage.input),
        ("output", usage.output.saturating_sub(usage.reasoning)),
        ("reasoning", usage.reasoning),
        ("cache_read", usage.cache_read),
        ("cache_write", usage.cache_write),
    ]
}
