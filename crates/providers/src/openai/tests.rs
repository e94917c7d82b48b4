use everturn_core::prompt::Effort;
use serde_json::json;

use super::*;

/// Tokens, as everybody counts them: cached ones are taken out of the prompt's, thinking ones are in the output's.
#[test]
fn usage_is_read_in_every_dialect() {
    let told = |usage: Value| {
        let UsageReport { input, cache_read, cache_write, output, reasoning } = report(&usage);
        [input, cache_read, cache_write, output, reasoning].map(TokenCount::known)
    };
    let cases = [
        (
            json!({"input_tokens": 100, "output_tokens": 9, "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
                "output_tokens_details": {"reasoning_tokens": 4}}),
            [Some(30), Some(60), Some(10), Some(9), Some(4)],
        ),
        (
            json!({"prompt_tokens": 100, "completion_tokens": 9, "total_tokens": 109, "prompt_tokens_details": {"cached_tokens": 60},
                "completion_tokens_details": {"reasoning_tokens": 4}}),
            [Some(40), Some(60), None, Some(9), Some(4)],
        ),
        (
            json!({"prompt_tokens": 100, "completion_tokens": 9, "prompt_cache_hit_tokens": 90, "prompt_cache_miss_tokens": 10}),
            [Some(10), Some(90), None, Some(9), None],
        ),
        (
            json!({"prompt_tokens": 100, "completion_tokens": 9, "cached_tokens": 1}),
            [Some(99), Some(1), None, Some(9), None],
        ),
        (
            json!({"prompt_tokens": 100, "completion_tokens": 9, "cache_read_input_tokens": 50, "cache_creation_input_tokens": 5}),
            [Some(45), Some(50), Some(5), Some(9), None],
        ),
        (
            json!({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 17, "completion_tokens_details": {"reasoning_tokens": 10}}),
            [Some(5), None, None, Some(12), Some(10)],
        ),
        (json!({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 6}}), [None, Some(6), None, None, None]),
        (json!({"prompt_tokens": -1, "completion_tokens": 1.5}), [None; 5]),
        (json!({"prompt_tokens": 12.0, "completion_tokens": null}), [Some(12), None, None, None, None]),
        (json!(null), [None; 5]),
    ];
    for (usage, expected) in cases {
        assert_eq!(told(usage.clone()), expected, "{usage}");
    }
}

#[test]
fn effort_is_told_in_words_the_model_knows() {
    let card =
        |words: &[&str]| Card { efforts: Some(words.iter().map(ToString::to_string).collect()), ..Card::default() };
    let (old, new) = (card(&["minimal", "low", "medium", "high"]), card(&["none", "low", "medium", "high", "xhigh"]));
    let cases = [
        (Effort::None, "minimal", "none"),
        (Effort::Minimal, "minimal", "low"),
        (Effort::Low, "low", "low"),
        (Effort::High, "high", "high"),
        (Effort::XHigh, "high", "xhigh"),
        (Effort::Max, "high", "xhigh"),
    ];
    for (effort, for_old, for_new) in cases {
        assert_eq!(
            (effort_word(effort, &old), effort_word(effort, &new)),
            (Some(for_old), Some(for_new)),
            "{effort:?}"
        );
        assert_eq!(effort_word(effort, &card(&[])), None);
        assert_eq!(effort_word(effort, &Card::default()), None);
    }
}

#[test]
fn a_field_may_hold_anything() {
    let read = |json: &'static str| serde_json::from_str::<Loose<'_>>(json).unwrap();
    assert!(matches!(read(r#""plain""#), Loose::Text(std::borrow::Cow::Borrowed("plain"))));
    assert_eq!(read(r#""\u00e9\n""#).text(), "é\n");
    assert_eq!((read("null"), read("null").text(), read("null").written()), (Loose::None, "", String::new()));
    assert_eq!(
        (read("7").number(), read(r#""7""#).number(), read("-7").number(), read("7.5").number()),
        (Some(7), Some(7), None, None)
    );
    assert_eq!((read("4294967296").index(), read("0").index()), (None, Some(0)));
    assert_eq!(read(r#"{"a":[1,null,{"b":true}]}"#).written(), r#"{"a":[1,null,{"b":true}]}"#);
    assert_eq!(read("[1]").text(), "");
}

#[test]
fn sources_are_told_once() {
    let mut sources = HeldSources::default();
    for annotation in [
        json!({"type": "url_citation", "url": "https://a", "title": "A"}),
        json!({"type": "url_citation", "url_citation": {"url": "https://b", "title": "B"}}),
        json!({"type": "url_citation", "url": "https://a", "title": "again"}),
        json!({"type": "file_citation", "file_id": "file-1", "filename": "x.pdf"}),
        json!({"type": "vague"}),
        json!(null),
    ] {
        sources.add(source("openai", &annotation));
    }
    let told: Vec<(String, String)> = sources.drain().map(|source| (source.url, source.title)).collect();
    assert_eq!(told, [("https://a", "A"), ("https://b", "B"), ("file-1", "x.pdf")].map(|(a, b)| (a.into(), b.into())));
    sources.add(source("openai", &json!({"url": "https://a"})));
    assert_eq!(sources.drain().count(), 0);
}
