//! Messages that are written in a program of their own.

use std::io::Write as _;

use anyhow::Context as _;
use tokio::process::Command;

use super::Session;
use crate::terminal::screen::{Live, Raw};

/// What is started where nobody says which.
const USUAL: &str = "vi";
/// The largest text that is taken back.
const TEXT_BYTES_MAX: u64 = 1024 * 1024;

impl Session {
    /// Has what is typed changed in `$VISUAL` or `$EDITOR`, and takes it back. The chat goes on meanwhile, and is shown later.
    pub(super) async fn write_outside(&mut self) -> anyhow::Result<()> {
        self.screen.draw(&[], Live::default())?;
        let file = tempfile::Builder::new().prefix("everturn-").suffix(".md").tempfile();
        let mut file = file.context("there is no room for a file to write in")?;
        file.write_all(self.editor.text().as_bytes())?;
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let program = set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| USUAL.into());
        // A shell reads it, as it may have arguments.
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{program} \"$1\"")).arg("sh").arg(file.path());
        let ended = Raw::lent(command.status()).await?;
        match ended {
            Ok(status) if status.success() && file.path().metadata()?.len() <= TEXT_BYTES_MAX => {
                let text = std::fs::read_to_string(file.path());
                match text {
                    Ok(text) => self.editor.replace(text.trim_end()),
                    Err(error) => self.tell(&[format!("What you wrote cannot be read: {error}")]),
                }
            }
            Ok(status) if status.success() => {
                self.tell(&[format!("More than {TEXT_BYTES_MAX} bytes: nothing was taken.")])
            }
            Ok(_) => self.tell(&[format!("`{program}` did not end well, so what was typed stays as it was.")]),
            Err(error) => self.tell(&[format!("`{program}` cannot be started: {error}")]),
        }
        Ok(())
    }
}
