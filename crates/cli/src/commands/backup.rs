//! `everturn backup`: copy the database into one file.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use everturn::stores::sqlite::Sqlite;

use crate::offline_store::Where;
use crate::output::println;

/// Arguments of `everturn backup`.
#[derive(clap::Args)]
pub(crate) struct Backup {
    /// Destination file; must not exist.
    file: PathBuf,
    #[command(flatten)]
    place: Where,
}

impl Backup {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        if self.place.url().is_some() {
            bail!("DATABASE_URL is set, so the chats are in Postgres: back them up with pg_dump");
        }
        let backup = Sqlite::backup_of(&self.place.dir()?, &self.file)?;
        let file = self.file.display();
        println!("{file}: {} chats, {} messages, {} bytes, checked", backup.chats, backup.messages, backup.bytes);
        Ok(ExitCode::SUCCESS)
    }
}
