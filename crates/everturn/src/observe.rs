//! What operators see: metrics, OpenTelemetry spans and log lines. All three are made of commits.

pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod spans;

use std::sync::Arc;

use everturn_core::chat::Chat;
use everturn_core::delta::{AttemptBegan, Delta};
use everturn_core::draft::Draft;
use everturn_core::ids::ModelId;
use everturn_core::message::Message;
use everturn_providers::ApiAddress;

use crate::drive::step::OpenStep;
use crate::tool::toolbox::Shelf;
pub(crate) use metrics::Commit;
use metrics::{Metrics, TurnMeter};
use spans::Spans;

/// The metrics, spans and log lines of one driver.
pub(crate) struct Observers {
    meter: TurnMeter,
    pub(crate) spans: Spans,
}

impl Observers {
    pub(crate) fn new(metrics: &Metrics, chat: &Chat, messages: &[Arc<Message>], draft: Option<&Draft>) -> Self {
        Self { meter: metrics.meter(chat, messages, draft), spans: Spans::of(chat) }
    }

    /// An attempt begins, after `retract` is taken out of the draft.
    pub(crate) fn attempt_began(
        &mut self,
        chat: &Chat,
        began: &AttemptBegan,
        retract: &[Delta],
        step: &OpenStep,
        server: Option<ApiAddress>,
    ) {
        self.meter.began(began, retract, step.draft.as_ref());
        self.spans.ask(chat, began, server);
        log::attempt_began(chat, began, step.last.cause);
    }

    /// A commit was written. `model` is the model of its step.
    pub(crate) fn committed(
        &mut self,
        commit: &Commit<'_>,
        shelf: &Shelf,
        server_of: impl Fn(&ModelId) -> Option<ApiAddress>,
        model: impl Fn() -> Option<ModelId>,
    ) {
        self.meter.committed(commit, shelf);
        self.spans.committed(commit.before, commit.facts, server_of);
        log::committed(commit.before, commit.facts, commit.at, model);
    }
}
