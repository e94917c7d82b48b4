//! `cargo xtask test`: what a change must pass.
//!
//! One command for a laptop and for CI, so that "it is green here" means the same everywhere. Cheap steps come first; the
//! first failure ends the run and says how to repeat that step alone.

mod dependencies;
mod durations;
mod tools;

pub use tools::{database_server, provide_nextest, with_server};

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result};
use clap::ValueEnum;

use crate::acceptance::{self, results};
use crate::clock::{Elapsed, Stopwatch};
use crate::{tidy, workspace};
use durations::Durations;

/// How many tests run at once.
const THREADS: &str = "NEXTEST_TEST_THREADS";

/// One step of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Step {
    /// Formatting.
    Fmt,
    /// House rules.
    Tidy,
    /// Lints.
    Clippy,
    /// The library as others use it: with one store, or with none but memory.
    Features,
    /// Documentation.
    Doc,
    /// The library crates as a registry would get them.
    Package,
    /// Licences, sources and known holes of what we depend on.
    Deny,
    /// All tests but those in documentation.
    Nextest,
    /// The tests that take milliseconds: what a developer runs before each commit.
    Quick,
    /// Tests in documentation.
    Doctest,
    /// The web page and its client: types, unit tests, and the build.
    Web,
}

/// How a step ended: with something to say in the summary, or not well.
type Outcome = Result<Option<String>>;

impl Step {
    /// All of them, in the order they run.
    pub const ALL: &[Self] = &[
        Self::Fmt,
        Self::Tidy,
        Self::Clippy,
        Self::Features,
        Self::Doc,
        Self::Package,
        Self::Deny,
        Self::Nextest,
        Self::Doctest,
        Self::Web,
    ];

    /// What a developer runs before each commit.
    pub const QUICK: &[Self] = &[Self::Fmt, Self::Tidy, Self::Clippy, Self::Quick];

    /// The word after `--only`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Tidy => "tidy",
            Self::Clippy => "clippy",
            Self::Features => "features",
            Self::Doc => "doc",
            Self::Package => "package",
            Self::Deny => "deny",
            Self::Nextest => "nextest",
            Self::Quick => "quick",
            Self::Doctest => "doctest",
            Self::Web => "web",
        }
    }

    /// What it runs, for people.
    const fn about(self) -> &'static str {
        match self {
            Self::Fmt => "cargo fmt --all --check",
            Self::Tidy => "cargo xtask tidy",
            Self::Clippy => "cargo clippy --workspace --all-targets --all-features -- -D warnings",
            Self::Features => {
                "cargo clippy -p everturn -p everturn-stores --no-default-features -- -D warnings, and with each store"
            }
            Self::Doc => "RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --all-features",
            Self::Package => {
                "cargo package --offline --no-verify --allow-dirty --exclude-lockfile -p everturn-core -p everturn-providers \
                 -p everturn-stores -p everturn-understudy -p everturn -p everturn-server"
            }
            Self::Deny => "cargo deny check",
            Self::Nextest => "cargo nextest run --workspace --all-features --profile ci",
            Self::Quick => "cargo nextest run --workspace --all-features --profile quick",
            Self::Doctest => "cargo test --doc --workspace --all-features",
            Self::Web => "npm run --prefix web all",
        }
    }

    fn run(self, root: &Path) -> Outcome {
        match self {
            Self::Tidy => tidy(root),
            Self::Deny => deny(root),
            Self::Nextest | Self::Quick => nextest(root, self),
            Self::Features => features(root),
            Self::Fmt | Self::Clippy | Self::Package | Self::Doctest => {
                // What is shown is what is run: none of these has an argument with a space.
                cargo(root, self.about().split(' ').skip(1))
            }
            Self::Web => web(root),
            Self::Doc => {
                let mut command = workspace::cargo(root);
                command.env("RUSTDOCFLAGS", "-D warnings");
                finish(command.args(["doc", "--workspace", "--no-deps", "--all-features"]))?;
                book(root)
            }
        }
    }
}

/// Prints the steps.
pub fn list() -> ExitCode {
    for step in Step::ALL {
        println!("{:<8} {}", step.name(), step.about());
    }
    println!("--quick: {}; {}", names(Step::QUICK), Step::Quick.about());
    ExitCode::SUCCESS
}

fn names(steps: &[Step]) -> String {
    steps.iter().map(|step| step.name()).collect::<Vec<_>>().join(", ")
}

