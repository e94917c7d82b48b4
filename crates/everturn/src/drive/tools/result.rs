//! What became of a call, within bounds.
//!
//! Tools return, fail, panic, hang and flood. Whatever they do, it becomes a result that a model can read and a store can
//! hold. What clients say of the tools they run is bounded in the same way.

use std::time::Duration;

use everturn_core::blob::Blob;
use everturn_core::command::{AnswerContent, CallAnswer, Command};
use everturn_core::message::{CallVerdict, Media, Meta, Output};
use everturn_core::truncate;
use tokio::task::JoinError;

use crate::drive::Driver;
use crate::tool::{ToolError, ToolOutput};

/// What a finished call's task gives.
pub(crate) type Finished = Result<Result<ToolOutput, ToolError>, Late>;

/// A tool that did not come back in time.
#[derive(Debug, thiserror::Error)]
#[error("The tool did not finish within {} seconds and was stopped. Whether it took effect is unknown.", .0.as_secs())]
pub(crate) struct Late(pub(crate) Duration);

impl Driver {
    /// What a finished task means.
    pub(crate) fn judge(&self, done: Result<Finished, JoinError>) -> (CallVerdict, Output, Meta) {
        let error = |message: String, meta| (CallVerdict::Error, self.bounded(message.into_bytes(), Vec::new()), meta);
        match done {
            Ok(Ok(Ok(ToolOutput { bytes, media, meta }))) => (CallVerdict::Done, self.bounded(bytes, media), meta),
            Ok(Ok(Err(ToolError { message, meta }))) => error(message, meta),
            Ok(Err(late)) => error(late.to_string(), Meta::new()),
            Err(join) if join.is_panic() => error(format!("The tool panicked: {}", panic_text(join)), Meta::new()),
            Err(_) => error("The tool was stopped.".into(), Meta::new()),
        }
    }

    /// What is kept of an output: as much text as the model can read, and of all bytes as many as the limits allow.
    fn bounded(&self, bytes: Vec<u8>, media: Vec<Media>) -> Output {
        let bytes_max = self.agent.limits.tool_output_bytes_max;
        let mut output = truncate::output(bytes, truncate::budget(self.context_limit()));
        let full = output.full.as_ref().and_then(Blob::here).filter(|full| full.len() > bytes_max);
        if let Some(cut) = full.map(|full| Blob::from(&full[..bytes_max])) {
            output.full = Some(cut);
        }
        let (mut room, len) = (bytes_max, media.len());
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

    /// A command with what clients answered cut to what a tool of ours could have said.
    pub(crate) fn bounded_answers(&self, command: Command) -> Command {
        let Command::Answer(answers) = command else { return command };
        let bounded = |output: &Output| {
            let kept = self.bounded(output.text.clone().into_bytes(), output.media.clone());
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
}

fn panic_text(join: JoinError) -> String {
    let payload = join.into_panic();
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}
