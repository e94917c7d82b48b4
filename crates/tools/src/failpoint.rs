//! Places at which a process of the file tools dies on purpose, for tests.
//!
//! With the feature `failpoints`, `EVERTURN_FAILPOINT=name` kills the process that comes by that name. Without the feature
//! there is nothing here.

/// Dies here if a test wants it.
macro_rules! failpoint {
    ($name:literal) => {
        #[cfg(feature = "failpoints")]
        $crate::failpoint::pass($name);
    };
}
pub(crate) use failpoint;

/// The variable that names a place, for a process that is started with a clean environment.
#[cfg(feature = "failpoints")]
pub(crate) const VARIABLE: &str = "EVERTURN_FAILPOINT";

/// Comes by a place.
#[cfg(feature = "failpoints")]
pub(crate) fn pass(name: &str) {
    use rustix::process::{Signal, getpid, kill_process};
    if std::env::var(VARIABLE).is_ok_and(|wanted| wanted == name) {
        let _ = kill_process(getpid(), Signal::KILL);
    }
}
