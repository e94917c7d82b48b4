//! Running the calls of a reply.
//!
//! The start of a call is committed before the call starts, and its result as soon as there is one, whatever the others
//! do. So a crash in between leaves a call whose outcome is unknown rather than one that silently runs again, and an
//! interrupt finds the finished ones finished.

mod result;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use everturn_core::change::{Change, INTERRUPTED, UNKNOWN, refused};
use everturn_core::chat::{CallState, Effect};
use everturn_core::fact::Fact;
use everturn_core::ids::{CallUid, Timestamp};
use everturn_core::message::{Body, Call, CallResult, CallVerdict, Reply};
use everturn_stores::WriteError;
use serde_json::Value;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use crate::drive::Driver;
use crate::drive::tools::result::{Finished, Late};
use crate::observe::spans;
use crate::tool::progress::{Progress, bounded};
use crate::tool::toolbox::Runner;
use crate::tool::{After, Approval, Beside, SharedTool, ToolContext, ToolError};

/// The target of what is worth keeping: who let what run, and what came of it.
pub const AUDIT: &str = "everturn::audit";

/// What the model is told of a call whose process had to stop just before it.
const HALTED: &str = "The process had to stop before this call could be run. It was not run.";

/// A call that may start.
struct Start {
    call: Call,
    input: Value,
    tool: SharedTool,
    effect: Effect,
    time_max: Duration,
    after: After,
    serial: bool,
}

/// A call that runs.
struct Running {
    task: Id,
    call: Call,
    began: Timestamp,
    after: After,
    span: Span,
}

/// The calls of one reply, on their way.
struct Batch {
    waiting: VecDeque<Start>,
    running: Vec<Running>,
    tasks: JoinSet<Finished>,
    /// Fires when no more calls are to start.
    stop: CancellationToken,
    /// Fires when results are not wanted any more: what the tools watch.
    unwanted: CancellationToken,
    /// What the tools want to show.
    progress: Progress,
    /// When the next of that may be stored.
    show_from: Instant,
}

/// What a driver waits for while tools run.
enum Heard {
    Finished(Result<(Id, Finished), JoinError>),
    Progress(BTreeMap<CallUid, String>),
}

impl Batch {
    fn is_over(&self) -> bool {
        self.stop.is_cancelled() || (self.waiting.is_empty() && self.running.is_empty())
    }
}

impl Driver {
    /// Runs every call that may run, and commits each result when it is there.
    pub(crate) async fn run_calls(&mut self) -> Result<(), WriteError> {
        if self.turn_away().await? {
            return Ok(());
        }
        let mut batch = self.sort_out().await?;
        while !batch.is_over() {
            self.start_some(&mut batch).await?;
            self.finish_one(&mut batch).await?;
        }
        self.wind_down(batch).await
    }

    fn newest_reply(&self) -> Reply {
        let newest = self.messages.iter().rev().find_map(|message| match &message.body {
            Body::Reply(reply) => Some((**reply).clone()),
            _ => None,
        });
        newest.expect("open calls belong to a reply")
    }

    /// Answers the calls that may not run because of those they came with: one had to be alone, or they were too many.
    /// Nobody is asked about them either. Says whether there were any.
    pub(crate) async fn turn_away(&mut self) -> Result<bool, WriteError> {
        let (reply, shelf) = (self.newest_reply(), self.shelf());
        let len_max = self.agent.limits.calls_len_max;
        let open = || reply.calls().enumerate().filter(|(_, call)| self.is_open(call.uid));
        // Once one has started the rule was kept, whatever the toolbox says by now.
        let begun = self.chat.calls.iter().any(|open| matches!(open.state, CallState::Started { .. }));
        let alone = if begun { None } else { shelf.must_be_alone(open().map(|(_, call)| call)) };
        let told = |(place, call): (usize, &Call)| match &alone {
            Some(alone) if call.tool == *alone => {
                Some(format!("`{alone}` must be called alone. Nothing was run: call it again without other calls."))
            }
            Some(alone) => {
                Some(format!("Not run, because `{alone}` must be called alone. Call this again afterwards."))
            }
            None if place >= len_max => Some(format!("Not run: one reply may make at most {len_max} calls.")),
            None => None,
        };
        let at = self.now();
        let refusal = |(place, call)| Some(refused(call, at, CallVerdict::Error, &told((place, call))?));
        let refusals: Vec<CallResult> = open().filter_map(refusal).collect();
        if refusals.is_empty() {
            return Ok(false);
        }
        self.change(|change| refusals.into_iter().fold(change, Change::result)).await?;
        Ok(true)
    }

    fn is_open(&self, uid: CallUid) -> bool {
        self.chat.calls.iter().any(|open| open.uid == uid)
    }

