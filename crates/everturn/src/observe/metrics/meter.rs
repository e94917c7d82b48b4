//! Counts what one driver commits.
//!
//! A commit holds nearly everything worth counting, so a meter reads commits. What it has to remember is the open step:
//! which attempt is under way, what broke before it, and what of that was already counted.

use std::sync::Arc;
use std::time::Duration;

use everturn_core::chat::{Chat, TurnEnd};
use everturn_core::context::size_of_output;
use everturn_core::cost::Micros;
use everturn_core::delta::{AttemptBegan, Delta};
use everturn_core::draft::Draft;
use everturn_core::error::{Cause, ErrorKind};
use everturn_core::fact::{AttemptOutcome, AttemptRecord, Fact};
use everturn_core::ids::{InboxSeq, ModelId, Timestamp};
use everturn_core::message::{Body, CallResult, CallVerdict, Message, Part, Reply, Stop};
use everturn_core::status::Status;
use prometheus_client::metrics::gauge::Gauge;

use super::Metrics;
use super::labels::{
    self, AttemptLabels, ChatLabels, CompactionLabels, CostLabels, ESTIMATED, FailureLabels, KNOWN, ModelLabels,
    RecoveredLabels, RetryLabels, StepLabels, TokenLabels, ToolCallLabels, ToolLabels, TurnLabels,
};
use super::size::{is_cut, worth};
use crate::tool::toolbox::Shelf;

/// Counts for one driver, from its start to its end.
pub(crate) struct TurnMeter {
    metrics: Metrics,
    /// The status under which the chat is counted.
    status: Status,
    /// The model of the newest reply, which made the calls that are answered now.
    speaker: Option<ModelId>,
    step: StepCounts,
}

/// What has to be remembered of the open step.
#[derive(Default)]
struct StepCounts {
    /// The attempt under way, which has no row yet.
    open: Option<AttemptBegan>,
    /// The attempt that broke last, until another is made.
    broke: Option<(ModelId, ErrorKind)>,
    /// Whether the prompt has been paid for.
    paid: bool,
    /// Bytes of the draft that were counted as recovered.
    recovered: usize,
}

/// A commit that has just been written.
pub(crate) struct Commit<'a> {
    /// The chat it was made to, as it stood before.
    pub(crate) before: &'a Chat,
    /// What it says.
    pub(crate) facts: &'a [Fact],
    /// When it was done.
    pub(crate) at: Timestamp,
    /// How long it took.
    pub(crate) took: Duration,
}

impl Metrics {
    /// A meter for a driver that has just loaded `chat`.
    pub(crate) fn meter(&self, chat: &Chat, messages: &[Arc<Message>], draft: Option<&Draft>) -> TurnMeter {
        let speaker = messages.iter().rev().find_map(|message| match &message.body {
            Body::Reply(reply) => Some(reply.model.clone()),
            _ => None,
        });
        let current = draft.and_then(Draft::current);
        let (open, over) = match current {
            Some(began) if began.number > chat.tried.attempts => (Some(began.clone()), None),
            over => (None, over),
        };
        let broke = over.zip(chat.wait.as_ref()).map(|(began, wait)| (began.model.clone(), wait.kind));
        let paid = chat.tried.attempts > 0;
        let meter = TurnMeter {
            metrics: self.clone(),
            status: chat.status,
            speaker,
            step: StepCounts { open, broke, paid, recovered: 0 },
        };
        self.0.drivers.inc();
        meter.under(chat.status, Gauge::inc);
        meter
    }
}

impl Drop for TurnMeter {
    fn drop(&mut self) {
        self.metrics.0.drivers.dec();
        self.under(self.status, Gauge::dec);
    }
}

impl TurnMeter {
    fn under(&self, status: Status, change: fn(&Gauge) -> i64) {
        change(&self.metrics.0.chats.get_or_create(&ChatLabels { status: labels::status(status) }));
    }

