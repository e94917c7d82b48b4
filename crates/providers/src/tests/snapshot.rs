//! Frames in words, for snapshots.

use std::fmt::Write as _;

use everturn_core::delta::{AttemptBegan, Delta, Rung};
use everturn_core::draft::Draft;
use everturn_core::error::ProviderError;
use everturn_core::ids::{StepId, Timestamp};
use everturn_core::message::{Meta, RunBy, Seal};

use crate::provider::Frame;
use crate::tests::cuts::Decoded;

/// What came of a stream, a line a frame.
pub(crate) fn shown(told: &Decoded) -> String {
    let mut text = frames(&told.frames);
    if let Err(error) = &told.end {
        writeln!(text, "{}", failure(error)).unwrap();
    }
    text
}

/// Frames, a line a delta.
pub(crate) fn frames(frames: &[Frame]) -> String {
    let mut text = String::new();
    for frame in frames {
        match frame {
            Frame::Delta(_) | Frame::Together(_) => {
                frame.deltas().iter().for_each(|delta| writeln!(text, "{}", line(delta)).unwrap());
            }
            Frame::Ping => text.push_str("ping\n"),
            Frame::Stop(stop) => writeln!(text, "stop {stop:?}").unwrap(),
        }
    }
    text
}

/// An error: what it is and what may be done.
pub(crate) fn failure(error: &ProviderError) -> String {
    let ProviderError { kind, retry, cause, detail, .. } = error;
    format!("error {} {retry:?} {}: {detail}", kind.label(), cause.label())
}

fn line(delta: &Delta) -> String {
    match delta {
        Delta::Text(text) => format!("text {text:?}"),
        Delta::Reasoning(text) => format!("thought {text:?}"),
        Delta::Sealed(Seal::Signature(seal)) => format!("sealed {seal}"),
        Delta::Ended => "ended".into(),
        Delta::CallBegan(call) => {
            let by = if call.run_by == RunBy::Us { "" } else { " by the provider" };
            format!("call {} {} {:?}{by}{}", call.slot, call.tool, call.provider_id, attached(&call.meta))
        }
        Delta::CallInput { slot, json } => format!("input {slot} {json:?}"),
        Delta::CallEnded { slot } => format!("call {slot} over"),
        Delta::Provided(given) => {
            format!("given {:?} {} {}{}", given.slot, given.tool, given.output, attached(&given.meta))
        }
        Delta::Source(source) => format!("source {} {:?}", source.url, source.title),
        Delta::Other(raw) => format!("other{}", attached(raw)),
        Delta::PartMeta(meta) => format!("part{}", attached(meta)),
        Delta::ReplyMeta(meta) => format!("reply{}", attached(meta)),
        Delta::ResponseId(id) => format!("response {id}"),
        Delta::Handle(handle) => format!("handle {} {}", handle.id, handle.cursor),
        Delta::Usage(report) => {
            let counts = [report.input, report.cache_read, report.cache_write, report.output, report.reasoning];
            let counts = counts.map(|count| count.known().map_or("?".into(), |count| count.to_string()));
            format!(
                "usage {} + {} read + {} written -> {} ({} thought)",
                counts[0], counts[1], counts[2], counts[3], counts[4]
            )
        }
        other => format!("{other:?}"),
    }
}

fn attached(meta: &Meta) -> String {
    meta.iter().map(|(provider, value)| format!(" {provider}={value}")).collect()
}

/// The draft some frames fold into. Panics where the engine would call the stream malformed.
pub(crate) fn draft<'f>(told: impl IntoIterator<Item = &'f Frame>) -> Draft {
    let mut draft = Draft::new(StepId(1));
    let began = AttemptBegan { number: 1, model: "openai/test".parse().unwrap(), rung: Rung::First };
    draft.push(Timestamp(0), &Delta::Attempt(Box::new(began))).unwrap();
    for delta in told.into_iter().flat_map(Frame::deltas) {
        draft.push(Timestamp(0), delta).unwrap_or_else(|error| panic!("{error}: {delta:?}"));
    }
    draft
}
