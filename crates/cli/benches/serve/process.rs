//! The measured process between the model and the clients.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::floor;
use crate::source::Source;

/// The kind of process between the model and the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Middle {
    /// A proxy that passes bytes on.
    Passing,
    /// A proxy that parses events, appends them to a log, and emits them again.
    Parsing,
    /// The real thing.
    Everturn,
}

impl Middle {
    pub const ALL: [Self; 3] = [Self::Passing, Self::Parsing, Self::Everturn];
}

/// What is spoken on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// HTTP/1.1 without TLS, a connection each.
    Http1,
    /// HTTP/2: with a model over TLS, as providers speak it; with clients that share connections, as behind a
    /// proxy.
    Http2,
}

/// A process that is measured. It ends when dropped.
pub struct Process {
    pub middle: Middle,
    pub wire: Wire,
    pub address: SocketAddr,
    /// What opens its door; floors have none.
    pub token: String,
    child: Child,
    _out: BufReader<std::process::ChildStdout>,
}

impl Process {
    /// Starts one that asks the model. What it keeps goes to a new directory below `dir`.
    pub fn start(middle: Middle, wire: Wire, source: &Source, dir: &Path) -> Self {
        Self::start_in(middle, wire, source, &tempfile::tempdir_in(dir).unwrap().keep())
    }

    /// Starts one on what is kept in `dir`.
    pub fn start_in(middle: Middle, wire: Wire, source: &Source, dir: &Path) -> Self {
        let base = source.base(wire);
        let data = dir.join("data"); // Made by the server, for itself alone.
        let mut command = match middle {
            Middle::Everturn => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_everturn"));
                command.args(["serve", "--listen", "127.0.0.1:0", "--model", "anthropic/claude-sonnet-4-5", "--data"]);
                command.arg(&data).env_clear().env("ANTHROPIC_API_KEY", "bench").env("XDG_CONFIG_HOME", "/nowhere");
                command.env("ANTHROPIC_BASE_URL", &base);
                command
            }
            Middle::Passing | Middle::Parsing => {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.args([floor::ROLE, &format!("{middle:?}"), &base]).arg(dir.join("log"));
                command
            }
        };
        command.env("SSL_CERT_FILE", source.authority());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = line.trim().rsplit_once('/').unwrap().1.parse().unwrap();
        let mut token = String::new();
        if middle == Middle::Everturn {
            while !line.starts_with("Ctrl-C") {
                line.clear();
                assert!(out.read_line(&mut line).unwrap() > 0, "the server ended");
            }
            token = std::fs::read_to_string(data.join("token")).unwrap().trim().to_owned();
        }
        Self { middle, wire, address, token, child, _out: out }
    }

    /// CPU time so far, all threads.
    pub fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 10) // `/proc` counts in hundredths of a second.
    }

    /// Resident memory now, in KiB.
    pub fn rss(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches("kB").trim().parse().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
