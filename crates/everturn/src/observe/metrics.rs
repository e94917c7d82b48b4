//! Prometheus metrics.
//!
//! A recovered turn looks like any other to its reader, so operators need numbers to see that it was recovered, and at what
//! cost. Nearly all of them follow from commits: a driver's [`TurnMeter`] reads every commit, and only what leaves no trace
//! in one (the size of a request, the first token, the time of a write) is counted apart. Nothing here is touched per
//! delta: a batch in the journal costs one observation, everything else happens per commit.
//!
//! Names and units follow Prometheus: base units, `_total` for counters. A label is a provider, a model, a registered tool
//! or one of a few fixed words, never a text of the model. `docs/metrics.md` lists all metrics.

pub(crate) mod labels;
mod meter;
mod size;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use everturn_core::ids::ModelId;
use everturn_core::prompt::Request;
use everturn_stores::WriteError;
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};
use tokio::task::JoinError;

use labels::{
    AttemptLabels, ChatLabels, CompactionLabels, CostLabels, FailureLabels, ModelLabels, RecoveredLabels, RetryLabels,
    StepLabels, TokenLabels, ToolCallLabels, ToolLabels, TurnLabels,
};
pub(crate) use meter::{Commit, TurnMeter};

/// The metrics of one or more engines. Clones count into the same metrics.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Arc<All>);

#[derive(Debug)]
struct All {
    chats: Family<ChatLabels, Gauge>,
    drivers: Gauge,
    driver_failures: Family<FailureLabels, Counter>,
    takeovers: Counter,
    heartbeat_failures: Counter,
    lease_losses: Counter,
    chats_working: Gauge,
    chats_waiting: Gauge,
    place_wait: Histogram,

    turn_duration: Family<TurnLabels, Histogram>,
    turn_failures: Family<FailureLabels, Counter>,
    interrupts: Counter,
    queue_wait: Histogram,
    steps: Family<StepLabels, Counter>,

    message_count: Family<ModelLabels, Histogram>,
    prompt_size: Family<ModelLabels, Histogram>,
    ttft: Family<ModelLabels, Histogram>,
    attempts: Family<AttemptLabels, Counter>,
    attempt_duration: Family<ModelLabels, Histogram>,
    compaction: Family<CompactionLabels, Counter>,

    stream_retries: Family<RetryLabels, Counter>,
    salvages: Family<ModelLabels, Counter>,
    drafts_resumed: Family<ModelLabels, Counter>,
    recovered: Family<RecoveredLabels, Counter>,
    tokens: Family<TokenLabels, Counter>,
    tokens_repaid: Family<ModelLabels, Counter>,
    cost: Family<CostLabels, Counter<f64, AtomicU64>>,

    tool_duration: Family<ToolLabels, Histogram>,
    tool_result_size: Family<ToolCallLabels, Histogram>,
    tool_result_truncated: Family<ToolCallLabels, Counter>,
    tool_errors: Family<ToolCallLabels, Counter>,
    tool_unknown: Family<ToolCallLabels, Counter>,

    submit_duration: Histogram,
    load_duration: Histogram,
    commit_duration: Histogram,
    journal_append_duration: Histogram,
}

impl Metrics {
    /// Metrics that no registry shows.
    #[must_use]
    pub fn unregistered() -> Self {
        Self::default()
    }

