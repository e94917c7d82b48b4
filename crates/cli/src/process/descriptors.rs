//! The limit of open files of this process.
//!
//! Each client is a connection, and each streaming chat has one more to its provider. Systems start a process
//! with a soft limit of 1,024, for programs that use `select`, and let it raise that.

use rustix::process::{Resource, getrlimit, setrlimit};

/// With fewer than this, a busy server runs out.
const ENOUGH: u64 = 4_096;

/// Raises the soft limit to the hard limit, and logs a warning if that is low.
pub fn raise() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "the limit of open files could not be raised");
            limit = getrlimit(Resource::Nofile);
        }
    }
    if let Some(open_max) = limit.current.filter(|open_max| *open_max < ENOUGH) {
        tracing::warn!(open_max, "the limit of open files is low, and each connection needs one: raise `ulimit -n`");
    }
}
