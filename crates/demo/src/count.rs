//! Counting tokens: which are missing, which are there twice.

use std::collections::BTreeMap;

use everturn_server::wire::{Body, Message, Part};

use super::story::Order;

/// Difference between expected and received tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Diff {
    pub(super) lost: Vec<String>,
    pub(super) doubled: Vec<String>,
    /// Tokens that were never sent: two joined words, half a word.
    pub(super) strange: Vec<String>,
    /// All are there, once, and not in their order.
    pub(super) is_disordered: bool,
}

impl Diff {
    /// Compares what came with what was expected.
    pub(super) fn of(expected: &[String], got: &[String]) -> Self {
        let mut left: BTreeMap<&str, i64> = expected.iter().map(|token| (token.as_str(), 0)).collect();
        let mut diff = Self::default();
        for token in got {
            match left.get_mut(token.as_str()) {
                Some(times) => {
                    *times += 1;
                    if *times > 1 {
                        diff.doubled.push(token.clone());
                    }
                }
                None => diff.strange.push(token.clone()),
            }
        }
        diff.lost = expected.iter().filter(|token| left.get(token.as_str()) == Some(&0)).cloned().collect();
        diff.is_disordered = diff.is_complete() && expected != got;
        diff
    }

    fn is_complete(&self) -> bool {
        self.lost.is_empty() && self.doubled.is_empty() && self.strange.is_empty()
    }

    /// Whether there is none.
    #[cfg(test)]
    fn is_none(&self) -> bool {
        self.is_complete() && !self.is_disordered
    }

    pub(super) fn add(&mut self, other: Self) {
        self.lost.extend(other.lost);
        self.doubled.extend(other.doubled);
        self.strange.extend(other.strange);
        self.is_disordered |= other.is_disordered;
    }
}

/// What a model said in answer to one message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Answer {
    pub(super) prompt: String,
    pub(super) words: Vec<String>,
    pub(super) thoughts: Vec<String>,
    /// The words as they stand, those of one reply unparted.
    text: String,
}

/// A chat's answers, one for each message of a person.
pub(super) fn answers(messages: &[Message]) -> Vec<Answer> {
    let mut answers: Vec<Answer> = Vec::new();
    for message in messages {
        match (&message.body, answers.last_mut()) {
            (Body::User { parts, .. }, _) => answers.push(Answer { prompt: text_of(parts), ..Answer::default() }),
            (Body::Reply(reply), Some(answer)) => answer.take(&reply.parts),
            _ => {}
        }
    }
    answers
}

impl Answer {
    fn take(&mut self, parts: &[Part]) {
        let text = text_of(parts);
        self.words.extend(text.split_whitespace().map(str::to_owned));
        self.text.push_str(&text);
        self.text.push(' ');
        let thoughts = parts.iter().filter_map(|part| match part {
            Part::Reasoning(reasoning) => Some(reasoning.text.as_str()),
            _ => None,
        });
        self.thoughts.extend(thoughts.flat_map(str::split_whitespace).map(str::to_owned));
    }

    /// How it differs from what was ordered.
    pub(super) fn diff(&self, order: &Order) -> Diff {
        let mut words = order.words();
        let mut got = self.words.clone();
        if order.is_stopped {
            // What is there must be the beginning, to the letter: a stop may come in the middle of a word.
            let whole = words.join(" ");
            let said = self.text.trim_end();
            if whole.starts_with(said) && !whole[said.len()..].starts_with(' ') && whole.len() > said.len() {
                got.pop();
            }
            words.truncate(got.len());
        }
        let mut diff = Diff::of(&words, &got);
        diff.add(Diff::of(&order.thought(), &self.thoughts));
        diff
    }

    pub(super) fn len(&self) -> usize {
        self.words.len() + self.thoughts.len()
    }
}

/// How many tokens are in these parts.
pub(super) fn tokens_in(parts: &[Part]) -> usize {
    let count = |part: &Part| match part {
        Part::Text(text) => text.text.split_whitespace().count(),
        Part::Reasoning(reasoning) => reasoning.text.split_whitespace().count(),
        _ => 0,
    };
    parts.iter().map(count).sum()
}

/// How many whole words are in these parts; one at the end may still grow.
pub(super) fn words_in(parts: &[Part]) -> u64 {
    let text = text_of(parts);
    let words = text.split_whitespace().count();
    (if text.ends_with(char::is_whitespace) { words } else { words.saturating_sub(1) }) as u64
}

fn text_of(parts: &[Part]) -> String {
    parts.iter().filter_map(Part::text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn told(expected: &str, got: &str) -> String {
        let Diff { lost, doubled, strange, is_disordered } = Diff::of(&list(expected), &list(got));
        format!("lost {lost:?} doubled {doubled:?} strange {strange:?} disordered {is_disordered}").replace('"', "")
    }

    #[test]
    fn lost_doubled_mangled_and_moved_tokens_are_named() {
        assert!(Diff::of(&list("t1 t2"), &list("t1 t2")).is_none());
        assert_eq!(told("t1 t2 t3", "t1 t3"), "lost [t2] doubled [] strange [] disordered false");
        assert_eq!(told("t1 t2", "t1 t2 t2"), "lost [] doubled [t2] strange [] disordered false");
        assert_eq!(told("t1 t2", "t1t2"), "lost [t1, t2] doubled [] strange [t1t2] disordered false");
        assert_eq!(told("t1 t2", "t2 t1"), "lost [] doubled [] strange [] disordered true");
    }

    #[test]
    fn a_stopped_answer_is_a_beginning_to_the_letter() {
        let order = Order { first: 1, before: 20, is_stopped: true, ..Order::default() };
        let said = |text: &str| {
            let mut answer = Answer::default();
            answer.take(&[Part::Text(everturn_server::wire::Text { text: text.into() })]);
            answer.diff(&order)
        };
        let whole = order.words().join(" ");
        for cut in 0..=whole.len() {
            assert!(said(&whole[..cut]).is_none(), "cut at {cut}: {:?}", said(&whole[..cut]));
        }
        assert_eq!(said("t1 t3").doubled, Vec::<String>::new());
        assert!(!said("t1 t3").is_none() && !said("t1 t2 t2").is_none() && !said("t1 t2t3").is_none());
    }
}
