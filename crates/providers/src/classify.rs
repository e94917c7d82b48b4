//! What a failure at a provider means.
//!
//! A forerunner looked for words anywhere in an error's text, and so a model that wrote about time-outs caused retries,
//! and "moderate" was a rate limit. Here the adapter hands in what it saw, each thing in its own field: status, headers,
//! the error's type and code, its message, the transport's own complaint. Types decide. A message is read only when the
//! types say nothing more than the status does, only as the provider's own error message, and only for phrases that are
//! known of that provider. The status comes from the response and is never guessed from text.

use std::time::Duration;

use everturn_core::error::{Cause, ErrorKind, ProviderError, Retry};
use everturn_core::ids::Timestamp;
use everturn_core::retry::retry_after;

mod event;
mod said;
mod signs;
#[cfg(test)]
mod tests;

pub use event::error_in;
pub use said::{BODY_BYTES_MAX, ErrorText};
use signs::{ErrorDialect, Sign};

/// Everything that was seen of a failure.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Evidence {
    /// The provider's name in the configuration.
    pub provider: String,
    /// How far the attempt had got.
    pub phase: Phase,
    /// The status of the response, if there was one.
    pub status: Option<u16>,
    /// How long the headers ask us to stay away.
    pub retry_after: Option<Duration>,
    /// The provider's name for the request.
    pub request_id: Option<String>,
    /// What the error said, structured as far as it was.
    pub said: ErrorText,
    /// What the transport complains of.
    pub transport: Option<Transport>,
    /// The variable the key was read from.
    pub key_variable: Option<String>,
    /// The variable the base URL was read from.
    pub base_variable: Option<String>,
}

/// How far an attempt had got when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// No answer had begun.
    #[default]
    Opening,
    /// The answer was arriving.
    Streaming,
}

/// What can happen to a connection, as the transport types it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// The connection was not accepted.
    Connect,
    /// The connection was reset or lost.
    Reset,
    /// The peer announced that it closes the connection.
    GoAway,
    /// It took too long.
    TimedOut,
    /// HTTP/2 ended the stream with this code.
    Http2 {
        /// As RFC 9113 numbers them.
        code: u32,
        /// The side that decided it.
        by: Side,
    },
    /// No secure connection: certificate, name, protocol.
    Tls,
    /// The name has no address.
    Dns,
    /// The other side was done, and had not said so in its protocol.
    Closed,
    /// Something answered that does not speak HTTP.
    Foreign,
}

/// One of the two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The provider's.
    Peer,
    /// Ours.
    Local,
}

impl Evidence {
    /// What a response with an error status shows. `header` looks a header up by its lower-case name; of the body, no
    /// more than [`BODY_BYTES_MAX`] bytes are read.
    pub fn of_response<'h>(
        provider: &str,
        status: u16,
        header: impl Fn(&str) -> Option<&'h str>,
        body: &[u8],
        now: Timestamp,
    ) -> Self {
        let mut said = ErrorText::read(body);
        if let Some(name) = header("x-amzn-errortype").filter(|_| said.name.is_empty()) {
            said.name = name.split(':').next().unwrap_or_default().to_owned();
        }
        Self {
            provider: provider.to_owned(),
            status: Some(status),
            retry_after: retry_after(header("retry-after-ms"), header("retry-after"), now),
            request_id: request_id(header).map(str::to_owned),
            said,
            ..Self::default()
        }
    }

    /// What an error event in the middle of a stream shows.
    #[must_use]
    pub fn of_event(provider: &str, event: &serde_json::Value) -> Self {
        let said = ErrorText::of_json(event);
        Self { provider: provider.to_owned(), phase: Phase::Streaming, said, ..Self::default() }
    }

    /// What a failed connection shows. The complaint is the detail; nothing is read from it.
    #[must_use]
    pub fn of_transport(provider: &str, phase: Phase, transport: Transport, complaint: &str) -> Self {
        let said = ErrorText { message: complaint.to_owned(), ..ErrorText::default() };
        Self { provider: provider.to_owned(), phase, said, transport: Some(transport), ..Self::default() }
    }
}

/// The provider's name for a request, out of the headers of its response.
pub fn request_id<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<&'h str> {
    ["request-id", "x-request-id", "x-amzn-requestid", "apim-request-id"].iter().find_map(|name| header(name))
}

