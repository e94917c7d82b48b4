//! Calls that are made again and again and come to the same.
//!
//! A model that is stuck makes the same calls in reply after reply. One that polls a job does so too, and is well: what it
//! is told differs. So the calls of a reply count as repeated only if their results are those of the reply before.

use crate::change::fnv;
use crate::chat::OpenCall;
use crate::message::Output;

/// In how many replies in a row a turn made the same calls and got the same results.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RepeatedCalls {
    /// Hash of the calls and results of the newest reply with all calls answered.
    pub newest: u64,
    /// How many replies in a row came to that.
    pub times: u32,
    /// Hash of the calls and results so far of the reply with open calls.
    pub under_way: u64,
    /// The tools that the newest reply called, each once.
    pub tools: Vec<String>,
}

impl RepeatedCalls {
    pub(super) fn opened(&mut self, calls: &[OpenCall]) {
        self.under_way = 0;
        self.tools = calls.iter().map(|open| open.tool.clone()).collect();
        self.tools.sort_unstable();
        self.tools.dedup();
    }

    /// Results come in any order, so their hashes are added up.
    pub(super) fn answered(&mut self, input_hash: u64, output: &Output, is_last: bool) {
        self.under_way = self.under_way.wrapping_add(hash(input_hash, output));
        if is_last {
            self.times = if self.under_way == self.newest { self.times.saturating_add(1) } else { 1 };
            self.newest = self.under_way;
        }
    }
}

/// A number for a call and its result.
fn hash(input_hash: u64, output: &Output) -> u64 {
    let Output { text, media, full } = output;
    let bytes = full.iter().chain(media.iter().map(|media| &media.bytes));
    let blobs = bytes.map(|blob| (blob.len() as u64, blob.here().map_or(0, |bytes| fnv(0, bytes))));
    let of_text = fnv(input_hash, text.as_bytes());
    blobs.fold(of_text, |hash, (len, bytes)| fnv(fnv(hash, &len.to_be_bytes()), &bytes.to_be_bytes()))
}
