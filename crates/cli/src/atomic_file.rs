//! Atomic writes: a file is there complete, or not at all.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use tempfile::NamedTempFile;

/// Writes a file, and replaces any file of that name.
pub fn replace(to: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let written = || beside(to, bytes)?.persist(to).map_err(|error| error.error);
    written().map(drop).with_context(|| format!("{} cannot be written", to.display()))
}

/// Writes a new file; fails if the name is taken.
pub fn make(to: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let written = || beside(to, bytes)?.persist_noclobber(to).map_err(|error| error.error);
    written().map(drop).with_context(|| format!("{} cannot be created", to.display()))
}

/// A temporary file in the directory of the destination, so that it can be renamed.
fn beside(to: &Path, bytes: &[u8]) -> std::io::Result<NamedTempFile> {
    let dir = to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".everturn-").tempfile_in(dir)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let names = || std::fs::read_dir(&dir).unwrap().count();
        let file = dir.path().join("file");
        make(&file, b"one").unwrap();
        assert!(make(&file, b"two").is_err(), "it is there");
        assert_eq!((std::fs::read(&file).unwrap(), names()), (b"one".to_vec(), 1));
        replace(&file, b"two").unwrap();
        assert_eq!((std::fs::read(&file).unwrap(), names()), (b"two".to_vec(), 1));
        assert!(replace(&dir.path().join("no/such/file"), b"three").is_err());
    }
}
