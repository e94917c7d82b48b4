//! Calls that a process started that is gone.
//!
//! One that must not run twice is not run again: its outcome is unknown, unless its tool has recorded what became of it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use everturn_core::change::{UNKNOWN, refused};
use everturn_core::ids::Timestamp;
use everturn_core::message::{Call, CallResult, CallVerdict};
use everturn_stores::WriteError;
use futures_util::FutureExt as _;
use tokio::time::timeout;

use crate::drive::session::ChatSession;
use crate::drive::tools::result::ToolResult;
use crate::drive::tools::{commit_result, context};
use crate::tool::progress::ToolProgress;
use crate::tool::toolbox::Runner;
use crate::tool::{After, ToolError, ToolOutput};

/// How long a tool may take to say what became of a call.
const OUTCOME_MAX: Duration = Duration::from_secs(10);

/// A call that must not run twice, and was started.
pub(super) struct LostCall {
    pub(super) call: Call,
    pub(super) began: Timestamp,
    /// What people were shown of it last.
    pub(super) progress: Option<Arc<str>>,
}

/// Commits what became of a call: what its tool says, or that it is unknown.
pub(super) async fn commit(session: &mut ChatSession, lost: LostCall) -> Result<(), WriteError> {
    let LostCall { call, began, progress } = lost;
    let halt = session.env.halt.clone();
    let outcome = tokio::select! {
        biased;
        () = halt.cancelled() => return Ok(()), // The next process asks again.
        outcome = outcome(session, &call) => outcome,
    };
    let result = match outcome {
        Some((returned, shown_bytes_max)) => {
            let ToolResult { verdict, output, meta } = ToolResult::of(session, call.uid, returned, shown_bytes_max);
            let ended = session.now();
            CallResult { call: call.uid, tool: call.tool, verdict, output, began: Some(began), ended, meta }
        }
        None => {
            let shown = progress.map(|shown| format!("{UNKNOWN} The last that it showed:\n{shown}"));
            let unknown = refused(&call, session.now(), CallVerdict::Unknown, shown.as_deref().unwrap_or(UNKNOWN));
            CallResult { began: Some(began), ..unknown }
        }
    };
    commit_result(session, result, After::GoOn).await
}

/// What the tool of a call says, and how much of that the model is shown.
async fn outcome(session: &ChatSession, call: &Call) -> Option<(Result<ToolOutput, ToolError>, usize)> {
    let shelf = session.shelf();
    let Ok(Runner::Engine(entry, input)) = shelf.runner(call) else { return None };
    let shown_bytes_max = entry.tool.policy_for(&input).shown_bytes_max;
    let context = context(session, call.uid, session.env.halt.child_token(), ToolProgress::default());
    let asked = AssertUnwindSafe(entry.tool.outcome_after_crash(context, input)).catch_unwind();
    let told = timeout(OUTCOME_MAX, asked).await;
    let told = told.inspect_err(|_| tracing::warn!(call = %call.uid, "a tool did not say what became of a call"));
    match told.ok()?.ok()? {
        Ok(None) => None,
        Ok(Some(output)) => Some((Ok(output), shown_bytes_max)),
        Err(error) => Some((Err(error), shown_bytes_max)),
    }
}
