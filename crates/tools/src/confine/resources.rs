//! Limits that keep a runaway tool from taking the machine along.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};

/// Files a process may have open.
const OPEN_FILES_MAX: u64 = 4_096;
/// Bytes a file may get. A sparse file of terabytes is refused here.
const FILE_BYTES_MAX: u64 = 2 << 30;
/// Processes and threads of a command in a namespace of its own. Elsewhere the kernel would count those of the whole user, and
/// those of root it does not bound at all.
const PROCESSES_MAX: u64 = 2_048;
/// How much less of the processor tools get than the daemon.
const NICENESS: i32 = 5;
/// Makes the kernel choose a tool and not the daemon when memory runs out.
const OOM_SCORE: &str = "1000";

/// Which processes the kernel counts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Those of one command: it has a user namespace.
    ByCommand,
    /// All of the user.
    ByUser,
}

/// Limits this process. Address space is not limited: Node, Go and Java reserve far more than they use.
pub fn limit(counted: Counted) -> Result<(), Errno> {
    let processes = (counted == Counted::ByCommand).then_some((Resource::Nproc, PROCESSES_MAX));
    let limits = [(Resource::Core, 0), (Resource::Nofile, OPEN_FILES_MAX), (Resource::Fsize, FILE_BYTES_MAX)];
    for (resource, wanted) in limits.into_iter().chain(processes) {
        let most = getrlimit(resource).maximum.map_or(wanted, |most| most.min(wanted));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    let _ = nice(NICENESS); // The process may be as nice as can be already.
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE); // Not in every container; memory is not protected there.
    Ok(())
}
