//! Running the calls of a reply.
//!
//! The start of a call is committed before the call starts, and its result as soon as there is one, whatever the others
//! do. So a crash in between leaves a call with an unknown outcome rather than one that silently runs again, and an
//! interrupt finds the finished ones finished.

mod hooks;
mod lost;
pub(crate) mod rest;
pub(crate) mod result;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use everturn_core::change::{Change, INTERRUPTED, refused};
use everturn_core::chat::{CallState, Effect, OpenCall};
use everturn_core::fact::Fact;
use everturn_core::ids::{CallUid, Timestamp};
use everturn_core::limits::Limits;
use everturn_core::message::{Call, CallResult, CallVerdict, Reply};
use everturn_stores::WriteError;
use serde_json::Value;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use crate::agent::Agent;
use crate::drive::inbox;
use crate::drive::session::{ChatSession, OnOutage};
use crate::engine::Engine;
use crate::observe::spans;
use crate::tool::permit::{CallPermits, NotStarted};
use crate::tool::progress::{ToolProgress, bounded};
use crate::tool::sub_agent::Caller;
use crate::tool::toolbox::{Runner, Shelf};
use crate::tool::{After, Beside, SharedTool, ToolContext, ToolError, ToolReturn};
use hooks::CallHook;
use lost::LostCall;
use result::{Finished, ToolResult, ToolTimeout};

/// The tracing target of the audit log: which tools ran for which chat and owner, and how they ended.
pub const AUDIT: &str = "everturn::audit";

/// The result of a call that was not run because the process had to stop.
const HALTED: &str = "The process had to stop before this call could be run. It was not run.";

/// A call that may start.
struct ReadyCall {
    call: Call,
    /// The name of the tool that runs, which is another one than was called if that stands for it.
    runs: String,
    input: Value,
    tool: SharedTool,
    effect: Effect,
    time_max: Duration,
    after: After,
    shown_bytes_max: usize,
    serial: bool,
    /// Whether it was started before, by a process that died.
    is_again: bool,
}

/// A call that runs.
struct RunningCall {
    task: Id,
    call: Call,
    /// See [`ReadyCall::runs`].
    runs: String,
    began: Timestamp,
    after: After,
    shown_bytes_max: usize,
    span: Span,
}

/// The calls of one reply while they run.
struct CallBatch {
    waiting: VecDeque<ReadyCall>,
    running: Vec<RunningCall>,
    tasks: JoinSet<Finished>,
    /// Fires when no more calls are to start.
    stop: CancellationToken,
    /// Fires when results are not wanted any more. The tools watch it.
    unwanted: CancellationToken,
    /// Progress texts that are not stored yet.
    progress: ToolProgress,
    /// When the next progress texts may be stored.
    show_from: Instant,
}

/// What a driver waits for while tools run.
enum ToolEvent {
    Finished(Result<(Id, Finished), JoinError>),
    Progress(BTreeMap<CallUid, String>),
}

impl CallBatch {
    fn new(waiting: Vec<ReadyCall>) -> Self {
        Self {
            waiting: waiting.into(),
            running: Vec::new(),
            tasks: JoinSet::new(),
            stop: CancellationToken::new(),
            unwanted: CancellationToken::new(),
            progress: ToolProgress::default(),
            show_from: Instant::now(),
        }
    }

    fn is_over(&self) -> bool {
        self.stop.is_cancelled() || (self.waiting.is_empty() && self.running.is_empty())
    }

    /// Takes the calls that may start now, with at most `at_once` running.
    fn take_ready(&mut self, at_once: usize) -> Vec<ReadyCall> {
        let mut ready = Vec::new();
        while let Some(next) = self.waiting.front() {
            let room = if next.serial { 1 } else { at_once };
            if self.running.len() + ready.len() >= room {
                break;
            }
            ready.extend(self.waiting.pop_front());
        }
        ready
    }
}

