//! What operators see: metrics, OpenTelemetry spans and log lines. All three are made of commits.

pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod spans;
