//! Transcripts to make requests of.

use everturn_core::ids::{CallUid, MessageId, ModelId, StepId, Timestamp};
use everturn_core::message::{
    Body, CallResult, CallVerdict, File, Media, Message, Meta, Output, Part, Reply, ReplyBody, Stop, Text,
};
use everturn_core::prompt::{Prompt, Request, Target, validate};

use super::snapshot::draft;
use crate::provider::Frame;
use crate::tests::cuts::{Decoded, told};
use crate::wire::Decode;

/// A transcript that grows, in the order of the calls below.
#[derive(Default)]
pub(crate) struct Talk {
    messages: Vec<Message>,
    steps: u64,
}

impl Talk {
    pub fn user(self, text: &str) -> Self {
        self.say(Body::User(vec![words(text)]))
    }

    pub fn say(mut self, body: Body) -> Self {
        let id = MessageId(self.messages.len() as u64 + 1);
        self.messages.push(Message { id, at: Timestamp(0), body, sent: None });
        self
    }

    /// The reply that a recorded stream of `model` becomes.
    pub fn heard<D: Decode>(mut self, model: &str, stream: &[u8], decode: D) -> Self {
        let Decoded { frames, end } = told([stream], decode);
        end.unwrap();
        let Some(Frame::Stop(stop)) = frames.last() else { panic!("no stop") };
        let body = ReplyBody { step: self.step(), model: model.parse().unwrap(), ..sealed(&frames, stop) };
        let body = renumbered(body);
        self.say(Body::Reply(Box::new(Reply::restored(body))))
    }

    /// A reply of words, by any model.
    pub fn reply(mut self, model: &str, parts: Vec<Part>) -> Self {
        let model: ModelId = model.parse().unwrap();
        let body = ReplyBody { step: self.step(), parts, model, ..sealed(&[], &Stop::End) };
        self.say(Body::Reply(Box::new(Reply::restored(body))))
    }

    /// What the nth call of the newest reply came to.
    pub fn result(self, ordinal: u16, verdict: CallVerdict, text: &str, media: Vec<Media>) -> Self {
        let call = CallUid { step: StepId(self.steps), ordinal };
        let output = Output { text: text.into(), media, full: None };
        let (tool, meta) = (String::new(), Meta::new());
        let result = CallResult { call, tool, verdict, output, began: None, ended: Timestamp(0), meta };
        self.say(Body::Result(Box::new(result)))
    }

    pub fn prompt(&self, target: &Target) -> Prompt {
        let mut prompt = Prompt::new(target.clone());
        self.messages.iter().for_each(|message| prompt.push(message));
        prompt
    }

    /// The request for the next reply, which is right.
    pub fn request(&self, model: &str, target: &Target, fill: impl FnOnce(&mut Request)) -> Request {
        let mut request = Request::new(model.parse().unwrap(), target, self.prompt(target).entries());
        fill(&mut request);
        let request = request.fit(target);
        assert_eq!(validate(&request, target), Ok(()));
        request
    }

    fn step(&mut self) -> StepId {
        self.steps += 1;
        StepId(self.steps)
    }
}

fn sealed(frames: &[Frame], stop: &Stop) -> ReplyBody {
    let reply = draft(frames).seal(stop.clone(), Timestamp(0), None).unwrap();
    (*reply).clone()
}

/// Calls under the step the reply is of.
fn renumbered(mut body: ReplyBody) -> ReplyBody {
    for part in &mut body.parts {
        match part {
            Part::Call(call) => call.uid.step = body.step,
            Part::Provided(given) => given.uid = given.uid.map(|uid| CallUid { step: body.step, ..uid }),
            _ => {}
        }
    }
    body
}

pub(crate) fn words(text: &str) -> Part {
    Part::Text(Text { text: text.into(), meta: Meta::new() })
}

pub(crate) fn media(media_type: &str, bytes: &[u8]) -> Media {
    Media { media_type: media_type.into(), bytes: bytes.into() }
}

pub(crate) fn file(name: &str, media_type: &str, bytes: &[u8]) -> Part {
    let (name, media_type) = (name.into(), media_type.into());
    Part::File(File { name, media_type, bytes: Some(bytes.into()), meta: Meta::new() })
}
