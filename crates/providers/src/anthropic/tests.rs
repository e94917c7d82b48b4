use everturn_core::delta::Delta;
use everturn_core::error::ProviderError;
use everturn_core::message::RunBy;

use super::*;
use crate::provider::Frame;
use crate::tests::cuts::{Decoded, told};

mod broken;
mod cuts;
mod decode;
mod errors;
mod provider;
mod replay;
mod request;
mod thinking;

/// Recorded streams, by name, and for each a test that cuts it everywhere (P14, P23).
macro_rules! fixtures {
    ($($name:ident),+ $(,)?) => {
        const FIXTURES: &[(&str, &str)] =
            &[$((stringify!($name), include_str!(concat!("../../fixtures/anthropic/", stringify!($name), ".sse")))),+];

        mod withstands_every_cut {
            $(#[test] fn $name() { super::cuts::check(stringify!($name), super::fixture(stringify!($name))); })+
        }
    };
}

fixtures!(
    absurd_usage,
    context_full,
    max_tokens,
    omitted_thinking,
    overloaded,
    pause,
    refusal,
    refusal_bare,
    search_failed,
    stop_sequence,
    text,
    thinking_and_tools,
    unheard_of,
    web_search,
);

fn fixture(name: &str) -> &'static str {
    FIXTURES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text).expect("a fixture of that name")
}

fn read(bytes: &str) -> Decoded {
    told([bytes.as_bytes()], Messages::new("anthropic"))
}

/// What a stream comes to, a line a frame.
fn shown(told: &Decoded) -> String {
    let frames = told.frames.iter().map(frame);
    let end = told.end.as_ref().err().map(|error| format!("{:?} ({:?}): {}", error.kind, error.cause, error.detail));
    frames.chain(end).map(|line| line + "\n").collect()
}

fn frame(frame: &Frame) -> String {
    let Frame::Delta(delta) = frame else { return format!("{frame:?}") };
    match delta {
        Delta::CallBegan(call) => {
            let by = if call.run_by == RunBy::Us { "us" } else { "provider" };
            format!("call {} of {} by {by}: {} {}", call.slot, call.tool, call.provider_id, json(&call.meta))
        }
        Delta::CallInput { slot, json } => format!("call {slot} + {json}"),
        Delta::CallEnded { slot } => format!("call {slot} ended"),
        Delta::Provided(given) => {
            format!("result {:?} of {}: {} {}", given.slot, given.tool, given.output, json(&given.meta))
        }
        Delta::Source(source) => format!("source {} {:?}", source.url, source.title),
        Delta::Other(meta) => format!("other {}", json(meta)),
        Delta::PartMeta(meta) => format!("part {}", json(meta)),
        Delta::ReplyMeta(meta) => format!("reply {}", json(meta)),
        Delta::Usage(report) => {
            let counts = [report.input, report.cache_read, report.cache_write, report.output, report.reasoning];
            let counts = counts.map(|count| count.known().map_or("?".into(), |count| count.to_string()));
            format!("usage in {} + {} + {}, out {} ({})", counts[0], counts[1], counts[2], counts[3], counts[4])
        }
        other => format!("{other:?}"),
    }
}

fn json(meta: &everturn_core::message::Meta) -> String {
    serde_json::to_string(meta).expect("metadata is JSON")
}

fn error(told: &Decoded) -> &ProviderError {
    told.end.as_ref().expect_err("an error")
}
