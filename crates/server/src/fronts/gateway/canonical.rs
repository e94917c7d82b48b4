//! What makes two requests the same.
//!
//! Clients repeat a request that was cut byte for byte, and give it no key. So the body is the key: without the fields that
//! change between repeats or say nothing about the answer, and with its keys in order.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Fields that two requests for one answer may differ in: Claude Code asks again without `stream` and with another
/// `max_tokens`, and codex counts its attempts in `client_metadata`.
const VOLATILE: [&str; 5] = ["stream", "stream_options", "max_tokens", "metadata", "client_metadata"];

/// The hash of a request's body.
pub(crate) fn hash(body: &Value) -> [u8; 32] {
    let mut hash = Sha256::new();
    if let Value::Object(fields) = body {
        let mut fields: Vec<_> = fields.iter().filter(|(name, _)| !VOLATILE.contains(&name.as_str())).collect();
        fields.sort_unstable_by_key(|(name, _)| *name);
        for (name, value) in fields {
            word(b'k', name, &mut hash);
            write(value, &mut hash);
        }
    }
    hash.finalize().into()
}

/// The hash of these words, each told apart from the next.
pub(crate) fn hash_words<'a>(words: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for each in words {
        hash.update((each.len() as u64).to_be_bytes());
        hash.update(each);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn word(kind: u8, text: &str, hash: &mut Sha256) {
    hash.update([kind]);
    hash.update((text.len() as u64).to_be_bytes());
    hash.update(text);
}

fn write(value: &Value, hash: &mut Sha256) {
    match value {
        Value::Null => hash.update(b"n"),
        Value::Bool(true) => hash.update(b"t"),
        Value::Bool(false) => hash.update(b"f"),
        Value::Number(number) => word(b'd', &number.to_string(), hash),
        Value::String(text) => word(b's', text, hash),
        Value::Array(items) => {
            hash.update(b"[");
            items.iter().for_each(|item| write(item, hash));
            hash.update(b"]");
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            hash.update(b"{");
            for (name, value) in fields {
                word(b'k', name, hash);
                write(value, hash);
            }
            hash.update(b"}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_is_the_same_without_what_changes_between_repeats() {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "Hi."}], "max_tokens": 5});
        let again = json!({
            "metadata": {"user_id": "u"}, "messages": [{"content": "Hi.", "role": "user"}], "model": "m", "stream": true,
            "max_tokens": 6, "stream_options": {"include_usage": true}, "client_metadata": {"turn": "1"},
        });
        assert_eq!(hash(&body), hash(&again));
        for other in [
            json!({"model": "n", "messages": [{"role": "user", "content": "Hi."}]}),
            json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}),
            json!({"model": "m", "messages": [{"role": "user", "content": ["Hi."]}]}),
            json!({"model": "m", "messages": [{"role": "user", "content": "Hi."}], "temperature": 1}),
        ] {
            assert_ne!(hash(&body), hash(&other), "{other}");
        }
        assert_ne!(hash(&json!({"a": ["bc"]})), hash(&json!({"a": ["b", "c"]})));
        assert_ne!(hash_words([&b"ab"[..], b"c"]), hash_words([&b"a"[..], b"bc"]));
    }
}
