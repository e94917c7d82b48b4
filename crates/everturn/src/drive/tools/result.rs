//! Results of calls, within limits.
//!
//! Tools return, fail, panic, hang and flood. Whatever they do becomes a result that a model can read and a store can
//! hold. The answers of clients to calls that they ran are bounded in the same way.

use std::time::Duration;

use everturn_core::blob::Blob;
use everturn_core::command::{AnswerContent, CallAnswer, Command};
use everturn_core::message::{CallVerdict, Media, Meta, Output};
use everturn_core::truncate;
use tokio::task::JoinError;

use crate::drive::session::ChatSession;
use crate::tool::{ToolError, ToolOutput};

/// What a finished call's task returns.
pub(crate) type Finished = Result<Result<ToolOutput, ToolError>, ToolTimeout>;

/// A tool that did not return in time.
#[derive(Debug, thiserror::Error)]
#[error("The tool did not finish within {} seconds and was stopped. Whether it took effect is unknown.", .0.as_secs())]
pub(crate) struct ToolTimeout(pub(crate) Duration);

/// The outcome of a call, within limits.
pub(crate) struct ToolResult {
    pub(crate) verdict: CallVerdict,
    pub(crate) output: Output,
    pub(crate) meta: Meta,
}

impl ToolResult {
    /// The result of a finished task.
    pub(crate) fn of(session: &ChatSession, done: Result<Finished, JoinError>) -> Self {
        let error = |message: String, meta| Self {
            verdict: CallVerdict::Error,
            output: bounded(session, message.into_bytes(), Vec::new()),
            meta,
        };
        match done {
            Ok(Ok(Ok(ToolOutput { bytes, media, meta }))) => {
                Self { verdict: CallVerdict::Done, output: bounded(session, bytes, media), meta }
            }
            Ok(Ok(Err(ToolError { message, meta }))) => error(message, meta),
            Ok(Err(late)) => error(late.to_string(), Meta::new()),
            Err(join) if join.is_panic() => error(format!("The tool panicked: {}", panic_text(join)), Meta::new()),
            Err(_) => error("The tool was stopped.".into(), Meta::new()),
        }
    }
}

/// What is kept of an output: as much text as the model can read, and of all bytes as many as the limits allow.
fn bounded(session: &ChatSession, bytes: Vec<u8>, media: Vec<Media>) -> Output {
    let bytes_max = session.env.agent.limits.tool_output_bytes_max;
    let mut output = truncate::output(bytes, truncate::budget(session.context_limit()));
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
    let bounded = |output: &Output| {
        let kept = bounded(session, output.text.clone().into_bytes(), output.media.clone());
        Output { full: kept.full.or_else(|| output.full.clone()), ..kept }
    };
    let answers = answers.iter().map(|CallAnswer { call, what }| {
        let what = match what {
            AnswerContent::Output(output) => AnswerContent::Output(bounded(output)),
            AnswerContent::Error(output) => AnswerContent::Error(bounded(output)),
            AnswerContent::Approve { .. } | AnswerContent::Deny { .. } => what.clone(),
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
