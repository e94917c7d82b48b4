//! `everturn export`: write a whole chat to a file.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use everturn_server::markdown;
use serde::de::IgnoredAny;

use crate::atomic_file;
use crate::daemon::{ChatArgs, DaemonArgs, IfNoDaemon};
use crate::find_chat::find;
use crate::terminal::visible;

/// Examples below the help text.
pub const EXAMPLES: &str = "Examples:
  everturn export 01kdg1qg7v3m8s1t1j0a9n2x4c > chat.md
  everturn export 9n2x4c --format json --out chat.json";

/// Arguments of `everturn export`.
#[derive(clap::Args)]
pub struct Export {
    /// The chat's id, or a unique beginning or end of it.
    chat: String,
    /// Format of the file.
    #[arg(long, value_enum, default_value_t = Format::Markdown)]
    format: Format,
    /// The file to write; standard output if left out.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// Formats of an export.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Format {
    /// For reading.
    Markdown,
    /// For programs: everything except the bytes of files.
    Json,
}

impl Export {
    /// Writes the chat to the file or to standard output.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let connection = self.daemon.open(&ChatArgs::default(), IfNoDaemon::Answer).await?;
        let exported = self.ask(&connection.client).await;
        connection.leave().await;
        let bytes = exported?;
        match &self.out {
            Some(path) => atomic_file::replace(path, &bytes)?,
            None => std::io::stdout().write_all(&self.printable(bytes))?,
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The bytes to print: without control sequences on a terminal, unchanged otherwise.
    fn printable(&self, bytes: Vec<u8>) -> Vec<u8> {
        if !std::io::stdout().is_terminal() {
            return bytes;
        }
        let text = String::from_utf8_lossy(&bytes);
        match self.format {
            Format::Markdown => visible(&text).into_owned().into(),
            Format::Json => visible::json(&text).into_owned().into(),
        }
    }

    async fn ask(&self, client: &crate::client::Client) -> anyhow::Result<Vec<u8>> {
        let chat = find(client, &self.chat).await?.id;
        let format = match self.format {
            Format::Markdown => "markdown",
            Format::Json => "json",
        };
        let bytes = client.get_bytes(&format!("/v1/chats/{chat}/export?format={format}")).await?;
        if !self.format.is_whole(&chat, &bytes) {
            bail!(
                "the export was cut before its end, and nothing was written: try again; docs/ingress.md has what to look \
                 at if a proxy is in between"
            );
        }
        Ok(bytes)
    }
}

impl Format {
    /// Whether the export is complete. Some proxies pass on a broken response as a complete one.
    fn is_whole(self, chat: &str, bytes: &[u8]) -> bool {
        match self {
            Self::Markdown => bytes.ends_with(markdown::end(chat).as_bytes()),
            Self::Json => serde_json::from_slice::<IgnoredAny>(bytes).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No proper prefix of an export passes for the whole.
    #[test]
    fn a_part_is_not_taken_for_the_whole() {
        let markdown = format!("# Title\n\n## You\n\n*End of chat `another`.*\n{}", markdown::end("01kdg1qg"));
        let json = "{\"format\":1,\"chat\":{},\"messages\":[{\"text\":\"]}\"}],\"attempts\":[]}\n";
        for (format, text) in [(Format::Markdown, markdown.as_str()), (Format::Json, json)] {
            assert!(format.is_whole("01kdg1qg", text.as_bytes()), "{format:?}");
            // The last byte is a line's end.
            for len in 0..text.len() - 1 {
                assert!(!format.is_whole("01kdg1qg", &text.as_bytes()[..len]), "{format:?}, {len} bytes");
            }
        }
        assert!(!Format::Markdown.is_whole("another", markdown.as_bytes()));
    }
}
