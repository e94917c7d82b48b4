//! Access control: which requests reach a route, in which owner's name, and what is recorded about them.

pub(crate) mod access;
pub(crate) mod audit;
pub(crate) mod cors;
pub(crate) mod failures;
pub(crate) mod guard;
pub(crate) mod proxies;
pub(crate) mod session;
pub(crate) mod token_watch;
