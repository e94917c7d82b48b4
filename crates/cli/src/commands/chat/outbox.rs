//! What was ordered and is not done yet.

use std::collections::VecDeque;

/// Orders on their way, oldest first. Their outcomes come in the same order.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Each with what it says, if it says anything.
    orders: VecDeque<Option<String>>,
    /// Whether the oldest is kept because nobody is there to take it.
    waits: bool,
}

impl Outbox {
    /// Another order is on its way.
    pub fn put(&mut self, words: Option<String>) {
        self.orders.push_back(words);
    }

    /// The oldest is done, or never will be.
    pub fn answered(&mut self) {
        self.orders.pop_front();
        self.waits = false;
    }

    /// Nobody is there to take the oldest.
    pub fn wait(&mut self) {
        self.waits = true;
    }

    pub fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    /// What was typed and has not been taken.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.orders.iter().filter_map(Option::as_deref)
    }

    /// The same, if it waits for somebody to take it.
    pub fn held(&self) -> impl Iterator<Item = &str> {
        self.words().filter(|_| self.waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_is_there_until_it_is_answered() {
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
