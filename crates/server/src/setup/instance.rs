//! The identity of a server across restarts.
//!
//! Servers that share a database wait for a silent one before they take over its chats. A server that was killed and
//! started again need not wait for itself: the kernel releases the lock on a file when its process dies, however it dies,
//! so the process with the lock is the only living one of that name.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};

use crate::setup::data::DataDir;

const INSTANCE_FILE: &str = "instance";
/// The boot id: differs between machines and between reboots.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The only living server of its name, until it is dropped or the process dies.
#[derive(Debug)]
pub struct Instance {
    name: String,
    _locked: File,
}

impl Instance {
    /// The instance's name. It contains the file's inode, not its path: a copy of the directory is another instance.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl DataDir {
    /// The instance of this directory; `None` if another process has the lock, or the system has no boot id.
    #[must_use]
    pub fn instance(&self) -> Option<Instance> {
        let boot = std::fs::read_to_string(BOOT).ok()?;
        let path = self.path().join(INSTANCE_FILE);
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).ok()?;
        file.try_lock().ok()?;
        let about = file.metadata().ok()?;
        Some(Instance { name: format!("{} {} {}", boot.trim(), about.dev(), about.ino()), _locked: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_and_has_one_process_at_a_time() {
        let path = std::env::temp_dir().join(format!("everturn-instance-{}", std::process::id()));
        let data = DataDir::open(&path).unwrap();
        let first = data.instance().unwrap();
        assert!(data.instance().is_none(), "there is one already");
        let name = first.name().to_owned();
        drop(first);
        assert_eq!(data.instance().unwrap().name(), name);
        let copy = DataDir::open(&path.join("copy")).unwrap();
        assert_ne!(copy.instance().unwrap().name(), name);
        std::fs::remove_dir_all(path).unwrap();
    }
}
