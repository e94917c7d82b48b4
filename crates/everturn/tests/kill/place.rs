//! Where the chats are: a directory, or a database.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use everturn::stores::{Postgres, Sqlite, Store, postgres, sqlite};

/// Where the chats are. Written as text, to be handed to another process.
#[derive(Debug, Clone)]
pub enum Place {
    /// SQLite in this directory.
    Directory(PathBuf),
    /// Postgres at this address.
    Database(String),
}

/// How long other processes wait for a silent one: short, because these die all the time.
pub const LEASE_MAX: Duration = Duration::from_millis(800);

impl Place {
    /// Opens it. Whoever was killed there before is no hindrance.
    pub async fn open(&self) -> Arc<dyn Store> {
        // An answer is in pieces for a moment only, so that they die while it is put together, too.
        let short = sqlite::Options { appends_len_max: 8, ..sqlite::Options::default() };
        match self {
            Self::Directory(path) => Arc::new(Sqlite::open(path, &short).unwrap()),
            Self::Database(url) => {
                let heartbeat = LEASE_MAX / 4;
                let options = postgres::Options {
                    lease_max: LEASE_MAX,
                    heartbeat,
                    file_len_min: 8,
                    ..postgres::Options::default()
                };
                Arc::new(Postgres::open(url, options).await.unwrap())
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "{}", path.display()),
            Self::Database(url) => write!(f, "{url}"),
        }
    }
}

impl FromStr for Place {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text.starts_with("postgres://") { Self::Database(text.into()) } else { Self::Directory(text.into()) })
    }
}
