//! Keeps files and memory of this process private to its user.

/// Makes files and directories that this process creates from now on accessible to its user only.
pub fn make_files_private() {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

/// Keeps other processes of the same user, such as tools that a model runs, from reading the keys in this
/// process's memory and environment. A variable cannot be removed from the environment safely once there are
/// threads; this way only this process and root can read it
/// (`docs/adr/0014-keys-stay-in-the-environment.md`).
pub fn hide_from_other_processes() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "could not protect the environment: other processes of this user can read the API keys");
    }
}
