//! The documentation is a book: every page is in its table of contents, and no link leads out of it. The map of the code
//! names files that exist.
//!
//! `mdbook build docs` finds neither. It leaves pages out that `SUMMARY.md` does not name, and turns a link to a file outside
//! of `docs` into one that leads nowhere. Files outside are named in backticks instead; a page may include one of them, and
//! then defines the references that the included text uses.

use std::collections::BTreeMap;

use super::Violation;
use super::links::{beside, links};

/// The directory of the book.
const BOOK: &str = "docs/";
/// Its table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";
/// The page that names files of the crates, by their paths below [`CRATES`].
const MAP: &str = "ARCHITECTURE.md";
/// Where the crates are.
const CRATES: &str = "crates/";

/// Checks the pages of the book among these files. Each comes with its text.
pub fn check(files: &BTreeMap<&str, &str>) -> Vec<Violation> {
    let Some(summary) = files.get(SUMMARY) else { return Vec::new() };
    let mut violations = listed(summary, files);
    let pages = files.iter().filter(|(path, _)| path.starts_with(BOOK) && path.ends_with(".md"));
    for (page, text) in pages {
        for (line, link) in links(text) {
            let target = beside(page, link.split('#').next().unwrap_or_default());
            if !link.contains(':') && !link.starts_with('#') && !target.starts_with(BOOK) {
                let what = format!("{target} is not part of the book: name it in backticks instead of linking to it");
                violations.push(Violation::new(page, line, what));
            }
        }
        violations.extend(includes(page, text, files));
    }
    violations.extend(gone(files));
    violations
}

/// Files and directories that the map names and that do not exist.
fn gone(files: &BTreeMap<&str, &str>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, line) in files.get(MAP).copied().unwrap_or_default().lines().enumerate() {
        let is_path = |word: &&str| word.contains('/') && (word.ends_with(".rs") || word.ends_with('/'));
        for path in line.split('`').skip(1).step_by(2).filter(is_path).filter(|path| *path != CRATES) {
            let file = format!("{CRATES}{path}");
            let is_there = files.keys().any(|name| *name == file || path.ends_with('/') && name.starts_with(&file));
            if !is_there {
                let what = format!("there is no {file}: name the file that does this now");
                violations.push(Violation::new(MAP, index + 1, what));
            }
        }
    }
    violations
}

/// Pages that the table of contents lacks, or has twice.
fn listed(summary: &str, files: &BTreeMap<&str, &str>) -> Vec<Violation> {
    let mut lines: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (line, link) in links(summary) {
        lines.entry(beside(SUMMARY, &link)).or_default().push(line);
    }
    let mut violations = Vec::new();
    let pages = files.keys().filter(|path| path.starts_with(BOOK) && path.ends_with(".md") && **path != SUMMARY);
    for page in pages.filter(|page| !lines.contains_key(**page)) {
        violations.push(Violation::new(page, 1, format!("{SUMMARY} does not list this page: add it")));
    }
    for (page, lines) in lines.iter().filter(|(_, lines)| lines.len() > 1) {
        violations.push(Violation::new(SUMMARY, lines[1], format!("{page} is listed twice: leave one")));
    }
    violations
}

/// What is wrong with `{{#include FILE:ANCHOR}}` in a page.
fn includes(page: &str, text: &str, files: &BTreeMap<&str, &str>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(include) = line.strip_prefix("{{#include ") else { continue };
        let (path, anchor) = include.trim_end_matches("}}").split_once(':').unwrap_or((include, ""));
        let file = beside(page, path);
        let begin = format!("ANCHOR: {anchor} ");
        let end = format!("ANCHOR_END: {anchor} ");
        let included = files.get(file.as_str()).and_then(|text| text.split_once(&begin)?.1.split_once(&end));
        let Some((included, _)) = included else {
            let what = format!("{file} has no `{begin}` and `{end}`: include a part that there is");
            violations.push(Violation::new(page, index + 1, what));
            continue;
        };
        for label in references(included).filter(|label| !text.contains(&format!("\n[{label}]: "))) {
            let what = format!("{file} refers to [{label}], which this page does not define: add `[{label}]: …`");
            violations.push(Violation::new(page, index + 1, what));
        }
    }
    violations
}

/// The labels of links such as `[words][label]`.
fn references(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("][").filter_map(|(at, sign)| text[at + sign.len()..].split_once(']').map(|(label, _)| label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_names_files_that_there_are() {
        let map = "Paths are below `crates/`: `core/src/a.rs`, `core/`, `core/src/gone.rs`,\n`a/b`, `b/`.\n";
        let files = BTreeMap::from([(SUMMARY, "# Summary\n"), (MAP, map), ("crates/core/src/a.rs", "")]);
        let found: Vec<String> = check(&files).iter().map(ToString::to_string).collect();
        let what = "name the file that does this now";
        assert_eq!(
            found,
            [
                format!("ARCHITECTURE.md:1: there is no crates/core/src/gone.rs: {what}"),
                format!("ARCHITECTURE.md:2: there is no crates/b/: {what}"),
            ]
        );
    }

    fn found(summary: &str, page: &str) -> Vec<String> {
        let files = BTreeMap::from([
            ("README.md", "<!-- ANCHOR: body -->See [this][one].<!-- ANCHOR_END: body -->"),
            ("docs/SUMMARY.md", summary),
            ("docs/a.md", page),
            ("docs/b.md", "# B\n"),
        ]);
        check(&files).iter().map(ToString::to_string).collect()
    }

    const BOTH: &str = "# Summary\n\n- [A](a.md)\n- [B](b.md)\n";

    #[test]
    fn a_book_that_has_its_pages_and_stays_in_itself_is_fine() {
        assert_eq!(found(BOTH, "[B](b.md#b), [up](#a), [far](https://a.example/x.md)\n"), [""; 0]);
        assert_eq!(found(BOTH, "{{#include ../README.md:body}}\n\n[one]: b.md\n"), [""; 0]);
    }

    #[test]
    fn a_page_is_listed_once() {
        let missing = found("# Summary\n\n- [A](a.md)\n", "# A\n");
        assert_eq!(missing, ["docs/b.md:1: docs/SUMMARY.md does not list this page: add it"]);
        let twice = found(&format!("{BOTH}- [A again](a.md)\n"), "# A\n");
        assert_eq!(twice, ["docs/SUMMARY.md:5: docs/a.md is listed twice: leave one"]);
    }

    #[test]
    fn a_link_out_of_the_book_is_found() {
        let what = "README.md is not part of the book: name it in backticks instead of linking to it";
        assert_eq!(found(BOTH, "One.\n\nSee [this](../README.md#x).\n"), [format!("docs/a.md:3: {what}")]);
    }

    #[test]
    fn an_include_has_its_part_and_its_references() {
        assert_eq!(found(BOTH, "{{#include ../README.md:gone}}\n").len(), 1);
        let what = "README.md refers to [one], which this page does not define: add `[one]: …`";
        assert_eq!(found(BOTH, "{{#include ../README.md:body}}\n"), [format!("docs/a.md:1: {what}")]);
    }
}
