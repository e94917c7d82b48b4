//! The command in a terminal of its own, and what its user sees.

use std::num::NonZeroU16;
use std::process::ExitStatus;
use std::time::Duration;

use pty_process::{Command, OwnedReadPty, OwnedWritePty, Size};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Child;
use tokio::time::timeout;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a window may be silent before another key is typed.
const NUDGE: Duration = Duration::from_millis(500);
/// Higher than anything here is long.
const TALL: u16 = 4_000;

/// A terminal window with a user.
pub struct Terminal {
    child: Child,
    read: OwnedReadPty,
    write: OwnedWritePty,
    /// What the window shows.
    window: vt100::Parser,
    /// The text of the window with its scrollback.
    scroll: vt100::Parser,
    /// Every byte written to it.
    pub bytes: Vec<u8>,
}

fn cells(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).unwrap()
}

impl Terminal {
    /// Starts the command with these arguments and variables in a window of this size.
    pub fn start(arguments: &[&str], variables: &[(&str, &str)], (width, height): (u16, u16)) -> Self {
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(Size::new(height, width)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_everturn")).args(arguments).env_clear().kill_on_drop(true);
        command = command.env("TERM", "xterm-256color").env("XDG_CONFIG_HOME", "/nowhere").env("HOME", "/nowhere");
        for (name, value) in variables {
            command = command.env(name, value);
        }
        let child = command.spawn(pts).unwrap();
        let (read, write) = pty.into_split();
        let window = vt100::Parser::new(cells(height), cells(width), 0);
        let scroll = vt100::Parser::new(cells(TALL), cells(width), 0);
        Self { child, read, write, window, scroll, bytes: Vec::new() }
    }

    /// Types.
    pub async fn keys(&mut self, keys: &str) {
        self.write.write_all(keys.as_bytes()).await.unwrap();
    }

    /// Types where something else comes at the same moment, like another size, until it shows. crossterm
    /// reads one of both then, and the other with whatever comes next: here that is the End key.
    pub async fn insists(&mut self, keys: &str) {
        self.keys(keys).await;
        while !self.window().contains(keys) {
            match timeout(NUDGE, self.read()).await {
                Ok(is_more) => assert!(is_more, "it ended before {keys}:\n{}", self.all()),
                Err(_) => self.keys("\x1b[F").await,
            }
        }
    }

    /// What the window shows.
    pub fn window(&self) -> String {
        self.window.screen().contents()
    }

    /// Everything that was shown and not erased.
    pub fn all(&self) -> String {
        self.scroll.screen().contents()
    }

    /// All text on the screen, with single spaces between words, however they were broken into lines.
    pub fn words(&self) -> String {
        self.all().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Waits until the window shows something like this.
    pub async fn until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) {
        while !is_so(&self.window()) {
            assert!(self.read().await, "it ended before {what}:\n{}", self.all());
        }
    }

    /// Waits until the window shows these words.
    pub async fn shows(&mut self, words: &str) {
        self.until(words, |window| window.contains(words)).await;
    }

    /// Waits until these words are anywhere, in or above the window.
    pub async fn has(&mut self, words: &str) {
        while !self.words().contains(words) {
            assert!(self.read().await, "it ended before {words}:\n{}", self.all());
        }
    }

    /// Gives the window another size.
    pub fn resize(&mut self, (width, height): (u16, u16)) {
        self.write.resize(Size::new(height, width)).unwrap();
        self.window.set_size(cells(height), cells(width));
        self.scroll.set_size(cells(TALL), cells(width));
    }

    /// Waits until the command has ended.
    pub async fn ended(&mut self) -> ExitStatus {
        while self.read().await {}
        timeout(PATIENCE, self.child.wait()).await.expect("it does not end").unwrap()
    }

    /// Sends the command a signal by name.
    pub async fn signal(&self, name: &str) {
        let pid = self.child.id().unwrap().to_string();
        let sent = tokio::process::Command::new("kill").args(["-s", name, &pid]).status().await;
        assert!(sent.unwrap().success());
    }

    /// Closes the window, and waits until the command has ended.
    pub async fn closed(self) -> ExitStatus {
        let Self { mut child, read, write, .. } = self;
        drop((read, write));
        timeout(PATIENCE, child.wait()).await.expect("it does not end").unwrap()
    }

    /// Takes in what the command writes; says whether there was anything.
    async fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        let read = timeout(PATIENCE, self.read.read(&mut bytes)).await;
        let read = read.unwrap_or_else(|_| panic!("it is silent:\n{}", self.all()));
        // After the last writer closes, the system reports the end or an error.
        let Some(len) = read.ok().filter(|len| *len > 0) else { return false };
        self.bytes.extend_from_slice(&bytes[..len]);
        self.window.process(&bytes[..len]);
        self.scroll.process(&bytes[..len]);
        true
    }
}
