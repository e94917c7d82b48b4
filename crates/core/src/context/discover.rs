//! The context limit, where a provider happens to mention it.
//!
//! No two providers agree where or under which name they tell it, if they do, and gateways add names of their own. So
//! metadata is searched for keys that can mean nothing else, and the largest number wins: a smaller one beside it is a
//! share of it. A counter of what is used up looks much the same and must not be taken for the limit.

use serde_json::Value;

use crate::message::Meta;

/// Whole keys that mean the limit, without case and punctuation.
const KEYS: [&str; 8] = [
    "contextlimit",
    "contextwindow",
    "contextlength",
    "maxcontext",
    "maxcontexttokens",
    "maxinputtoken",
    "maxinputtokens",
    "inputtokenlimit",
];

/// Words that, all together somewhere in a key, mean the limit.
const WORDS: [&[&str]; 8] = [
    &["context", "limit"],
    &["context", "window", "size"],
    &["context", "window", "max"],
    &["context", "length", "max"],
    &["context", "token", "max"],
    &["context", "token", "limit"],
    &["context", "tokens", "max"],
    &["context", "tokens", "limit"],
];

/// Words that make a key a counter, whatever else it says.
const COUNTERS: [&str; 5] = ["used", "usage", "remaining", "exceeded", "percent"];

/// The largest context limit mentioned anywhere in what providers attached.
#[must_use]
pub fn limit_in_meta(meta: &Meta) -> Option<u64> {
    meta.values().filter_map(limit_in).max()
}

/// The largest context limit mentioned anywhere in a value.
#[must_use]
pub fn limit_in(value: &Value) -> Option<u64> {
    let mut largest = None;
    let mut open = vec![value]; // Not recursion: what comes from outside may be as deep as it likes.
    while let Some(value) = open.pop() {
        match value {
            Value::Object(fields) => {
                let limits = fields.iter().filter(|(key, _)| means_limit(key)).filter_map(|(_, value)| whole(value));
                largest = largest.max(limits.max());
                open.extend(fields.values());
            }
            Value::Array(items) => open.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    largest
}

/// Whether a key means the context limit.
pub(super) fn means_limit(key: &str) -> bool {
    let words = words(key);
    let has = |word: &&str| words.iter().any(|w| w == word);
    let means = KEYS.contains(&plain(key).as_str()) || WORDS.iter().any(|all| all.iter().all(has));
    means && !COUNTERS.iter().any(has)
}

/// A key without case and punctuation.
pub(super) fn plain(key: &str) -> String {
    key.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The words of a key, however they are joined: `maxContext_tokens-2` has four. A run of capitals is one word, up to
/// the capital that begins the next: `LLMContext` has two.
pub(super) fn words(key: &str) -> Vec<String> {
    let chars: Vec<char> = key.chars().collect();
    let mut words = vec![String::new()];
    for (i, &c) in chars.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|i| chars.get(i));
        let after = chars.get(i + 1);
        let begins = c.is_uppercase()
            && (before.is_some_and(|b| b.is_lowercase() || b.is_numeric()) || after.is_some_and(|a| a.is_lowercase()));
        if begins || !c.is_alphanumeric() {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A positive whole number, however it is written: as a number, as a float without fraction, as text.
pub(super) fn whole(value: &Value) -> Option<u64> {
    const EXACT_MAX: f64 = (1_u64 << 53) as f64;
    let number = match value {
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole,
            (None, Some(float)) if float.fract() == 0.0 && (1.0..=EXACT_MAX).contains(&float) => float as i64,
            _ => return None,
        },
        Value::String(text) => text.trim().parse::<i64>().ok()?,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    u64::try_from(number).ok().filter(|&limit| limit > 0)
}
