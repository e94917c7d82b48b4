//! One Postgres server for all tests, and a database per test.
//!
//! Tests run in many processes that know nothing of each other. `EVERTURN_TEST_POSTGRES` may name a server
//! for all of them; `cargo xtask test` does that. Otherwise the first process starts one, and a small shell
//! loop stops it a few seconds after the last process ended: each process holds a lock on a file as long as
//! it lives.

use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{PostgresServer, postgres_bin, run};

/// The variable that names a server for tests: the URL of a database with a user that may create others.
pub const VARIABLE: &str = "EVERTURN_TEST_POSTGRES";

/// How many databases may be left before those of processes that are gone are removed.
const KEPT_MAX: usize = 1_000;

/// Makes an empty database and says where it is. It stays until a later test notices that this process is gone.
pub fn database() -> io::Result<String> {
    static SERVER: OnceLock<(String, Option<File>)> = OnceLock::new();
    static MADE: AtomicU32 = AtomicU32::new(0);
    let server = match (SERVER.get(), std::env::var(VARIABLE)) {
        (Some((url, _)), _) => url,
        (None, Ok(url)) => &SERVER.get_or_init(|| (url, None)).0,
        (None, Err(_)) => {
            let (url, is_used) = started()?;
            &SERVER.get_or_init(|| (url, Some(is_used))).0
        }
    };
    let name = format!("everturn_{}_{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    forget_others(server)?;
    psql(server, &format!("CREATE DATABASE {name}"))?;
    let (before, _) = server.rsplit_once('/').ok_or_else(|| io::Error::other("not a URL"))?;
    Ok(format!("{before}/{name}"))
}

/// Runs SQL and returns its rows, one a line.
pub fn psql(url: &str, sql: &str) -> io::Result<String> {
    let mut psql = Command::new(postgres_bin()?.join("psql"));
    run(psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql]).arg(url))
}

/// Removes the databases of processes that are gone.
fn forget_others(server: &str) -> io::Result<()> {
    let names = psql(server, r"SELECT datname FROM pg_database WHERE datname LIKE 'everturn\_%'")?;
    if names.lines().count() < KEPT_MAX {
        return Ok(()); // Removing one makes the server write everything to disk.
    }
    for name in names.lines() {
        let pid = name.split('_').nth(1).unwrap_or_default();
        if !Path::new("/proc").join(pid).exists() {
            // Another test may do the same at the same time.
            let _ = psql(server, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
        }
    }
    Ok(())
}

/// The server that is already there for all, or a new one; and the sign that this process uses it.
fn started() -> io::Result<(String, File)> {
    let dir: PathBuf = std::env::temp_dir().join(format!("everturn-postgres-{}", user()));
    std::fs::create_dir_all(&dir)?;
    let open = |name: &str| File::options().create(true).append(true).open(dir.join(name));
    let gate = open("gate")?;
    gate.lock()?;
    let users = open("users")?;
    users.lock_shared()?;
    let note = dir.join("port");
    let port = std::fs::read_to_string(&note).ok().and_then(|port| port.trim().parse::<u16>().ok());
    let url = |port: u16| format!("postgres://postgres@127.0.0.1:{port}/postgres");
    if let Some(port) = port.filter(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok()) {
        return Ok((url(port), users));
    }
    let server = PostgresServer::start_in(&dir.join("server"))?;
    let port = server.port();
    std::fs::write(&note, port.to_string())?;
    let stop = server.leave();
    let script = format!("while sleep 5; do flock -n gate flock -n users sh -c \"{stop}; rm -f port\" && break; done");
    let mut warden = Command::new("sh");
    warden.args(["-c", &script]).current_dir(&dir);
    warden.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    std::os::unix::process::CommandExt::process_group(&mut warden, 0);
    warden.spawn()?;
    Ok((url(port), users))
}

fn user() -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").map_or(0, |process| process.uid())
}
