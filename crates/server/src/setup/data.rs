//! The directory where a server keeps everything.
//!
//! It holds what people said to their models, and the token that opens it all. So it is its owner's alone: made so, and
//! refused if it is not.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use everturn::core::ids::Timestamp;
use everturn::stores::{Scopes, StoreError, Token, TokenHash, Tokens};

use crate::entropy;

/// In whose name the first token acts.
const OWNER: &str = "local";
const TOKEN_FILE: &str = "token";
/// Longer than any token of ours.
const TOKEN_BYTES_MAX: u64 = 1024;

/// A directory that is its owner's alone.
#[derive(Debug, Clone)]
pub struct DataDir(PathBuf);

/// The data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// Nobody said where, and there is no home.
    #[error("there is no place for data: set HOME or XDG_DATA_HOME, or give --data")]
    Nowhere,
    /// Others may use it.
    #[error("{0} is open to others: make it yours alone, as with `chmod go= {0}`")]
    Open(PathBuf),
    /// It is somebody else's, who could put a token of their own there.
    #[error("{0} belongs to the user with number {1}: run this as that user, or give another --data")]
    Foreign(PathBuf, u32),
    /// The file system says no.
    #[error("{path} cannot be used: {error}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// The token file holds no token.
    #[error("{0} holds no token: delete it, and a new one is made")]
    NoToken(PathBuf),
    /// The token in the file opens nothing.
    #[error(
        "the token in {0} was revoked, has expired, or is not the daemon's: delete the file, or put another token there, and start \
         the daemon again; or use another token with --url"
    )]
    OldToken(PathBuf),
    /// The tokens cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whether the token in the file opens anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstToken {
    /// Everything.
    Good,
    /// Nothing any more: somebody revoked it, or it has expired.
    Old,
}

impl DataDir {
    /// The usual place: `everturn` in the XDG data directory. `variable` looks one up.
    ///
    /// # Errors
    /// There is no such place.
    pub fn usual(variable: impl Fn(&str) -> Option<String>) -> Result<PathBuf, DataError> {
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
        Ok(base.ok_or(DataError::Nowhere)?.join("everturn"))
    }

    /// Makes the directory, or checks that it is its owner's alone, and its owner whoever runs this: root too.
    ///
    /// # Errors
    /// It cannot be made, others can use it, or it is somebody else's.
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

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where the first token is.
    #[must_use]
    pub fn token_file(&self) -> PathBuf {
        self.0.join(TOKEN_FILE)
    }

    /// Sees to it that the token in the file is known; makes one at the first start. One that was revoked stays so, and is no
    /// reason to keep everybody else out who has a token.
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
        let token = Token { hash, name, owner, scopes: Scopes::all(), made: now, expires: None, revoked: None };
        tokens.put(&token).await?;
        match tokens.find(&hash).await? {
            Some(token) if token.is_good(now) => Ok(FirstToken::Good),
            _ => Ok(FirstToken::Old),
        }
    }

    /// The token in the file, for a client on the same machine; `None` before the first start.
    ///
    /// # Errors
    /// The file cannot be read, is open to others, or holds no token.
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

    /// Writes a new token beside, and moves it into place: nobody ever reads half of one.
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
            return Err(DataError::Open(self.0.clone())); // A directory of somebody else's.
        }
        std::fs::rename(&beside, &path).map_err(io)?;
        Ok(secret)
    }
}
