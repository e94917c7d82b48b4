//! The doctor: on every shape that has a name, and on any transcript at all.

mod any;
mod formats;
mod shapes;

use std::fmt::Write as _;
use std::sync::Arc;

use super::{Repaired, TranscriptOrigin, repair};
use crate::message::{Body, Message, Part};

/// Mends these, of which nothing more is known.
pub fn mended(messages: impl IntoIterator<Item = Message>) -> Repaired {
    let messages: Vec<Arc<Message>> = messages.into_iter().map(Arc::new).collect();
    repair(&messages, TranscriptOrigin::Foreign)
}

/// A transcript in a few words a line.
pub fn shown<'a>(messages: impl IntoIterator<Item = &'a Arc<Message>>) -> String {
    let mut shown = String::new();
    for message in messages {
        let body = match &message.body {
            Body::User(parts) => format!("user{}", parts_of(parts)),
            Body::Context(text) => format!("context {text:?}"),
            Body::Reply(reply) => format!("reply {}{}{}", reply.step, parts_of(&reply.parts), marked(&reply.meta)),
            Body::Result(result) => {
                let (call, tool, text) = (result.call, &result.tool, &result.output.text);
                format!("result {call} {tool} {:?} {text:?}{}", result.verdict, marked(&result.meta))
            }
            Body::Summary(summary) => format!("summary {:?}", summary.text),
        };
        writeln!(shown, "{} {body}", message.id).unwrap();
    }
    shown
}

fn marked(meta: &crate::message::Meta) -> String {
    meta.get(super::MARK).map(|mark| format!(" {mark}")).unwrap_or_default()
}

fn parts_of(parts: &[Part]) -> String {
    let mut shown = String::new();
    for part in parts {
        let part = match part {
            Part::Text(text) => format!("{:?}", text.text),
            Part::Reasoning(reasoning) => {
                let seal = if reasoning.seal.is_some() { "sealed" } else { "open" };
                format!("[{seal} {:?}]", reasoning.text)
            }
            Part::Call(call) => format!("{}({}){}", call.tool, call.input, marked(&call.meta)),
            Part::Provided(provided) => format!("found by {}", provided.tool),
            Part::File(file) => format!("file {} {:?}", file.media_type, file.bytes.as_ref().map(|bytes| bytes.len())),
            Part::Source(source) => format!("source {}", source.url),
            Part::Other(_) => "other".into(),
        };
        write!(shown, " {part}").unwrap();
    }
    shown
}
