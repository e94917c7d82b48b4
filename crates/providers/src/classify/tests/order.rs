use everturn_core::error::ErrorKind::{
    Auth, ChainBroken, Config, ContentFilter, ContextFull, Generic, Malformed, Overloaded, ProviderDisabled, RateLimit,
    Timeout, UsageLimit,
};
use serde_json::json;

use super::super::signs::ErrorDialect::{self, Anthropic, Any, Bedrock, Google, OpenAi};
use super::super::signs::{NAMES, PHRASES, Sign};
use super::*;

/// CE11: every name in the table is recognised, alone, in any case, as a type and as a code.
#[test]
fn every_name_is_recognised() {
    for (sign, names) in NAMES {
        for name in *names {
            for body in [openai("", name, "m"), openai(&name.to_uppercase(), "", "m")] {
                assert_eq!(told(&answer("x", 400, &body)), sign.meaning(), "{name}");
            }
        }
    }
    let mut all: Vec<_> = NAMES.iter().flat_map(|(_, names)| *names).map(|name| name.to_lowercase()).collect();
    let len = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), len, "a name has one meaning");
}

/// CE11: every phrase in the table is recognised in a message of its family, and of no other.
#[test]
fn every_phrase_is_recognised() {
    for phrase in PHRASES {
        let message = format!("Sorry: {}.", phrase.pieces.join(" 9000 ").to_uppercase());
        let said = ErrorText { name: "invalid_request_error".into(), message, ..ErrorText::default() };
        assert_eq!(signs::read(Any, Some(400), &said), phrase.sign, "{said:?}");
        for family in [Anthropic, OpenAi, Google, Bedrock] {
            let expected = if phrase.families.contains(&family) { phrase.sign } else { Sign::Refused };
            assert_eq!(signs::read(family, Some(400), &said), expected, "{family:?}: {said:?}");
        }
    }
    let families = ["Anthropic", "openai", "azure", "google", "gemini", "vertex", "bedrock", "openrouter", ""];
    let of = families.map(ErrorDialect::of);
    assert_eq!(of, [Anthropic, OpenAi, OpenAi, Google, Google, Google, Bedrock, Any, Any]);
}

/// CE11, P5–P9: what each status says by itself.
#[test]
fn every_status_says_something_by_itself() {
    let cases: &[(&[u16], ErrorKind, Retry)] = &[
        (&[301, 302, 307, 308, 404, 405, 501, 505], Config, Retry::Never),
        (&[401, 403], Auth, Retry::Never),
        (&[402], UsageLimit, Retry::Never),
        (&[413], ContextFull, Retry::Never),
        (&[429], RateLimit, Retry::Backoff),
        (&[529], Overloaded, Retry::Backoff),
        (&[408, 425, 499, 502, 503, 504], Timeout, Retry::Backoff),
        (&[409, 424, 500, 506, 520, 599], Generic, Retry::Backoff),
        (&[400, 406, 410, 418, 422, 451], Generic, Retry::Never),
        (&[200, 204], Malformed, Retry::Backoff),
    ];
    for &(statuses, kind, retry) in cases {
        for &status in statuses {
            let error = answer("openai", status, "");
            assert_eq!((error.status, told(&error)), (Some(status), (kind, retry)));
            assert_eq!(error.is_broken_stream(), kind == Malformed, "{status}: only a good status began an answer");
        }
    }
}

