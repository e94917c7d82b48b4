//! The bytes of files and media, loaded or known by length only.
//!
//! Files are large, and few readers of a message need them: a client shows how long a file is and fetches it
//! when a person opens it. So a message can be loaded without its bytes, and its type says so. Prompts need
//! the bytes; the driver loads them before it prepares one.

use std::fmt;
use std::sync::Arc;

use crate::chat::QueuedMessage;
use crate::delta::Delta;
use crate::message::{Body, File, Message, Output, Part};
use crate::view::JournalRow;

/// Bytes of a message.
#[derive(Clone, PartialEq, Eq)]
pub enum Blob {
    /// Here they are.
    Here(Arc<[u8]>),
    /// The store has so many.
    Kept(usize),
}

impl Blob {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Here(bytes) => bytes.len(),
            Self::Kept(len) => *len,
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, if they are at hand.
    #[must_use]
    pub const fn here(&self) -> Option<&Arc<[u8]>> {
        match self {
            Self::Here(bytes) => Some(bytes),
            Self::Kept(_) => None,
        }
    }

    fn let_go(&mut self) {
        *self = Self::Kept(self.len());
    }
}

impl From<Arc<[u8]>> for Blob {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self::Here(bytes)
    }
}

impl From<Vec<u8>> for Blob {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Here(bytes.into())
    }
}

impl From<&[u8]> for Blob {
    fn from(bytes: &[u8]) -> Self {
        Self::Here(bytes.into())
    }
}

impl<const N: usize> From<[u8; N]> for Blob {
    fn from(bytes: [u8; N]) -> Self {
        Self::Here(Arc::new(bytes))
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(bytes) => bytes.fmt(f),
            Self::Kept(len) => write!(f, "{len} bytes"),
        }
    }
}

impl Message {
    /// This message without the bytes of its files; the message itself if it has none.
    #[must_use]
    pub fn without_bytes(self: &Arc<Self>) -> Arc<Self> {
        if self.body.blobs().all(|blob| blob.here().is_none()) {
            return self.clone();
        }
        let mut lighter = Self::clone(self);
        match &mut lighter.body {
            Body::User(parts) => let_go(parts),
            Body::Reply(reply) => let_go(reply.parts_mut()),
            Body::Summary(summary) => let_go(&mut summary.newest_user),
            Body::Result(result) => {
                let Output { media, full, text: _ } = &mut result.output;
                media.iter_mut().map(|media| &mut media.bytes).chain(full).for_each(Blob::let_go);
            }
            Body::Context(_) => {}
        }
        Arc::new(lighter)
    }

    /// Whether all of its bytes are at hand.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.body.blobs().all(|blob| blob.here().is_some())
    }
}

impl Body {
    fn blobs(&self) -> impl Iterator<Item = &Blob> {
        let (parts, output): (&[Part], _) = match self {
            Self::User(parts) => (parts, None),
            Self::Reply(reply) => (&reply.parts, None),
            Self::Summary(summary) => (&summary.newest_user, None),
            Self::Result(result) => (&[], Some(&result.output)),
            Self::Context(_) => (&[], None),
        };
        let of_tools = output
            .into_iter()
            .flat_map(|Output { media, full, text: _ }| media.iter().map(|media| &media.bytes).chain(full));
        files(parts).chain(of_tools)
    }
}

impl QueuedMessage {
    /// A copy without the bytes of files.
    #[must_use]
    pub fn without_bytes(&self) -> Self {
        let mut lighter = self.clone();
        if files(&self.parts).any(|blob| blob.here().is_some()) {
            let_go(Arc::make_mut(&mut lighter.parts));
        }
        lighter
    }
}

impl JournalRow {
    /// A copy without the bytes of files.
    #[must_use]
    pub fn without_bytes(&self) -> Self {
        match &*self.delta {
            Delta::File(file) if file.bytes.as_ref().is_some_and(|blob| blob.here().is_some()) => {
                let mut lighter = file.clone();
                lighter.bytes.iter_mut().for_each(Blob::let_go);
                Self { delta: Arc::new(Delta::File(lighter)), ..self.clone() }
            }
            _ => self.clone(),
        }
    }
}

