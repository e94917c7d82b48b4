//! `everturn demo --page`: a web page whose server can be broken by hand.
//!
//! The server is this same program, started anew. It kills itself when the page asks for that, and this process, its
//! parent, starts another one at the same address. It has no keys and listens on loopback, so nothing real can be broken.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use everturn_frontend::client::Client;
use everturn_frontend::output::{self, println};
use everturn_server::DataDir;
use everturn_server::wire::NewCode;
use tokio::process::{Child, ChildStdin};
use tokio::signal::unix::{SignalKind, signal};

use super::children::{everturn, said};

/// The port, if it is free.
const PORT: u16 = 4140;
/// The number of SIGKILL, which a server ends with that was killed for show.
const KILLED: i32 = 9;

/// Serves until Ctrl-C or SIGTERM. Exit code 1: the server ended by itself.
pub(super) async fn run(is_kept: bool) -> anyhow::Result<ExitCode> {
    let dir = tempfile::Builder::new().prefix("everturn-demo-").tempdir().context("no directory for the demo")?;
    let data = dir.path().join("data");
    let address = free_address()?;
    let mut terminated = signal(SignalKind::terminate())?;
    let (mut server, mut input) = start(dir.path(), &data, address).await?;
    let code = Client::of(&DataDir::open(&data)?).login_code(&NewCode::default()).await?;
    println!("Everturn listens on http://{address}, and the understudy plays the model.");
    println!("Open http://{address}{}", code.path);
    println!("(The link works once, within a minute; `everturn open --data {}` makes another.)", data.display());
    println!("Ctrl-C stops it.");
    loop {
        let ended = tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => break,
            _ = terminated.recv() => break,
            ended = server.wait() => ended?,
        };
        if ended.signal() != Some(KILLED) {
            bail!("the server ended with {ended}: see {}", dir.keep().join("log").display());
        }
        output::aside("the server was killed; starting another one");
        (server, input) = start(dir.path(), &data, address).await?;
    }
    drop(input); // The server ends with it.
    server.wait().await?;
    if is_kept {
        output::aside(format_args!("the data and the log are in {}", dir.keep().display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// An address that was free a moment ago: the restarted server must have the same one.
fn free_address() -> anyhow::Result<SocketAddr> {
    let bound = [PORT, 0].into_iter().find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
    Ok(bound.context("no port is free")?.local_addr()?)
}

/// The server, and its input: it ends when that is closed, which waiting for it would do.
async fn start(dir: &Path, data: &Path, address: SocketAddr) -> anyhow::Result<(Child, Option<ChildStdin>)> {
    let mut command = everturn(dir)?;
    command.args(["serve", "--restarted", "--listen", &address.to_string(), "--data"]).arg(data);
    let mut child = command.spawn()?;
    said(&mut child, "Ctrl-C").await?;
    let input = child.stdin.take();
    Ok((child, input))
}
