//! What was asked, for tests to read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use everturn_core::delta::Delta;
use everturn_core::prompt::WireFormat;
use hyper::header::HeaderMap;
use serde_json::{Value, json};

pub use crate::said::SentAnswer;

/// Where the log can be read over HTTP, with the key as a bearer token.
pub(super) const PATH: &str = "/understudy/requests";

/// One request.
#[derive(Debug, Clone)]
pub struct Logged {
    /// The wire it came in on.
    pub wire: WireFormat,
    /// Its method.
    pub method: String,
    /// Its path and query.
    pub path: String,
    /// The model that was asked for; empty if none was.
    pub model: String,
    /// Its headers, in small letters; those that hold secrets say `[redacted]`.
    pub headers: Vec<(String, String)>,
    /// Its body; null if there was none or it was not JSON.
    pub body: Value,
    /// The status it was refused with and why; none if it was answered.
    pub refused: Option<(u16, String)>,
    /// What went out in answer to it, whether or not it arrived.
    pub said: SentAnswer,
}

/// Writes down what is said in answer to one request.
#[derive(Clone)]
pub(super) struct AnswerLog {
    log: Arc<Mutex<RequestLog>>,
    number: usize,
}

impl AnswerLog {
    pub(super) const fn new(log: Arc<Mutex<RequestLog>>, number: usize) -> Self {
        Self { log, number }
    }

    pub(super) fn said(&self, delta: &Delta) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = log.entry(self.number) {
            entry.said.push(delta);
        }
    }
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
pub(super) struct RequestLog {
    entries: VecDeque<Logged>,
    /// How many were dropped from the front.
    dropped: usize,
}

impl RequestLog {
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
        if let Some(entry) = self.entry(number) {
            entry.refused = Some((status, why.into()));
        }
    }

    fn entry(&mut self, number: usize) -> Option<&mut Logged> {
        number.checked_sub(self.dropped).and_then(|at| self.entries.get_mut(at))
    }

    /// Everything but the requests' bodies, as JSON.
    pub(super) fn account(&self) -> Value {
        let one = |logged: &Logged| {
            let calls = logged.said.calls.iter().map(|(tool, input)| json!({"tool": tool, "input": input}));
            json!({
                "method": logged.method, "path": logged.path, "model": logged.model,
                "refused": logged.refused.as_ref().map(|(status, _)| status), "text": logged.said.text,
                "thoughts": logged.said.thoughts, "calls": calls.collect::<Vec<_>>(),
            })
        };
        json!({"dropped": self.dropped, "requests": self.entries.iter().map(one).collect::<Vec<_>>()})
    }

    pub(super) fn entries(&self) -> Vec<Logged> {
        self.entries.iter().cloned().collect()
    }
}
