//! The server's Prometheus metrics: requests, connections, the process, and their text format.

pub(crate) mod exposition;
mod fronts;
pub(crate) mod meter;
mod process;
