//! The process of a local server.
//!
//! It runs under a supervisor of its own, so nothing of it is left when it ends, when this program dies, or when it was
//! started through a shell that does not pass signals on. Its environment is made of a list of names that are harmless:
//! keys and tokens of this program are not among them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use everturn_tools::{CommandProcess, Ended, RunningCommand, ToolCommand};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Variables that a server gets from this program.
const PASSED: [&str; 30] = [
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "all_proxy",
    "https_proxy",
    "http_proxy",
    "no_proxy",
    "AWS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "NODE_USE_SYSTEM_CA",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
    "npm_config_cafile",
];
/// How much of what a server prints as errors is kept.
const ERRORS_BYTES_MAX: usize = 64 * 1024;
/// How long a server may take to end after its input was closed.
const END_MAX: Duration = Duration::from_secs(1);

/// The process of a server.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    errors: Arc<Mutex<VecDeque<u8>>>,
    ended: watch::Receiver<Option<String>>,
    stop: CancellationToken,
}

/// The ends of the pipes to a server.
pub(crate) struct Pipes {
    pub(crate) output: pipe::Receiver,
    pub(crate) input: pipe::Sender,
}

impl ServerProcess {
    /// Starts a server.
    pub(crate) async fn start(
        argv: &[String],
        environment: &BTreeMap<String, String>,
        directory: &Path,
        helper: Option<&PathBuf>,
    ) -> io::Result<(Self, Pipes)> {
        let mut command = ToolCommand::new(argv, directory).with_pipes();
        for (name, value) in passed(std::env::vars()).chain(environment.clone()) {
            command = command.variable(name, value);
        }
        if let Some(helper) = helper {
            command = command.with_helper(helper);
        }
        let RunningCommand { stdout, stderr, stdin, process, .. } = command.start().await?;
        let input = stdin.ok_or_else(|| io::Error::other("the server has no input"))?;
        let errors = Arc::default();
        let (told, ended) = watch::channel(None);
        let stop = CancellationToken::new();
        let reading = stderr.map(|stderr| tokio::spawn(keep(stderr, Arc::clone(&errors))));
        let watched = watch_end(process, stop.clone());
        tokio::spawn(async move {
            let how = watched.await;
            if let Some(reading) = reading {
                let _ = timeout(END_MAX, reading).await; // What it said last is often the reason.
            }
            told.send_replace(Some(how));
        });
        Ok((Self { errors, ended, stop }, Pipes { output: stdout, input }))
    }

    /// How the process ended, if it has.
    pub(crate) async fn ended_within(&self, time: Duration) -> Option<String> {
        let mut ended = self.ended.clone();
        let how = timeout(time, ended.wait_for(Option::is_some)).await.ok()?;
        how.ok()?.clone()
    }

    /// The end of what the server printed as errors.
    pub(crate) fn errors(&self) -> String {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(errors.make_contiguous()).into_owned()
    }
}

/// Dropping the handle ends the process: its input was closed, so it has a moment to end by itself; then SIGTERM, then
/// SIGKILL.
impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn watch_end(mut process: CommandProcess, stop: CancellationToken) -> String {
    let ended = tokio::select! {
        biased;
        ended = process.wait() => ended,
        () = stop.cancelled() => match timeout(END_MAX, process.wait()).await {
            Ok(ended) => ended,
            Err(_) => {
                let _ = process.stop().await; // The supervisor kills what is left after a second.
                process.wait().await
            }
        },
    };
    match ended {
        Ok(Ended { code: Some(code), .. }) => format!("it exited with code {code}"),
        Ok(Ended { signal: Some(signal), .. }) => format!("it was ended by signal {signal}"),
        Ok(Ended { .. }) => "it ended".into(),
        Err(error) => error.to_string(),
    }
}

/// Keeps the end of what a server prints as errors.
async fn keep(mut errors: pipe::Receiver, kept: Arc<Mutex<VecDeque<u8>>>) {
    let mut piece = vec![0; 8 * 1024];
    while let Ok(len @ 1..) = errors.read(&mut piece).await {
        tracing::debug!(text = ?String::from_utf8_lossy(&piece[..len]), "an MCP server printed to standard error");
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&piece[..len]);
        let surplus = kept.len().saturating_sub(ERRORS_BYTES_MAX);
        kept.drain(..surplus);
    }
}

fn passed(all: impl Iterator<Item = (String, String)>) -> impl Iterator<Item = (String, String)> {
    all.filter(|(name, _)| PASSED.contains(&name.as_str()) || name.starts_with("LC_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_gets_no_key_of_ours() {
        let all = ["PATH", "LC_TIME", "HTTPS_PROXY", "ANTHROPIC_API_KEY", "EVERTURN_TOKEN", "DATABASE_URL", "LC"];
        let given = all.map(|name| (name.to_owned(), "value".to_owned()));
        let names: Vec<_> = passed(given.into_iter()).map(|(name, _)| name).collect();
        assert_eq!(names, ["PATH", "LC_TIME", "HTTPS_PROXY"]);
    }
}