/// Runs every call that may run, and commits each result when it is there.
pub(crate) async fn run_calls(session: &mut ChatSession) -> Result<(), WriteError> {
    let rejected = rejected_calls(session);
    if !rejected.is_empty() {
        return commit_results(session, rejected).await;
    }
    let mut batch = classify_calls(session).await?;
    while !batch.is_over() {
        start_some(session, &mut batch).await?;
        finish_one(session, &mut batch).await?;
    }
    wind_down(session, batch).await
}

/// Moves the chat to waiting for answers of clients and people, up to a time.
pub(crate) async fn ask(session: &mut ChatSession) -> Result<(), WriteError> {
    let rejected = rejected_calls(session);
    if !rejected.is_empty() {
        return commit_results(session, rejected).await;
    }
    let until = session.now() + session.env.agent.limits.awaiting_max;
    session.change(|change| change.ask(until)).await
}

fn newest_reply(session: &ChatSession) -> &Reply {
    session.transcript.newest_reply().expect("open calls belong to a reply")
}

/// The results of open calls that may not run because of the calls beside them: one had to be alone, or there were too
/// many. They are not put to a person either.
fn rejected_calls(session: &ChatSession) -> Vec<CallResult> {
    let shelf = session.shelf();
    let len_max = session.env.agent.limits.calls_len_max;
    let is_open = |call: &Call| session.chat.calls.iter().any(|open| open.uid == call.uid);
    let open: Vec<(usize, &Call)> =
        newest_reply(session).calls().enumerate().filter(|(_, call)| is_open(call)).collect();
    // Once one has started the rule was kept, whatever the toolbox says by now.
    let begun = session.chat.calls.iter().any(|open| open.began().is_some());
    let alone = if begun { None } else { shelf.must_be_alone(open.iter().map(|(_, call)| *call)) };
    let at = session.now();
    let mut rejected = Vec::new();
    for (index, call) in open {
        let why = match &alone {
            Some(alone) if call.tool == *alone => {
                format!("`{alone}` must be called alone. Nothing was run: call it again without other calls.")
            }
            Some(alone) => format!("Not run, because `{alone}` must be called alone. Call this again afterwards."),
            None if index >= len_max => format!("Not run: one reply may make at most {len_max} calls."),
            None => continue,
        };
        rejected.push(refused(call, at, CallVerdict::Error, &why));
    }
    rejected
}

async fn commit_results(session: &mut ChatSession, results: Vec<CallResult>) -> Result<(), WriteError> {
    session.change(|change| results.into_iter().fold(change, Change::result)).await
}

/// Commits the results of calls that cannot run, and queues those that can: those beside others first, then the serial.
async fn classify_calls(session: &mut ChatSession) -> Result<CallBatch, WriteError> {
    let at = session.now();
    let shelf = session.shelf();
    let permits = CallPermits::of(session);
    let mut results: Vec<CallResult> = Vec::new();
    let mut ready: Vec<ReadyCall> = Vec::new();
    let mut lost: Vec<LostCall> = Vec::new();
    let limits = &session.env.agent.limits;
    let mut delegation = Delegation::of(session);
    for call in newest_reply(session).calls() {
        let Some(open) = session.chat.calls.iter().find(|open| open.uid == call.uid) else { continue };
        match open.state {
            CallState::AsksClient | CallState::AsksApproval | CallState::Rests { .. } => {}
            CallState::Started { effect: Effect::Once, at: began } => {
                lost.push(LostCall { call: call.clone(), began, progress: open.progress.clone() });
            }
            CallState::Ready | CallState::Approved if open.delegates && delegation.is_over(limits) => {
                let most = limits.sub_agents_max;
                let why = format!("Not run: one turn may ask at most {most} sub-agents. Do the task yourself.");
                results.push(refused(call, at, CallVerdict::Error, &why));
            }
            CallState::Ready | CallState::Approved if open.delegates && delegation.is_full(limits) => {}
            CallState::Ready | CallState::Approved | CallState::Started { .. } => {
                delegation.count(open);
                match ready_call(&shelf, &permits, &session.env.agent, call, open) {
                    Ok(start) => ready.push(start),
                    Err(NotStarted::Failed(why)) => results.push(refused(call, at, CallVerdict::Error, &why)),
                    Err(NotStarted::Denied(why)) => results.push(refused(call, at, CallVerdict::Denied, &why)),
                }
            }
        }
    }
    for result in results {
        commit_result(session, result, After::GoOn).await?;
    }
    for call in lost {
        lost::commit(session, call).await?;
    }
    ready.sort_by_key(|start| start.serial); // Stable: call order within each kind.
    Ok(CallBatch::new(ready))
}

