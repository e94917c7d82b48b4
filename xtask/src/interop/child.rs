//! A program that is talked to line by line, and ends with us.

use std::io::{BufRead as _, BufReader};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

/// How long a program may say nothing.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// How many lines may wait to be read.
const LINES_MAX: usize = 1_000;

/// A program under way.
pub struct Child {
    process: std::process::Child,
    lines: Receiver<String>,
    /// Whether it was waited for in vain.
    is_silent: bool,
    /// A program that serves does so until this is closed.
    _stdin: Option<ChildStdin>,
}

impl Child {
    /// Starts it. What it says on stderr goes where ours goes.
    pub fn start(command: &mut Command) -> Result<Self> {
        let shown = shown(command);
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{shown} could not be started"))?;
        let (send, lines) = sync_channel(LINES_MAX);
        let stdout = BufReader::new(process.stdout.take().context("stdout is piped")?);
        std::thread::spawn(move || {
            // Stops when the receiver is dropped.
            stdout.lines().map_while(Result::ok).try_for_each(|line| send.send(line))
        });
        let _stdin = process.stdin.take();
        Ok(Self { process, lines, is_silent: false, _stdin })
    }

    /// The next line; none when it is over, or silent for too long.
    pub fn line(&mut self) -> Option<String> {
        let line = self.lines.recv_timeout(SILENCE_MAX);
        self.is_silent = line == Err(RecvTimeoutError::Timeout);
        line.ok()
    }

    /// How it ended, now that it has nothing more to say.
    pub fn end(mut self) -> Result<()> {
        ensure!(!self.is_silent, "nothing came for {SILENCE_MAX:?}");
        let status = self.process.wait()?; // Its output is closed, so it is about to leave.
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A command as a person would type it.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
