//! How many files and connections this process may have open.
//!
//! Each client is a connection, and each chat that streams is one more to its provider. Systems give a process 1,024 at
//! first, for programs that cannot count further, and let it ask for more.

use rustix::process::{Resource, getrlimit, setrlimit};

/// With fewer than this, a busy server runs out.
const ENOUGH: u64 = 4_096;

/// Asks for as many as may be had, and says so if they are few.
pub fn raise() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "the number of open files cannot be raised");
            limit = getrlimit(Resource::Nofile);
        }
    }
    if let Some(open_max) = limit.current.filter(|open_max| *open_max < ENOUGH) {
        tracing::warn!(open_max, "few files can be open at once, and each connection is one: raise `ulimit -n`");
    }
}
