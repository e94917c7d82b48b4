//! The table: each behaviour, the tests that claim it, and how they fared.

use std::collections::BTreeMap;
use std::io::Write as _;

use serde_json::json;

use super::results::TestResult;
use super::scan::Test;
use super::table::{Due, Table};
use super::{Form, Source};

/// The whole table.
#[derive(Debug)]
pub struct Report {
    lines: Vec<Line>,
    source: Source,
}

/// One behaviour.
#[derive(Debug)]
struct Line {
    id: String,
    behaviour: String,
    status: Status,
    tests: Vec<String>,
}

/// How a behaviour stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// All tests that claim it passed.
    Pass,
    /// We do something else, with a reason; the tests that claim it, if any, passed.
    Waived,
    /// No test yet, and none expected yet.
    Later,
    /// A test claims it and was not part of the run.
    Unrun,
    /// No test claims it.
    Missing,
    /// A test that claims it failed.
    Fail,
}

impl Status {
    const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Waived => "waived",
            Self::Later => "later",
            Self::Unrun => "unrun",
            Self::Missing => "missing",
            Self::Fail => "fail",
        }
    }
}

impl Report {
    /// Joins behaviours, tests and results.
    pub fn new(table: &Table, tests: &[Test], results: &[TestResult], source: Source) -> Self {
        let line = |row: &super::table::Row| {
            let claims: Vec<&Test> = tests.iter().filter(|test| test.ids.contains(&row.id)).collect();
            let worst = claims.iter().map(|test| fared(test, results)).max();
            let status = match (worst, table.waives(&row.id), row.due) {
                (Some(Status::Fail), _, _) => Status::Fail,
                (_, true, _) => Status::Waived,
                (Some(status), false, _) => status,
                (None, false, Due::Later) => Status::Later,
                (None, false, Due::Now) => Status::Missing,
            };
            let tests = claims.iter().map(|test| test.title()).collect();
            Line { id: row.id.clone(), behaviour: row.behaviour.clone(), status, tests }
        };
        Self { lines: table.rows.iter().map(line).collect(), source }
    }

    /// Whether every behaviour that counts has a test, and every test passed.
    pub fn holds(&self) -> bool {
        self.lines.iter().all(|line| match line.status {
            Status::Pass | Status::Waived | Status::Later => true,
            // After a run of everything, a test that did not run is one that cannot.
            Status::Unrun => self.source == Source::LastRun,
            Status::Missing | Status::Fail => false,
        })
    }

    /// Writes the table to stdout.
    pub fn print(&self, form: Form) {
        let text = match form {
            Form::Json => self.json(),
            Form::Table => format!("{}\n{}", self.table(), self.sums()),
        };
        // A reader that leaves early (`| head`) is no error.
        let _ = std::io::stdout().write_all(text.as_bytes());
    }

    fn json(&self) -> String {
        let object = |line: &Line| {
            let Line { id, behaviour, status, tests } = line;
            let (id, behaviour, status, tests) = (json!(id), json!(behaviour), json!(status.name()), json!(tests));
            format!("{{\"id\":{id},\"behaviour\":{behaviour},\"status\":{status},\"tests\":{tests}}}\n")
        };
        self.lines.iter().map(object).collect()
    }

    fn table(&self) -> String {
        // Most behaviours fit; the few long ones push their tests to the right.
        let width = 100;
        let row = |line: &Line| {
            let tests = if line.tests.is_empty() { "–".to_owned() } else { line.tests.join(", ") };
            format!("{}  {:<7}  {:<width$}  {tests}\n", line.id, line.status.name(), line.behaviour)
        };
        self.lines.iter().map(row).collect()
    }

    /// One line a group, and one for all.
    fn sums(&self) -> String {
        let mut groups: BTreeMap<&str, Vec<Status>> = BTreeMap::new();
        for line in &self.lines {
            groups.entry(&line.id[..2]).or_default().push(line.status);
        }
        let all = ("all", self.lines.iter().map(|line| line.status).collect());
        let sum = |(name, statuses): (&str, Vec<Status>)| {
            let mut counts: BTreeMap<Status, usize> = BTreeMap::new();
            for status in &statuses {
                *counts.entry(*status).or_default() += 1;
            }
            let counts: Vec<_> = counts.iter().map(|(status, count)| format!("{count} {}", status.name())).collect();
            format!("{name:<4} {:>4}: {}\n", statuses.len(), counts.join(", "))
        };
        groups.into_iter().chain([all]).map(sum).collect()
    }
}

fn fared(test: &Test, results: &[TestResult]) -> Status {
    let status = |result: &TestResult| if result.passed { Status::Pass } else { Status::Fail };
    results.iter().filter(|result| test.is(result)).map(status).max().unwrap_or(Status::Unrun)
}

#[cfg(test)]
mod tests;
