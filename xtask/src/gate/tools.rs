//! The programs a step needs, installed when they are missing.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use everturn_props::PostgresServer;
use everturn_props::shared::VARIABLE;

use super::Step;
use crate::workspace;

/// Where a browser for the tests of the page may be; see `crates/cli/tests/it/browser/driver.rs`.
const BROWSERS: [&str; 4] =
    ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome", "/snap/bin/chromium"];

/// Makes sure that what the step calls is there.
pub fn provide(root: &Path, step: Step) -> Result<()> {
    match step {
        Step::Fmt => component(root, "fmt", "rustfmt"),
        Step::Clippy | Step::Features => component(root, "clippy", "clippy"),
        Step::Quick => subcommand(root, "nextest", "cargo-nextest"),
        Step::Nextest => {
            subcommand(root, "nextest", "cargo-nextest")?;
            packages()?;
            browser(root)
        }
        Step::Tidy | Step::Doc | Step::Package | Step::Deny | Step::Doctest | Step::Web => Ok(()),
    }
}

/// Makes sure that cargo-nextest is there, for the chores that run tests on their own.
pub fn provide_nextest(root: &Path) -> Result<()> {
    provide(root, Step::Nextest)
}

/// Whether cargo-deny complains about the way to its database, and not about what the database says.
pub fn is_unreachable(said: &str) -> bool {
    ["failed to fetch advisory database", "failed to open advisory database", "failed to load advisory database"]
        .iter()
        .any(|complaint| said.contains(complaint))
}

fn component(root: &Path, subcommand: &str, component: &str) -> Result<()> {
    if answers(root, subcommand) {
        return Ok(());
    }
    eprintln!("{component} is missing: rustup component add {component}");
    let mut rustup = Command::new("rustup");
    install(rustup.current_dir(root).args(["component", "add", component]))
}

fn subcommand(root: &Path, subcommand: &str, package: &str) -> Result<()> {
    if answers(root, subcommand) {
        return Ok(());
    }
    eprintln!("{package} is missing: cargo install --locked --debug {package} (some minutes, once)");
    // It waits for tests most of the time: built without optimisation it is there in half the time, and as quick.
    install(workspace::cargo(root).args(["install", "--locked", "--debug", package]))
}

/// The programs that drive the browser, as their lock file says. The one that npm leaves behind tells which are installed.
fn browser(root: &Path) -> Result<()> {
    let here = root.join("crates/cli/tests/browser");
    let (wanted, installed) = (here.join("package-lock.json"), here.join("node_modules/.everturn-installed"));
    let wanted = std::fs::read(&wanted).with_context(|| wanted.display().to_string())?;
    if std::fs::read(&installed).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    eprintln!("the programs that drive the browser are missing: npm ci in {}", here.display());
    install(Command::new("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&here))?;
    std::fs::write(&installed, wanted).with_context(|| installed.display().to_string())
}

fn runs(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Tests need a database server, a pooler, the program that confines tools, and a browser. The tests start them, not the
/// machine.
fn packages() -> Result<()> {
    let mut missing = Vec::new();
    if everturn_props::postgres_bin().is_err() {
        missing.push(everturn_props::PACKAGE);
    }
    if !everturn_props::Pooler::is_installed() {
        missing.push(everturn_props::pooler::PACKAGE);
    }
    if !Path::new("/usr/bin/bwrap").exists() {
        missing.push("bubblewrap");
    }
    if !BROWSERS.iter().any(|path| Path::new(path).exists()) {
        missing.push("chromium");
    }
    if !runs("npm") {
        missing.extend(["nodejs", "npm"]);
    }
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("{} missing: apt-get install -y --no-install-recommends {0}", missing.join(" "));
    install(Command::new("apt-get").args(["install", "-y", "--no-install-recommends"]).args(missing))
}

/// A database server for one run of all tests: theirs, or the one that the environment names.
pub fn database_server() -> Result<Option<PostgresServer>> {
    match std::env::var_os(VARIABLE) {
        Some(_) => Ok(None),
        None => PostgresServer::start().map(Some).context("no Postgres server could be started for the tests"),
    }
}

/// Tells a command that runs tests where the server is.
pub fn with_server<'a>(command: &'a mut Command, server: &Option<PostgresServer>) -> &'a mut Command {
    match server {
        Some(server) => command.env(VARIABLE, server.url("postgres")),
        None => command,
    }
}

/// Whether cargo has the subcommand.
pub fn answers(root: &Path, subcommand: &str) -> bool {
    let mut command = workspace::cargo(root);
    command.args([subcommand, "--version"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn install(command: &mut Command) -> Result<()> {
    // Tests and JSON readers own stdout; an installer's chatter does not belong there.
    let status =
        command.stdout(std::io::stderr()).status().with_context(|| format!("{command:?} could not be started"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_database_is_told_from_a_bad_dependency() {
        assert!(is_unreachable("[ERROR] failed to fetch advisory database https://example.org/db"));
        assert!(!is_unreachable("error[vulnerability]: a hole in foo"));
    }
}
