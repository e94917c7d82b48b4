//! Calls that go on elsewhere: looking what became of them, and telling them to stop.
//!
//! A tool that returned a handle holds nothing here: no work slot, no task. The handle and the time of the next look are
//! committed, so whichever process has the chat then looks. Looking changes nothing, so it needs no record before it, and a
//! look that a command or a shutdown cuts short is simply made again.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use everturn_core::chat::{CallState, OpenCall};
use everturn_core::fact::Fact;
use everturn_core::ids::{CallUid, Timestamp};
use everturn_core::message::{Call, CallResult};
use everturn_core::status::Status;
use everturn_stores::{StoreError, WriteError};
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::drive::session::{ChatSession, OnOutage};
use crate::drive::tools::result::ToolResult;
use crate::drive::tools::{commit_result, context};
use crate::tool::progress::ToolProgress;
use crate::tool::{LookResult, QuestionAnswer, RestingCall, Tool, ToolContext, ToolError, ToolOutput};

/// The key of a stored handle that names the tool that runs, if that is not the one that was called.
const RUNS: &str = "everturn.runs";
/// How long one look may take. A tool may use it to wait for the end instead of being asked again and again.
const LOOK_MAX: Duration = Duration::from_secs(30);
/// Calls of sub-agents that are noted per call. Of more, the others are noted when these are answered.
const ASKS_BELOW_LEN_MAX: usize = 128;
/// The shortest pause between two looks.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause between two looks.
const PAUSE_MAX: Duration = Duration::from_secs(3600);
/// The pause after the first look that failed; doubled with each, up to [`MISS_PAUSE_MAX`].
const MISS_PAUSE: Duration = Duration::from_secs(1);
const MISS_PAUSE_MAX: Duration = Duration::from_secs(60);

/// One look and the call it is for.
type Looked = (OpenCall, Result<LookResult, ToolError>);

/// Commits that a call goes on elsewhere.
pub(crate) async fn record(
    session: &mut ChatSession,
    call: &Call,
    runs: &str,
    rests: &RestingCall,
) -> Result<(), WriteError> {
    let handle = stored(&call.tool, runs, &rests.handle);
    let call = call.uid;
    let at = session.now();
    let look_at = at + rests.look_after.clamp(PAUSE_MIN, PAUSE_MAX);
    session.commit(vec![Fact::Rested { call, handle, at, look_at, misses: 0 }], OnOutage::Wait).await
}

/// Commits that a call cannot go on before a person has answered.
pub(crate) async fn ask(
    session: &mut ChatSession,
    call: CallUid,
    handle: Arc<str>,
    question: &Value,
) -> Result<(), WriteError> {
    let at = session.now();
    let question = question.to_string().into();
    session.commit(vec![Fact::Asked { call, handle, question, at }], OnOutage::Wait).await
}

/// The handle as it is stored: with the tool that runs, if that is not the one that was called.
pub(crate) fn stored(called: &str, runs: &str, handle: &Value) -> Arc<str> {
    match called == runs {
        true => handle.to_string().into(),
        false => json!({RUNS: runs, "handle": handle}).to_string().into(),
    }
}

/// The question that a call asked, by its handle, and the answer.
pub(crate) fn answered(session: &ChatSession, call: CallUid) -> Option<(Value, QuestionAnswer)> {
    let open = session.chat.calls.iter().find(|open| open.uid == call)?;
    let mut stored: Value = serde_json::from_str(open.handle.as_deref()?).ok()?;
    let said = |key: &str| stored["answer"][key].as_str().map(str::to_owned);
    let answer =
        said("output").map(QuestionAnswer::Output).or_else(|| said("declined").map(QuestionAnswer::Declined))?;
    let mut handle = stored["handle"].take();
    if handle.get(RUNS).is_some() {
        handle = handle["handle"].take();
    }
    Some((handle, answer))
}

