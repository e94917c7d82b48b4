//! Limits on clients that read slowly.

pub(crate) mod body;
pub(crate) mod budget;
pub(crate) mod connection;