    /// An attempt begins, after `retract` is taken out of the draft of those before it.
    pub(crate) fn began(&mut self, began: &AttemptBegan, retract: &[Delta], draft: Option<&Draft>) {
        if let Some((model, kind)) = self.step.broke.take() {
            let (of, kind, rung) = (ModelLabels::of(&model), kind.label(), began.rung.label());
            self.metrics.0.stream_retries.get_or_create(&RetryLabels { of, kind, rung }).inc();
            match draft.filter(|_| !retract.contains(&Delta::RetractAll)) {
                Some(draft) => self.recovered(&model, rung, draft.parts()),
                None => self.step.recovered = 0,
            }
        }
        self.step.open = Some(began.clone());
    }

    /// Counts what is kept of a broken attempt, once, however often the rest breaks again.
    fn recovered(&mut self, model: &ModelId, rung: labels::LabelValue, parts: &[Part]) {
        let bytes = parts.iter().map(worth).sum::<usize>();
        let new = bytes.saturating_sub(std::mem::replace(&mut self.step.recovered, bytes));
        if new > 0 {
            let labels = RecoveredLabels { of: ModelLabels::of(model), rung };
            self.metrics.0.recovered.get_or_create(&labels).inc_by(new as u64);
        }
    }

    /// A commit was written. `shelf` knows which tool names are registered.
    pub(crate) fn committed(&mut self, commit: &Commit<'_>, shelf: &Shelf) {
        self.metrics.0.commit_duration.observe(commit.took.as_secs_f64());
        let mut turn = commit.before.turn.as_ref().map(|turn| turn.began);
        let mut spoken = false; // Whether the fact before is a user message.
        for fact in commit.facts {
            match fact {
                Fact::Said(message, _) => self.said(&message.body, shelf),
                Fact::Attempted(row, _) => self.attempted(row),
                Fact::Moved(status) => self.moved(*status),
                Fact::TurnBegan(at) => turn = Some(*at),
                Fact::TurnEnded(end) => self.turn_ended(end, turn.take(), commit.at),
                Fact::Rewound { .. } => self.turn_over(labels::EDITED, turn.take(), commit.at),
                Fact::Unqueued(id) if spoken => self.heard(*id, commit),
                _ => {} // Nothing to count.
            }
            spoken = matches!(fact, Fact::Said(message, _) if matches!(message.body, Body::User(_)));
        }
    }

    fn moved(&mut self, status: Status) {
        if status == Status::Interrupting && self.status != status {
            self.metrics.0.interrupts.inc(); // Interrupting twice counts once.
        }
        self.under(self.status, Gauge::dec);
        self.under(status, Gauge::inc);
        self.status = status;
    }

    fn turn_ended(&mut self, end: &TurnEnd, began: Option<Timestamp>, at: Timestamp) {
        if let TurnEnd::Failed(failure) = end {
            self.metrics.0.turn_failures.get_or_create(&FailureLabels { kind: failure.kind.label() }).inc();
        }
        self.turn_over(labels::end(end), began, at);
    }

    fn turn_over(&mut self, end: labels::LabelValue, began: Option<Timestamp>, at: Timestamp) {
        if let Some(began) = began {
            self.metrics.0.turn_duration.get_or_create(&TurnLabels { end }).observe(at.since(began).as_secs_f64());
        }
        self.step = StepCounts::default();
    }

    fn heard(&self, id: InboxSeq, commit: &Commit<'_>) {
        if let Some(queued) = commit.before.queue.iter().find(|queued| queued.id == id) {
            self.metrics.0.queue_wait.observe(commit.at.since(queued.at).as_secs_f64());
        }
    }

    fn said(&mut self, body: &Body, shelf: &Shelf) {
        match body {
            Body::Reply(reply) => self.replied(reply),
            Body::Result(result) => self.result(result, shelf),
            Body::User(_) | Body::Context(_) | Body::Summary(_) => {} // A summary's attempt says what came of it.
        }
    }

    fn replied(&mut self, reply: &Reply) {
        let (of, stop) = (ModelLabels::of(&reply.model), labels::stop(&reply.stop));
        self.metrics.0.steps.get_or_create(&StepLabels { of, stop }).inc();
        let whole = !matches!(reply.stop, Stop::Interrupted | Stop::Broken);
        if let Some((model, _)) = self.step.broke.take().filter(|_| whole) {
            self.metrics.0.salvages.get_or_create(&ModelLabels::of(&model)).inc();
            self.recovered(&model, labels::SALVAGE, &reply.parts);
        }
        self.speaker = Some(reply.model.clone());
        self.step = StepCounts::default();
    }

