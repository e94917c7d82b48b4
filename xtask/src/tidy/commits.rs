//! Commit subjects that can be scanned.
//!
//! `area: verb …`, at most 72 characters, so that `git log --oneline` is a list of changes and where they were made.

use std::path::Path;
use std::process::Command;

use super::Violation;

/// Characters of a subject.
const SUBJECT_LEN_MAX: usize = 72;
/// Older commits were written before there was a rule.
const SINCE: &str = "2026-11-18T04:00:00Z";

/// Checks the commits of the branch, without merges. A directory without a history has nothing to check.
pub fn check(root: &Path) -> Vec<Violation> {
    let mut log = Command::new("git");
    log.current_dir(root).args(["log", "--no-merges", "--format=%h %s", "--since", SINCE]);
    let Ok(output) = log.output() else { return Vec::new() };
    let lines = String::from_utf8_lossy(&output.stdout);
    lines
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(commit, subject)| judge(commit, subject))
        .collect()
}

fn judge(commit: &str, subject: &str) -> Option<Violation> {
    let length = subject.chars().count();
    let what = if length > SUBJECT_LEN_MAX {
        format!("the subject has {length} characters, at most {SUBJECT_LEN_MAX}: {subject}")
    } else if !has_area(subject) {
        format!("write the subject as `area: verb …`: {subject}")
    } else {
        return None;
    };
    Some(Violation::new(&format!("commit {commit}"), 1, what))
}

/// Whether a subject begins with the part of the repository it changes, and goes on in lower case.
fn has_area(subject: &str) -> bool {
    let Some((area, change)) = subject.split_once(": ") else { return false };
    let is_area = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_/., ".contains(c);
    !area.is_empty() && area.chars().all(is_area) && change.starts_with(|c: char| c.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_says_where_and_what() {
        for good in ["server: answer 503 above connections_max", "core, stores: rename Place to WorkSlot", "ci: run it"]
        {
            assert_eq!(judge("1", good), None, "{good}");
        }
        let long = format!("core: {}", "a".repeat(SUBJECT_LEN_MAX));
        for bad in
            ["Formatted", "Who finds no room is told when to come back", "fixup! core: add it", "core: Add it", &long]
        {
            assert!(judge("1", bad).is_some(), "{bad}");
        }
    }
}