    /// Answers the calls that cannot run, and lines up those that can: the ones beside others first, then the serial.
    async fn sort_out(&mut self) -> Result<Batch, WriteError> {
        let (at, reply) = (self.now(), self.newest_reply());
        let mut answers: Vec<CallResult> = Vec::new();
        let mut waiting: Vec<Start> = Vec::new();
        for call in reply.calls() {
            let Some(open) = self.chat.calls.iter().find(|open| open.uid == call.uid) else { continue };
            match open.state {
                CallState::AsksClient | CallState::AsksApproval => {}
                CallState::Started { effect: Effect::Once, at: began } => {
                    let unknown = refused(call, at, CallVerdict::Unknown, UNKNOWN);
                    answers.push(CallResult { began: Some(began), ..unknown });
                }
                CallState::Ready | CallState::Approved | CallState::Started { .. } => {
                    match self.start_of(call, open.state) {
                        Ok(start) => waiting.push(start),
                        Err(told) => answers.push(refused(call, at, CallVerdict::Error, &told)),
                    }
                }
            }
        }
        for answer in answers {
            self.answer(answer, After::GoOn).await?;
        }
        waiting.sort_by_key(|start| start.serial); // Stable: call order within each kind.
        let (stop, unwanted) = (CancellationToken::new(), CancellationToken::new());
        Ok(Batch {
            waiting: waiting.into(),
            running: Vec::new(),
            tasks: JoinSet::new(),
            stop,
            unwanted,
            progress: Progress::default(),
            show_from: Instant::now(),
        })
    }

    /// How a call is started, or why it cannot be.
    fn start_of(&self, call: &Call, state: CallState) -> Result<Start, String> {
        let shelf = self.shelf();
        let Runner::Us(entry, input) = shelf.runner(call)? else {
            return Err(format!("Only a client can run `{}`, and none was asked. Call it again.", call.tool));
        };
        if state == CallState::Ready && entry.policy.approval == Approval::Needed {
            // The tool came, or changed, after the call was made: nobody has been asked.
            return Err(format!("A person has to allow `{}`, and none was asked. Call it again.", call.tool));
        }
        Ok(Start {
            call: call.clone(),
            input,
            tool: entry.tool.clone(),
            effect: entry.policy.effect,
            time_max: entry.policy.time_max.unwrap_or(self.agent.limits.tool_time_max),
            after: entry.policy.after,
            serial: entry.policy.beside == Beside::Serial,
        })
    }

    /// Starts as many as may run at once. Their starts are committed first, together, and whoever wanted the turn stopped
    /// by then is heard before anything runs. Nor does anything if the chat may be another's by then: a process may stand
    /// still for any length of time in between.
    async fn start_some(&mut self, batch: &mut Batch) -> Result<(), WriteError> {
        if self.halt.is_cancelled() {
            return Ok(());
        }
        if self.time_left().is_zero() {
            batch.stop.cancel();
            return Ok(());
        }
        if self.ports.drain.is_cancelled() {
            if batch.running.is_empty() {
                batch.stop.cancel();
            }
            return Ok(());
        }
        let mut starts = Vec::new();
        let mut busy = batch.running.len();
        while let Some(next) = batch.waiting.front() {
            let room = if next.serial { 1 } else { self.agent.limits.tools_at_once_max.max(1) };
            if busy >= room {
                break;
            }
            busy += 1;
            starts.extend(batch.waiting.pop_front());
        }
        if starts.is_empty() {
            return Ok(());
        }
        let at = self.now();
        let intents = starts.iter().map(|start| Fact::Started { call: start.call.uid, effect: start.effect, at });
        self.commit(intents.collect()).await?;
        self.listen_if_rung(&batch.stop).await?;
        let may_drive = !self.halt.is_cancelled() && self.ports.store.holds(&self.lease);
        if may_drive && !batch.stop.is_cancelled() {
            starts.into_iter().for_each(|start| self.start(batch, start, at));
            return Ok(());
        }
        let told = if may_drive { INTERRUPTED } else { HALTED };
        // Whoever goes on runs by itself what does no harm twice.
        for start in starts.iter().filter(|start| may_drive || start.effect == Effect::Once) {
            let not_run = refused(&start.call, self.now(), CallVerdict::Interrupted, told);
            self.answer(not_run, After::GoOn).await?;
        }
        Ok(())
    }

    fn start(&self, batch: &mut Batch, start: Start, began: Timestamp) {
        let Start { call, input, tool, time_max, after, .. } = start;
        let cancel = batch.unwanted.child_token();
        let progress = batch.progress.clone();
        let context = ToolContext { chat: self.chat.id, call: call.uid, cancel: cancel.clone(), progress };
        let grace = self.agent.limits.kill_grace_max;
        let run = async move {
            let mut run = tool.run(context, input);
            if let Ok(done) = timeout(time_max, &mut run).await {
                return Ok(done);
            }
            cancel.cancel();
            match timeout(grace, run).await {
                Ok(Ok(output)) => Ok(Ok(output)), // Late, but done: saying otherwise would have it done twice.
                Ok(Err(ToolError { message, meta })) => {
                    Ok(Err(ToolError { message: format!("{} It said: {message}", Late(time_max)), meta }))
                }
                Err(_) => Err(Late(time_max)),
            }
        };
        let run = until_halted(run, self.halt.clone(), grace);
        let span = self.spans.tool(&self.chat, &call.tool, call.uid);
        let (chat, owner) = (self.chat.id, &self.chat.owner);
        tracing::info!(target: AUDIT, event = "tool_started", %chat, owner, call = %call.uid, tool = call.tool);
        let task = batch.tasks.spawn(run.instrument(span.clone())).id();
        batch.running.push(Running { task, call, began, after, span });
    }