    fn attempted(&mut self, row: &AttemptRecord) {
        // An attempt that was not begun for the step is one for a summary.
        let began = self.step.open.take_if(|began| began.number == row.number);
        let rung = match &began {
            Some(began) => began.rung.label(),
            None => labels::SUMMARY,
        };
        let (of, outcome) = (ModelLabels::of(&row.model), labels::outcome(row.outcome));
        self.metrics.0.attempt_duration.get_or_create(&of).observe(row.took.as_secs_f64());
        self.spent(&of, row);
        match began {
            Some(_) => self.step_attempted(&of, row),
            None => self.summary_attempted(&of, row.outcome),
        }
        self.metrics.0.attempts.get_or_create(&AttemptLabels { of, rung, outcome }).inc();
    }

    fn step_attempted(&mut self, of: &ModelLabels, row: &AttemptRecord) {
        let (cause, kind) = match row.outcome {
            AttemptOutcome::Broke(cause, kind) => (Some(cause), Some(kind)),
            AttemptOutcome::Answered | AttemptOutcome::Interrupted | AttemptOutcome::Lost => (None, None),
        };
        if cause == Some(Cause::Resumed) {
            self.metrics.0.drafts_resumed.get_or_create(of).inc();
        }
        self.step.broke = kind.map(|kind| (row.model.clone(), kind));
        let prompt = row.tally.known.prompt().saturating_add(row.tally.estimated.prompt());
        if prompt == 0 || cause == Some(Cause::Refused) {
            return; // A refusal costs nothing, and a re-attached generation is charged at its end.
        }
        if std::mem::replace(&mut self.step.paid, true) {
            self.metrics.0.tokens_repaid.get_or_create(of).inc_by(prompt);
        }
    }

    fn summary_attempted(&self, of: &ModelLabels, outcome: AttemptOutcome) {
        if let Some(result) = labels::result(outcome) {
            self.metrics.0.compaction.get_or_create(&CompactionLabels { of: of.clone(), result }).inc();
        }
    }

    fn spent(&self, of: &ModelLabels, row: &AttemptRecord) {
        let (tally, spend) = (&row.tally, &row.spend);
        for (basis, usage, money) in
            [(KNOWN, &tally.known, spend.known), (ESTIMATED, &tally.estimated, spend.estimated)]
        {
            for (kind, count) in labels::kinds(usage).into_iter().filter(|(_, count)| *count > 0) {
                let labels = TokenLabels { of: of.clone(), kind, basis };
                self.metrics.0.tokens.get_or_create(&labels).inc_by(count);
            }
            if money > Micros(0) {
                let labels = CostLabels { of: of.clone(), basis };
                self.metrics.0.cost.get_or_create(&labels).inc_by(money.0 as f64 / 1e6);
            }
        }
    }

    fn result(&self, result: &CallResult, shelf: &Shelf) {
        let all = &self.metrics.0;
        let of = self.speaker.as_ref().map(ModelLabels::of);
        let of = of.unwrap_or_else(|| ModelLabels { provider: "unknown".into(), model: "unknown".into() });
        let labels = ToolCallLabels { of, tool: shelf.label(&result.tool) };
        match result.verdict {
            CallVerdict::Done => {}
            CallVerdict::Error => {
                all.tool_errors.get_or_create(&labels).inc();
            }
            CallVerdict::Unknown => {
                all.tool_unknown.get_or_create(&labels).inc();
                return;
            }
            CallVerdict::Denied | CallVerdict::Interrupted => return, // Written by the engine: the tool did not fail.
        }
        all.tool_result_size.get_or_create(&labels).observe(size_of_output(&result.output).bytes() as f64);
        if is_cut(&result.output) {
            all.tool_result_truncated.get_or_create(&labels).inc();
        }
        if let Some((_, took)) = result.ran() {
            all.tool_duration.get_or_create(&ToolLabels { tool: labels.tool }).observe(took.as_secs_f64());
        }
    }
}
