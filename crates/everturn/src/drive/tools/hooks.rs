//! What the program's hooks say about calls: before they start, and after they have ended.

use std::sync::Arc;
use std::time::Duration;

use everturn_core::change::refused;
use everturn_core::chat::Chat;
use everturn_core::ids::CallUid;
use everturn_core::message::CallVerdict;
use everturn_stores::WriteError;
use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{ReadyCall, commit_result};
use crate::agent::{Hook, HookedCall};
use crate::drive::inbox;
use crate::drive::session::ChatSession;
use crate::tool::{After, ToolError, ToolReturn};

/// How long a hook may take over one call. One that takes longer has refused it.
const HOOK_TIME_MAX: Duration = Duration::from_secs(60);

/// A hook that wants to know of calls, with what it is told of one of them.
pub(super) struct CallHook {
    hook: Arc<dyn Hook>,
    chat: Chat,
    call: CallUid,
    tool: String,
    input: Value,
}

impl CallHook {
    /// The agent's hook for a call; `None` if it has none that wants to know of calls.
    pub(super) fn of(session: &ChatSession, start: &ReadyCall) -> Option<Self> {
        let hook = session.env.agent.hook.clone().filter(|hook| hook.hears_of_calls())?;
        let (chat, call) = (session.chat.clone(), start.call.uid);
        Some(Self { hook, chat, call, tool: start.runs.clone(), input: start.input.clone() })
    }

    fn told(&self) -> HookedCall<'_> {
        HookedCall { chat: &self.chat, call: self.call, tool: &self.tool, input: &self.input }
    }

    async fn before(&self) -> Result<(), String> {
        match timeout(HOOK_TIME_MAX, self.hook.before_call(self.told())).await {
            Ok(decision) => decision,
            Err(_) => Err(format!("a hook did not decide within {} seconds", HOOK_TIME_MAX.as_secs())),
        }
    }

    /// Adds what the hook says of a call that has ended to its result.
    pub(super) async fn after(&self, returned: &mut Result<ToolReturn, ToolError>) {
        let said = match &*returned {
            Ok(ToolReturn::Done(output)) => Ok(&*output.bytes),
            Ok(ToolReturn::Rests(_) | ToolReturn::Asks(_)) => return, // It has not ended.
            Err(error) => Err(error.message.as_str()),
        };
        let Ok(Some(note)) = timeout(HOOK_TIME_MAX, self.hook.after_call(self.told(), said)).await else { return };
        let note = format!("\n\n[A hook says: {note}]");
        match returned {
            Ok(ToolReturn::Done(output)) => output.bytes.extend_from_slice(note.as_bytes()),
            Ok(ToolReturn::Rests(_) | ToolReturn::Asks(_)) => {}
            Err(error) => error.message.push_str(&note),
        }
    }
}

/// The calls that no hook refuses. Refused ones get their results. None starts if the turn is stopped meanwhile.
pub(super) async fn permitted(
    session: &mut ChatSession,
    starts: Vec<ReadyCall>,
    stop: &CancellationToken,
) -> Result<Vec<ReadyCall>, WriteError> {
    // One that a crash interrupted was permitted before.
    let hooks: Vec<Option<CallHook>> =
        starts.iter().map(|start| if start.is_again { None } else { CallHook::of(session, start) }).collect();
    if hooks.iter().all(Option::is_none) {
        return Ok(starts);
    }
    let stopped = stop.clone();
    let decide = async move {
        let each = hooks.iter().map(|hook| async move {
            match hook {
                Some(hook) => hook.before().await,
                None => Ok(()),
            }
        });
        tokio::select! {
            biased;
            () = stopped.cancelled() => None,
            decisions = join_all(each) => Some(decisions),
        }
    };
    let Some(decisions) = inbox::listen_during(session, decide, stop).await? else { return Ok(Vec::new()) };
    let mut left = Vec::new();
    for (start, decision) in starts.into_iter().zip(decisions) {
        match decision {
            Ok(()) => left.push(start),
            Err(reason) => {
                let told = format!("This call was refused: {reason}. It was not run.");
                let result = refused(&start.call, session.now(), CallVerdict::Denied, &told);
                commit_result(session, result, After::GoOn).await?;
            }
        }
    }
    Ok(left)
}