/// The sub-agents of a chat while its calls are sorted.
struct Delegation {
    /// Those that the turn has asked.
    asked: u32,
    /// Those that work now.
    working: usize,
}

impl Delegation {
    fn of(session: &ChatSession) -> Self {
        let chat = &session.chat;
        let working = chat.calls.iter().filter(|open| open.delegates && open.began().is_some()).count();
        Self { asked: chat.turn.as_ref().map_or(0, |turn| turn.sub_agents), working }
    }

    const fn is_over(&self, limits: &Limits) -> bool {
        self.asked >= limits.sub_agents_max
    }

    fn is_full(&self, limits: &Limits) -> bool {
        self.working >= limits.sub_agents_at_once_max.max(1)
    }

    const fn count(&mut self, open: &OpenCall) {
        if open.delegates && open.is_to_start() {
            self.asked += 1;
            self.working += 1;
        }
    }
}

/// How a call is started, or why it is not. Its input is validated here.
fn ready_call(
    shelf: &Shelf,
    permits: &CallPermits<'_>,
    agent: &Agent,
    call: &Call,
    open: &OpenCall,
) -> Result<ReadyCall, NotStarted> {
    let Runner::Engine(entry, input) = shelf.runner(call).map_err(NotStarted::Failed)? else {
        let why = format!("Only a client can run `{}`, and none was asked. Call it again.", call.tool);
        return Err(NotStarted::Failed(why));
    };
    let policy = permits.start(entry, &input, open)?;
    Ok(ReadyCall {
        call: call.clone(),
        runs: entry.name().to_owned(),
        input,
        tool: entry.tool.clone(),
        effect: policy.effect,
        time_max: policy.time_max.unwrap_or(agent.limits.tool_time_max),
        after: policy.after,
        shown_bytes_max: policy.shown_bytes_max,
        serial: policy.beside == Beside::Serial,
        is_again: matches!(open.state, CallState::Started { .. }),
    })
}

/// Starts as many calls as may run at once. Their starts are committed first, together, and commands that arrived by then
/// are applied before anything runs. Nothing runs if another process may have the chat by then: this one may have been
/// suspended for any length of time in between.
async fn start_some(session: &mut ChatSession, batch: &mut CallBatch) -> Result<(), WriteError> {
    if session.env.halt.is_cancelled() {
        return Ok(());
    }
    if session.time_left().is_zero() {
        batch.stop.cancel();
        return Ok(());
    }
    if session.env.shared.stop.drain.is_cancelled() {
        if batch.running.is_empty() {
            batch.stop.cancel();
        }
        return Ok(());
    }
    let starts = loop {
        let ready = batch.take_ready(session.env.agent.limits.tools_at_once_max.max(1));
        if ready.is_empty() || batch.stop.is_cancelled() {
            return Ok(());
        }
        let permitted = hooks::permitted(session, ready, &batch.stop).await?;
        if !permitted.is_empty() {
            break permitted;
        }
    };
    let at = session.now();
    let intents = starts.iter().map(|start| Fact::Started { call: start.call.uid, effect: start.effect, at });
    session.commit(intents.collect(), OnOutage::Wait).await?;
    inbox::apply_if_signalled(session, &batch.stop).await?;
    let may_drive = !session.env.halt.is_cancelled() && session.holds_lease();
    if may_drive && !batch.stop.is_cancelled() {
        starts.into_iter().for_each(|start| spawn_call(session, batch, start, at));
        return Ok(());
    }
    let why = if may_drive { INTERRUPTED } else { HALTED };
    // The next process runs by itself what does no harm twice.
    for start in starts.iter().filter(|start| may_drive || start.effect == Effect::Once) {
        let not_run = refused(&start.call, session.now(), CallVerdict::Interrupted, why);
        commit_result(session, not_run, After::GoOn).await?;
    }
    Ok(())
}