/// When the next look is due, or the wait is over; `None` if that is now.
pub(crate) fn waits_until(session: &ChatSession) -> Option<Timestamp> {
    let now = session.now();
    let over = session.chat.awaits_until?;
    let looks = session.chat.calls.iter().filter_map(|open| look_at(open, now));
    let first = looks.min().map_or(over, |look| look.min(over));
    (now < first).then_some(first)
}

/// When to look at a call that rests. A time further off than any pause was stored by a clock that was ahead: that is now.
fn look_at(open: &OpenCall, now: Timestamp) -> Option<Timestamp> {
    match open.state {
        CallState::Rests { look_at, .. } => Some(if now + PAUSE_MAX < look_at { now } else { look_at }),
        _ => None,
    }
}

/// Looks at every call that is due, and commits what was found. Ends early when a command arrives or the process stops.
pub(crate) async fn look(session: &mut ChatSession) -> Result<(), WriteError> {
    let now = session.now();
    match session.chat.awaits_until {
        None => {
            let until = now + session.env.agent.limits.awaiting_max;
            return session.change(|change| change.await_calls(until)).await;
        }
        Some(until) if until <= now => {
            let_go_all(session).await;
            return session.change(|change| change.expire()).await;
        }
        Some(_) => {}
    }
    let mut looks = start_looks(session, now);
    let drain = session.env.shared.stop.drain.clone();
    let halt = session.env.halt.clone();
    let signals = session.env.signals.clone();
    loop {
        let looked = tokio::select! {
            biased;
            () = halt.cancelled() => return Ok(()),
            () = drain.cancelled() => return Ok(()),
            () = signals.inbox.notified() => return Ok(()), // Applied at the top of the driver's loop.
            looked = looks.join_next() => looked,
        };
        match looked {
            None => return Ok(()),
            Some(Ok((open, looked))) => {
                commit_look(session, &open, looked).await?;
                if has_other_work(session) {
                    return Ok(()); // Looks that are dropped are made again.
                }
            }
            Some(Err(join)) => tracing::error!(chat = %session.chat.id, %join, "look at a resting call failed"),
        }
    }
}

/// Whether the driver has something to do beside looking: a call that was held back can begin, or people are to be asked.
fn has_other_work(session: &ChatSession) -> bool {
    let chat = &session.chat;
    let limits = &session.env.agent.limits;
    let is_to_ask = chat.status == Status::Running && chat.waits_for_people();
    is_to_ask || chat.calls.iter().any(|open| chat.may_run(open, limits))
}

/// What the chats of sub-agents have used, if that is more than the chat knows.
pub(crate) async fn delegated(session: &ChatSession) -> Result<Option<Fact>, StoreError> {
    if !session.chat.calls.iter().any(|open| open.delegates) {
        return Ok(None);
    }
    let used = session.env.shared.store.used_below(session.chat.id).await?;
    Ok((used != session.chat.delegated).then_some(Fact::Delegated(used)))
}

fn start_looks(session: &ChatSession, now: Timestamp) -> JoinSet<Looked> {
    let shelf = session.shelf();
    let mut looks = JoinSet::new();
    let is_due = |open: &&OpenCall| look_at(open, now).is_some_and(|at| at <= now);
    for open in session.chat.calls.iter().filter(is_due).cloned() {
        let (name, handle) = runs(&open);
        let tool = shelf.find(&name).map(|entry| entry.tool.clone());
        let context = context(session, open.uid, CancellationToken::new(), ToolProgress::default());
        looks.spawn(async move {
            let looked = match tool {
                Ok(tool) => look_once(&*tool, context, handle).await,
                Err(_) => Ok(LookResult::Unreachable(format!("the tool `{name}` is not configured here"))),
            };
            (open, looked)
        });
    }
    looks
}

async fn look_once(tool: &dyn Tool, context: ToolContext, handle: Value) -> Result<LookResult, ToolError> {
    let look = AssertUnwindSafe(tool.look(context, handle)).catch_unwind();
    match timeout(LOOK_MAX, look).await {
        Ok(Ok(looked)) => looked,
        Ok(Err(_)) => Ok(LookResult::Unreachable("the tool panicked".into())),
        Err(_) => Ok(LookResult::Unreachable(format!("it did not answer within {} seconds", LOOK_MAX.as_secs()))),
    }
}