/// What a failure means.
#[must_use]
pub fn classify(evidence: &Evidence) -> ProviderError {
    // A connection that broke after a good status broke; an error status says more than how its body ended.
    let error = match (evidence.transport, evidence.status) {
        (Some(transport), None | Some(200..300)) => of_transport(evidence, transport),
        (Some(_) | None, _) => of_answer(evidence),
    };
    let error = ProviderError { status: evidence.status, ..error };
    let error = match &evidence.request_id {
        Some(id) => error.with_request_id(id),
        None => error,
    };
    match (&evidence.key_variable, error.kind) {
        (Some(variable), ErrorKind::Auth | ErrorKind::MissingKey) => error.with_subject(variable),
        _ => error,
    }
}

/// Something answered, and said no.
fn of_answer(evidence: &Evidence) -> ProviderError {
    let Evidence { provider, said, .. } = evidence;
    let sign = signs::read(ErrorDialect::of(provider), evidence.status, said);
    let (kind, retry) = sign.meaning();
    let retry = match (retry, evidence.retry_after.or(said.retry_delay)) {
        (Retry::Backoff, Some(wait)) => Retry::After(wait),
        _ => retry,
    };
    let cause = match (evidence.phase, kind) {
        (_, ErrorKind::Malformed) => Cause::Malformed,
        (Phase::Opening, _) => Cause::Refused,
        (Phase::Streaming, _) => Cause::ServerError,
    };
    let detail = match sign {
        // The provider's text names ids of ours that mean nothing to a person.
        Sign::PromptShape => "a tool call in the conversation lacks what has to stand beside it",
        _ => said.message.as_str(),
    };
    let error = ProviderError::new(provider, kind).with_retry(retry).with_cause(cause).with_detail(detail);
    match (sign, evidence.phase) {
        (Sign::Address, Phase::Opening) => {
            error.with_subject(evidence.base_variable.as_deref().unwrap_or("the base URL"))
        }
        _ => error,
    }
}

/// Nothing answered, or not to the end.
fn of_transport(evidence: &Evidence, transport: Transport) -> ProviderError {
    let (kind, retry, cause) = match (transport, evidence.phase) {
        (Transport::Connect | Transport::Dns, Phase::Opening) => (ErrorKind::Timeout, Retry::Backoff, Cause::Refused),
        // A certificate does not mend itself in a minute; a half-finished deployment may.
        (Transport::Tls, Phase::Opening) => (ErrorKind::Timeout, Retry::Once, Cause::Refused),
        (Transport::TimedOut, Phase::Opening) => (ErrorKind::Timeout, Retry::Backoff, Cause::Refused),
        (Transport::TimedOut, Phase::Streaming) => (ErrorKind::Silence, Retry::Backoff, Cause::IdleStall),
        (Transport::Closed, Phase::Streaming) => (ErrorKind::Truncated, Retry::Backoff, Cause::Truncated),
        (Transport::Foreign, Phase::Opening) => (ErrorKind::Malformed, Retry::Backoff, Cause::Malformed),
        (Transport::GoAway, _) => (ErrorKind::Timeout, Retry::Backoff, Cause::GoAway),
        (
            Transport::Reset
            | Transport::Closed
            | Transport::Connect
            | Transport::Dns
            | Transport::Tls
            | Transport::Foreign, // An answer had begun, so what came then was damaged on its way.
            _,
        ) => (ErrorKind::Timeout, Retry::Backoff, Cause::Reset),
        (Transport::Http2 { code, by }, _) => of_http2(code, by),
    };
    let error = ProviderError::new(&evidence.provider, kind).with_retry(retry).with_cause(cause);
    error.with_detail(&evidence.said.message)
}

/// A peer that ends a stream for reasons of its own may do better next time, and so may one that flooded us, on a new
/// connection. One that breaks the protocol would do it again.
fn of_http2(code: u32, by: Side) -> (ErrorKind, Retry, Cause) {
    const NO_ERROR: u32 = 0;
    const INTERNAL_ERROR: u32 = 2;
    const REFUSED_STREAM: u32 = 7;
    const CANCEL: u32 = 8;
    const ENHANCE_YOUR_CALM: u32 = 11;
    match (by, code) {
        (Side::Peer, NO_ERROR | INTERNAL_ERROR | REFUSED_STREAM | CANCEL) | (_, ENHANCE_YOUR_CALM) => {
            (ErrorKind::Timeout, Retry::Backoff, Cause::Reset)
        }
        (Side::Local, NO_ERROR | CANCEL) => (ErrorKind::Generic, Retry::Never, Cause::Reset), // We hung up ourselves.
        (Side::Peer | Side::Local, _) => (ErrorKind::Malformed, Retry::Never, Cause::Malformed),
    }
}
