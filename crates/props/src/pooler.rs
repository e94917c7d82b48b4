//! A pooler that hands every transaction to another server process.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::{PostgresServer, free_port, hand_over, unprivileged};

/// What to install where it is missing.
pub const PACKAGE: &str = "pgbouncer";

/// A running pgbouncer in transaction mode. Dropping it stops it.
#[derive(Debug)]
pub struct Pooler {
    child: Child,
    dir: PathBuf,
    port: u16,
}

impl Pooler {
    /// Whether pgbouncer is installed.
    #[must_use]
    pub fn is_installed() -> bool {
        Command::new("pgbouncer").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    }

    /// Starts one before a server, with few connections to it.
    pub fn start(server: &PostgresServer) -> io::Result<Self> {
        let dir = std::env::temp_dir().join(format!("everturn-pool-{}-{}", std::process::id(), server.port()));
        std::fs::create_dir_all(&dir)?;
        let port = free_port()?;
        let file = dir.join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = any\nauth_file = {dir}/users\npool_mode = transaction\n\
             default_pool_size = 3\nmax_client_conn = 200\nserver_reset_query_always = 1\n\
             server_reset_query = DISCARD ALL\nlogfile = {dir}/log\npidfile = {dir}/pid\n",
            server.port(),
            dir = dir.display()
        );
        std::fs::write(&file, text.replace("* = host", "* = user=postgres host"))?;
        std::fs::write(dir.join("users"), "\"postgres\" \"\"\n")?;
        hand_over(&dir)?;
        let mut command = unprivileged("pgbouncer");
        command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { child: command.spawn()?, dir, port })
    }

    /// Where a database is, seen through it.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // The child may be the wrapper that dropped root, and would leave the pooler behind.
        if let Ok(pid) = std::fs::read_to_string(self.dir.join("pid")) {
            let _ = Command::new("kill").arg(pid.trim()).status();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
