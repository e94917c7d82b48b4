//! Backups.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use everturn::stores::sqlite::Sqlite;

use crate::offline_store::Where;
use crate::output::println;

/// What to copy, and where to.
#[derive(clap::Args)]
pub(crate) struct Backup {
    /// The file to make. One that is there is left alone.
    file: PathBuf,
    #[command(flatten)]
    place: Where,
}

impl Backup {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        if self.place.url().is_some() {
            bail!("chats are in Postgres, as DATABASE_URL says: pg_dump copies them");
        }
        let backup = Sqlite::backup_of(&self.place.dir()?, &self.file)?;
        let file = self.file.display();
        println!("{file}: {} chats, {} messages, {} bytes, checked", backup.chats, backup.messages, backup.bytes);
        Ok(ExitCode::SUCCESS)
    }
}