    /// Waits for the next result, or for something to show, and commits it.
    async fn finish_one(&mut self, batch: &mut Batch) -> Result<(), WriteError> {
        let Batch { tasks, running, stop, progress, show_from, .. } = batch;
        let (stopped, not_before) = (stop.clone(), *show_from);
        let next = async {
            tokio::select! {
                biased;
                Some(done) = tasks.join_next_with_id() => Some(Heard::Finished(done)),
                () = stopped.cancelled() => None,
                newest = progress.next(not_before) => Some(Heard::Progress(newest)),
            }
        };
        match self.listening(next, stop).await? {
            Some(Heard::Finished(done)) => self.finished(running, done).await,
            Some(Heard::Progress(newest)) => {
                *show_from = Instant::now() + self.agent.limits.progress_every;
                self.progressed(running, &newest).await
            }
            None => Ok(()),
        }
    }

    async fn progressed(&mut self, running: &[Running], newest: &BTreeMap<CallUid, String>) -> Result<(), WriteError> {
        let bytes_max = self.agent.limits.progress_bytes_max;
        let runs = |call: CallUid| running.iter().any(|running| running.call.uid == call);
        let shown = newest.iter().filter(|(call, _)| runs(**call)); // A task may outlive the call that began it.
        let facts: Vec<Fact> =
            shown.map(|(call, text)| Fact::Progressed { call: *call, text: bounded(text, bytes_max) }).collect();
        if facts.is_empty() { Ok(()) } else { self.commit(facts).await }
    }

    async fn finished(
        &mut self,
        running: &mut Vec<Running>,
        done: Result<(Id, Finished), JoinError>,
    ) -> Result<(), WriteError> {
        let task = done.as_ref().map_or_else(JoinError::id, |(task, _)| *task);
        let Some(place) = running.iter().position(|running| running.task == task) else {
            return Ok(());
        };
        let Running { call, began, after, span, .. } = running.remove(place);
        let (verdict, output, meta) = self.judge(done.map(|(_, finished)| finished));
        spans::tool_ended(&span, verdict);
        let result = CallResult {
            call: call.uid,
            tool: call.tool,
            verdict,
            output,
            began: Some(began),
            ended: self.now(),
            meta,
        };
        self.answer(result, after).await
    }

    async fn answer(&mut self, result: CallResult, after: After) -> Result<(), WriteError> {
        if result.began.is_some() {
            let (chat, owner, verdict) = (self.chat.id, &self.chat.owner, result.verdict);
            tracing::info!(target: AUDIT, event = "tool_ended", %chat, owner, call = %result.call, tool = result.tool, ?verdict);
        }
        let stops = after == After::Stop && result.verdict == CallVerdict::Done;
        let stop_after = stops.then(|| Fact::StopAfter(result.tool.clone()));
        self.change(|change: &mut Change<'_>| {
            change.result(result);
            if let Some(fact) = stop_after {
                change.fact(fact);
            }
            change
        })
        .await
    }

    /// No more calls are to start. Those that run get a moment to come back, and what comes back in it is kept.
    ///
    /// When a person stopped the turn, the tools are told at once, and dropped after the moment. When the process stops,
    /// they are not: a tool that gave up would answer for the turn, which is not over and goes on elsewhere, as after a
    /// crash. A tool that cannot even be dropped, because it holds its thread, is not waited for.
    async fn wind_down(&mut self, mut batch: Batch) -> Result<(), WriteError> {
        let (limits, now) = (&self.agent.limits, Instant::now());
        let (grace, by_force) = (now + limits.kill_grace_max, now + limits.interrupt_max);
        if batch.stop.is_cancelled() && !self.halt.is_cancelled() {
            batch.unwanted.cancel();
            self.acknowledge().await?;
        }
        while !batch.running.is_empty() {
            let Ok(Some(done)) = timeout_at(grace, batch.tasks.join_next_with_id()).await else {
                break;
            };
            self.finished(&mut batch.running, done).await?;
        }
        batch.unwanted.cancel();
        let _ = timeout_at(by_force, batch.tasks.shutdown()).await;
        Ok(())
    }
}

/// Runs a tool, and lets go of it when this process may not go on and its grace is over. Its driver would do so too, but may
/// be waiting for the very store that cannot be reached. What then never comes back is nobody's result.
async fn until_halted<T>(run: impl Future<Output = T>, halt: CancellationToken, grace: Duration) -> T {
    let halted = async {
        halt.cancelled().await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        biased;
        done = run => return done,
        () = halted => {}
    }
    std::future::pending().await
}
