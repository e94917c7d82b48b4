use super::*;

const SECRET: &str = "sk-proj-0123456789abcdefghij";

/// CE22, CL34: every kind says what happened and what to do, names the provider, and shows no status.
#[test]
fn every_kind_says_what_happened_and_what_to_do() {
    let mut said = Vec::new();
    for kind in ErrorKind::ALL {
        let text = ProviderError::new("anthropic", kind).with_status(418).to_string();
        assert!(text.starts_with("Anthropic "), "{text}");
        assert!(text.contains("; "), "{kind:?} gives no advice: {text}");
        assert!(!text.contains(|c: char| c.is_ascii_digit()), "{text}");
        assert!(!text.ends_with('.') && !text.contains('\n'), "{text}");
        said.push(text);
    }
    said.sort();
    said.dedup();
    assert_eq!(said.len(), ErrorKind::ALL.len(), "two kinds read the same");
}

/// CE12, CE22: what cannot be reached is said broadly; what took longer than allowed, and what is no use to repeat, read
/// differently from what will be tried again.
#[test]
fn the_remedy_shows_in_the_words() {
    let text = |kind, retry| ProviderError::new("openai", kind).with_retry(retry).to_string();
    assert!(text(ErrorKind::Timeout, Retry::Backoff).contains("cannot be reached"));
    assert!(text(ErrorKind::Timeout, Retry::After(Duration::from_secs(3))).contains("cannot be reached"));
    assert!(text(ErrorKind::Timeout, Retry::Never).contains("time allowed"));
    assert!(text(ErrorKind::Generic, Retry::Backoff).contains("internal error"));
    assert!(text(ErrorKind::Generic, Retry::Never).contains("see the detail"));
}

/// CE01, CE22: eight providers have names people know; any other is "The AI provider".
#[test]
fn providers_are_called_by_their_names() {
    let names = [
        ("anthropic", "Anthropic"),
        ("azure", "Azure OpenAI"),
        ("bedrock", "AWS Bedrock"),
        ("google", "Google"),
        ("gemini", "Google"),
        ("openai", "OpenAI"),
        ("openai-compat", "OpenAI Compatible"),
        ("OpenAI Compatible", "OpenAI Compatible"),
        ("openrouter", "OpenRouter"),
        ("vercel", "Vercel AI Gateway"),
        ("", "The AI provider"),
        ("somebody-else", "The AI provider"),
    ];
    for (provider, name) in names {
        assert_eq!(display_name(provider), name);
        assert!(ProviderError::new(provider, ErrorKind::Overloaded).to_string().starts_with(name));
    }
}

/// CE20, P4: a refused or absent key names the variable it was read from, never the key.
#[test]
fn key_trouble_names_the_variable() {
    for kind in [ErrorKind::Auth, ErrorKind::MissingKey] {
        let error = ProviderError::new("openai", kind).with_subject("OPENAI_API_KEY");
        assert!(error.to_string().contains("OPENAI_API_KEY"), "{error}");
        assert_eq!(error.retry, Retry::Never);
        let error = ProviderError::new("openai", kind).with_detail(&format!("Incorrect API key provided: {SECRET}."));
        assert!(!format!("{error} {error:?}").contains("0123456789"), "{error:?}");
    }
}

/// CL34: a refusal carries its category as given and the provider's explanation, with stand-ins for blank ones.
#[test]
fn a_refusal_names_its_category() {
    let error = ProviderError::filtered("anthropic", "cyber-abuse", "The request asks for malware.");
    assert!(error.to_string().contains("(cyber-abuse)"), "{error}");
    assert_eq!(error.detail, "The request asks for malware.");
    for blank in ["", " \t\n"] {
        let error = ProviderError::filtered("somebody", blank, blank);
        assert!(
            error.to_string().starts_with("The AI provider withheld") && !error.to_string().contains('('),
            "{error}"
        );
        assert_eq!(error.detail, "no explanation was given");
    }
    assert_eq!((error.kind, error.retry), (ErrorKind::ContentFilter, Retry::Never));
}

/// Dashboards depend on these words.
#[test]
fn labels_are_stable() {
    let labels: Vec<_> = ErrorKind::ALL.map(ErrorKind::label).into();
    expect_test::expect![[
        r#"["overloaded", "rate_limit", "timeout", "silence", "truncated", "auth", "missing_key", "usage_limit", "config", "context_full", "content_filter", "provider_disabled", "chain_broken", "malformed", "generic", "budget", "quarantine"]"#
    ]]
    .assert_eq(&format!("{labels:?}"));
}

