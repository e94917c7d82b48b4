//! Backups.

use std::path::PathBuf;
use std::process::ExitCode;

use everturn::stores::sqlite::Sqlite;

/// What to copy, and where to.
#[derive(clap::Args)]
pub(crate) struct Backup {
    /// The file to make. One that is there is left alone.
    file: PathBuf,
    /// The data directory.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
}

impl Backup {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let backup = Sqlite::backup_of(&self.data, &self.file)?;
        let file = self.file.display();
        println!("{file}: {} chats, {} messages, {} bytes, checked", backup.chats, backup.messages, backup.bytes);
        Ok(ExitCode::SUCCESS)
    }
}
