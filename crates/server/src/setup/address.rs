//! The address file: where the server of a data directory listens.
//!
//! Clients on the same machine are given a directory, not an address. The server writes its address there and keeps the
//! file locked as long as it lives. The kernel releases the lock when the process dies, however it dies: an address in an
//! unlocked file is stale, and no token is sent to the program that may listen there now.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::time::Duration;

use crate::setup::data::{DataDir, DataError};

/// Suffix in the address file that marks a server embedded in a command.
const GUEST: &str = " guest";
const ADDRESS_FILE: &str = "address";
/// Longer than any address.
const ADDRESS_BYTES_MAX: u64 = 512;
/// Attempts to take the lock: a client that reads the address holds it for a moment.
const TRIES_MAX: u32 = 50;
const TRY_EVERY: Duration = Duration::from_millis(10);

/// How long a server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerLifetime {
    /// A daemon, which is started again when it ends.
    Daemon,
    /// Embedded in a command and ends with it; a command that needs a server afterwards embeds its own.
    Embedded,
}

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerAddress {
    /// The URL: `http://` and an address, or `unix:` and the path of a socket.
    pub url: String,
    /// How long the server runs.
    pub stay: ServerLifetime,
}

/// An address that clients can find, until it is dropped or the process dies.
#[derive(Debug)]
pub struct AnnouncedAddress {
    path: PathBuf,
    _locked: File,
}

impl Drop for AnnouncedAddress {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path); // A stale file is harmless: it is not locked.
    }
}

impl DataDir {
    /// Writes the server's address for clients on this machine. `None` if another server has announced its own, which is
    /// possible only for servers whose chats are in a database elsewhere.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn announce(&self, url: &str, stay: ServerLifetime) -> Result<Option<AnnouncedAddress>, DataError> {
        let path = self.path().join(ADDRESS_FILE);
        let io = |error| DataError::Io { path: path.clone(), error };
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(io)?;
        if !lock(&file).await.map_err(io)? {
            return Ok(None);
        }
        file.set_permissions(Permissions::from_mode(0o600)).map_err(io)?;
        file.set_len(0).map_err(io)?;
        let guest = if stay == ServerLifetime::Embedded { GUEST } else { "" };
        file.write_all(format!("{url}{guest}\n").as_bytes()).map_err(io)?;
        Ok(Some(AnnouncedAddress { path, _locked: file }))
    }

    /// Where the server of this directory listens; `None` if none runs.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn address(&self) -> Result<Option<ServerAddress>, DataError> {
        let path = self.path().join(ADDRESS_FILE);
        let io = |error| DataError::Io { path: path.clone(), error };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io(error)),
        };
        match file.try_lock_shared() {
            Ok(()) => return Ok(None), // Not locked: the process that wrote it has ended.
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        let mut text = String::new();
        file.take(ADDRESS_BYTES_MAX).read_to_string(&mut text).map_err(io)?;
        // Without a line end the file is still being written.
        Ok(text.strip_suffix('\n').map(|line| match line.strip_suffix(GUEST) {
            Some(url) => ServerAddress { url: url.into(), stay: ServerLifetime::Embedded },
            None => ServerAddress { url: line.into(), stay: ServerLifetime::Daemon },
        }))
    }
}

async fn lock(file: &File) -> std::io::Result<bool> {
    for _ in 0..TRIES_MAX {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(TRY_EVERY).await,
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> DataDir {
        let path = std::env::temp_dir().join(format!("everturn-address-{name}-{}", std::process::id()));
        DataDir::open(&path).unwrap()
    }

    #[tokio::test]
    async fn an_address_is_known_as_long_as_its_server_lives() {
        let data = directory("lives");
        assert_eq!(data.address().unwrap(), None);
        let announced = data.announce("http://127.0.0.1:4140", ServerLifetime::Embedded).await.unwrap().unwrap();
        let address = ServerAddress { url: "http://127.0.0.1:4140".into(), stay: ServerLifetime::Embedded };
        assert_eq!(data.address().unwrap(), Some(address));
        assert!(
            data.announce("http://127.0.0.1:1", ServerLifetime::Daemon).await.unwrap().is_none(),
            "there is one server"
        );
        drop(announced);
        assert_eq!(data.address().unwrap(), None);
        assert!(!data.path().join(ADDRESS_FILE).exists());
        std::fs::remove_dir_all(data.path()).unwrap();
    }

    #[test]
    fn an_address_of_a_killed_server_is_not_believed() {
        let data = directory("killed");
        std::fs::write(data.path().join(ADDRESS_FILE), "http://127.0.0.1:4140\n").unwrap();
        assert_eq!(data.address().unwrap(), None);
        std::fs::remove_dir_all(data.path()).unwrap();
    }
}
