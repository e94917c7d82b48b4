//! The data directory of a server.
//!
//! It contains all chats, and the token that opens them. So it is private to its owner: created so, and refused if it is
//! not.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use everturn::core::ids::Timestamp;
use everturn::stores::{Scopes, StoreError, Token, TokenHash, TokenKind, Tokens};

use crate::entropy;

/// The owner of the first token.
const OWNER: &str = "local";
const TOKEN_FILE: &str = "token";
/// Longer than any token of ours.
const TOKEN_BYTES_MAX: u64 = 1024;

/// A directory that only its owner can use.
#[derive(Debug, Clone)]
pub struct DataDir(PathBuf);

/// The data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// No directory is configured, and there is no home directory.
    #[error("no data directory: set HOME or XDG_DATA_HOME, or give --data")]
    Nowhere,
    /// Other users may read or write it.
    #[error("{0} is open to other users: make it private with `chmod go= {0}`")]
    Open(PathBuf),
    /// It belongs to another user, so a foreign token could be in it.
    #[error("{0} belongs to the user with id {1}: run this as that user, or give another --data")]
    Foreign(PathBuf, u32),
    /// A file operation failed.
    #[error("{path} cannot be used: {error}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// The token file holds no token.
    #[error("{0} contains no token: delete it, and the next start creates a new one")]
    NoToken(PathBuf),
    /// The token in the file is not valid.
    #[error(
        "the token in {0} was revoked, has expired, or is not the daemon's: delete the file, or put another token there, and start \
         the daemon again; or use another token with --url"
    )]
    OldToken(PathBuf),
    /// The tokens cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whether the token in the file is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstToken {
    /// Valid, with all scopes.
    Good,
    /// Revoked or expired.
    Old,
}

impl DataDir {
    /// The default directory: `everturn` in the XDG data directory. `variable` looks up an environment variable.
    ///
    /// # Errors
    /// No home directory is set.
    pub fn usual(variable: impl Fn(&str) -> Option<String>) -> Result<PathBuf, DataError> {
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
        Ok(base.ok_or(DataError::Nowhere)?.join("everturn"))
    }

    /// Creates the directory, or checks that it is private and belongs to the user of this process, also for root.
    ///
    /// # Errors
    /// It cannot be created, other users can use it, or it belongs to another user.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let io = |error| DataError::Io { path: path.into(), error };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io)?;
        let about = std::fs::metadata(path).map_err(io)?;
        if !about.is_dir() || about.mode() & 0o077 != 0 {
            return Err(DataError::Open(path.into()));
        }
        if about.uid() != rustix::process::geteuid().as_raw() {
            return Err(DataError::Foreign(path.into(), about.uid()));
        }
        Ok(Self(path.into()))
    }

    /// The directory's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of the first token's file.
    #[must_use]
    pub fn token_file(&self) -> PathBuf {
        self.0.join(TOKEN_FILE)
    }

    /// Stores the token in the file if it is new; creates one at the first start. A revoked token stays revoked, and does
    /// not keep the server from starting for the other tokens.
    ///
    /// # Errors
    /// The file or the store cannot be used.
    pub async fn first_token(&self, tokens: &dyn Tokens, now: Timestamp) -> Result<FirstToken, DataError> {
        let secret = match self.read_token()? {
            Some(secret) => secret,
            None => self.write_token()?,
        };
        let hash = TokenHash::of(&secret);
        let (name, owner) = ("first".into(), OWNER.into());
        let (scopes, kind) = (Scopes::all(), TokenKind::Bearer);
        let token = Token { hash, name, owner, scopes, made: now, expires: None, revoked: None, kind };
        tokens.put(&token).await?;
        match tokens.find(&hash).await? {
            Some(token) if token.is_good(now) => Ok(FirstToken::Good),
            _ => Ok(FirstToken::Old),
        }
    }

    /// The token in the file, for a client on the same machine; `None` before the first start.
    ///
    /// # Errors
    /// The file cannot be read, is open to other users, or contains no token.
    pub fn read_token(&self) -> Result<Option<String>, DataError> {
        let path = self.token_file();
        let io = |error| DataError::Io { path: path.clone(), error };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io(error)),
        };
        let (about, dir) = (file.metadata().map_err(io)?, std::fs::metadata(&self.0).map_err(io)?);
        if about.mode() & 0o077 != 0 || about.uid() != dir.uid() {
            return Err(DataError::Open(path));
        }
        let mut text = String::new();
        file.take(TOKEN_BYTES_MAX).read_to_string(&mut text).map_err(io)?;
        let secret = text.trim();
        if secret.len() < 32 || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(DataError::NoToken(path));
        }
        Ok(Some(secret.into()))
    }

    /// Writes a new token to a temporary file and renames it, so that no reader sees half of one.
    fn write_token(&self) -> Result<String, DataError> {
        let path = self.token_file();
        let io = |error| DataError::Io { path: path.clone(), error };
        let secret = entropy::secret().map_err(io)?;
        let beside = self.0.join("token.new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside).map_err(io)?;
        file.set_permissions(Permissions::from_mode(0o600)).map_err(io)?;
        file.write_all(format!("{secret}\n").as_bytes()).map_err(io)?;
        file.sync_all().map_err(io)?;
        let (about, dir) = (file.metadata().map_err(io)?, std::fs::metadata(&self.0).map_err(io)?);
        if about.uid() != dir.uid() {
            return Err(DataError::Open(self.0.clone())); // A directory of another user.
        }
        std::fs::rename(&beside, &path).map_err(io)?;
        Ok(secret)
    }
}
