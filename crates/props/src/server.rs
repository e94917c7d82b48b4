//! A Postgres server in a directory of its own.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{free_port, hand_over, postgres_bin, run, shared, unprivileged};

/// How often another port is tried.
const PORTS_MAX: u32 = 5;

/// A running server. Dropping it stops it and removes what it stored.
#[derive(Debug)]
pub struct PostgresServer {
    bin: PathBuf,
    dir: PathBuf,
    port: u16,
}

/// How a server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownMode {
    /// Connections are closed, everything is written.
    Fast,
    /// As if it had crashed.
    Immediate,
}

impl PostgresServer {
    /// Starts a server in a new directory.
    pub fn start() -> io::Result<Self> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let name = format!("everturn-pg-{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        Self::start_in(&std::env::temp_dir().join(name))
    }

    /// Starts a server in `dir`, which is emptied first.
    pub fn start_in(dir: &Path) -> io::Result<Self> {
        let bin = postgres_bin()?;
        if dir.exists() {
            std::fs::remove_dir_all(dir)?;
        }
        std::fs::create_dir_all(dir)?;
        hand_over(dir)?;
        let mut init = unprivileged(bin.join("initdb"));
        init.args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync", "-D"]);
        run(init.arg(dir.join("data")).current_dir(dir))?;
        let mut server = Self { bin, dir: dir.into(), port: 0 };
        for left in (0..PORTS_MAX).rev() {
            server.port = free_port()?;
            match server.start_again() {
                Err(error) if left == 0 => return Err(error),
                Err(_) => {} // Another process was faster.
                Ok(()) => break,
            }
        }
        Ok(server)
    }

    /// Where a database of this server is.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Its port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Stops it for the time being.
    pub fn stop(&self, how: ShutdownMode) -> io::Result<()> {
        let mode = match how {
            ShutdownMode::Fast => "fast",
            ShutdownMode::Immediate => "immediate",
        };
        run(self.pg_ctl().args(["-w", "-m", mode, "stop"])).map(drop)
    }

    /// Starts it again, on the same port and with what it stored.
    pub fn start_again(&self) -> io::Result<()> {
        let options = format!(
            "-p {} -k {} -c listen_addresses=127.0.0.1 -c max_connections=400 -c fsync=on",
            self.port,
            self.dir.display()
        );
        let mut start = self.pg_ctl();
        start.args(["-w", "-l"]).arg(self.dir.join("log")).args(["-o", &options, "start"]);
        // The server keeps what it is given; a pipe would look like a test that never ends.
        let status = start.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("pg_ctl start ended with {status}"))) }
    }

    /// Freezes the server: queries get no answer, and connections stay open.
    pub fn freeze(&self) -> io::Result<()> {
        let first = self.pid()?;
        signal("STOP", std::slice::from_ref(&first))?; // So that no new backend starts.
        signal("STOP", &children_of(&first)?)
    }

    /// Lets it go on.
    pub fn thaw(&self) -> io::Result<()> {
        let first = self.pid()?;
        signal("CONT", &children_of(&first)?)?;
        signal("CONT", &[first])
    }

    fn pid(&self) -> io::Result<String> {
        let written = std::fs::read_to_string(self.dir.join("data/postmaster.pid"))?;
        Ok(written.lines().next().unwrap_or_default().into())
    }

    /// Makes a standby of it, which only reads until it is told to be the primary (`SELECT pg_promote()`).
    pub fn stand_by(&self) -> io::Result<()> {
        self.stop(ShutdownMode::Fast)?;
        let signal = self.dir.join("data/standby.signal");
        std::fs::write(&signal, "")?;
        hand_over(&signal)?;
        self.start_again()
    }

    /// Switches TLS on with this certificate and key; both are PEM.
    pub fn encrypt(&self, certificate: &str, key: &str) -> io::Result<()> {
        let data = self.dir.join("data");
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let path = data.join(name);
            std::fs::write(&path, text)?;
            std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            hand_over(&path)?;
        }
        shared::psql(&self.url("postgres"), "ALTER SYSTEM SET ssl = on")?;
        self.stop(ShutdownMode::Fast)?;
        self.start_again()
    }

    /// Leaves it running; the returned script stops it.
    pub(crate) fn leave(self) -> String {
        let mut stop = self.pg_ctl();
        stop.args(["-w", "-m", "immediate", "stop"]);
        let words: Vec<_> = std::iter::once(stop.get_program())
            .chain(stop.get_args())
            .map(|word| format!("'{}'", word.to_string_lossy()))
            .collect();
        let script = format!("{}; rm -rf '{}'", words.join(" "), self.dir.display());
        std::mem::forget(self);
        script
    }

    fn pg_ctl(&self) -> Command {
        let mut command = unprivileged(self.bin.join("pg_ctl"));
        command.arg("-D").arg(self.dir.join("data")).current_dir(&self.dir);
        command
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        let _ = self.thaw(); // One that stands still does not hear that it is to stop.
        let _ = self.stop(ShutdownMode::Immediate); // It may be stopped already.
        // A run of all tests leaves hundreds of databases: removing their files takes minutes on some disks.
        let mut remove = Command::new("rm");
        remove.arg("-rf").arg(&self.dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let _ = remove.process_group(0).spawn();
    }
}

fn signal(name: &str, pids: &[String]) -> io::Result<()> {
    run(Command::new("kill").args(["-s", name]).args(pids)).map(drop)
}

/// The processes that this one has started.
fn children_of(pid: &str) -> io::Result<Vec<String>> {
    let parent = format!("PPid:\t{pid}");
    let is_child = |dir: &Path| {
        std::fs::read_to_string(dir.join("status")).is_ok_and(|text| text.lines().any(|line| line == parent))
    };
    let mut found = Vec::new();
    for dir in std::fs::read_dir("/proc")?.flatten().map(|entry| entry.path()).filter(|dir| is_child(dir)) {
        found.extend(dir.file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    Ok(found)
}
