//! Messages that are written in an external editor.

use std::io::Write as _;

use anyhow::Context as _;
use tokio::process::Command;

use super::Session;
use crate::terminal::screen::{Live, Raw};

/// Editor if neither `$VISUAL` nor `$EDITOR` is set.
const USUAL: &str = "vi";
/// The largest text that is read back.
const TEXT_BYTES_MAX: u64 = 1024 * 1024;

impl Session {
    /// Opens the typed text in `$VISUAL` or `$EDITOR` and reads it back. Events that arrive meanwhile are
    /// shown later.
    pub(super) async fn write_outside(&mut self) -> anyhow::Result<()> {
        self.screen.draw(&[], Live::default())?;
        let file = tempfile::Builder::new().prefix("everturn-").suffix(".md").tempfile();
        let mut file = file.context("could not create a temporary file")?;
        file.write_all(self.editor.text().as_bytes())?;
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let program = set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| USUAL.into());
        // Run by a shell, as the variable may hold arguments.
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{program} \"$1\"")).arg("sh").arg(file.path());
        let ended = Raw::lent(command.status()).await?;
        match ended {
            Ok(status) if status.success() && file.path().metadata()?.len() <= TEXT_BYTES_MAX => {
                let text = std::fs::read_to_string(file.path());
                match text {
                    Ok(text) => self.editor.replace(text.trim_end()),
                    Err(error) => self.tell(&[format!("The edited file cannot be read: {error}")]),
                }
            }
            Ok(status) if status.success() => {
                self.tell(&[format!("The edited file has more than {TEXT_BYTES_MAX} bytes: the message is unchanged.")])
            }
            Ok(_) => self.tell(&[format!("`{program}` failed: the message is unchanged.")]),
            Err(error) => self.tell(&[format!("`{program}` cannot be started: {error}")]),
        }
        Ok(())
    }
}
