//! The log of tool calls: which were started, and how they ended.

use everturn_core::chat::{Chat, Effect};
use everturn_core::fact::Fact;
use everturn_core::ids::{CallUid, Timestamp};
use everturn_core::message::{Body, CallVerdict};

/// An entry of the call log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    /// A call is about to run, once more if it is in the log already.
    Started { uid: CallUid, tool: &'a str, effect: Effect, at: Timestamp },
    /// A call ended. A call that was never started is not in the log.
    Ended { uid: CallUid, verdict: CallVerdict, at: Timestamp },
}

/// Entries that a commit to `chat`, in its state before the commit, adds to the log.
pub(crate) fn entries<'a>(chat: &'a Chat, facts: &'a [Fact]) -> impl Iterator<Item = Entry<'a>> {
    facts.iter().filter_map(|fact| match fact {
        Fact::Started { call, effect, at } => {
            let open = chat.calls.iter().find(|open| open.uid == *call)?;
            Some(Entry::Started { uid: *call, tool: &open.tool, effect: *effect, at: *at })
        }
        Fact::Said(message, _) => match &message.body {
            Body::Result(result) => Some(Entry::Ended { uid: result.call, verdict: result.verdict, at: result.ended }),
            Body::Reply(_) | Body::User(_) | Body::Context(_) | Body::Summary(_) => None,
        },
        _ => None,
    })
}
