//! What an understudy does, one thing at a time.

use std::time::Duration;

use everturn_core::cost::{TokenCount, UsageReport};
use everturn_core::delta::{CallBegan, Delta, GenerationHandle, ProvidedDelta};
use everturn_core::error::{Cause, ErrorKind, ProviderError, Retry};
use everturn_core::message::{Meta, RunBy, Seal, Source, Stop};
use serde_json::Value;

/// One thing an understudy does.
#[derive(Debug, Clone)]
pub enum Cue {
    /// Takes so long to answer at all.
    Slow(Duration),
    /// Waits.
    Wait(Duration),
    /// Says something.
    Say(Vec<Delta>),
    /// Shows that the connection lives.
    Ping,
    /// Ends the answer.
    Stop(Stop),
    /// Breaks with an error; as the first cue, refuses to begin.
    Fail(Box<ProviderError>),
    /// Sends bytes as they are; in process, where there are none, something that is not the protocol.
    Raw(Vec<u8>),
    /// Ends the stream without ending the answer.
    Cut,
    /// Says nothing more, ever.
    Hang,
}

/// What one provider call plays.
pub type Script = Vec<Cue>;

/// A script of cues. Calls get their slots here, in order.
pub fn script(cues: impl IntoIterator<Item = Cue>) -> Script {
    let mut slot = 0;
    let mut cues: Script = cues.into_iter().collect();
    let deltas = cues.iter_mut().filter_map(|cue| match cue {
        Cue::Say(deltas) => Some(deltas),
        _ => None,
    });
    for delta in deltas.flatten() {
        match delta {
            Delta::CallBegan(call) if call.slot == AUTO => {
                call.slot = slot;
                slot += 1;
            }
            Delta::CallInput { slot: own, .. } | Delta::CallEnded { slot: own } if *own == AUTO => *own = slot - 1,
            _ => {}
        }
    }
    cues
}

/// A slot that [`script`] chooses.
const AUTO: u32 = u32::MAX;

/// Says words, in one delta.
pub fn text(text: impl Into<String>) -> Cue {
    Cue::Say(vec![Delta::Text(text.into())])
}

/// Says words, a delta each.
#[must_use]
pub fn words(text: &str) -> Cue {
    Cue::Say(text.split_inclusive(' ').map(|word| Delta::Text(word.into())).collect())
}

/// Thinks.
pub fn reasoning(text: impl Into<String>) -> Cue {
    Cue::Say(vec![Delta::Reasoning(text.into())])
}

/// Signs what was thought, and is done thinking.
pub fn sealed(signature: impl Into<String>) -> Cue {
    Cue::Say(vec![Delta::Sealed(Seal::Signature(signature.into())), Delta::Ended])
}

/// Ends a text or a thought.
#[must_use]
pub fn ended() -> Cue {
    Cue::Say(vec![Delta::Ended])
}

/// Calls a tool, whole: the input comes in two pieces.
#[must_use]
pub fn call(tool: &str, input: Value) -> Cue {
    let json = input.to_string();
    let half = json.floor_char_boundary(json.len() / 2);
    let piece = |json: &str| Delta::CallInput { slot: AUTO, json: json.into() };
    let pieces = vec![began(tool, RunBy::Us), piece(&json[..half]), piece(&json[half..])];
    Cue::Say([pieces, vec![Delta::CallEnded { slot: AUTO }]].concat())
}

/// Begins a call, with as much of its input, and does not end it.
#[must_use]
pub fn begin_call(tool: &str, json: &str) -> Cue {
    Cue::Say(vec![began(tool, RunBy::Us), Delta::CallInput { slot: AUTO, json: json.into() }])
}

/// More input for a call by its slot.
#[must_use]
pub fn input(slot: u32, json: &str) -> Cue {
    Cue::Say(vec![Delta::CallInput { slot, json: json.into() }])
}

/// Runs a tool of the provider's own and says what came of it.
#[must_use]
pub fn provided(tool: &str, input: &Value, output: Value) -> Cue {
    let json = input.to_string();
    let result = ProvidedDelta { slot: None, tool: tool.into(), output, meta: Meta::new() };
    Cue::Say(vec![
        began(tool, RunBy::Provider),
        Delta::CallInput { slot: AUTO, json },
        Delta::CallEnded { slot: AUTO },
        Delta::Provided(Box::new(result)),
    ])
}

fn began(tool: &str, run_by: RunBy) -> Delta {
    // The id is the tool's name on purpose: providers repeat theirs too.
    let (provider_id, tool) = (format!("id_{tool}"), tool.to_string());
    Delta::CallBegan(Box::new(CallBegan { slot: AUTO, provider_id, tool, run_by, meta: Meta::new() }))
}

