//! What is this user's stays this user's.

/// Files and directories that are made from now on are their owner's alone, whoever makes them.
pub fn make_files_private() {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

/// Keeps other processes of the same user, such as tools that a model runs, from reading the keys in this process's
/// memory and environment. A variable cannot be taken out of the environment safely once there are threads; this way it
/// can be read by nobody but this process and root (`docs/adr/0014-keys-stay-in-the-environment.md`).
pub fn hide_from_other_processes() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "other processes of this user can read the keys in this one's environment");
    }
}
