//! The words of messages, as they are looked for.
//!
//! Every store answers a search alike because none of them decides what a word is: that is decided here, and stores
//! compare bytes. A word is a run of letters and digits in lower case. What people and models said is kept as the words
//! it has, each once, with a space around each, so that a word is found whole and a message by all of its words.

use std::collections::BTreeSet;

use everturn_core::message::{Body, Message, Part};

use crate::heading::searchable;

/// Longer runs of letters are not indexed.
const WORD_BYTES_MAX: usize = 64;

/// Words by which a message is found; `None` for messages that neither a user nor the model wrote.
pub(crate) fn of(message: &Message) -> Option<Vec<u8>> {
    let parts = match &message.body {
        Body::User(parts) => parts,
        Body::Reply(reply) => &reply.parts,
        Body::Context(_) | Body::Result(_) | Body::Summary(_) => return None,
    };
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    let words: BTreeSet<String> = texts.flat_map(split).filter(|word| word.len() <= WORD_BYTES_MAX).collect();
    if words.is_empty() {
        return None;
    }
    let mut kept = vec![b' '];
    for word in &words {
        kept.extend_from_slice(word.as_bytes());
        kept.push(b' ');
    }
    Some(kept)
}

/// What has to be found in a message, all of it, for the message to fit. Nothing, if `text` has no words.
pub(crate) fn wanted(text: &str) -> Vec<Vec<u8>> {
    split(text).collect::<BTreeSet<_>>().into_iter().map(|word| format!(" {word} ").into_bytes()).collect()
}

fn split(text: &str) -> impl Iterator<Item = String> {
    text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).map(searchable)
}

/// Whether all of `wanted` is in what a message is found by.
pub(crate) fn fit(kept: &[u8], wanted: &[Vec<u8>]) -> bool {
    let has = |word: &Vec<u8>| kept.windows(word.len()).any(|window| window == word);
    !wanted.is_empty() && wanted.iter().all(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_whole_in_any_case_and_order() {
        let kept = b" 3 again kelp weather z\xc3\xbcrich ";
        for (text, fits) in [
            ("kelp", true),
            ("KELP, again?", true),
            ("again kelp", true),
            ("Z\u{dc}RICH", true),
            ("kel", false),
            ("elp", false),
            ("kelp soup", false),
            ("", false),
            ("!?", false),
        ] {
            assert_eq!(fit(kept, &wanted(text)), fits, "{text}");
        }
    }
}