/// CE03, CE04, CE06, CE07, CE09, CE15: of several signs, the one that explains most wins.
#[test]
fn the_sign_that_explains_most_wins() {
    let cases = [
        // CE03: a wrong key beats a wrong model; a bare 403 is about the key, one with a better reason is not.
        (401, "model_not_found", "", "", Auth),
        (400, "model_not_found", "", "", Config),
        (403, "", "", "", Auth),
        (403, "context_length_exceeded", "", "", ContextFull),
        (403, "model_not_found", "", "", Config),
        // CE15: used-up quota beats key and rate; but talk of quota and billing on a 429 is a rate limit.
        (401, "insufficient_quota", "", "", UsageLimit),
        (403, "", "", "Insufficient account credits", UsageLimit),
        (429, "insufficient_quota", "", "", UsageLimit),
        (429, "", "insufficient_quota", "", UsageLimit),
        (429, "", "", "You exceeded your current quota, check your plan and billing details", RateLimit),
        (429, "", "rate_limit_error", "billing: insufficient balance", RateLimit),
        // CE04: a budget that is used up, and a budget check that broke.
        (403, "", "", "AI budget of $5 is used up", UsageLimit),
        (400, "budget_exceeded", "", "", UsageLimit),
        (500, "", "", "AI budget of this user could not be checked", Generic),
        // CE06, CE07: a wrong model beats rate limit and outage.
        (429, "model_not_found", "", "", Config),
        (429, "model_not_found", "", "exceeded your current quota", Config),
        (503, "unsupported_model", "", "", Config),
        (504, "", "", "unsupported model", Config),
        // CE09: switched off beats unavailable.
        (503, "provider_disabled", "", "", ProviderDisabled),
        (503, "", "", "", Timeout),
        // A name beats a status that is vaguer.
        (403, "rateLimitExceeded", "", "", RateLimit),
        (500, "", "overloaded_error", "", Overloaded),
        (400, "", "authentication_error", "", Auth),
    ];
    for (status, code, name, message, kind) in cases {
        let error = answer("", status, &openai(code, name, message));
        assert_eq!(error.kind, kind, "{status} {code} {name} {message}");
    }
    assert_eq!(answer("", 500, &openai("", "", "AI budget of x")).retry, Retry::Backoff);
}

/// CE04, CE09: the same in a body that is plain text.
#[test]
fn plain_text_is_read_like_a_message() {
    assert_eq!(answer("gateway", 403, "AI budget of $5 is used up").kind, UsageLimit);
    assert_eq!(answer("gateway", 503, "provider_disabled").kind, ProviderDisabled);
    assert_eq!(answer("", 503, "\"provider_disabled: ask your administrator\"").kind, ProviderDisabled);
    assert_eq!(answer("gateway", 503, "no provider_disabled here").kind, Timeout, "a name stands alone");
}

