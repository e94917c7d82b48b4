//! A message, whole.

use std::borrow::Cow;

use everturn_core::ids::{InboxSeq, MessageId, Timestamp};
use everturn_core::message::{self, Meta};
use serde::{Deserialize, Serialize};

use super::blob::{BlobId, Blobs, Bytes};
use super::name::{SourceWord, VerdictWord};
use super::output::Output;
use super::part::Parts;
use super::reply::Reply;
use super::value::{Nanos, Uid, unset};
use super::{BadShape, Shape, Stored, Written, envelope};

/// The text of a message.
#[must_use]
pub fn write(message: &message::Message) -> Written {
    let mut blobs = Blobs::default();
    let message::Message { id, at, body, sent } = message;
    let sent = sent.as_ref().map(Sent::of);
    let shape = Message { id: id.0, at: at.0, body: Body::of(body, &mut blobs), sent };
    envelope::write(shape, blobs)
}

/// Reads what [`write()`] wrote.
pub fn parse(text: &str) -> Result<Stored<Message<'static>>, BadShape> {
    envelope::stored("message", text)
}

/// The mirror of a message.
#[derive(Serialize, Deserialize)]
pub struct Message<'a> {
    id: u64,
    at: i64,
    body: Body<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sent: Option<Sent<'a>>,
}

#[derive(Serialize, Deserialize)]
struct Sent<'a> {
    receipt: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Cow<'a, str>>,
}

impl<'a> Sent<'a> {
    fn of(message::SendReceipt { receipt, key }: &'a message::SendReceipt) -> Self {
        Self { receipt: receipt.0, key: key.as_ref().map(Cow::from) }
    }

    fn build(self) -> message::SendReceipt {
        message::SendReceipt { receipt: InboxSeq(self.receipt), key: self.key.map(Cow::into_owned) }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Body<'a> {
    User(Parts<'a>),
    Context(Cow<'a, str>),
    Reply(Box<Reply<'a>>),
    Result(Box<CallResult<'a>>),
    Summary(Summary<'a>),
}

#[derive(Serialize, Deserialize)]
struct CallResult<'a> {
    call: Uid,
    tool: Cow<'a, str>,
    verdict: VerdictWord,
    output: Output<'a>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    began: Option<i64>,
    ended: i64,
    #[serde(default, skip_serializing_if = "unset")]
    meta: Cow<'a, Meta>,
}

#[derive(Serialize, Deserialize)]
struct Summary<'a> {
    text: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    newest_user: Parts<'a>,
    source: SourceWord,
    #[serde(default, skip_serializing_if = "unset")]
    tokens_before: u64,
    #[serde(default, skip_serializing_if = "unset")]
    runtime_ns: Nanos,
}

impl Shape for Message<'_> {
    type Core = message::Message;

    fn wants(&self, wanted: &mut Vec<BlobId>) {
        match &self.body {
            Body::User(parts) => parts.wants(wanted),
            Body::Context(_) => {}
            Body::Reply(reply) => reply.wants(wanted),
            Body::Result(result) => result.output.wants(wanted),
            Body::Summary(summary) => summary.newest_user.wants(wanted),
        }
    }

    fn build(self, bytes: &Bytes) -> Result<message::Message, BadShape> {
        let (id, at, sent) = (MessageId(self.id), Timestamp(self.at), self.sent.map(Sent::build));
        Ok(message::Message { id, at, body: self.body.build(bytes)?, sent })
    }
}

impl<'a> Body<'a> {
    fn of(body: &'a message::Body, blobs: &mut Blobs) -> Self {
        match body {
            message::Body::User(parts) => Self::User(Parts::of(parts, blobs)),
            message::Body::Context(text) => Self::Context(text.into()),
            message::Body::Reply(reply) => Self::Reply(Box::new(Reply::of(reply, blobs))),
            message::Body::Result(result) => Self::Result(Box::new(CallResult::of(result, blobs))),
            message::Body::Summary(summary) => Self::Summary(Summary::of(summary, blobs)),
        }
    }

    fn build(self, bytes: &Bytes) -> Result<message::Body, BadShape> {
        Ok(match self {
            Self::User(parts) => message::Body::User(parts.build(bytes)?),
            Self::Context(text) => message::Body::Context(text.into_owned()),
            Self::Reply(reply) => message::Body::Reply(Box::new(reply.build(bytes)?)),
            Self::Result(result) => message::Body::Result(Box::new(result.build(bytes)?)),
            Self::Summary(summary) => message::Body::Summary(Box::new(summary.build(bytes)?)),
        })
    }
}

impl<'a> CallResult<'a> {
    fn of(result: &'a message::CallResult, blobs: &mut Blobs) -> Self {
        let message::CallResult { call, tool, verdict, output, began, ended, meta } = result;
        Self {
            call: (*call).into(),
            tool: tool.into(),
            verdict: (*verdict).into(),
            output: Output::of(output, blobs),
            began: began.map(|at| at.0),
            ended: ended.0,
            meta: Cow::Borrowed(meta),
        }
    }

    fn build(self, bytes: &Bytes) -> Result<message::CallResult, BadShape> {
        Ok(message::CallResult {
            call: self.call.into(),
            tool: self.tool.into_owned(),
            verdict: self.verdict.into(),
            output: self.output.build(bytes)?,
            began: self.began.map(Timestamp),
            ended: Timestamp(self.ended),
            meta: self.meta.into_owned(),
        })
    }
}

impl<'a> Summary<'a> {
    fn of(summary: &'a message::Summary, blobs: &mut Blobs) -> Self {
        let message::Summary { text, newest_user, source, tokens_before, runtime } = summary;
        Self {
            text: text.into(),
            newest_user: Parts::of(newest_user, blobs),
            source: (*source).into(),
            tokens_before: *tokens_before,
            runtime_ns: Nanos(*runtime),
        }
    }

    fn build(self, bytes: &Bytes) -> Result<message::Summary, BadShape> {
        Ok(message::Summary {
            text: self.text.into_owned(),
            newest_user: self.newest_user.build(bytes)?,
            source: self.source.into(),
            tokens_before: self.tokens_before,
            runtime: self.runtime_ns.0,
        })
    }
}
