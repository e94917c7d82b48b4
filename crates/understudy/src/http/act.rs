//! What happens on a connection, in order: the script once it has become bytes.
//!
//! A list and nothing else, so that a fault is a function from list to list, and the same list can be sent at once,
//! slowly, in the background, or compared in a test.

use std::time::Duration;

use bytes::Bytes;
use everturn_core::cost::UsageReport;
use everturn_core::delta::Delta;
use everturn_core::error::{Cause, ErrorKind, ProviderError};
use everturn_core::message::Stop;

use crate::cue::{Cue, Script};
pub(crate) use crate::fault::Break;

/// One thing that happens after the headers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    /// One event of the stream, or a piece of one.
    Frame(Bytes),
    /// Nothing on the wire: what was said with the events before this.
    Said(Delta),
    /// Nothing, for a while.
    Wait(Duration),
    /// The response ends as HTTP says it should, whatever its content says.
    End,
    /// The response does not end as HTTP says it should.
    Break(Break),
    /// Nothing, ever again.
    Hang,
    /// What only the first connection of a generation sees. Later ones find it as if this had not been.
    Once(Vec<Act>),
}

/// Writes what is said down in the events of one wire.
pub(crate) trait Encode: Send {
    /// What comes before everything.
    fn begin(&mut self, out: &mut Vec<String>);
    /// Something that is said.
    fn say(&mut self, delta: &Delta, out: &mut Vec<String>);
    /// A sign of life.
    fn ping(&mut self, out: &mut Vec<String>);
    /// The end of the answer.
    fn stop(&mut self, stop: &Stop, out: &mut Vec<String>);
    /// An error in the middle of the stream.
    fn error(&mut self, error: &ProviderError, out: &mut Vec<String>);
}

/// What an encoder must know before the first delta.
#[derive(Debug, Clone, Default)]
pub(crate) struct AnswerHeader {
    /// The model, as it was asked for.
    pub model: String,
    /// The name of the response.
    pub id: String,
    /// What is known of the tokens: what the script will report, else an estimate of the prompt.
    pub report: UsageReport,
}

impl AnswerHeader {
    /// Looks ahead in the script: wires tell the id and the prompt's tokens first, scripts when they please.
    pub(crate) fn of(script: &Script, model: &str, id: String) -> Self {
        let mut opening = Self { model: model.into(), id, report: UsageReport::default() };
        let said = script.iter().filter_map(|cue| match cue {
            Cue::Say(deltas) => Some(deltas),
            _ => None,
        });
        for delta in said.flatten() {
            match delta {
                Delta::ResponseId(id) => opening.id.clone_from(id),
                Delta::Usage(report) => opening.report.update(report),
                _ => {}
            }
        }
        opening
    }
}

/// What a script comes to on the wire of this encoder.
pub(crate) fn perform(script: Script, encoder: &mut dyn Encode) -> Vec<Act> {
    let (mut acts, mut frames) = (Vec::new(), Vec::new());
    encoder.begin(&mut frames);
    take(&mut frames, &mut acts);
    acts.extend(go_on(script, encoder));
    acts
}

/// The rest of an answer that has begun, including the script after a break.
pub(crate) fn go_on(script: Script, encoder: &mut dyn Encode) -> Vec<Act> {
    let (mut acts, mut frames) = (Vec::new(), Vec::new());
    for cue in script {
        let act = match cue {
            Cue::Slow(time) | Cue::Wait(time) => Some(Act::Wait(time)),
            Cue::Say(deltas) => {
                for delta in deltas {
                    encoder.say(&delta, &mut frames);
                    take(&mut frames, &mut acts);
                    if is_counted(&delta) {
                        acts.push(Act::Said(delta));
                    }
                }
                None
            }
            Cue::Ping => {
                encoder.ping(&mut frames);
                None
            }
            Cue::Stop(stop) => {
                encoder.stop(&stop, &mut frames);
                Some(Act::End)
            }
            Cue::Raw(bytes) => Some(Act::Frame(bytes.into())),
            Cue::Fail(error) => Some(broken(&error, encoder, &mut frames)),
            Cue::Cut => Some(Act::End),
            Cue::Hang => Some(Act::Hang),
        };
        take(&mut frames, &mut acts);
        acts.extend(act);
    }
    acts
}

/// Whether what is said is content: words, thoughts and calls.
const fn is_counted(delta: &Delta) -> bool {
    matches!(delta, Delta::Text(_) | Delta::Reasoning(_) | Delta::CallBegan(_) | Delta::CallInput { .. })
}

fn take(frames: &mut Vec<String>, acts: &mut Vec<Act>) {
    acts.extend(frames.drain(..).map(|frame| Act::Frame(frame.into())));
}

/// How an error looks that comes in the middle.
fn broken(error: &ProviderError, encoder: &mut dyn Encode, frames: &mut Vec<String>) -> Act {
    match error.cause {
        Cause::Reset => Act::Break(Break::Reset),
        Cause::GoAway => Act::Break(Break::GoAway),
        Cause::IdleStall => Act::Hang,
        Cause::Truncated | Cause::Resumed => Act::Break(Break::Closed),
        Cause::Malformed => {
            frames.push(MALFORMED.into());
            Act::End
        }
        Cause::Refused | Cause::ServerError | Cause::ErrorFinish => {
            encoder.error(error, frames);
            Act::End
        }
    }
}

/// An event with data that no wire format sends.
pub(crate) const MALFORMED: &str = "data: {\"type\": \"gibber\n\n";

/// The HTTP status of an error that names none.
pub(crate) fn status(error: &ProviderError) -> u16 {
    error.status.unwrap_or(match error.kind {
        ErrorKind::Auth | ErrorKind::MissingKey => 401,
        ErrorKind::ProviderDisabled => 403,
        ErrorKind::Config => 404,
        ErrorKind::ContextFull | ErrorKind::ContentFilter | ErrorKind::ChainBroken => 400,
        ErrorKind::RateLimit | ErrorKind::UsageLimit | ErrorKind::Budget => 429,
        ErrorKind::Overloaded => 529,
        ErrorKind::Timeout | ErrorKind::Silence => 504,
        ErrorKind::Truncated | ErrorKind::Malformed => 502,
        ErrorKind::Generic if error.retry == everturn_core::error::Retry::Never => 400,
        ErrorKind::Generic | ErrorKind::Quarantine => 500,
    })
}
