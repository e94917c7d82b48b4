//! How much there is: lines of product, of proof and of tests, without blank lines and comments.

use std::collections::BTreeMap;
use std::fmt;

use super::{is_test_path, test_module_lines};
use crate::rust::lex::lex;

/// Crates that exist to test the others, or to show them.
const PROOF: [&str; 5] = ["crates/demo/", "crates/props/", "crates/testkit/", "crates/understudy/", "xtask/"];

/// Lines of Rust.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Lines {
    /// What ships.
    pub product: usize,
    /// What tests and shows the product: test support, the stand-in model, the demo, the chores.
    pub proof: usize,
    /// Tests, benchmarks and examples.
    pub tests: usize,
    /// Comments, wherever they are.
    pub comments: usize,
}

/// Counts all Rust files.
pub fn count(files: &BTreeMap<&str, &str>) -> Lines {
    let mut lines = Lines::default();
    for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".rs")) {
        let tests = lex(text).map(|tokens| test_module_lines(&tokens)).unwrap_or_default();
        for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
            let kind = if line.trim_start().starts_with("//") {
                &mut lines.comments
            } else if is_test_path(path) || tests.iter().any(|lines| lines.contains(&number)) {
                &mut lines.tests
            } else if PROOF.iter().any(|prefix| path.starts_with(prefix)) {
                &mut lines.proof
            } else {
                &mut lines.product
            };
            *kind += 1;
        }
    }
    lines
}

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { product, proof, tests, comments } = self;
        write!(f, "lines of Rust: {product} product, {proof} proof, {tests} tests, {comments} comments")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_counted_where_it_belongs() {
        let product = "//! Why.\n\nstruct A;\n#[cfg(test)]\nmod tests {\n    fn a() {}\n}\nstruct B;\n";
        let files = [
            ("crates/core/src/a.rs", product),
            ("crates/understudy/src/a.rs", "struct C;"),
            ("crates/core/tests/it/a.rs", "struct D;"),
        ];
        assert_eq!(count(&files.into()), Lines { product: 2, proof: 1, tests: 5, comments: 1 });
    }
}
