//! Sockets and connections: listening, TLS, HTTP, shutdown, and limits on slow or idle clients.

pub(crate) mod activity;
mod coalesce;
pub(crate) mod listen;
pub(crate) mod serve;
pub(crate) mod slow_reader;
pub(crate) mod tls;
