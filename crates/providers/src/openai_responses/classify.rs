//! Classifies failures in the middle of a response.
//!
//! A response that fails says so in its terminal event, with an error that has a code and no status. Most
//! codes are known to [`crate::classify`](mod@crate::classify); added here is which of them are about the
//! request, so that it is not sent again.

use everturn_core::error::{Cause, ErrorKind, ProviderError, Retry};
use serde_json::Value;

use crate::classify::{Evidence, classify};

/// Codes of a request that would fail again. Each is a 400, said too late to be a status.
const REQUEST_CODES: [&str; 17] = [
    "invalid_prompt",
    "data_residency_mismatch",
    "bio_policy",
    "misalignment_policy_violation",
    "invalid_image",
    "invalid_image_format",
    "invalid_base64_image",
    "invalid_image_url",
    "image_too_large",
    "image_too_small",
    "image_parse_error",
    "invalid_image_mode",
    "image_file_too_large",
    "unsupported_image_media_type",
    "empty_image_file",
    "failed_to_download_image",
    "image_file_not_found",
];

/// Codes of a policy that refused.
const POLICY_CODES: [&str; 2] = ["bio_policy", "misalignment_policy_violation"];

/// An event that tells of an error.
pub(crate) fn event(provider: &str, event: &Value) -> ProviderError {
    let mut evidence = Evidence::of_event(provider, event);
    let code = evidence.said.code.clone();
    if POLICY_CODES.contains(&code.as_str()) {
        return ProviderError::filtered(provider, &code, &evidence.said.message).with_cause(Cause::ServerError);
    }
    if evidence.said.status.is_none() && REQUEST_CODES.contains(&code.as_str()) {
        evidence.said.status = Some(400);
    }
    classify(&evidence)
}

/// A `response.failed` event. The generation is over at the provider, so it cannot be re-attached.
pub(crate) fn failed(provider: &str, data: &str) -> ProviderError {
    let data = serde_json::from_str(data).unwrap_or_default();
    event(provider, &data).with_cause(Cause::ErrorFinish)
}

/// A response that was cancelled elsewhere.
pub(crate) fn cancelled(provider: &str) -> ProviderError {
    let error =
        ProviderError::new(provider, ErrorKind::Generic).with_retry(Retry::Backoff).with_cause(Cause::ErrorFinish);
    error.with_detail("the response was cancelled at the provider")
}

/// What it means that a generation cannot be taken up again.
///
/// Whatever the provider answered to that says nothing about the request: the key is the same and the model is known.
/// So a refusal means that the generation is gone, as it is after some minutes, and that the next rung's turn has come.
pub(crate) fn not_resumed(error: ProviderError) -> ProviderError {
    match error.kind {
        ErrorKind::Config
        | ErrorKind::Generic
        | ErrorKind::ContextFull
        | ErrorKind::ContentFilter
        | ErrorKind::ChainBroken
            if error.retry == Retry::Never || error.kind == ErrorKind::ChainBroken =>
        {
            let gone = ProviderError::new(error.provider, ErrorKind::Truncated).with_cause(Cause::ErrorFinish);
            let gone = gone.with_detail(&error.detail);
            ProviderError { status: error.status, request_id: error.request_id, ..gone }
        }
        _ => error,
    }
}
