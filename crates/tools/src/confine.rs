//! What a process may reach, held by the kernel.
//!
//! The order matters. Bubblewrap comes first, outside: it makes mounts, which Landlock would forbid. Then the confined
//! child limits its resources, gives up new privileges, enters its Landlock domain, installs the seccomp filters and
//! becomes the command. None of it happens between fork and exec of a process with threads: each stage is a process of its
//! own that starts with one thread.

mod files;
pub(crate) mod guard;
pub(crate) mod namespace;
pub mod probe;
pub(crate) mod process;
mod resources;
mod syscalls;

pub use namespace::Bubblewrap;
pub use process::ConfineError;

/// The argument that makes this program the confined child.
pub const ROLE: &str = "__everturn-confine";