    /// Metrics in `registry`, under names that begin with `everturn_`.
    #[must_use]
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        metrics.0.each(registry.sub_registry_with_prefix("everturn"));
        metrics
    }

    /// A request is about to be sent.
    pub(crate) fn asked(&self, model: &ModelId, request: &Request) {
        let model = ModelLabels::of(model);
        self.0.message_count.get_or_create(&model).observe(request.entries.len() as f64);
        self.0.prompt_size.get_or_create(&model).observe(request.bytes() as f64);
    }

    /// The first content of an attempt came.
    pub(crate) fn first_token(&self, model: &ModelId, after: Duration) {
        self.0.ttft.get_or_create(&ModelLabels::of(model)).observe(after.as_secs_f64());
    }

    /// A batch of deltas is in the journal.
    pub(crate) fn appended(&self, took: Duration) {
        self.0.journal_append_duration.observe(took.as_secs_f64());
    }

    /// A command was accepted.
    pub(crate) fn accepted(&self, took: Duration) {
        self.0.submit_duration.observe(took.as_secs_f64());
    }

    /// A driver has loaded its chat.
    pub(crate) fn loaded(&self, took: Duration) {
        self.0.load_duration.observe(took.as_secs_f64());
    }

    /// A turn of another process was taken over.
    pub(crate) fn took_over(&self) {
        self.0.takeovers.inc();
    }

    /// This process could not renew its leases in time for a heartbeat.
    pub(crate) fn heartbeat_failed(&self) {
        self.0.heartbeat_failures.inc();
    }

    /// This process lost all its leases.
    pub(crate) fn leases_lost(&self) {
        self.0.lease_losses.inc();
    }

    /// A chat has a work slot.
    pub(crate) fn slot_taken(&self) {
        self.0.chats_working.inc();
    }

    /// A chat has given its work slot up.
    pub(crate) fn slot_freed(&self) {
        self.0.chats_working.dec();
    }

    /// A chat waits for a work slot.
    pub(crate) fn lined_up(&self) {
        self.0.chats_waiting.inc();
    }

    /// A chat in line has got a work slot.
    pub(crate) fn left_line_with_slot(&self, after: Duration) {
        self.0.place_wait.observe(after.as_secs_f64());
        self.0.chats_waiting.dec();
    }

    /// A chat has left the line without a work slot.
    pub(crate) fn left_line(&self) {
        self.0.chats_waiting.dec();
    }

    /// A driver has ended.
    pub(crate) fn driver_ended<T>(&self, ended: &Result<Result<T, WriteError>, JoinError>) {
        let kind = match ended {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => labels::failure(error),
            Err(join) if join.is_panic() => labels::PANIC,
            Err(_) => return, // The runtime is going down.
        };
        self.0.driver_failures.get_or_create(&FailureLabels { kind }).inc();
    }
}

impl Default for All {
    fn default() -> Self {
        Self {
            chats: Family::default(),
            drivers: Gauge::default(),
            driver_failures: Family::default(),
            takeovers: Counter::default(),
            heartbeat_failures: Counter::default(),
            lease_losses: Counter::default(),
            chats_working: Gauge::default(),
            chats_waiting: Gauge::default(),
            place_wait: long_times(),
            turn_duration: Family::new_with_constructor(long_times),
            turn_failures: Family::default(),
            interrupts: Counter::default(),
            queue_wait: long_times(),
            steps: Family::default(),
            message_count: Family::new_with_constructor(|| Histogram::new(exponential_buckets(1.0, 2.0, 11))),
            prompt_size: Family::new_with_constructor(|| Histogram::new(exponential_buckets(1024.0, 4.0, 10))),
            ttft: Family::new_with_constructor(times),
            attempts: Family::default(),
            attempt_duration: Family::new_with_constructor(times),
            compaction: Family::default(),
            stream_retries: Family::default(),
            salvages: Family::default(),
            drafts_resumed: Family::default(),
            recovered: Family::default(),
            tokens: Family::default(),
            tokens_repaid: Family::default(),
            cost: Family::default(),
            tool_duration: Family::new_with_constructor(times),
            tool_result_size: Family::new_with_constructor(|| Histogram::new(exponential_buckets(64.0, 4.0, 9))),
            tool_result_truncated: Family::default(),
            tool_errors: Family::default(),
            tool_unknown: Family::default(),
            submit_duration: write_times(),
            load_duration: write_times(),
            commit_duration: write_times(),
            journal_append_duration: write_times(),
        }
    }
}

/// Buckets for models and tools: up to the ten minutes a tool has by default.
fn times() -> Histogram {
    Histogram::new([0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0])
}

/// Buckets for turns: up to their limit of four hours.
fn long_times() -> Histogram {
    Histogram::new([0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0])
}

/// Buckets for stores.
fn write_times() -> Histogram {
    Histogram::new([0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0])
}

/// Visits every metric: a registry, or the page that lists them.
trait Visitor {
    fn metric<M: Metric + TypedMetric + Clone>(&mut self, name: &str, labels: &str, help: &str, metric: &M);
}

impl Visitor for Registry {
    fn metric<M: Metric + TypedMetric + Clone>(&mut self, name: &str, _labels: &str, help: &str, metric: &M) {
        self.register(name, help, metric.clone());
    }
}

