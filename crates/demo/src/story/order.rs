//! Orders to the stand-in model.

/// An answer of which every piece is known beforehand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Order {
    /// How many thoughts: r1, r2…
    pub(crate) thoughts: u64,
    /// The first word, and how many there are before the calls.
    pub(crate) first: u64,
    pub(crate) before: u64,
    /// Calls beside each other: the tool, and a number that no other call has.
    pub(crate) calls: Vec<(&'static str, u64)>,
    /// How many words after the calls have results.
    pub(crate) after: u64,
    /// Whether the turn is interrupted before its end.
    pub(crate) is_stopped: bool,
}

impl Order {
    /// The prompt: what the drill of the understudy reads.
    pub(crate) fn prompt(&self) -> String {
        let mut prompt = String::new();
        if self.thoughts > 0 {
            prompt.push_str(&format!("Think r1..r{}. ", self.thoughts));
        }
        let last = self.first + self.before - 1;
        prompt.push_str(&format!("Say t{}..t{last}.", self.first));
        if !self.calls.is_empty() {
            let calls: Vec<String> = self.calls.iter().map(|(tool, number)| format!("{tool}:{number}")).collect();
            prompt.push_str(&format!(" Call {}.", calls.join(", ")));
        }
        if self.after > 0 {
            prompt.push_str(&format!(" Then say t{}..t{}.", last + 1, last + self.after));
        }
        prompt
    }

    /// The words, in order.
    pub(crate) fn words(&self) -> Vec<String> {
        (self.first..self.first + self.before + self.after).map(|number| format!("t{number}")).collect()
    }

    /// The thoughts, in order.
    pub(crate) fn thought(&self) -> Vec<String> {
        (1..=self.thoughts).map(|number| format!("r{number}")).collect()
    }

    /// How many steps it takes if nothing goes wrong.
    pub(crate) fn steps(&self) -> u64 {
        1 + u64::from(!self.calls.is_empty() && self.after > 0)
    }

    /// How many tokens that is.
    pub(crate) fn len(&self) -> usize {
        (self.thoughts + self.before + self.after) as usize
    }
}
