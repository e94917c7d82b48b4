//! Which files there are.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

/// The repository's files, relative to the root and sorted: those git tracks and those it would add.
///
/// Outside a git checkout (an unpacked archive, a container without git) the directory itself is walked.
pub fn tracked(root: &Path) -> Result<Vec<String>> {
    let listed = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output();
    let mut files: Vec<String> = match listed {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout)
            .context("a file name is not UTF-8")?
            .split_terminator('\0')
            .map(str::to_owned)
            .collect(),
        Ok(_) | Err(_) => {
            let mut files = Vec::new();
            walk(root, "", &mut files)?;
            files
        }
    };
    // Git also lists what was deleted and not yet committed.
    files.retain(|file| root.join(file).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

fn walk(root: &Path, below: &str, files: &mut Vec<String>) -> Result<()> {
    for entry in std::fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = entry.file_name().into_string().ok().context("a file name is not UTF-8")?;
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        if !entry.file_type()?.is_dir() {
            files.push(path);
        } else if !matches!(name.as_str(), ".git" | "target" | "node_modules") {
            walk(root, &path, files)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_finds_what_git_lists() {
        let root = crate::workspace::root();
        let mut walked = Vec::new();
        walk(&root, "xtask/src", &mut walked).expect("our own sources can be read");
        // An editor's swap files are on disk and none of git's business.
        walked.retain(|file| file.ends_with(".rs"));
        walked.sort();
        let mut listed = tracked(&root).expect("our own sources can be listed");
        listed.retain(|file| file.starts_with("xtask/src/") && file.ends_with(".rs"));
        assert!(listed.contains(&"xtask/src/tidy/files.rs".to_owned()));
        assert_eq!(walked, listed);
    }
}
