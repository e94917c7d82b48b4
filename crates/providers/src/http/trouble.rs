//! Classifies errors of the HTTP client by their types.
//!
//! The HTTP libraries wrap one another's errors. Each layer is checked by its type; its text is not parsed.

use std::error::Error;
use std::io;

use super::NoAddress;
use crate::classify::{Phase, Side, Transport};

/// What happened to the connection.
pub(super) fn of(error: &reqwest::Error, phase: Phase) -> Transport {
    match (transport(error), phase) {
        (Some(transport), _) => transport,
        (None, _) if error.is_timeout() => Transport::TimedOut,
        (None, Phase::Opening) if error.is_connect() => Transport::Connect,
        (None, Phase::Opening | Phase::Streaming) => Transport::Reset,
    }
}

/// What an error says by its types. The innermost layer knows most: an error of TLS comes wrapped in one of IO.
pub(super) fn transport(error: &(dyn Error + 'static)) -> Option<Transport> {
    let layers: Vec<_> = layers(error).collect();
    layers.into_iter().rev().find_map(known)
}

/// The innermost complaint: what the layers around it add is known by type, or is our own address.
pub(super) fn told(error: &reqwest::Error) -> String {
    layers(error).last().map(ToString::to_string).unwrap_or_default()
}

/// An error, what caused it, what caused that…
fn layers<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner as &(dyn Error + 'static)), // Which is not its own source, oddly.
        None => error.source(),
    })
}

fn known(error: &(dyn Error + 'static)) -> Option<Transport> {
    if error.is::<NoAddress>() {
        return Some(Transport::Dns);
    }
    if error.is::<rustls::Error>() {
        return Some(Transport::Tls);
    }
    if let Some(error) = error.downcast_ref::<h2::Error>() {
        return of_http2(error);
    }
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        let foreign = error.is_parse().then_some(Transport::Foreign);
        return error.is_incomplete_message().then_some(Transport::Closed).or(foreign);
    }
    of_io(error.downcast_ref::<io::Error>()?)
}

fn of_http2(error: &h2::Error) -> Option<Transport> {
    if error.is_go_away() && error.is_remote() {
        return Some(Transport::GoAway);
    }
    let by = if error.is_remote() { Side::Peer } else { Side::Local };
    error.reason().map(|reason| Transport::Http2 { code: reason.into(), by })
}

fn of_io(error: &io::Error) -> Option<Transport> {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Some(Transport::Closed),
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::AddrNotAvailable => Some(Transport::Connect),
        io::ErrorKind::TimedOut => Some(Transport::TimedOut),
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::NotConnected => Some(Transport::Reset),
        _ => None,
    }
}