async fn commit_look(
    session: &mut ChatSession,
    open: &OpenCall,
    looked: Result<LookResult, ToolError>,
) -> Result<(), WriteError> {
    let at = session.now();
    let (look_at, misses) = match looked {
        Ok(LookResult::Done(output)) => return commit_end(session, open, Ok(output)).await,
        Err(error) => return commit_end(session, open, Err(error)).await,
        Ok(LookResult::Asks(asks)) => {
            let handle = stored(&open.tool, &runs(open).0, &asks.handle);
            return ask(session, open.uid, handle, &asks.question).await;
        }
        Ok(LookResult::AsksBelow(mut asks)) => {
            asks.truncate(ASKS_BELOW_LEN_MAX);
            let call = open.uid;
            return session.change(|change| change.asks_below(call, asks.into())).await;
        }
        Ok(LookResult::Pending(after)) => (at + after.clamp(PAUSE_MIN, PAUSE_MAX), 0),
        Ok(LookResult::Unreachable(why)) => {
            let misses = misses(open).saturating_add(1);
            let after = MISS_PAUSE.saturating_mul(1 << (misses - 1).min(6)).min(MISS_PAUSE_MAX);
            let (chat, call, seconds) = (session.chat.id, open.uid, after.as_secs());
            tracing::warn!(%chat, %call, tool = open.tool, why, misses, "resting call cannot be looked at, again in {seconds} s");
            (at + after, misses)
        }
    };
    let handle = open.handle.clone().unwrap_or_default();
    let rested = Fact::Rested { call: open.uid, handle, at, look_at, misses };
    let facts = delegated(session).await?.into_iter().chain([rested]).collect();
    session.commit(facts, OnOutage::Wait).await
}

const fn misses(open: &OpenCall) -> u32 {
    match open.state {
        CallState::Rests { misses, .. } => misses,
        _ => 0,
    }
}

async fn commit_end(
    session: &mut ChatSession,
    open: &OpenCall,
    returned: Result<ToolOutput, ToolError>,
) -> Result<(), WriteError> {
    let shelf = session.shelf();
    let policy = shelf.find(&runs(open).0).map(|entry| entry.policy.clone()).unwrap_or_default();
    let ToolResult { verdict, output, meta } = ToolResult::of(session, open.uid, returned, policy.shown_bytes_max);
    let result = CallResult::new(open.uid, &open.tool, verdict, output, session.now());
    let result = CallResult { began: open.began(), meta, ..result };
    commit_result(session, result, policy.after).await
}

/// Tells every call that rests to stop, and waits for that as long as for a tool that is stopped. What the calls do is
/// their own: the results say that they may go on all the same.
pub(crate) async fn let_go_all(session: &ChatSession) {
    let shelf = session.shelf();
    let mut told = JoinSet::new();
    for open in session.chat.calls.iter().filter(|open| open.state.rests() || open.questions()) {
        let (name, handle) = runs(open);
        let Ok(entry) = shelf.find(&name) else { continue };
        let tool = entry.tool.clone();
        let context = context(session, open.uid, CancellationToken::new(), ToolProgress::default());
        told.spawn(async move { tool.let_go(context, handle).await });
    }
    let grace = Instant::now() + session.env.agent.limits.kill_grace_max;
    while let Ok(Some(_)) = timeout_at(grace, told.join_next()).await {}
}

/// The tool that runs an open call, and the handle as that tool gave it. The transcript may not be in memory.
fn runs(open: &OpenCall) -> (String, Value) {
    let mut stored: Value =
        open.handle.as_deref().and_then(|stored| serde_json::from_str(stored).ok()).unwrap_or_default();
    match stored.get(RUNS).and_then(Value::as_str) {
        Some(tool) => (tool.to_owned(), stored["handle"].take()),
        None => (open.tool.clone(), stored),
    }
}
