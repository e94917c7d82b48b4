mod endings;
mod life;
mod oracle;
mod replies;

use crate::message::{Body, Message, Part, text_of};
use crate::rehearsal::Stage;

/// The transcript, one line a message.
fn lines(stage: &Stage) -> String {
    stage.transcript.iter().map(|message| line(message) + "\n").collect()
}

fn line(message: &Message) -> String {
    let body = match &message.body {
        Body::User(parts) => format!("user {}", text_of(parts)),
        Body::Context(text) => format!("context {text}"),
        Body::Reply(reply) => {
            let parts: Vec<String> = reply.parts.iter().map(part).collect();
            format!("reply {:?} [{}]", reply.stop, parts.join(", "))
        }
        Body::Result(result) => {
            let began = if result.began.is_some() { "" } else { ", not started" };
            format!("result {} {:?}{began}: {}", result.call, result.verdict, result.output.text)
        }
        Body::Summary(summary) => format!("summary {:?}: {}", summary.source, summary.text),
    };
    format!("{} {body}", message.id)
}

fn part(part: &Part) -> String {
    match part {
        Part::Text(text) => text.text.clone(),
        Part::Reasoning(reasoning) => format!("({})", reasoning.text),
        Part::Call(call) => {
            let cut = if call.whole { "" } else { " cut" };
            format!("call {}{cut} {}", call.uid, call.input)
        }
        Part::Provided(provided) => format!("provided {}", provided.output),
        other => format!("{other:?}"),
    }
}
