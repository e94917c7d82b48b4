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
pub(crate) type LabelValue = &'static str;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ModelLabels {
    pub(super) provider: String,
    pub(super) model: String,
}

impl ModelLabels {
    pub(super) fn of(model: &ModelId) -> Self {
        Self { provider: model.provider().into(), model: model.name().into() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ChatLabels {
    pub(super) status: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct FailureLabels {
    pub(super) kind: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TurnLabels {
    pub(super) end: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct StepLabels {
    #[prometheus(flatten)]
    pub(super) of: ModelLabels,
    pub(super) stop: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AttemptLabels {
    #[prometheus(flatten)]
    pub(super) of: ModelLabels,
    pub(super) rung: LabelValue,
    pub(super) outcome: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CompactionLabels {
    #[prometheus(flatten)]
    pub(super) of: ModelLabels,
    pub(super) result: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RetryLabels {
    #[prometheus(flatten)]
    pub(super) of: ModelLabels,
    pub(super) kind: LabelValue,
    pub(super) rung: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RecoveredLabels {
    #[prometheus(flatten)]
    pub(super) of: ModelLabels,
    pub(super) rung: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TokenLabels {
    #[prometheus(flatten)]
    pub(super) of: ModelLabels,
    pub(super) kind: LabelValue,
    pub(super) basis: LabelValue,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CostLabels {
    #[prometheus(flatten)]
    pub(super) of: ModelLabels,
    pub(super) basis: LabelValue,
}

/// A tool, by the name it was registered under.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ToolLabels {
    pub(super) tool: String,
}

/// A tool, and the model that called it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ToolCallLabels {
    #[prometheus(flatten)]
    pub(super) of: ModelLabels,
    pub(super) tool: String,
}

/// Tokens or money that a provider reported.
pub(super) const KNOWN: LabelValue = "known";
/// Tokens or money that were estimated.
pub(super) const ESTIMATED: LabelValue = "estimated";
/// The rung of an attempt for a summary, which is on no ladder.
pub(crate) const SUMMARY: LabelValue = "summary";
/// The rung on which no model is asked again.
pub(super) const SALVAGE: LabelValue = "salvage";
/// The failure of a driver that panicked.
pub(super) const PANIC: LabelValue = "panic";
/// The end of a turn that an edit replaced.
pub(super) const EDITED: LabelValue = "edited";

pub(super) const fn status(status: Status) -> LabelValue {
    match status {
        Status::Idle => "idle",
        Status::Running => "running",
        Status::Interrupting => "interrupting",
        Status::Awaiting => "awaiting",
        Status::Failed => "failed",
    }
}

pub(crate) const fn end(end: &TurnEnd) -> LabelValue {
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

pub(crate) const fn stop(stop: &Stop) -> LabelValue {
    match stop {
        Stop::End => "end",
        Stop::ToolUse => "tool_use",
        Stop::Length => "length",
        Stop::Filtered { .. } => "filtered",
        Stop::Interrupted => "interrupted",
        Stop::Broken => "broken",
    }
}

pub(super) const fn outcome(outcome: AttemptOutcome) -> LabelValue {
    match outcome {
        AttemptOutcome::Answered => "answered",
        AttemptOutcome::Broke(..) => "broke",
        AttemptOutcome::Interrupted => "interrupted",
        AttemptOutcome::Lost => "lost",
    }
}

/// The result of an attempt for a summary. Interrupted ones are not counted.
pub(super) const fn result(outcome: AttemptOutcome) -> Option<LabelValue> {
    match outcome {
        AttemptOutcome::Answered => Some("success"),
        AttemptOutcome::Broke(_, ErrorKind::Silence) => Some("timeout"),
        AttemptOutcome::Broke(..) => Some("error"),
        AttemptOutcome::Interrupted | AttemptOutcome::Lost => None,
    }
}

/// Why a driver could not go on.
pub(super) const fn failure(error: &WriteError) -> LabelValue {
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
pub(super) const fn kinds(usage: &Usage) -> [(LabelValue, u64); 5] {
    [
        ("input", usage.input),
        ("output", usage.output.saturating_sub(usage.reasoning)),
        ("reasoning", usage.reasoning),
        ("cache_read", usage.cache_read),
        ("cache_write", usage.cache_write),
    ]
}
