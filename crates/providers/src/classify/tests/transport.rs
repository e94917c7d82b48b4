use super::*;

fn broke(phase: Phase, transport: Transport) -> ProviderError {
    classify(&Evidence::of_transport("anthropic", phase, transport, "io: something about status 401 and rate limits"))
}

fn http2(code: u32, by: Side) -> ProviderError {
    broke(Phase::Streaming, Transport::Http2 { code, by })
}

/// CE12, P1–P3, P11: before an answer began, everything is "cannot be reached"; a bad certificate is tried once more.
#[test]
fn an_unreachable_provider_is_retried() {
    let cases = [
        (Transport::Connect, Retry::Backoff, Cause::Refused),
        (Transport::Dns, Retry::Backoff, Cause::Refused),
        (Transport::TimedOut, Retry::Backoff, Cause::Refused),
        (Transport::Tls, Retry::Once, Cause::Refused),
        (Transport::Reset, Retry::Backoff, Cause::Reset),
        (Transport::Closed, Retry::Backoff, Cause::Reset),
        (Transport::GoAway, Retry::Backoff, Cause::GoAway),
    ];
    for (transport, retry, cause) in cases {
        let error = broke(Phase::Opening, transport);
        assert_eq!((told(&error), error.cause), ((ErrorKind::Timeout, retry), cause), "{transport:?}");
        assert!(error.to_string().contains("cannot be reached"), "{error}");
        assert_eq!(error.status, None);
    }
}

/// P26: a peer that does not speak HTTP is not the provider; a damaged response may be from it.
#[test]
fn a_peer_without_http_is_malformed() {
    let error = broke(Phase::Opening, Transport::Foreign);
    assert_eq!((told(&error), error.cause), ((ErrorKind::Malformed, Retry::Backoff), Cause::Malformed));
    let error = broke(Phase::Streaming, Transport::Foreign);
    assert_eq!((told(&error), error.cause), ((ErrorKind::Timeout, Retry::Backoff), Cause::Reset));
}

/// CE02, CE08: once an answer is arriving, each end of it has its own cause, and all can be carried on.
#[test]
fn a_stream_breaks_in_typed_ways() {
    let cases = [
        (Transport::Closed, ErrorKind::Truncated, Cause::Truncated),
        (Transport::TimedOut, ErrorKind::Silence, Cause::IdleStall),
        (Transport::Reset, ErrorKind::Timeout, Cause::Reset),
        (Transport::GoAway, ErrorKind::Timeout, Cause::GoAway),
        (Transport::Tls, ErrorKind::Timeout, Cause::Reset),
    ];
    for (transport, kind, cause) in cases {
        let error = broke(Phase::Streaming, transport);
        assert_eq!((told(&error), error.cause), ((kind, Retry::Backoff), cause), "{transport:?}");
        assert!(error.is_broken_stream());
        let after_200 =
            Evidence { status: Some(200), ..Evidence::of_transport("anthropic", Phase::Streaming, transport, "") };
        assert_eq!((classify(&after_200).kind, classify(&after_200).cause), (kind, cause));
    }
}

/// CE08, CE13, CT03: a peer that ends a stream for its own reasons is tried again; a protocol error, and a stream that
/// we ended, are not.
#[test]
fn http2_codes_tell_who_ended_the_stream() {
    for code in [0, 2, 7, 8, 11] {
        assert_eq!(told(&http2(code, Side::Peer)), (ErrorKind::Timeout, Retry::Backoff), "{code}");
    }
    for code in [1, 3, 4, 5, 6, 9, 10, 12, 13, 99] {
        assert_eq!(told(&http2(code, Side::Peer)), (ErrorKind::Malformed, Retry::Never), "{code}");
        assert_eq!(told(&http2(code, Side::Local)), (ErrorKind::Malformed, Retry::Never), "{code}");
    }
    for code in [0, 8] {
        assert_eq!(told(&http2(code, Side::Local)), (ErrorKind::Generic, Retry::Never), "{code}");
    }
    assert_eq!(
        told(&http2(11, Side::Local)),
        (ErrorKind::Timeout, Retry::Backoff),
        "P24: flooded, so on a new connection"
    );
    assert!(!http2(1, Side::Peer).is_broken_stream());
}

/// CE14: a status says more than how the connection that carried it ended.
#[test]
fn an_error_status_beats_the_transport() {
    for transport in [Transport::Reset, Transport::Http2 { code: 1, by: Side::Peer }, Transport::GoAway] {
        for (status, kind) in [
            (401, ErrorKind::Auth),
            (429, ErrorKind::RateLimit),
            (500, ErrorKind::Generic),
            (529, ErrorKind::Overloaded),
        ] {
            let evidence = Evidence {
                status: Some(status),
                ..Evidence::of_transport("openai", Phase::Opening, transport, "stream ID 503")
            };
            let error = classify(&evidence);
            assert_eq!((error.status, error.kind), (Some(status), kind), "{transport:?}");
        }
    }
}

/// CE08, CT03: talk of cancelling in a server's error is a server's error.
#[test]
fn a_cancelled_server_is_a_server_error() {
    for message in ["context canceled", "context deadline exceeded"] {
        assert_eq!(told(&answer("openai", 500, &openai("", "", message))), (ErrorKind::Generic, Retry::Backoff));
    }
    assert_eq!(told(&answer("google", 499, &openai("", "CANCELLED", ""))), (ErrorKind::Timeout, Retry::Backoff));
}

/// CT04: a connection that keeps breaking keeps being tried, to the bound.
#[test]
fn a_breaking_connection_is_tried_to_the_bound() {
    use everturn_core::cost::Micros;
    use everturn_core::retry::{AttemptProgress, GiveUpReason, RetryDecision, RetryLimits, RetrySpent, decide};

    let limits = RetryLimits::default();
    let mut spent = RetrySpent::default();
    let why = loop {
        let error = http2(8, Side::Peer);
        spent = spent.failed(AttemptProgress::None, Duration::from_secs(1), Micros(0), &limits);
        match decide(error.retry, &spent, &limits, 0.5) {
            RetryDecision::Wait(wait) => spent = spent.waited(wait),
            RetryDecision::GiveUp(why) => break why,
        }
    };
    assert_eq!((why, spent.attempts), (GiveUpReason::Tries, limits.tries_max));
}
