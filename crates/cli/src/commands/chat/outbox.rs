//! Orders whose outcome is not known yet.

use std::collections::VecDeque;

/// Pending orders, oldest first. Their outcomes arrive in the same order.
#[derive(Debug, Default)]
pub struct Outbox {
    /// The text of each order, if it has one.
    orders: VecDeque<Option<String>>,
    /// Whether the oldest waits because the daemon is away.
    waits: bool,
}

impl Outbox {
    /// Adds an order.
    pub fn put(&mut self, words: Option<String>) {
        self.orders.push_back(words);
    }

    /// Removes the oldest order: its outcome is known.
    pub fn answered(&mut self) {
        self.orders.pop_front();
        self.waits = false;
    }

    /// Marks the oldest order as waiting for the daemon.
    pub fn wait(&mut self) {
        self.waits = true;
    }

    pub fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    /// Texts that the daemon has not accepted yet.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.orders.iter().filter_map(Option::as_deref)
    }

    /// Texts that wait for the daemon to come back.
    pub fn held(&self) -> impl Iterator<Item = &str> {
        self.words().filter(|_| self.waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_until_its_outcome_is_known() {
        let mut outbox = Outbox::default();
        for words in [Some("one"), None, Some("two")] {
            outbox.put(words.map(Into::into));
        }
        assert_eq!(outbox.held().count(), 0, "it is on its way");
        outbox.wait();
        assert_eq!(outbox.held().collect::<Vec<_>>(), ["one", "two"]);
        outbox.answered();
        assert_eq!((outbox.held().count(), outbox.words().collect::<Vec<_>>()), (0, vec!["two"]));
        outbox.answered();
        assert!(!outbox.is_empty());
        outbox.answered();
        assert!(outbox.is_empty());
    }
}
