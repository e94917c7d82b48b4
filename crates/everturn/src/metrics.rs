//! stub
use everturn_core::{chat::Turn, delta::Rung, error::Kind, fact::Fact, ids::*, message::CallResult, prompt::Request};
use std::time::Duration;
/// stub
#[derive(Debug, Clone, Default)]
pub struct Metrics;
#[allow(missing_docs, clippy::unused_self)]
impl Metrics {
    pub fn unregistered() -> Self {
        Self
    }
    /// Everything a commit tells: attempts (tokens, cost, outcome), turns that ended (latency by end), messages.
    pub(crate) fn committed(&self, _before: Option<&Turn>, _facts: &[Fact], _now: Timestamp) {}
    pub(crate) fn asked(&self, _model: &ModelId, _request: &Request, _rung: Rung) {}
    pub(crate) fn first_token(&self, _model: &ModelId, _after: Duration) {}
    pub(crate) fn retried(&self, _model: &ModelId, _kind: Kind) {}
    pub(crate) fn salvaged(&self) {}
    pub(crate) fn tool_error(&self, _tool: &str) {}
    pub(crate) fn tool(&self, _tool: &str, _result: &CallResult, _began: Option<Timestamp>) {}
    pub(crate) fn compacted(&self, _result: &'static str) {}
}
