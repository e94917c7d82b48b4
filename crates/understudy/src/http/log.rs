//! What was asked, for tests to read.

use std::collections::VecDeque;

use everturn_core::prompt::Wire;
use hyper::header::HeaderMap;
use serde_json::Value;

/// One request.
#[derive(Debug, Clone)]
pub struct Logged {
    /// The wire it came in on.
    pub wire: Wire,
    /// Its method.
    pub method: String,
    /// Its path and query.
    pub path: String,
    /// Its headers, in small letters; those that hold secrets say `[redacted]`.
    pub headers: Vec<(String, String)>,
    /// Its body; null if there was none or it was not JSON.
    pub body: Value,
    /// The status it was refused with and why; none if it was answered.
    pub refused: Option<(u16, String)>,
}

impl Logged {
    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// Headers that hold secrets.
const SECRET: [&str; 5] = ["authorization", "x-api-key", "x-goog-api-key", "cookie", "proxy-authorization"];

pub(super) fn headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let shown = headers.iter().map(|(name, value)| {
        let value = if SECRET.contains(&name.as_str()) {
            "[redacted]".into()
        } else {
            String::from_utf8_lossy(value.as_bytes()).into_owned()
        };
        (name.as_str().to_string(), value)
    });
    shown.collect()
}

/// The last requests.
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: VecDeque<Logged>,
    /// How many were dropped from the front.
    dropped: usize,
}

impl Log {
    /// Adds a request and gives back its number.
    pub(super) fn push(&mut self, entry: Logged, len_max: usize) -> usize {
        self.entries.push_back(entry);
        while self.entries.len() > len_max.max(1) {
            self.entries.pop_front();
            self.dropped += 1;
        }
        self.dropped + self.entries.len() - 1
    }

    /// Says that a request was refused.
    pub(super) fn refused(&mut self, number: usize, status: u16, why: &str) {
        if let Some(entry) = number.checked_sub(self.dropped).and_then(|at| self.entries.get_mut(at)) {
            entry.refused = Some((status, why.into()));
        }
    }

    pub(super) fn entries(&self) -> Vec<Logged> {
        self.entries.iter().cloned().collect()
    }
}
