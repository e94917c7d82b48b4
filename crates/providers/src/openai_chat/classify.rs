//! What a failure in the middle of a completion means.
//!
//! Errors come as chunks here, in as many shapes as there are servers; [`crate::classify`](mod@crate::classify) opens the
//! wrappers. A finish reason may be an error too, and then the reason is all there is.

use everturn_core::error::{Cause, ErrorKind, ProviderError, Retry};
use serde_json::Value;

use crate::classify::{Evidence, classify};

/// A chunk that tells of an error.
pub(super) fn event(provider: &str, mut event: Value) -> ProviderError {
    // What else such a chunk holds is about the answer, and no error's name or code.
    if let (Some(error), Some(chunk)) = (event.get("error").cloned(), event.as_object_mut()) {
        chunk.clear();
        chunk.insert("error".to_owned(), error);
    }
    classify(&Evidence::of_event(provider, &event))
}

/// A finish reason that means failure.
pub(super) fn finished(provider: &str, reason: &str) -> ProviderError {
    let kind = match reason {
        "network_error" | "timeout" => ErrorKind::Timeout,
        "insufficient_system_resource" => ErrorKind::Overloaded,
        _ => ErrorKind::Generic,
    };
    let error = ProviderError::new(provider, kind).with_retry(Retry::Backoff).with_cause(Cause::ErrorFinish);
    error.with_detail(&format!("the answer ended with the reason {reason}"))
}
