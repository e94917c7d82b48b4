use std::time::Duration;

use everturn_core::ids::Timestamp;
use expect_test::expect;
use serde_json::json;

use super::*;

fn ending(reason: &str, message: &str) -> GeminiEnding {
    GeminiEnding { reason: reason.into(), message: message.into(), ..GeminiEnding::default() }
}

fn told(result: &Result<Stop, ProviderError>) -> String {
    match result {
        Ok(stop) => format!("{stop:?}"),
        Err(error) => format!("{:?} {:?} {:?}", error.kind, error.retry, error.cause),
    }
}

/// P28: every reason there is, and one there is not, without calls and with.
#[test]
fn every_finish_reason_is_decided() {
    let reasons = REASONS.iter().map(|(reason, _)| *reason).chain(["FINISH_REASON_UNSPECIFIED", "SOMETHING_NEW"]);
    let table: String = reasons
        .map(|reason| {
            let (plain, calling) = (ending(reason, ""), ending(reason, "because"));
            let (plain, calling) = (plain.stop("google", ClientCalls::None), calling.stop("google", ClientCalls::Some));
            let (plain, calling) = (told(&plain), told(&calling).replace("detail: \"because\"", "detail: \"\""));
            let both = if plain == calling { plain } else { format!("{plain}, with calls {calling}") };
            format!("{reason}: {both}\n")
        })
        .collect();
    expect![[r#"
        STOP: End, with calls ToolUse
        MAX_TOKENS: Length
        CONTINUATION: Length
        SAFETY: Filtered { category: "safety", detail: "" }
        RECITATION: Filtered { category: "recitation", detail: "" }
        LANGUAGE: Filtered { category: "language", detail: "" }
        BLOCKLIST: Filtered { category: "blocklist", detail: "" }
        PROHIBITED_CONTENT: Filtered { category: "prohibited_content", detail: "" }
        SPII: Filtered { category: "spii", detail: "" }
        IMAGE_SAFETY: Filtered { category: "image_safety", detail: "" }
        IMAGE_PROHIBITED_CONTENT: Filtered { category: "image_prohibited_content", detail: "" }
        IMAGE_RECITATION: Filtered { category: "image_recitation", detail: "" }
        MODEL_ARMOR: Filtered { category: "model_armor", detail: "" }
        MALFORMED_FUNCTION_CALL: Truncated Backoff ErrorFinish
        UNEXPECTED_TOOL_CALL: Truncated Backoff ErrorFinish
        MALFORMED_RESPONSE: Truncated Backoff ErrorFinish
        TOO_MANY_TOOL_CALLS: Truncated Once ErrorFinish
        NO_IMAGE: Truncated Once ErrorFinish
        IMAGE_OTHER: Truncated Once ErrorFinish
        OTHER: Truncated Once ErrorFinish
        MISSING_THOUGHT_SIGNATURE: Generic Never ErrorFinish
        FINISH_REASON_UNSPECIFIED: Truncated Once ErrorFinish
        SOMETHING_NEW: Truncated Once ErrorFinish
    "#]]
    .assert_eq(&table);
}

/// A failed ending can be carried on by the ladder; one that is our own mistake cannot.
#[test]
fn a_failed_ending_is_a_broken_stream() {
    let error =
        ending("MALFORMED_FUNCTION_CALL", "Malformed function call: f(").stop("google", ClientCalls::None).unwrap_err();
    assert!(error.is_broken_stream());
    assert_eq!(error.detail, "Malformed function call: f(");
    assert_eq!(error.to_string(), "Google broke off before its answer was complete; try again");
    let ours = ending("MISSING_THOUGHT_SIGNATURE", "").stop("google", ClientCalls::None).unwrap_err();
    assert!(!ours.is_broken_stream());
    assert_eq!(ours.detail, "MISSING_THOUGHT_SIGNATURE");
}

/// A question may be refused for reasons an answer ends well with.
#[test]
fn a_blocked_question_is_withheld_whatever_the_reason() {
    for reason in ["SAFETY", "OTHER", "BLOCKLIST", "STOP", "JAILBREAK"] {
        let blocked = GeminiEnding { of: Judged::Question, ..ending(reason, "no") };
        let category = reason.to_ascii_lowercase();
        assert_eq!(blocked.stop("google", ClientCalls::None), Ok(Stop::Filtered { category, detail: "no".into() }));
    }
    let rating = |category: &str, blocked| Rating { category: Some(category.into()), blocked };
    let ratings = vec![rating("HARM_CATEGORY_HARASSMENT", None), rating("HARM_CATEGORY_HATE_SPEECH", Some(true))];
    let rated = GeminiEnding { ratings, ..ending("SAFETY", "") };
    let category = "hate_speech".to_owned();
    assert_eq!(rated.stop("google", ClientCalls::None), Ok(Stop::Filtered { category, detail: String::new() }));
}

fn google(code: u16, status: &str, message: &str, details: &Value) -> Vec<u8> {
    json!({ "error": { "code": code, "status": status, "message": message, "details": details } }).to_string().into()
}

/// A body with a typed detail.
fn detailed(kind: &str, fields: Value) -> Value {
    let mut detail = fields;
    detail["@type"] = format!("type.googleapis.com/google.rpc.{kind}").into();
    json!([detail])
}

fn quota(id: &str) -> Value {
    let mut details = detailed("QuotaFailure", json!({ "violations": [{ "quotaId": id }] }));
    let delay = detailed("RetryInfo", json!({ "retryDelay": "21s" }));
    details.as_array_mut().unwrap().extend(delay.as_array().unwrap().clone());
    details
}

/// A table of statuses, names, messages and details, and what each becomes.
fn refusals(cases: &[(u16, &str, &str, Value)]) -> String {
    let row = |(code, status, message, details): &(u16, &str, &str, Value)| {
        let body = google(*code, status, message, details);
        let error = classify(&Evidence::of_response("google", *code, |_| None, &body, Timestamp(0)));
        format!("{code} {status}, {message}: {:?} {:?}\n", error.kind, error.retry)
    };
    cases.iter().map(row).collect()
}

/// P5: what would be refused again, as Google documents it.
#[test]
fn refusals_that_last() {
    let none = json!([]);
    let key = detailed("ErrorInfo", json!({ "reason": "API_KEY_INVALID", "domain": "googleapis.com" }));
    let table = refusals(&[
        (400, "INVALID_ARGUMENT", "Unknown name \"x\"", none.clone()),
        (400, "INVALID_ARGUMENT", "Function call is missing a thought_signature", none.clone()),
        (400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens", none.clone()),
        (400, "INVALID_ARGUMENT", "API key not valid", key.clone()),
        (400, "INVALID_ARGUMENT", "API key expired", key),
        (400, "FAILED_PRECONDITION", "User location is not supported", none.clone()),
        (403, "PERMISSION_DENIED", "Method doesn't allow unregistered callers", none.clone()),
        (404, "NOT_FOUND", "models/gemini-x is not found for API version v1beta", none),
        (429, "RESOURCE_EXHAUSTED", "a day's quota", quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier")),
    ]);
    expect![[r#"
        400 INVALID_ARGUMENT, Unknown name "x": Generic Never
        400 INVALID_ARGUMENT, Function call is missing a thought_signature: Generic Never
        400 INVALID_ARGUMENT, The input token count (9) exceeds the maximum number of tokens: ContextFull Never
        400 INVALID_ARGUMENT, API key not valid: Auth Never
        400 INVALID_ARGUMENT, API key expired: Auth Never
        400 FAILED_PRECONDITION, User location is not supported: Config Never
        403 PERMISSION_DENIED, Method doesn't allow unregistered callers: Auth Never
        404 NOT_FOUND, models/gemini-x is not found for API version v1beta: Config Never
        429 RESOURCE_EXHAUSTED, a day's quota: UsageLimit Never
    "#]]
    .assert_eq(&table);
}

/// P6, P7: what may pass.
#[test]
fn refusals_that_pass() {
    let none = json!([]);
    let table = refusals(&[
        (429, "RESOURCE_EXHAUSTED", "a minute's quota", quota("GenerateRequestsPerMinutePerProjectPerModel")),
        (429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota).", none.clone()),
        (499, "CANCELLED", "The operation was cancelled.", none.clone()),
        (500, "INTERNAL", "An internal error has occurred.", none.clone()),
        (503, "UNAVAILABLE", "The model is overloaded. Please try again later.", none.clone()),
        (503, "UNAVAILABLE", "The service is currently unavailable.", none.clone()),
        (504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete.", none),
    ]);
    expect![[r#"
        429 RESOURCE_EXHAUSTED, a minute's quota: RateLimit After(21s)
        429 RESOURCE_EXHAUSTED, Resource has been exhausted (e.g. check quota).: RateLimit Backoff
        499 CANCELLED, The operation was cancelled.: Timeout Backoff
        500 INTERNAL, An internal error has occurred.: Generic Backoff
        503 UNAVAILABLE, The model is overloaded. Please try again later.: Overloaded Backoff
        503 UNAVAILABLE, The service is currently unavailable.: Timeout Backoff
        504 DEADLINE_EXCEEDED, Deadline expired before operation could complete.: Timeout Backoff
    "#]]
    .assert_eq(&table);
}

/// Errors inside a stream have no HTTP status, only their own.
#[test]
fn an_error_in_the_stream_keeps_its_delay() {
    let details = json!([{ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7.5s" }]);
    let event: Value = serde_json::from_slice(&google(429, "RESOURCE_EXHAUSTED", "slow down", &details)).unwrap();
    let error = in_stream("google", &event);
    assert_eq!((error.kind, error.retry), (ErrorKind::RateLimit, Retry::After(Duration::from_millis(7_500))));
    assert_eq!(error.cause, Cause::ServerError);
    assert!(error.is_broken_stream());
}