impl All {
    /// Every metric by its name, without the prefix and without the suffix its type brings.
    #[rustfmt::skip] // One metric, one line: this is a table.
    fn each(&self, to: &mut impl Visitor) {
        to.metric("chats", "status", "Chats that a driver of this process holds, by status", &self.chats);
        to.metric("drivers", "", "Drivers at work in this process", &self.drivers);
        to.metric("driver_failures", "kind", "Drivers that ended before their chat rested: the lease was taken over, the store failed, a panic", &self.driver_failures);

        to.metric("takeovers", "", "Turns taken over in the middle, from another process or from this one before its restart", &self.takeovers);
        to.metric("heartbeat_failures", "", "Heartbeats of this process that failed", &self.heartbeat_failures);
        to.metric("lease_losses", "", "Times this process lost all its leases and stopped its turns", &self.lease_losses);

        to.metric("chats_working", "", "Chats of this process that have a work slot: they ask a model or run tools", &self.chats_working);
        to.metric("chats_waiting", "", "Chats with work that wait for a work slot in this process", &self.chats_waiting);
        to.metric("place_wait_seconds", "", "How long chats waited for a work slot, those that had to", &self.place_wait);

        to.metric("turn_duration_seconds", "end", "From the begin of a turn to its end, waits for people included, by how it ended", &self.turn_duration);
        to.metric("turn_failures", "kind", "Turns that ended with an error, by its kind", &self.turn_failures);
        to.metric("interrupts", "", "Turns that were interrupted", &self.interrupts);
        to.metric("queue_wait_seconds", "", "From a message being queued until it was sent to the model", &self.queue_wait);
        to.metric("steps", "provider, model, stop", "Replies committed, by why they ended", &self.steps);

        to.metric("message_count", "provider, model", "Entries of the conversation in a request", &self.message_count);
        to.metric("prompt_size_bytes", "provider, model", "Estimated size of a request: instructions, tools and conversation", &self.prompt_size);
        to.metric("ttft_seconds", "provider, model", "From sending a request to the first content", &self.ttft);
        to.metric("attempts", "provider, model, rung, outcome", "Provider calls that are over, by why they were made and how they ended", &self.attempts);
        to.metric("attempt_duration_seconds", "provider, model", "From the beginning of a provider call to its end", &self.attempt_duration);
        to.metric("compaction", "provider, model, result", "Summaries requested, by result; interrupted ones are not counted", &self.compaction);

        to.metric("stream_retries", "provider, model, kind, rung", "Provider calls made because one failed, by the failed model, the kind of error and the rung taken", &self.stream_retries);
        to.metric("salvages", "provider, model", "Broken answers whose complete calls were run instead of asking again", &self.salvages);
        to.metric("drafts_resumed", "provider, model", "Answers of a lost process that were resumed from the journal", &self.drafts_resumed);
        to.metric("recovered_bytes", "provider, model, rung", "Bytes of broken answers that were kept and gone on from: text, reasoning and complete calls", &self.recovered);
        to.metric("tokens", "provider, model, kind, basis", "Tokens of all provider calls; the kinds do not overlap, and what was not reported is estimated", &self.tokens);
        to.metric("tokens_repaid", "provider, model", "Prompt tokens paid again because an earlier attempt at the same step had been paid for and broke", &self.tokens_repaid);
        to.metric("cost_units", "provider, model, basis", "Money, in US dollars; zero where no price is known", &self.cost);

        to.metric("tool_duration_seconds", "tool", "From the start of a tool to its result", &self.tool_duration);
        to.metric("tool_result_size_bytes", "provider, model, tool", "Size of a result as the model is shown it", &self.tool_result_size);
        to.metric("tool_result_truncated", "provider, model, tool", "Results that were cut to fit", &self.tool_result_truncated);
        to.metric("tool_errors", "provider, model, tool", "Results that are errors: of the tool, a panic, a timeout, a bad input, no such tool", &self.tool_errors);
        to.metric("tool_unknown", "provider, model, tool", "Calls that were started and have an unknown outcome", &self.tool_unknown);

        to.metric("submit_duration_seconds", "", "Time the store took to accept a command", &self.submit_duration);
        to.metric("load_duration_seconds", "", "Time the store took to load a chat for its driver", &self.load_duration);
        to.metric("commit_duration_seconds", "", "Time the store took to commit a change", &self.commit_duration);
        to.metric("journal_append_duration_seconds", "", "Time the store took to journal a batch of deltas", &self.journal_append_duration);
    }
}
