//! Where the chats are: a directory, or a database.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use everturn::stores::{Sqlite, Store, sqlite};

/// Where the chats are. Written as text, to be handed to another process.
#[derive(Debug, Clone)]
pub enum Place {
    /// SQLite in this directory.
    Directory(PathBuf),
}

impl Place {
    /// Opens it. Whoever was killed there before is no hindrance.
    pub async fn open(&self) -> Arc<dyn Store> {
        match self {
            Self::Directory(path) => Arc::new(Sqlite::open(path, &sqlite::Options::default()).unwrap()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "{}", path.display()),
        }
    }
}

impl FromStr for Place {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::Directory(text.into()))
    }
}
