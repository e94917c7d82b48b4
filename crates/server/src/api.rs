//! The HTTP API: routes, JSON shapes, event streams and error bodies.

pub mod markdown;
pub(crate) mod problem;
pub(crate) mod request;
pub(crate) mod routes;
pub(crate) mod stream;
pub mod wire;
