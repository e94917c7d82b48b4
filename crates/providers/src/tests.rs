//! What the tests of all adapters share.

pub(crate) mod cuts;
pub(crate) mod recorded_server;
pub(crate) mod snapshot;
pub(crate) mod transcript;