/// The context of a call of this chat.
fn context(session: &ChatSession, call: CallUid, cancel: CancellationToken, progress: ToolProgress) -> ToolContext {
    ToolContext {
        chat: session.chat.id,
        owner: session.chat.owner.clone(),
        call,
        cancel,
        answered: None,
        progress,
        engine: Some(Engine::of(session.env.shared.clone())),
        caller: Caller::of(&session.chat, call, &session.env.agent.limits),
    }
}

fn spawn_call(session: &ChatSession, batch: &mut CallBatch, start: ReadyCall, began: Timestamp) {
    let hook = CallHook::of(session, &start);
    let ReadyCall { call, runs, input, tool, time_max, after, shown_bytes_max, .. } = start;
    let cancel = batch.unwanted.child_token();
    let progress = batch.progress.clone();
    let mut context = context(session, call.uid, cancel.clone(), progress);
    context.answered = rest::answered(session, call.uid);
    let grace = session.env.agent.limits.kill_grace_max;
    let run = async move {
        let mut run = tool.run(context, input);
        if let Ok(mut done) = timeout(time_max, &mut run).await {
            if let Some(hook) = hook {
                hook.after(&mut done).await;
            }
            return Ok(done);
        }
        cancel.cancel();
        match timeout(grace, run).await {
            Ok(Ok(output)) => Ok(Ok(output)), // Late, but done: reporting a timeout would have it done twice.
            Ok(Err(error)) => {
                let message = format!("{} It said: {}", ToolTimeout(time_max), error.message);
                Ok(Err(ToolError { message, ..error }))
            }
            Err(_) => Err(ToolTimeout(time_max)),
        }
    };
    let run = until_halted(run, session.env.halt.clone(), grace);
    let span = session.observers.spans.tool(&session.chat, &runs, call.uid);
    let chat = session.chat.id;
    let owner = &session.chat.owner;
    tracing::info!(target: AUDIT, event = "tool_started", %chat, owner, call = %call.uid, tool = runs);
    let task = batch.tasks.spawn(run.instrument(span.clone())).id();
    batch.running.push(RunningCall { task, call, runs, began, after, shown_bytes_max, span });
}

/// Waits for the next result, or for progress to show, and commits it.
async fn finish_one(session: &mut ChatSession, batch: &mut CallBatch) -> Result<(), WriteError> {
    if batch.running.is_empty() && batch.waiting.is_empty() {
        return Ok(()); // Hooks refused all of them.
    }
    let CallBatch { tasks, running, stop, progress, show_from, .. } = batch;
    let stopped = stop.clone();
    let not_before = *show_from;
    let next = async {
        tokio::select! {
            biased;
            Some(done) = tasks.join_next_with_id() => Some(ToolEvent::Finished(done)),
            () = stopped.cancelled() => None,
            newest = progress.next(not_before) => Some(ToolEvent::Progress(newest)),
        }
    };
    match inbox::listen_during(session, next, stop).await? {
        Some(ToolEvent::Finished(done)) => finished(session, running, done).await,
        Some(ToolEvent::Progress(newest)) => {
            *show_from = Instant::now() + session.env.agent.limits.progress_every;
            progressed(session, running, &newest).await
        }
        None => Ok(()),
    }
}

async fn progressed(
    session: &mut ChatSession,
    running: &[RunningCall],
    newest: &BTreeMap<CallUid, String>,
) -> Result<(), WriteError> {
    let bytes_max = session.env.agent.limits.progress_bytes_max;
    let runs = |call: CallUid| running.iter().any(|running| running.call.uid == call);
    let shown = newest.iter().filter(|(call, _)| runs(**call)); // A task may outlive the call that spawned it.
    let facts: Vec<Fact> =
        shown.map(|(call, text)| Fact::Progressed { call: *call, text: bounded(text, bytes_max) }).collect();
    if facts.is_empty() { Ok(()) } else { session.commit(facts, OnOutage::Wait).await }
}

