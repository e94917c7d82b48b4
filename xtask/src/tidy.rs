//! House rules that a compiler does not know.
//!
//! Each rule exists because a review would otherwise have to say the same thing twice. A rule looks at one file, at all
//! pages, or at the manifests, and answers with violations; it never edits. Every violation says where, what, and what to do.

mod alerts;
mod allow;
mod book;
mod commits;
mod count;
mod deaths;
mod direction;
mod files;
mod leftovers;
mod links;
mod machine;
mod prose;
mod purity;
mod shapes;
mod size;
mod types;
mod words;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::rust::lex::{Token, attribute, closing, lex};
use crate::rust::paths::{Mention, mentions};
use crate::workspace::Workspace;

pub use count::Lines;
pub use files::tracked;
pub use size::{FILE_LINES_MAX, FN_LINES_MAX};
pub use words::{BANNED, Banned, Scope};

/// Checks the repository and prints what is wrong, one line a violation.
pub fn report(root: &Path) -> Result<ExitCode> {
    let violations = check(root)?;
    for violation in &violations {
        eprintln!("{violation}");
    }
    println!("{}", lines(root)?);
    match violations.len() {
        0 => Ok(ExitCode::SUCCESS),
        count => {
            eprintln!("tidy: {count} to mend");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// How many lines of product, proof and tests there are.
pub fn lines(root: &Path) -> Result<count::Lines> {
    Ok(count::count(&borrowed(&texts(root)?)))
}

/// Checks the repository: every text file git knows or would add, how they refer to each other, and every manifest.
pub fn check(root: &Path) -> Result<Vec<Violation>> {
    let mut violations = direction::check(root, &Workspace::load(root)?);
    violations.extend(commits::check(root));
    let texts = texts(root)?;
    for (path, text) in &texts {
        violations.extend(check_file(path, text));
    }
    let files = borrowed(&texts);
    for rule in [links::check, alerts::check, book::check, types::check, prose::persons] {
        violations.extend(rule(&files));
    }
    violations.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    Ok(violations)
}

/// Every text file of the repository. A file that is not UTF-8 has no lines to judge, and counts as empty.
fn texts(root: &Path) -> Result<Vec<(String, String)>> {
    let read = |path: String| {
        let text = std::fs::read_to_string(root.join(&path)).unwrap_or_default();
        (path, text)
    };
    Ok(tracked(root)?.into_iter().map(read).collect())
}

fn borrowed(texts: &[(String, String)]) -> BTreeMap<&str, &str> {
    texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect()
}

/// Checks one file as if it stood at `path`.
pub fn check_file(path: &str, text: &str) -> Vec<Violation> {
    let mut violations = machine::check(path, text);
    violations.extend(deaths::check(path, text));
    if path.ends_with(".rs") {
        match Source::read(path, text) {
            Ok(source) => {
                for rule in [size::check, words::check, purity::check, shapes::check, leftovers::check, prose::check] {
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

/// Whether a file holds tests, benchmarks or examples and nothing else.
fn is_test_path(path: &str) -> bool {
    let names = path.trim_end_matches(".rs").split('/');
    names.into_iter().any(|name| matches!(name, "tests" | "benches" | "examples" | "fuzz"))
}

/// The lines of each `#[cfg(test)]` item of a file.
fn test_module_lines(tokens: &[Token]) -> Vec<RangeInclusive<usize>> {
    let mut ranges = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let Some(open) = attribute(tokens, at) else { continue };
        let close = closing(tokens, open);
        let words: Vec<&str> = tokens[open + 1..close].iter().map(|token| token.text.as_str()).collect();
        if words == ["cfg", "(", "test", ")"] {
            let end = tokens[close..].iter().position(|token| token.is_sign("{") || token.is_sign(";"));
            let end = end.map_or(close, |ahead| close + ahead);
            let last = if tokens[end].is_sign("{") { closing(tokens, end) } else { end };
            ranges.push(token.line..=tokens[last].line);
        }
    }
    ranges
}

/// What a rule's own tests use: the violations of a sample, as `line: what`.
#[cfg(test)]
fn found(path: &str, text: &str) -> Vec<String> {
    check_file(path, text).iter().map(|violation| format!("{}: {}", violation.line, violation.what)).collect()
}
