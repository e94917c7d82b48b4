//! Unknown events and blocks.
//!
//! A provider may send kinds that did not exist when this was written. They must not fail an answer, and they
//! must not vanish; nor may they fill the memory.

use everturn_core::delta::Delta;
use serde_json::Value;

use super::own;
use crate::provider::Frame;

/// How many are kept of one message.
const ODD_LEN_MAX: usize = 64;
/// How many bytes of them.
const ODD_BYTES_MAX: usize = 256 * 1024;

/// Unknown things of one message, as they came.
#[derive(Debug, Default)]
pub(super) struct Odd {
    waiting: Vec<Value>,
    len: usize,
    bytes: usize,
}

impl Odd {
    /// Keeps an event, as far as there is room.
    pub fn keep(&mut self, data: &str) {
        self.len += 1;
        self.bytes = self.bytes.saturating_add(data.len());
        if self.len <= ODD_LEN_MAX && self.bytes <= ODD_BYTES_MAX {
            self.waiting.extend(serde_json::from_str::<Value>(data).ok());
        }
    }

    /// Tells what was kept. Each is a part of its own, so this waits until no other part is open.
    pub fn tell(&mut self, provider: &str, out: &mut Vec<Frame>) {
        let other = |value: Value| {
            let fields = match value {
                Value::Object(fields) => fields,
                other => [("value".to_owned(), other)].into_iter().collect(),
            };
            Frame::Delta(Delta::Other(Box::new(own(provider, fields))))
        };
        out.extend(self.waiting.drain(..).map(other));
    }
}
