//! Running the calls of a reply.
//!
//! The start of a call is committed before the call starts, and its result as soon as there is one, whatever the others
//! do. So a crash in between leaves a call whose outcome is unknown rather than one that silently runs again, and an
//! interrupt finds the finished ones finished.

use std::collections::VecDeque;
use std::time::Duration;

use everturn_core::change::{Change, UNKNOWN, refused};
use everturn_core::chat::{CallState, Effect};
use everturn_core::fact::Fact;
use everturn_core::ids::{CallUid, Timestamp};
use everturn_core::message::{Body, Call, CallResult, Meta, Output, Reply, Verdict};
use everturn_core::truncate;
use everturn_stores::WriteError;
use serde_json::Value;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::driver::Driver;
use crate::tool::{After, Beside, SharedTool, ToolContext, ToolError, ToolOutput};

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
}

/// What a finished call's task gives.
type Finished = Result<Result<ToolOutput, ToolError>, Late>;

/// A tool that did not come back in time.
#[derive(Debug)]
struct Late(Duration);

/// The calls of one reply, on their way.
struct Batch {
    waiting: VecDeque<Start>,
    running: Vec<Running>,
    tasks: JoinSet<Finished>,
    cancel: CancellationToken,
}

impl Driver {
    /// Runs every call that may run, and commits each result when it is there.
    pub(crate) async fn run_calls(&mut self) -> Result<(), WriteError> {
        let reply = self.newest_reply();
        let shelf = self.agent.toolbox.shelf();
        if let Some(alone) = shelf.must_be_alone(reply.calls()) {
            return self.reject_all(&reply, &alone).await;
        }
        let mut batch = self.sort_out(&reply).await?;
        while !(batch.waiting.is_empty() && batch.running.is_empty()) && !batch.cancel.is_cancelled() {
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

    /// One of several calls had to be alone: none runs, and each is told why.
    async fn reject_all(&mut self, reply: &Reply, alone: &str) -> Result<(), WriteError> {
        let open: Vec<Call> = reply.calls().filter(|call| self.is_open(call.uid)).cloned().collect();
        let at = self.now();
        let told = |call: &Call| {
            if call.tool == alone {
                format!("`{alone}` must be called alone. Nothing was run: call it again without other calls.")
            } else {
                format!("Not run, because `{alone}` must be called alone. Call this again afterwards.")
            }
        };
        self.change(|change| {
            for call in &open {
                change.result(refused(call, at, Verdict::Error, &told(call)));
            }
            change
        })
        .await
    }

    fn is_open(&self, uid: CallUid) -> bool {
        self.chat.calls.iter().any(|open| open.uid == uid)
    }

    /// Answers the calls that cannot run, and lines up those that can: the ones beside others first, then the serial.
    async fn sort_out(&mut self, reply: &Reply) -> Result<Batch, WriteError> {
        let (at, shelf) = (self.now(), self.agent.toolbox.shelf());
        let mut answers: Vec<CallResult> = Vec::new();
        let mut waiting: Vec<Start> = Vec::new();
        for call in reply.calls() {
            let Some(open) = self.chat.calls.iter().find(|open| open.uid == call.uid) else { continue };
            match open.state {
                CallState::AsksClient | CallState::AsksApproval => continue,
                CallState::Started { effect: Effect::Once, at: began } => {
                    let unknown = refused(call, at, Verdict::Unknown, UNKNOWN);
                    answers.push(CallResult { began: Some(began), ..unknown });
                    continue;
                }
                CallState::Ready | CallState::Started { .. } => {}
            }
            match shelf.find(&call.tool).and_then(|entry| Ok((entry, entry.input(&call.input)?))) {
                Ok((entry, input)) => waiting.push(Start {
                    call: call.clone(),
                    input,
                    tool: entry.tool.clone(),
                    effect: entry.policy.effect,
                    time_max: entry.policy.time_max.unwrap_or(self.agent.limits.tool_time_max),
                    after: entry.policy.after,
                    serial: entry.policy.beside == Beside::Serial,
                }),
                Err(told) => answers.push(refused(call, at, Verdict::Error, &told)),
            }
        }
        for answer in answers {
            self.answer(answer, After::GoOn).await?;
        }
        waiting.sort_by_key(|start| start.serial); // Stable: call order within each kind.
        let (tasks, cancel) = (JoinSet::new(), CancellationToken::new());
        Ok(Batch { waiting: waiting.into(), running: Vec::new(), tasks, cancel })
    }

    /// Starts as many as may run at once. Their starts are committed first, together.
    async fn start_some(&mut self, batch: &mut Batch) -> Result<(), WriteError> {
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
        for start in starts {
            self.start(batch, start, at);
        }
        Ok(())
    }

    fn start(&self, batch: &mut Batch, start: Start, began: Timestamp) {
        let Start { call, input, tool, time_max, after, .. } = start;
        let cancel = batch.cancel.child_token();
        let context = ToolContext { chat: self.chat.id, call: call.uid, cancel: cancel.clone() };
        let run = async move {
            let late = tokio::time::timeout(time_max, tool.run(context, input)).await;
            late.map_err(|_| {
                cancel.cancel();
                Late(time_max)
            })
        };
        let task = batch.tasks.spawn(run).id();
        batch.running.push(Running { task, call, began, after });
    }

    /// Waits for the next result and commits it.
    async fn finish_one(&mut self, batch: &mut Batch) -> Result<(), WriteError> {
        let Batch { tasks, running, cancel, .. } = batch;
        let stopped = cancel.clone();
        let next = async {
            tokio::select! {
                biased;
                done = tasks.join_next_with_id() => done,
                () = stopped.cancelled() => None,
            }
        };
        match self.listening(next, cancel).await? {
            Some(done) => self.finished(running, done).await,
            None => Ok(()),
        }
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
        let Running { call, began, after, .. } = running.remove(place);
        let (verdict, output, meta) = self.judge(done.map(|(_, finished)| finished));
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

    /// What a finished task means, within the bounds of a result.
    fn judge(&self, done: Result<Finished, JoinError>) -> (Verdict, Output, Meta) {
        let error = |text: String| (Verdict::Error, Output::text(text), Meta::new());
        let budget = truncate::budget(self.context_limit());
        match done {
            Ok(Ok(Ok(ToolOutput { bytes, media, meta }))) => {
                let output = truncate::output(bytes, budget);
                (Verdict::Done, Output { media, ..output }, meta)
            }
            Ok(Ok(Err(ToolError { message, meta }))) => {
                (Verdict::Error, truncate::output(message.into_bytes(), budget), meta)
            }
            Ok(Err(Late(time))) => error(format!("The tool did not finish within {} seconds.", time.as_secs())),
            Err(join) if join.is_panic() => error(format!("The tool panicked: {}", panic_text(join))),
            Err(_) => error("The tool was stopped.".into()),
        }
    }

    async fn answer(&mut self, result: CallResult, after: After) -> Result<(), WriteError> {
        let stops = after == After::Stop && result.verdict == Verdict::Done;
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

    /// Somebody stopped the turn, or the process: tools get a moment to come back, and are dropped then. What comes back
    /// is kept.
    async fn wind_down(&mut self, mut batch: Batch) -> Result<(), WriteError> {
        let deadline = tokio::time::Instant::now() + self.agent.limits.kill_grace_max;
        while !batch.running.is_empty() {
            let Ok(Some(done)) = tokio::time::timeout_at(deadline, batch.tasks.join_next_with_id()).await else {
                break;
            };
            self.finished(&mut batch.running, done).await?;
        }
        batch.tasks.shutdown().await;
        Ok(())
    }
}

fn panic_text(join: JoinError) -> String {
    let payload = join.into_panic();
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}
