//! How messages reach a server: lines over the pipes of a process, or HTTP.

pub(crate) mod http;
pub(crate) mod lines;
pub(crate) mod process;

/// Largest message of a server. Beyond it the connection fails, and every open call is answered.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