/// AW19: what would fail again, or needs another request, is no broken stream, however it arrived.
#[test]
fn only_what_can_be_carried_on_is_a_broken_stream() {
    let broken: Vec<_> = ErrorKind::ALL
        .into_iter()
        .filter(|&kind| {
            let error = ProviderError::new("x", kind).with_retry(Retry::Backoff);
            error.with_cause(Cause::ServerError).is_broken_stream()
        })
        .map(ErrorKind::label)
        .collect();
    assert_eq!(broken, ["overloaded", "rate_limit", "timeout", "silence", "truncated", "malformed", "generic"]);
    for kind in ErrorKind::ALL {
        let error = ProviderError::new("x", kind);
        assert!(!error.clone().with_cause(Cause::Refused).is_broken_stream(), "no answer began: {kind:?}");
        assert!(!error.with_cause(Cause::Reset).with_retry(Retry::Never).is_broken_stream(), "{kind:?}");
    }
}

/// CE16, CE17: renaming the provider keeps what a lower layer decided: kind, cause, Retry-After.
#[test]
fn a_gateway_may_rename_the_provider_and_nothing_else() {
    let silent = ProviderError::new("anthropic", ErrorKind::Silence).with_retry(Retry::After(Duration::from_secs(7)));
    let renamed = silent.clone().with_provider("bedrock");
    assert!(renamed.to_string().starts_with("AWS Bedrock"), "{renamed}");
    assert_eq!(renamed, ProviderError { provider: "bedrock".into(), ..silent.clone() });
    assert_eq!((silent.kind.label(), silent.cause), ("silence", Cause::IdleStall));
    let boxed: Box<dyn std::error::Error> = Box::new(silent.clone());
    assert_eq!(boxed.downcast_ref(), Some(&silent), "wrapping does not hide the type");
}

/// Results carry this error by value through every adapter; clippy's bound is 128 bytes.
#[test]
fn an_error_stays_small() {
    assert!(size_of::<ProviderError>() < 128);
}

/// CE21: whitespace, control characters and direction marks collapse; nothing stays nothing.
#[test]
fn a_detail_is_one_line() {
    let cases = [
        ("", ""),
        (" \n\t ", ""),
        ("a\r\n\tb  c\0d", "a b c d"),
        ("\u{1b}[31mred\u{1b}[0m", "[31mred [0m"),
        ("abc\u{202e}def\u{2066}", "abcdef"),
    ];
    for (text, line) in cases {
        assert_eq!(ProviderError::new("x", ErrorKind::Generic).with_detail(text).detail, line);
    }
}

/// CE20, CE21: a detail is cut on a character, and says that it was.
#[test]
fn a_detail_is_bounded() {
    let detail = |text: &str| ProviderError::new("x", ErrorKind::Generic).with_detail(text).detail;
    let exact = "é".repeat(DETAIL_CHARS_MAX);
    assert_eq!(detail(&exact), exact);
    for long in ["é".repeat(DETAIL_CHARS_MAX + 1), "ab ".repeat(100_000), "x://\"".repeat(100_000)] {
        let cut = detail(&long);
        assert_eq!(cut.chars().count(), DETAIL_CHARS_MAX);
        assert!(cut.ends_with('…'));
    }
}

/// CE21, P10: addresses lose user, query and fragment; keys are masked wherever they stand.
#[test]
fn a_detail_holds_no_secret() {
    let cases = [
        ("https://user:pw@host.example/v1/x?key=1#part", "https://host.example/v1/x"),
        ("Post \"https://me@host/p?q=1\": refused", "Post \"https://host/p\": refused"),
        ("see https://a.b/c, and ws://d?token=1", "see https://a.b/c, and ws://d"),
        ("\"https://u@a?x\",\"https://u@b?y\"", "\"https://a\",\"https://b\""),
        ("://", "://"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [key]"),
        ("key=AIzaSyA1234567890abcdefgh;", "key=[key];"),
        ("the sk-learn package", "the sk-learn package"),
    ];
    for (text, line) in cases {
        assert_eq!(ProviderError::new("x", ErrorKind::Generic).with_detail(text).detail, line);
    }
    let masked =
        ProviderError::new("x", ErrorKind::Auth).with_detail(&format!("got '{SECRET}' and sk-ant-***********wxyz"));
    assert_eq!(masked.detail, "got '[key]' and [key]");
}

proptest::proptest! {
    /// CE21: no text whatever makes a detail of two lines, or one too long, or one that changes when cleaned again.
    #[test]
    fn any_text_makes_a_clean_detail(text in ".{0,600}|[a-z:/?@#\" ]{0,80}") {
        let once = detail::one_line(&text);
        proptest::prop_assert!(once.chars().count() <= DETAIL_CHARS_MAX);
        proptest::prop_assert!(!once.chars().any(char::is_control));
        if once.chars().count() < DETAIL_CHARS_MAX {
            proptest::prop_assert_eq!(detail::one_line(&once), once);
        }
    }
}
