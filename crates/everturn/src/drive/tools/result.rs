//! Results of calls, within limits.
//!
//! Tools return, fail, panic, hang and flood. Whatever they do becomes a result that a model can read and a store can
//! hold. The answers of clients to calls that they ran are bounded in the same way.

use std::time::Duration;

use everturn_core::blob::Blob;
use everturn_core::command::{AnswerContent, CallAnswer, Command};
use everturn_core::ids::CallUid;
use everturn_core::message::{CallVerdict, Media, Meta, Output};
use everturn_core::truncate;
use tokio::task::JoinError;

use crate::drive::session::ChatSession;
use crate::tool::{ErrorOutcome, ToolError, ToolOutput, ToolReturn};

/// The tool that shows the whole output of an earlier call, if the agent has it.
const RECALL: &str = "recall";

/// What a finished call's task returns.
pub(crate) type Finished = Result<Result<ToolReturn, ToolError>, ToolTimeout>;

/// A tool that did not return in time.
#[derive(Debug, thiserror::Error)]
#[error("The tool did not finish within {} seconds and was stopped. Whether it took effect is unknown.", .0.as_secs())]
pub(crate) struct ToolTimeout(pub(crate) Duration);

/// What the tool of a finished task returned, or the error that stands for it.
pub(crate) fn returned(done: Result<Finished, JoinError>) -> Result<ToolReturn, ToolError> {
    match done {
        Ok(Ok(returned)) => returned,
        Ok(Err(late)) => Err(ToolError::new(late.to_string())),
        Err(join) if join.is_panic() => Err(ToolError::new(format!("The tool panicked: {}", panic_text(join)))),
        Err(_) => Err(ToolError::new("The tool was stopped.")),
    }
}

/// The outcome of a call, within limits.
pub(crate) struct ToolResult {
    pub(crate) verdict: CallVerdict,
    pub(crate) output: Output,
    pub(crate) meta: Meta,
}

impl ToolResult {
    pub(crate) fn of(
        session: &ChatSession,
        call: CallUid,
        returned: Result<ToolOutput, ToolError>,
        shown_bytes_max: usize,
    ) -> Self {
        let error = match returned {
            Ok(ToolOutput { bytes, media, meta }) => {
                let output = bounded(session, call, bytes, media, shown_bytes_max);
                return Self { verdict: CallVerdict::Done, output, meta };
            }
            Err(error) => error,
        };
        let verdict = match error.outcome {
            ErrorOutcome::Failed => CallVerdict::Error,
            ErrorOutcome::Unknown => CallVerdict::Unknown,
        };
        let output = bounded(session, call, error.message.into_bytes(), Vec::new(), shown_bytes_max);
        Self { verdict, output, meta: error.meta }
    }
}

/// What is kept of an output: as much text as the model can read, and of all bytes as many as the limits allow.
fn bounded(session: &ChatSession, call: CallUid, bytes: Vec<u8>, media: Vec<Media>, shown_bytes_max: usize) -> Output {
    let bytes_max = session.env.agent.limits.tool_output_bytes_max;
    let budget = truncate::budget(session.context_limit()).min(shown_bytes_max);
    let advice = match session.shelf().find(RECALL) {
        Ok(_) => format!("To read them, call `{RECALL}` with call \"{call}\"."),
        Err(_) => truncate::ASK_FOR_LESS.into(),
    };
    let mut output = truncate::output(bytes, budget, &advice);
    let full = output.full.as_ref().and_then(Blob::here).filter(|full| full.len() > bytes_max);
    if let Some(cut) = full.map(|full| Blob::from(&full[..bytes_max])) {
        output.full = Some(cut);
    }
    let len = media.len();
    let mut room = bytes_max;
    for shot in media {
        if let Some(left) = room.checked_sub(shot.bytes.len()) {
            room = left;
            output.media.push(shot);
        }
    }
    if output.media.len() < len {
        let lost = len - output.media.len();
        output.text.push_str(&format!("\n[{lost} of {len} attachments were too large and are left out.]"));
    }
    output
}

/// A command with the outputs that clients sent cut to what a tool of the engine could have returned.
pub(crate) fn bounded_answers(session: &ChatSession, command: Command) -> Command {
    let Command::Answer(answers) = command else { return command };
    let bounded = |call: CallUid, output: &Output| {
        let kept = bounded(session, call, output.text.clone().into_bytes(), output.media.clone(), usize::MAX);
        Output { full: kept.full.or_else(|| output.full.clone()), ..kept }
    };
    let answers = answers.iter().map(|CallAnswer { call, what }| {
        let what = match what {
            AnswerContent::Output(output) => AnswerContent::Output(bounded(*call, output)),
            AnswerContent::Error(output) => AnswerContent::Error(bounded(*call, output)),
            AnswerContent::Approve { .. } | AnswerContent::Grant { .. } | AnswerContent::Deny { .. } => what.clone(),
        };
        CallAnswer { call: *call, what }
    });
    Command::Answer(answers.collect())
}

fn panic_text(join: JoinError) -> String {
    let payload = join.into_panic();
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}