/// Reports prompt and output tokens.
#[must_use]
pub fn usage(input: u64, output: u64) -> Cue {
    let report =
        UsageReport { input: TokenCount::from(input), output: TokenCount::from(output), ..UsageReport::default() };
    Cue::Say(vec![Delta::Usage(report.into())])
}

/// Attaches metadata to the newest part.
#[must_use]
pub fn part_meta(meta: Meta) -> Cue {
    Cue::Say(vec![Delta::PartMeta(Box::new(meta))])
}

/// Attaches metadata to the reply.
#[must_use]
pub fn reply_meta(meta: Meta) -> Cue {
    Cue::Say(vec![Delta::ReplyMeta(Box::new(meta))])
}

/// Names the response, and says where to find it again.
#[must_use]
pub fn response_id(id: &str) -> Cue {
    let handle = GenerationHandle { id: id.into(), cursor: "0".into() };
    Cue::Say(vec![Delta::ResponseId(id.into()), Delta::Handle(Box::new(handle))])
}

/// Says something, and where to find the response again behind it.
#[must_use]
pub fn marked(cue: Cue, id: &str, cursor: u64) -> Cue {
    let handle = GenerationHandle { id: id.into(), cursor: cursor.to_string() };
    match cue {
        Cue::Say(deltas) => Cue::Say([deltas, vec![Delta::Handle(Box::new(handle))]].concat()),
        other => other,
    }
}

/// Answers only after this long.
#[must_use]
pub const fn slow(seconds: u64) -> Cue {
    Cue::Slow(Duration::from_secs(seconds))
}

/// Waits.
#[must_use]
pub const fn wait(seconds: u64) -> Cue {
    Cue::Wait(Duration::from_secs(seconds))
}

/// Waits a little.
#[must_use]
pub const fn wait_ms(millis: u64) -> Cue {
    Cue::Wait(Duration::from_millis(millis))
}

/// Shows that the connection lives.
#[must_use]
pub const fn ping() -> Cue {
    Cue::Ping
}

/// Ends the answer.
#[must_use]
pub const fn stop(stop: Stop) -> Cue {
    Cue::Stop(stop)
}

/// Ends the stream without ending the answer.
#[must_use]
pub const fn cut() -> Cue {
    Cue::Cut
}

/// Says nothing more, ever.
#[must_use]
pub const fn hang() -> Cue {
    Cue::Hang
}

/// Breaks with a kind of error and a cause.
#[must_use]
pub fn fail(kind: ErrorKind, cause: Cause) -> Cue {
    Cue::Fail(Box::new(ProviderError::new("understudy", kind).with_cause(cause)))
}

/// Stops in the middle, because its own tools take long, and wants to be asked to go on. Only Anthropic does that: on the
/// other wires it is an answer that failed.
#[must_use]
pub fn pause() -> Cue {
    let paused = ProviderError::new("understudy", ErrorKind::Truncated).with_cause(Cause::ErrorFinish);
    Cue::Fail(Box::new(paused.with_retry(Retry::Now)))
}

/// Says something that makes no sense: input for a call that was never begun.
#[must_use]
pub fn malformed() -> Cue {
    Cue::Say(vec![Delta::CallInput { slot: 999, json: "?".into() }])
}

/// Sends bytes as they are.
pub fn raw(bytes: impl Into<Vec<u8>>) -> Cue {
    Cue::Raw(bytes.into())
}

/// Loses the connection, the hard way.
#[must_use]
pub fn reset() -> Cue {
    fail(ErrorKind::Timeout, Cause::Reset)
}

/// Rests on something.
#[must_use]
pub fn source(url: &str, title: &str) -> Cue {
    let source = Source { url: url.into(), title: title.into(), meta: Meta::new() };
    Cue::Say(vec![Delta::Source(Box::new(source))])
}

/// Thinks what may not be shown.
pub fn redacted(data: impl Into<String>) -> Cue {
    Cue::Say(vec![Delta::Sealed(Seal::Redacted(data.into())), Delta::Ended])
}

/// Refuses with an HTTP status, as the providers do.
#[must_use]
pub fn refuse(status: u16) -> Cue {
    let kind = match status {
        401 | 403 => ErrorKind::Auth,
        400 | 404 => ErrorKind::Config,
        413 => ErrorKind::ContextFull,
        429 => ErrorKind::RateLimit,
        408 | 502..=504 => ErrorKind::Timeout,
        529 => ErrorKind::Overloaded,
        _ => ErrorKind::Generic,
    };
    let retry = if status == 500 { Retry::Backoff } else { kind.default_retry() };
    let error = ProviderError::new("understudy", kind).with_cause(Cause::Refused).with_status(status);
    Cue::Fail(Box::new(error.with_retry(retry)))
}

impl Cue {
    /// This refusal with a time to wait.
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        match self {
            Self::Fail(error) => Self::Fail(Box::new(error.with_retry(Retry::After(Duration::from_secs(seconds))))),
            other => other,
        }
    }
}
