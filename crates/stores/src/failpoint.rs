//! Named places at which a test lets the process die.
//!
//! What a crash leaves behind depends on where it comes, and a killer from outside seldom hits the places that matter. So
//! they have names. With the feature `failpoints`, `EVERTURN_FAILPOINT=name:3` ends the process at the third time it comes
//! by that name, as a kill would: nothing is flushed and nothing is dropped. Without the feature there is nothing here.

/// Dies here if a test wants it.
macro_rules! failpoint {
    ($name:literal) => {
        #[cfg(feature = "failpoints")]
        $crate::failpoint::pass($name);
    };
}
pub(crate) use failpoint;

/// Comes by a place.
#[cfg(feature = "failpoints")]
pub(crate) fn pass(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static WANTED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);

    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("EVERTURN_FAILPOINT").ok()?;
        let (name, times) = text.rsplit_once(':').expect("EVERTURN_FAILPOINT is name:number");
        Some((name.into(), times.parse().expect("EVERTURN_FAILPOINT is name:number")))
    });
    if let Some((wanted, times)) = wanted
        && wanted == name
        && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *times
    {
        std::process::abort();
    }
}