/// W14: an overflow is known from every provider, so that it can be healed by compaction.
#[test]
fn overflow_is_known_from_every_provider() {
    let cases = [
        ("anthropic", 400, "prompt is too long: 215000 tokens > 200000 maximum"),
        ("anthropic", 400, "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
        ("openai", 400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545."),
        ("openai", 400, "Your input exceeds the context window of this model. Please adjust your input."),
        ("openai", 429, "Request too large for gpt-5 on tokens per min (TPM): Limit 30000, Requested 45000."),
        ("google", 400, "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."),
        ("google", 400, "The input token count is 1100000 but model only supports up to 1048576."),
        ("bedrock", 400, "Input is too long for requested model."),
        ("bedrock", 400, "prompt is too long: 9 > 8"),
        (
            "openrouter",
            400,
            "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000.",
        ),
        ("vercel", 400, "prompt is too long: 215000 tokens > 200000 maximum"),
        ("ollama", 400, "the request exceeds the available context size"),
        ("lmstudio", 400, "The number of tokens to keep from the initial prompt is greater than the context length"),
        ("xai", 400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
        ("groq", 400, "Please reduce the length of the messages or completion."),
        ("copilot", 400, "prompt token count of 130000 exceeds the limit of 128000"),
    ];
    for (provider, status, message) in cases {
        let error = answer(provider, status, &openai("", "invalid_request_error", message));
        assert_eq!(told(&error), (ContextFull, Retry::Never), "{provider}: {message}");
        assert_eq!(error.detail, message);
    }
    assert_eq!(answer("openai", 400, &openai("context_length_exceeded", "", "")).kind, ContextFull);
    assert_eq!(answer("llama", 400, &openai("", "exceed_context_size_error", "")).kind, ContextFull);
    assert_eq!(answer("anthropic", 413, "").kind, ContextFull);
}

/// CE10: two complaints about the conversation's shape are final, and their ids are not repeated.
#[test]
fn a_misshapen_conversation_is_not_sent_again() {
    let messages = [
        "No tool output found for function call call_abc123.",
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_2'.",
    ];
    for message in messages {
        let error = answer("openai", 400, &openai("", "invalid_request_error", message));
        assert_eq!(told(&error), (Generic, Retry::Never));
        assert_eq!(error.detail, "a tool call in the conversation lacks what has to stand beside it");
        let retried = answer("openai", 500, &openai("", "server_error", message));
        assert_eq!(retried.retry, Retry::Never, "not even when it comes as a server error");
    }
}

/// A lost chain is known by code and by phrase, and tried again once, in full.
#[test]
fn a_broken_chain_is_tried_again_in_full() {
    let message = "Previous response with id 'resp_1' not found.";
    for body in [openai("previous_response_not_found", "invalid_request_error", message), openai("", "", message)] {
        assert_eq!(told(&answer("openai", 400, &body)), (ChainBroken, Retry::Once));
    }
    assert_eq!(answer("openai", 500, "").kind, Generic, "a server error touches no chain");
}

/// CE20: an error inside a stream has no status; its names are enough, and without any it is the server's.
#[test]
fn errors_inside_a_stream_are_known_by_name() {
    let cases = [
        (json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}), Overloaded),
        (json!({"type": "error", "error": {"type": "authentication_error", "message": "no"}}), Auth),
        (json!({"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}), Config),
        (json!({"type": "error", "error": {"type": "timeout_error", "message": "late"}}), Timeout),
        (json!({"type": "error", "error": {"type": "api_error", "message": "oops"}}), Generic),
        (json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow"}), RateLimit),
        (
            json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error"}}}),
            Generic,
        ),
        (json!({"error": {"code": 502, "message": "Upstream"}}), Timeout),
        (json!({"error": {"code": 503, "status": "UNAVAILABLE", "message": "The model is overloaded."}}), Overloaded),
        (json!({"error": {"message": "something"}}), Generic),
    ];
    let refused = event("anthropic", json!({"error": {"type": "invalid_request_error", "message": "odd"}}));
    assert_eq!((told(&refused), refused.is_broken_stream()), ((Generic, Retry::Never), false));
    let empty = answer("anthropic", 200, &openai("", "invalid_request_error", "odd"));
    assert_eq!(told(&empty), (Generic, Retry::Never));
    for (frame, kind) in cases {
        let provider = if frame["error"]["status"].is_string() { "google" } else { "openai" };
        let error = event(provider, frame.clone());
        assert_eq!(error.kind, kind, "{frame}");
        let final_kind = matches!(kind, Auth | Config);
        assert_eq!(error.cause, Cause::ServerError);
        assert_eq!((error.retry == Retry::Never, error.is_broken_stream()), (final_kind, !final_kind), "{frame}");
    }
}

/// Google tells a minute's quota from a day's only in a typed detail.
#[test]
fn a_daily_quota_is_not_a_rate_limit() {
    let body = |quota: &str| {
        json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your current quota",
            "details": [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]}]}})
        .to_string()
    };
    assert_eq!(answer("google", 429, &body("GenerateRequestsPerMinutePerProjectPerModel")).kind, RateLimit);
    assert_eq!(answer("google", 429, &body("GenerateRequestsPerDayPerProjectPerModel-FreeTier")).kind, UsageLimit);
}

/// OpenRouter answers 403 for a flagged prompt, and gives its reasons.
#[test]
fn a_flagged_prompt_is_no_wrong_key() {
    let flagged = json!({"error": {"code": 403, "message": "Input flagged", "metadata": {"reasons": ["violence"]}}});
    assert_eq!(answer("openrouter", 403, &flagged.to_string()).kind, ContentFilter);
    assert_eq!(answer("azure", 400, &openai("content_filter", "", "filtered")).kind, ContentFilter);
}

/// W27: words that a forerunner took for signs mean nothing in a message.
#[test]
fn words_alone_mean_nothing() {
    let words = [
        "timeout",
        "eof",
        "overloaded",
        "unavailable",
        "forbidden",
        "rate limit",
        "moderate",
        "quota",
        "goaway",
        "500",
    ];
    for word in words {
        let error = answer("anthropic", 400, &openai("", "invalid_request_error", &format!("tool `{word}` is odd")));
        assert_eq!(told(&error), (Generic, Retry::Never), "{word}");
    }
}

#[test]
fn the_order_of_signs_is_the_order_of_precedence() {
    assert!(Sign::PromptShape < Sign::ChainBroken && Sign::Quota < Sign::KeyRefused && Sign::Config < Sign::RateLimit);
}
