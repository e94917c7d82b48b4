//! Acts on their way out.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use everturn_core::delta::Delta;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;

use super::act::{Act, Break};
use super::connection::ConnectionHandle;
use crate::play::OpenStream;

/// The body of a response.
pub(super) type HttpBody = UnsyncBoxBody<Bytes, io::Error>;

/// How long what was written has to get out before the connection breaks.
const GRACE: Duration = Duration::from_millis(2);

/// A body that is there already.
pub(super) fn whole(bytes: impl Into<Bytes>) -> HttpBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// What goes out.
pub(super) enum Outgoing<'a> {
    /// An event, or a piece of one.
    Event(&'a Bytes),
    /// What was said with the events before.
    Said(&'a Delta),
}

/// A callback for everything that is sent.
pub(super) type OutgoingHook = Box<dyn FnMut(Outgoing<'_>) + Send>;

/// What becomes of the connection when an answer is over.
pub(super) enum AtEnd {
    Stay,
    /// It is closed, without a word, once what was written is out.
    HangUp(ConnectionHandle),
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        if let Self::HangUp(line) = self {
            let line = line.clone();
            tokio::spawn(async move {
                tokio::time::sleep(GRACE).await;
                line.lose(Break::Closed);
            });
        }
    }
}

/// A body that plays acts. Dropping it ends them.
pub(super) fn acting(
    acts: Vec<Act>,
    line: ConnectionHandle,
    open: (OpenStream, AtEnd),
    witness: OutgoingHook,
) -> HttpBody {
    let state = (VecDeque::from(acts), line, open, witness);
    let frames = stream::unfold(state, |(mut acts, line, open, mut witness)| async move {
        loop {
            match acts.pop_front()? {
                Act::Frame(bytes) => {
                    witness(Outgoing::Event(&bytes));
                    return Some((Ok(Frame::data(bytes)), (acts, line, open, witness)));
                }
                Act::Said(delta) => witness(Outgoing::Said(&delta)),
                Act::Wait(time) => tokio::time::sleep(time).await,
                Act::Once(inner) => inner.into_iter().rev().for_each(|act| acts.push_front(act)),
                Act::End => return None,
                Act::Hang => std::future::pending().await,
                Act::Break(how) => {
                    let error = broken(how, &line).await;
                    acts.clear();
                    return Some((Err(error), (acts, line, open, witness)));
                }
            }
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Breaks the connection once everything before is out. What it gives back ends a body in the middle.
pub(super) async fn broken(how: Break, line: &ConnectionHandle) -> io::Error {
    // A body that is not ready is flushed. A sleep alone may be over before anybody has looked.
    tokio::task::yield_now().await;
    tokio::time::sleep(GRACE).await;
    match how {
        Break::Closed => io::ErrorKind::ConnectionAborted.into(),
        Break::Reset | Break::GoAway => {
            line.lose(how);
            std::future::pending().await
        }
    }
}
