//! How long each step took the last time, so that a run can say what to expect.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Step;
use crate::clock::Elapsed;

/// Seconds per step, one `name seconds` per line in the target directory. A file that cannot be read or written costs the
/// forecast and nothing else.
#[derive(Debug)]
pub struct Durations {
    file: PathBuf,
    seconds: BTreeMap<String, u64>,
}

impl Durations {
    /// Those of the runs before, if there were any.
    pub fn load(root: &Path) -> Self {
        let file = root.join("target").join("gate-durations");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let read = |line: &str| {
            let (step, seconds) = line.split_once(' ')?;
            Some((step.to_owned(), seconds.parse().ok()?))
        };
        Self { file, seconds: text.lines().filter_map(read).collect() }
    }

    /// How long the step took when it last passed.
    pub fn of(&self, step: Step) -> Option<Elapsed> {
        self.seconds.get(step.name()).map(|&seconds| Elapsed(Duration::from_secs(seconds)))
    }

    /// Stores how long the step took.
    pub fn keep(&mut self, step: Step, took: Elapsed) {
        self.seconds.insert(step.name().to_owned(), took.0.as_secs());
        let lines: String = self.seconds.iter().map(|(step, seconds)| format!("{step} {seconds}\n")).collect();
        let _ = std::fs::write(&self.file, lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_found_by_the_next_run() {
        let root = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(root.path().join("target")).expect("a directory");
        assert!(Durations::load(root.path()).of(Step::Clippy).is_none());
        Durations::load(root.path()).keep(Step::Clippy, Elapsed(Duration::from_millis(41_900)));
        let next = Durations::load(root.path());
        assert_eq!(next.of(Step::Clippy).map(|last| last.to_string()).as_deref(), Some("41.0 s"));
        assert!(next.of(Step::Fmt).is_none());
    }
}