async fn finished(
    session: &mut ChatSession,
    running: &mut Vec<RunningCall>,
    done: Result<(Id, Finished), JoinError>,
) -> Result<(), WriteError> {
    let task = done.as_ref().map_or_else(JoinError::id, |(task, _)| *task);
    let Some(index) = running.iter().position(|running| running.task == task) else {
        return Ok(());
    };
    let RunningCall { call, runs, began, after, shown_bytes_max, span, .. } = running.remove(index);
    let returned = match result::returned(done.map(|(_, finished)| finished)) {
        Ok(ToolReturn::Rests(rests)) => return rest::record(session, &call, &runs, &rests).await,
        Ok(ToolReturn::Asks(asks)) => {
            let handle = rest::stored(&call.tool, &runs, &asks.handle);
            return rest::ask(session, call.uid, handle, &asks.question).await;
        }
        Ok(ToolReturn::Done(output)) => Ok(output),
        Err(error) => Err(error),
    };
    let ToolResult { verdict, output, meta } = ToolResult::of(session, call.uid, returned, shown_bytes_max);
    spans::tool_ended(&span, verdict);
    let ended = session.now();
    let result = CallResult { call: call.uid, tool: call.tool, verdict, output, began: Some(began), ended, meta };
    commit_result(session, result, after).await
}

async fn commit_result(session: &mut ChatSession, result: CallResult, after: After) -> Result<(), WriteError> {
    if result.began.is_some() {
        let chat = session.chat.id;
        let owner = &session.chat.owner;
        let verdict = result.verdict;
        tracing::info!(target: AUDIT, event = "tool_ended", %chat, owner, call = %result.call, tool = result.tool, ?verdict);
    }
    let went_on_elsewhere = session.chat.call_state(result.call).is_some_and(CallState::rests);
    let stops = after == After::Stop && result.verdict == CallVerdict::Done;
    let stop_after = stops.then(|| Fact::StopAfter(result.tool.clone()));
    let delegated = if went_on_elsewhere { rest::delegated(session).await? } else { None };
    session
        .change(|change: &mut Change<'_>| {
            if let Some(fact) = delegated {
                change.fact(fact);
            }
            if went_on_elsewhere {
                change.ended_elsewhere(result)
            } else {
                change.result(result)
            };
            if let Some(fact) = stop_after {
                change.fact(fact);
            }
            change
        })
        .await
}

/// No more calls are to start. Those that run get a grace period to return, and results that come in it are kept.
///
/// When a command stopped the turn, the tools are cancelled at once, and dropped after the grace period. When the process
/// stops, they are not cancelled: a tool that gave up would answer for the turn, which is not over and goes on elsewhere,
/// as after a crash. A tool that cannot even be dropped, because it blocks its thread, is not waited for.
async fn wind_down(session: &mut ChatSession, mut batch: CallBatch) -> Result<(), WriteError> {
    let now = Instant::now();
    let grace = now + session.env.agent.limits.kill_grace_max;
    let by_force = now + session.env.agent.limits.interrupt_max;
    if batch.stop.is_cancelled() && !session.env.halt.is_cancelled() {
        batch.unwanted.cancel();
        inbox::apply_up_to_edit(session).await?;
    }
    while !batch.running.is_empty() {
        let Ok(Some(done)) = timeout_at(grace, batch.tasks.join_next_with_id()).await else {
            break;
        };
        finished(session, &mut batch.running, done).await?;
    }
    batch.unwanted.cancel();
    let _ = timeout_at(by_force, batch.tasks.shutdown()).await;
    Ok(())
}

/// Runs a tool, and drops it when this process was halted and the grace period is over. The driver would do so too, but may
/// be waiting for the very store that is unavailable. A dropped tool has no result.
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
