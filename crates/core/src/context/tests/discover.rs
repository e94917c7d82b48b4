use serde_json::{Value, json};

use crate::context::discover::{means_limit, plain, whole, words};
use crate::context::{limit_in, limit_in_meta};
use crate::message::Meta;

/// CL38: case and punctuation go, letters and digits stay.
#[test]
fn keys_without_case_and_punctuation() {
    let cases = [
        ("contextlimit", "contextlimit"),
        ("ContextLimit", "contextlimit"),
        ("CONTEXT_LIMIT", "contextlimit"),
        ("context-limit", "contextlimit"),
        ("context limit", "contextlimit"),
        ("context.limit", "contextlimit"),
        ("__Context-Window. max__", "contextwindowmax"),
        ("context_128k", "context128k"),
        ("", ""),
    ];
    for (key, expected) in cases {
        assert_eq!(plain(key), expected, "{key}");
    }
}

/// CL39: words are found whatever joins them.
#[test]
fn keys_split_into_words() {
    let cases: [(&str, &[&str]); 9] = [
        ("maxContextTokens", &["max", "context", "tokens"]),
        ("MaxContextTokens", &["max", "context", "tokens"]),
        ("max_context_tokens", &["max", "context", "tokens"]),
        ("max-context-tokens", &["max", "context", "tokens"]),
        ("max context.tokens", &["max", "context", "tokens"]),
        ("LLMContextLimit", &["llm", "context", "limit"]),
        ("context128kLimit", &["context128k", "limit"]),
        ("MAX", &["max"]),
        ("-_-", &[]),
    ];
    for (key, expected) in cases {
        assert_eq!(words(key), expected, "{key}");
    }
}

/// CL40: what means the limit, in any spelling.
#[test]
fn keys_that_mean_the_limit() {
    let keys = [
        "context_limit",
        "contextLimit",
        "context_window",
        "contextWindow",
        "Context-Length",
        "max_context",
        "maxContextTokens",
        "max_input_token",
        "max_input_tokens",
        "maxInputTokens",
        "inputTokenLimit",
        "input_token_limit",
        "model_context_limit",
        "context_window_size",
        "contextWindowMax",
        "max_context_window",
        "max_context_length",
        "context_token_limit",
        "maxContextToken",
        "context_tokens_max",
        "limit_of_context_tokens",
    ];
    for key in keys {
        assert!(means_limit(key), "{key}");
    }
}

/// CL40: what only looks like it: counters, other limits, halves of the name.
#[test]
fn keys_that_do_not_mean_the_limit() {
    let keys = [
        "context_tokens_used",
        "context_tokens",
        "context_limit_used",
        "context_limit_remaining",
        "context_window_usage",
        "context_window_percent_max",
        "input_tokens",
        "max_tokens",
        "max_output_tokens",
        "output_token_limit",
        "rate_limit",
        "token_limit",
        "context",
        "limit",
        "window_size",
        "context_id",
        "contextual_window_sizes",
        "total_tokens",
        "",
    ];
    for key in keys {
        assert!(!means_limit(key), "{key}");
    }
}

/// CL41, CL42: a positive whole number in any of its spellings, and nothing else.
#[test]
fn numbers_in_any_spelling() {
    let accepted = [
        (json!(1), 1),
        (json!(200_000), 200_000),
        (json!(i64::MAX), i64::MAX as u64),
        (json!(200_000.0), 200_000),
        (json!(2e5), 200_000),
        (json!("200000"), 200_000),
        (json!("  128000\n"), 128_000),
        (json!("+64000"), 64_000),
    ];
    for (value, limit) in accepted {
        assert_eq!(whole(&value), Some(limit), "{value}");
    }
    let rejected = [
        json!(0),
        json!(-1),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(0.0),
        json!(-2.0),
        json!(1.5),
        json!(1e300),
        json!(""),
        json!("0"),
        json!("-5"),
        json!("1.5"),
        json!("128k"),
        json!("200 000"),
        json!("99999999999999999999"),
        json!("many"),
        json!(null),
        json!(true),
        json!([200_000]),
        json!({"value": 200_000}),
    ];
    for value in rejected {
        assert_eq!(whole(&value), None, "{value}");
    }
}

/// CL43, CL44: found at any depth; the largest of several; nothing where there is nothing.
#[test]
fn limits_are_found_at_any_depth() {
    let cases = [
        (json!({"context_limit": 5}), Some(5)),
        (json!({"a": {"b": {"contextWindow": "6"}}}), Some(6)),
        (json!([{"x": 1}, [{"max_context": 7}]]), Some(7)),
        (json!({"context_limit": 5, "models": [{"context_limit": 9}, {"context_limit": 8}]}), Some(9)),
        (json!({"context_limit": -5, "deeper": {"context_limit": 3}}), Some(3)),
        (json!({"context_limit": {"max_input_tokens": 4}}), Some(4)),
        (json!({"limit": 5, "tokens": [1, 2, 3]}), None),
        (json!({"context_limit": "unknown"}), None),
        (json!(200_000), None),
        (json!("context_limit"), None),
        (json!(null), None),
        (json!({}), None),
        (json!([]), None),
    ];
    for (value, limit) in cases {
        assert_eq!(limit_in(&value), limit, "{value}");
    }
}

/// CL45: as providers and gateways attach it; counters beside it are not it.
#[test]
fn limits_in_what_providers_attach() {
    let meta = |pairs: &[(&str, Value)]| -> Meta { pairs.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect() };
    let cases = [
        (meta(&[("anthropic", json!({"usage": {"input_tokens": 9}, "context_limit": 200_000}))]), Some(200_000)),
        (meta(&[("openai", json!({"model": {"max_input_tokens": 128_000}}))]), Some(128_000)),
        (
            meta(&[("gateway", json!({"routes": [{"model": {"facts": {"contextWindow": "1048576"}}}]}))]),
            Some(1_048_576),
        ),
        (meta(&[("a", json!({"context_limit": 1_000})), ("b", json!({"context_limit": 2_000}))]), Some(2_000)),
        (meta(&[("google", json!({"thoughtSignature": "abc"}))]), None),
        (meta(&[("x", json!({"context_tokens_used": 9_000, "context_limit_used": 9_000}))]), None),
        (meta(&[("x", json!(null))]), None),
        (meta(&[]), None),
    ];
    for (meta, limit) in cases {
        assert_eq!(limit_in_meta(&meta), limit, "{meta:?}");
    }
}

/// P16: depth is the sender's choice; the search does not recurse.
#[test]
fn depth_does_not_matter() {
    let mut value = json!({"context_limit": 11});
    for _ in 0..5_000 {
        value = Value::Array(vec![value]);
    }
    assert_eq!(limit_in(&value), Some(11));
}