fn files(parts: &[Part]) -> impl Iterator<Item = &Blob> {
    parts.iter().filter_map(|part| if let Part::File(File { bytes, .. }) = part { bytes.as_ref() } else { None })
}

fn let_go(parts: &mut [Part]) {
    for part in parts {
        if let Part::File(File { bytes: Some(blob), .. }) = part {
            blob.let_go();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{CallUid, InboxSeq, MessageId, Seq, StepId, Timestamp};
    use crate::message::{CallResult, CallVerdict, Media, Meta, Summary, SummarySource};

    fn file(bytes: Option<Blob>) -> File {
        File { name: "a.png".into(), media_type: "image/png".into(), bytes, meta: Meta::new() }
    }

    fn message(body: Body) -> Arc<Message> {
        Arc::new(Message { id: MessageId(1), at: Timestamp(0), body, sent: None })
    }

    fn lighter(body: Body) -> Body {
        let (whole, light) = (message(body.clone()), message(body).without_bytes());
        assert!(whole.is_whole() && !light.is_whole());
        assert!(Arc::ptr_eq(&light.without_bytes(), &light), "there is nothing left to let go of");
        light.body.clone()
    }

    /// Whatever has bytes can be had without, and still says how many there are.
    #[test]
    fn a_message_without_its_bytes_knows_how_many_there_are() {
        let (whole, kept) = (|| Part::File(file(Some([7; 3].into()))), || Part::File(file(Some(Blob::Kept(3)))));
        assert_eq!(lighter(Body::User(vec![whole()])), Body::User(vec![kept()]));
        let summary = |newest_user| {
            let (text, source) = ("so far".into(), SummarySource::Asked);
            Body::Summary(Box::new(Summary {
                text,
                newest_user,
                source,
                tokens_before: 0,
                runtime: Default::default(),
            }))
        };
        assert_eq!(lighter(summary(vec![whole()])), summary(vec![kept()]));
        let result = |media: Blob, full: Blob| {
            let media = vec![Media { media_type: "image/png".into(), bytes: media }];
            let (call, tool) = (CallUid { step: StepId(1), ordinal: 0 }, "look".into());
            let output = Output { text: "seen".into(), media, full: Some(full) };
            let (began, ended, meta) = (None, Timestamp(0), Meta::new());
            Body::Result(Box::new(CallResult { call, tool, verdict: CallVerdict::Done, output, began, ended, meta }))
        };
        assert_eq!(lighter(result([1].into(), [1, 2].into())), result(Blob::Kept(1), Blob::Kept(2)));
    }

    /// What has none is not copied.
    #[test]
    fn a_message_that_has_no_bytes_stays_what_it_is() {
        for body in [Body::Context("hi".into()), Body::User(vec![Part::File(file(None))])] {
            let message = message(body);
            assert!(message.is_whole() && Arc::ptr_eq(&message.without_bytes(), &message));
        }
    }

    /// Queued messages and drafts have files too.
    #[test]
    fn queued_messages_and_deltas_let_go_of_their_bytes() {
        let parts = |blob| Arc::new([Part::File(file(Some(blob)))]);
        let queued =
            QueuedMessage { id: InboxSeq(1), at: Timestamp(0), parts: parts([7; 3].into()), steers: false, key: None };
        assert_eq!(queued.without_bytes(), QueuedMessage { parts: parts(Blob::Kept(3)), ..queued });
        let row = |blob| {
            let delta = Arc::new(Delta::File(Box::new(file(Some(blob)))));
            JournalRow { step: StepId(1), seq: Seq(1), at: Timestamp(0), delta }
        };
        assert_eq!(row([7; 3].into()).without_bytes(), row(Blob::Kept(3)));
        assert_eq!(row(Blob::Kept(3)).delta.bytes(), row([7; 3].into()).delta.bytes(), "a bound counts either");
    }
}
