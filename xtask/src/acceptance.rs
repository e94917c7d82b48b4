//! `cargo xtask acceptance`: which promised behaviour is held by which test.
//!
//! `docs/acceptance.md` lists behaviours under ids. A test claims ids in its doc comment. This joins the two with the
//! results of a test run, so that nothing on the list is forgotten and nothing is called done without a test that ran.

pub mod ids;
pub mod report;
pub mod results;
pub mod scan;
pub mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use crate::gate;
use crate::tidy::{Violation, tracked};
use crate::workspace::{self, Workspace};
use report::Report;
use results::TestResult;
use scan::Test;
use table::Table;

/// Where the results come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A run of all tests, now.
    FreshRun,
    /// Whatever the last run left; tests it does not know are shown as unrun.
    LastRun,
}

/// How the answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Table,
    /// One object a line.
    Json,
}

/// Prints the table; fails if a behaviour that counts is missing or failing.
pub fn run(root: &Path, source: Source, form: Form) -> Result<ExitCode> {
    let table = Table::load(root)?;
    let tests = tests(root)?;
    let stray = unknown(&table, &tests);
    for violation in &stray {
        eprintln!("{violation}");
    }
    if source == Source::FreshRun {
        run_tests(root)?;
    }
    let results = last_results(root)?.unwrap_or_default();
    let report = Report::new(&table, &tests, &results, source);
    report.print(form);
    Ok(if report.holds() && stray.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Ids that a test or a waiver names and the table does not know.
pub fn unknown_ids(root: &Path) -> Result<Vec<Violation>> {
    Ok(unknown(&Table::load(root)?, &tests(root)?))
}

fn unknown(table: &Table, tests: &[Test]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for test in tests {
        for id in test.ids.iter().filter(|id| table.shares_prefix(id) && table.behaviour(id).is_none()) {
            let what =
                format!("{} claims {id}, which docs/acceptance.md does not list: mend one of the two", test.name);
            violations.push(Violation::new(&test.file, test.line, what));
        }
    }
    for waiver in table.waivers.iter().filter(|waiver| table.behaviour(&waiver.id).is_none()) {
        let what = format!("{} is waived but not listed in docs/acceptance.md: mend one of the two", waiver.id);
        violations.push(Violation::new(table::WAIVERS, waiver.line, what));
    }
    violations
}

/// All tests of the workspace that claim ids.
fn tests(root: &Path) -> Result<Vec<Test>> {
    let workspace = Workspace::load(root)?;
    let mut tests = Vec::new();
    for file in tracked(root)?.into_iter().filter(|file| file.ends_with(".rs")) {
        if let Some(package) = workspace.owner(&file) {
            let text = std::fs::read_to_string(root.join(&file)).with_context(|| file.clone())?;
            let inside = file[package.dir.len()..].trim_start_matches('/');
            tests.extend(scan::scan(&package.name, inside, &file, &text).with_context(|| file.clone())?);
        }
    }
    Ok(tests)
}

fn run_tests(root: &Path) -> Result<()> {
    gate::provide_nextest(root)?;
    forget_results(root)?;
    // Our stdout carries the table; nextest's goes beside it.
    let server = gate::database_server()?;
    let mut command = workspace::cargo(root);
    command.args(["nextest", "run", "--workspace", "--all-features", "--profile", "ci"]).stdout(std::io::stderr());
    let status = gate::with_server(&mut command, &server).status().context("cargo nextest could not be started")?;
    // A failing test is what we came to see; a failing build leaves no results.
    if !status.success() && last_results(root)?.is_none() {
        bail!("cargo nextest ended with {status} and left no results");
    }
    Ok(())
}

/// The results of the last run under nextest's profile `ci`, if there are any.
pub fn last_results(root: &Path) -> Result<Option<Vec<TestResult>>> {
    match std::fs::read_to_string(results_file(root)) {
        Ok(xml) => Ok(Some(results::parse(&xml)?)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("the results of nextest cannot be read"),
    }
}

/// Removes old results, so that a run that does not happen cannot look like one that did.
pub fn forget_results(root: &Path) -> Result<()> {
    match std::fs::remove_file(results_file(root)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context("old results stay"),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Where `.config/nextest.toml` has nextest write, whatever cargo's target directory is.
fn results_file(root: &Path) -> PathBuf {
    root.join("target/nextest/ci/junit.xml")
}