/// Runs the chosen steps, or all when none is chosen.
pub fn run(root: &Path, only: &[Step]) -> Result<ExitCode> {
    let whole = Stopwatch::start();
    let steps = if only.is_empty() { Step::ALL } else { only };
    let mut durations = Durations::load(root);
    let mut done: Vec<(Step, Elapsed, String)> = Vec::new();
    for (index, &step) in steps.iter().enumerate() {
        let watch = Stopwatch::start();
        let last = durations.of(step).map(|last| format!(" ({last} last time)")).unwrap_or_default();
        eprintln!("== {}/{} {}: {}{last}", index + 1, steps.len(), step.name(), step.about());
        match tools::provide(root, step).and_then(|()| step.run(root)) {
            Ok(note) => {
                eprintln!("== {} ok in {}", step.name(), watch.read());
                durations.keep(step, watch.read());
                done.push((step, watch.read(), note.unwrap_or_default()));
            }
            Err(error) => {
                summary(&done);
                eprintln!("{:<8} FAILED after {}: {error:#}", step.name(), watch.read());
                eprintln!("this step alone: cargo xtask test --only {}", step.name());
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    summary(&done);
    let which = if only.is_empty() { "steps" } else { "chosen steps" };
    eprintln!("all {which} green in {}", whole.read());
    Ok(ExitCode::SUCCESS)
}

fn summary(done: &[(Step, Elapsed, String)]) {
    eprintln!();
    for (step, took, note) in done {
        eprintln!("{}", format!("{:<8} ok in {took:<12} {note}", step.name(), took = took.to_string()).trim_end());
    }
}

/// Builds the book where mdbook is installed. It warns of what it cannot render, and that is a failure here.
fn book(root: &Path) -> Outcome {
    let built = Command::new("mdbook").args(["build", "docs"]).current_dir(root).stdin(Stdio::null()).output();
    let Ok(built) = built else { return Ok(Some("without the book: mdbook is not installed".to_owned())) };
    let said = String::from_utf8_lossy(&built.stderr);
    let is_clean = built.status.success() && !["WARN", "ERROR"].iter().any(|level| said.contains(level));
    anyhow::ensure!(is_clean, "mdbook build docs: {said}");
    Ok(None)
}

/// The workspace builds everything with all features together, and so never what a program gets that wants one of them.
fn features(root: &Path) -> Outcome {
    for stores in ["", "everturn/sqlite", "everturn/postgres"] {
        let packages =
            ["clippy", "-p", "everturn", "-p", "everturn-stores", "--no-default-features", "--features", stores];
        cargo(root, packages.into_iter().chain(["--", "-D", "warnings"]))?;
    }
    Ok(None)
}

/// Checks the types of the web page, runs its tests and builds it, with the packages that the lock file names.
fn web(root: &Path) -> Outcome {
    let install = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
    finish(Command::new("npm").args(install).current_dir(root.join("web")))?;
    finish(Command::new("npm").args(["run", "all"]).current_dir(root.join("web")))
}

fn tidy(root: &Path) -> Outcome {
    let violations = tidy::check(root)?;
    for violation in &violations {
        eprintln!("{violation}");
    }
    anyhow::ensure!(violations.is_empty(), "{} to mend, listed above", violations.len());
    Ok(None)
}

/// Advisories live in a database that has to be fetched. Without a network the rest of the check still counts; without
/// cargo-deny, which takes minutes to build, so do licences and sources.
fn deny(root: &Path) -> Outcome {
    if !tools::answers(root, "deny") {
        dependencies::check(root)?;
        eprintln!("cargo-deny is not installed: advisories were not checked (cargo install --locked cargo-deny)");
        return Ok(Some("licences and sources only: cargo-deny is not installed".to_owned()));
    }
    let advisories = workspace::cargo(root)
        .args(["deny", "--all-features", "check", "--hide-inclusion-graph", "advisories"])
        .stdin(Stdio::null())
        .output()
        .context("cargo deny could not be started")?;
    let said = String::from_utf8_lossy(&advisories.stderr);
    let note = match advisories.status.success() {
        true => None,
        false if tools::is_unreachable(&said) => {
            eprintln!("the advisory database cannot be fetched: checking licences, bans and sources only");
            Some("without advisories: their database cannot be fetched from here".to_owned())
        }
        false => {
            eprint!("{said}");
            anyhow::bail!("cargo deny check advisories failed");
        }
    };
    cargo(root, ["deny", "--all-features", "check", "--hide-inclusion-graph", "licenses", "bans", "sources"])?;
    Ok(note)
}

fn nextest(root: &Path, step: Step) -> Outcome {
    if step == Step::Quick {
        return cargo(root, step.about().split(' ').skip(1));
    }
    acceptance::forget_results(root)?;
    let server = database_server()?;
    let mut command = workspace::cargo(root);
    command.args(step.about().split(' ').skip(1));
    if std::env::var_os(THREADS).is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        command.env(THREADS, (cores * 2).to_string()); // Most tests wait; `.config/nextest.toml` says which do not.
    }
    let outcome = finish(with_server(&mut command, &server));
    drop(server);
    let counted = acceptance::last_results(root)?.map(|results| results::count(&results));
    match (outcome, counted) {
        (Ok(_), counted) => Ok(counted),
        (Err(error), Some(counted)) => Err(error.context(counted)),
        (Err(error), None) => Err(error),
    }
}

fn cargo(root: &Path, args: impl IntoIterator<Item: AsRef<OsStr>>) -> Outcome {
    finish(workspace::cargo(root).args(args))
}

fn finish(command: &mut Command) -> Outcome {
    let status = command.status().with_context(|| format!("{command:?} could not be started"))?;
    anyhow::ensure!(status.success(), "it ended with {status}");
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_the_command_line_takes() {
        for &step in Step::value_variants() {
            assert_eq!(Step::from_str(step.name(), false), Ok(step));
            assert!(Step::ALL.contains(&step) || Step::QUICK.contains(&step), "{step:?} is run by nothing");
        }
    }
}
