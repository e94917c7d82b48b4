//! What came of the checks.

use std::fmt;

use serde_json::Value;

use super::child::Child;

/// All that was tried.
#[derive(Debug, Default)]
pub struct Report {
    /// One row a peer.
    pub rows: Vec<Row>,
}

/// One peer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Row {
    peer: String,
    version: String,
    checks: usize,
    /// The checks that failed and why, and what else went wrong.
    failed: Vec<String>,
}

impl Report {
    /// Whether everything that was to be tried was, and held.
    pub fn is_good(&self) -> bool {
        self.rows.iter().all(|row| row.failed.is_empty())
    }
}

impl Row {
    /// A peer that could not be tried.
    pub fn missing(peer: &str, why: &anyhow::Error) -> Self {
        Self { peer: peer.into(), version: "-".into(), checks: 0, failed: vec![format!("not tried: {why:#}")] }
    }

    /// What a program says of its checks, to its end.
    pub fn of(mut program: Child, name: &str) -> Self {
        let mut row = Self { peer: name.into(), ..Self::default() };
        while let Some(line) = program.line() {
            row.take(&line);
        }
        row.failed.extend(program.end().err().map(|error| format!("{error:#}")));
        if row.checks == 0 {
            row.failed.push("it checked nothing".into());
        }
        row
    }

    fn take(&mut self, line: &str) {
        let said: Value = serde_json::from_str(line).unwrap_or_default();
        if let (Some(peer), Some(version)) = (said["peer"].as_str(), said["version"].as_str()) {
            (self.peer, self.version) = (peer.into(), version.into());
        } else if let Some(check) = said["check"].as_str() {
            self.checks += 1;
            if said["ok"] != true {
                self.failed.push(format!("{check}: {}", said["why"].as_str().unwrap_or("it does not say why")));
            }
        } else {
            eprintln!("{line}");
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<28} {:<10} {:>6} {:>6}", "peer", "version", "checks", "failed")?;
        for row in &self.rows {
            writeln!(f, "{:<28} {:<10} {:>6} {:>6}", row.peer, row.version, row.checks, row.failed.len())?;
        }
        for (row, failed) in self.rows.iter().flat_map(|row| row.failed.iter().map(move |failed| (row, failed))) {
            writeln!(f, "\n{}: {failed}", row.peer)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn row(script: &str) -> Row {
        Row::of(Child::start(Command::new("sh").args(["-c", script])).expect("there is a shell"), "theirs")
    }

    #[test]
    fn a_row_counts_what_a_program_says() {
        let good = row(r#"echo '{"peer":"p","version":"1"}'; echo chatter; echo '{"check":"a","ok":true}'"#);
        assert_eq!(good, Row { peer: "p".into(), version: "1".into(), checks: 1, failed: vec![] });
        let bad = row(r#"echo '{"check":"a","ok":true}'; echo '{"check":"b","ok":false,"why":"c"}'"#);
        assert_eq!((bad.checks, bad.failed), (2, vec!["b: c".to_owned()]));
    }

    #[test]
    fn silence_and_failure_are_no_success() {
        assert_eq!(row("true").failed, ["it checked nothing"]);
        let died = row(r#"echo '{"check":"a","ok":true}'; exit 3"#);
        assert_eq!(died.failed, ["it ended with exit status: 3"]);
        let report = Report { rows: vec![died] };
        assert!(!report.is_good());
        assert!(report.to_string().contains("theirs: it ended with exit status: 3"));
    }
}
