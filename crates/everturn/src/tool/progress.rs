//! Progress texts of running tools.
//!
//! A tool may report progress more often than a person can read and a store should keep. So each call has one text, which
//! replaces the one before, and the driver stores the newest now and then. It is shown once it is stored, like everything
//! else. The model sees results only.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use everturn_core::ids::CallUid;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::util::lock;

/// The progress texts of one reply's calls that are not stored yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolProgress {
    inner: Arc<Texts>,
}

#[derive(Debug, Default)]
struct Texts {
    newest: Mutex<BTreeMap<CallUid, String>>,
    news: Notify,
}

impl ToolProgress {
    pub(crate) fn show(&self, call: CallUid, text: String) {
        lock(&self.inner.newest).insert(call, text);
        self.inner.news.notify_one();
    }

    /// The newest texts, once there are any, and not before a moment. Dropping the future loses nothing.
    pub(crate) async fn next(&self, not_before: Instant) -> BTreeMap<CallUid, String> {
        sleep_until(not_before).await;
        loop {
            let newest = std::mem::take(&mut *lock(&self.inner.newest));
            if !newest.is_empty() {
                return newest;
            }
            self.inner.news.notified().await;
        }
    }
}

/// The end of a text, within a bound.
pub(crate) fn bounded(text: &str, bytes_max: usize) -> Arc<str> {
    let from = text.len().saturating_sub(bytes_max);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    text[from..].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_to_its_end() {
        assert_eq!(&*bounded("half done", 100), "half done");
        assert_eq!(&*bounded("0123456789", 4), "6789");
        assert_eq!(&*bounded("aé", 1), "", "no part of a character");
        assert_eq!(&*bounded("aé", 2), "é");
    }
}
