//! House rules that a compiler does not know.
//!
//! Each rule exists because a review would otherwise have to say the same thing twice. A rule looks at one file, at all
//! pages, or at the manifests, and answers with violations; it never edits. Every violation says where, what, and what to do.

mod alerts;
mod allow;
mod book;
mod deaths;
mod direction;
mod files;
mod leftovers;
mod links;
mod machine;
mod purity;
mod shapes;
mod size;
mod words;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::rust::lex::{Token, lex};
use crate::rust::paths::{Mention, mentions};
use crate::workspace::Workspace;

pub use files::tracked;
pub use size::{FILE_LINES_MAX, FN_LINES_MAX};
pub use words::{BANNED, Banned, Scope};

/// Checks the repository and prints what is wrong, one line a violation.
pub fn report(root: &Path) -> Result<ExitCode> {
    let violations = check(root)?;
    for violation in &violations {
        eprintln!("{violation}");
    }
    match violations.len() {
        0 => Ok(ExitCode::SUCCESS),
        count => {
            eprintln!("tidy: {count} to mend");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Checks the repository: every text file git knows or would add, how they refer to each other, and every manifest.
pub fn check(root: &Path) -> Result<Vec<Violation>> {
    let mut violations = direction::check(root, &Workspace::load(root)?);
    let mut texts = Vec::new();
    for path in tracked(root)? {
        // What is not UTF-8 text has no lines to judge.
        let text = std::fs::read_to_string(root.join(&path)).unwrap_or_default();
        violations.extend(check_file(&path, &text));
        texts.push((path, text));
    }
    let files: BTreeMap<&str, &str> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    for rule in [links::check, alerts::check, book::check] {
        violations.extend(rule(&files));
    }
    violations.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    Ok(violations)
}

/// Checks one file as if it stood at `path`.
pub fn check_file(path: &str, text: &str) -> Vec<Violation> {
    let mut violations = machine::check(path, text);
    violations.extend(deaths::check(path, text));
    if path.ends_with(".rs") {
        match Source::read(path, text) {
            Ok(source) => {
                for rule in [size::check, words::check, purity::check, shapes::check, leftovers::check] {
                    violations.extend(rule(&source));
                }
            }
            Err(error) => violations.push(Violation::new(path, 1, format!("{error}; nothing else was checked"))),
        }
    }
    allow::apply(path, text, violations)
}

/// Something to mend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The file, relative to the root.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what to do.
    pub what: String,
    /// The word a marker can allow, for rules that know exceptions.
    pub term: Option<String>,
}

impl Violation {
    /// A violation nothing can excuse.
    pub fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), term: None }
    }

    /// A violation that `tidy: allow(term) because …` in the same file excuses.
    fn excusable(path: &str, line: usize, term: &str, what: impl Into<String>) -> Self {
        Self { term: Some(term.to_owned()), ..Self::new(path, line, what) }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// A Rust file as the rules see it.
struct Source<'a> {
    path: &'a str,
    text: &'a str,
    tokens: Vec<Token>,
    mentions: Vec<Mention>,
}

impl<'a> Source<'a> {
    fn read(path: &'a str, text: &'a str) -> Result<Self> {
        let tokens = lex(text)?;
        let mentions = mentions(&tokens);
        Ok(Self { path, text, tokens, mentions })
    }

    /// The names of the directories and the file, without `.rs`.
    fn names(&self) -> impl Iterator<Item = &'a str> {
        self.path.trim_end_matches(".rs").split('/')
    }
}

/// What a rule's own tests use: the violations of a sample, as `line: what`.
#[cfg(test)]
fn found(path: &str, text: &str) -> Vec<String> {
    check_file(path, text).iter().map(|violation| format!("{}: {}", violation.line, violation.what)).collect()
}
