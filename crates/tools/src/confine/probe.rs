//! What this machine can confine, found out by trying.
//!
//! Versions promise, kernels and containers differ. A child is confined and tries what it must not be able to do; a
//! level counts only if every attempt was stopped and the ordinary things still worked.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use tokio::io::AsyncReadExt as _;

use super::namespace::INSIDE;
use crate::supervisor::ToolCommand;
use crate::wire::AccessPolicy;

/// The argument that makes this program the child that tries to escape.
pub const ROLE: &str = "__everturn-probe";
/// Printed by the child when it has tried everything.
const DONE: &str = "done";

/// How far commands can be confined here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Not at all, because the operator said so.
    Off,
    /// Files only: commands are not started.
    Files,
    /// Landlock and seccomp: hooks inside a writable workspace are not protected.
    Partial,
    /// Landlock and seccomp inside a mount namespace.
    Full,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Files => "files",
            Self::Partial => "partial",
            Self::Full => "full",
        })
    }
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The highest level that held.
    pub level: Level,
    /// Why no higher one did, highest first.
    pub reasons: Vec<String>,
}

impl Probe {
    /// Tries the levels from the highest down, with the helper processes of `helper`.
    pub async fn run(helper: &Path) -> Self {
        let mut reasons = Vec::new();
        for level in [Level::Full, Level::Partial] {
            match try_level(level, helper).await {
                Ok(escapes) if escapes.is_empty() => return Self { level, reasons },
                Ok(escapes) => reasons.push(format!("{level}: not stopped: {}", escapes.join(", "))),
                Err(error) => reasons.push(format!("{level}: {error}")),
            }
        }
        Self { level: Level::Files, reasons }
    }
}

/// What a child could do at this level that it must not.
async fn try_level(level: Level, helper: &Path) -> io::Result<Vec<String>> {
    let scene = Scene::make()?;
    let helper = helper.canonicalize()?;
    let inside = if level == Level::Full { Path::new(INSIDE) } else { &helper };
    let policy = AccessPolicy { also_read: vec![helper.clone()], ..AccessPolicy::writing(&scene.workspace) };
    let argv = [inside.display().to_string(), ROLE.into()];
    let targets = [&scene.workspace, &scene.outside].map(|path| path.display().to_string());
    let argv = argv.into_iter().chain(targets).chain([scene.tcp.local_addr()?.to_string()]);
    let command = ToolCommand::new(argv, &scene.workspace).with_helper(&helper).confine(policy, level)?;
    let mut running = command.start().await?;
    let mut output = String::new();
    running.stdout.read_to_string(&mut output).await?;
    running.wait().await?;
    let mut escapes: Vec<String> = output.lines().map(str::to_owned).collect();
    match escapes.pop().as_deref() {
        Some(DONE) => Ok(escapes),
        Some(last) => Err(io::Error::other(last.to_owned())),
        None => Err(io::Error::other("the confined child did not start")),
    }
}

/// Two directories and two listeners, one of each out of reach.
struct Scene {
    workspace: PathBuf,
    outside: PathBuf,
    tcp: TcpListener,
    _unix: UnixListener,
    _root: tempfile::TempDir,
}

impl Scene {
    fn make() -> io::Result<Self> {
        let root = tempfile::Builder::new().prefix("everturn-probe").tempdir()?;
        let (workspace, outside) = (root.path().join("workspace"), root.path().join("outside"));
        fs::create_dir_all(workspace.join(".git/hooks"))?;
        fs::create_dir(&outside)?;
        fs::write(outside.join("secret"), "secret")?;
        let unix = UnixListener::bind(workspace.join("socket"))?;
        Ok(Self { workspace, outside, tcp: TcpListener::bind("127.0.0.1:0")?, _unix: unix, _root: root })
    }
}

/// The child: tries `WORKSPACE OUTSIDE ADDRESS`, and prints what worked.
pub(crate) fn main(mut args: impl Iterator<Item = OsString>) -> i32 {
    let [workspace, outside] = [(); 2].map(|()| PathBuf::from(args.next().unwrap_or_default()));
    let address = args.next().unwrap_or_default().to_string_lossy().into_owned();
    let is_confined_by_mounts = std::env::args_os().next().is_some_and(|program| program == INSIDE);
    let attempts = [
        ("work in the workspace", File::create(workspace.join("file")).is_err()),
        ("reading outside the workspace", fs::read(outside.join("secret")).is_ok()),
        ("writing outside the workspace", File::create(outside.join("file")).is_ok()),
        ("git hooks", is_confined_by_mounts && File::create(workspace.join(".git/hooks/pre-commit")).is_ok()),
        ("TCP", TcpStream::connect(&address).is_ok()),
        ("UDP", UdpSocket::bind("127.0.0.1:0").is_ok()),
        ("Unix sockets", UnixStream::connect(workspace.join("socket")).is_ok()),
    ];
    for (what, _) in attempts.iter().filter(|(_, escaped)| *escaped) {
        println!("{what}");
    }
    println!("{DONE}");
    0
}
