//! The tests of a source file, and the ids each claims.

use anyhow::Result;

use super::ids::ids;
use super::results::TestResult;
use crate::rust::lex::{Kind, Token, attribute, closing, doc_text, lex};

/// A test that claims ids.
#[derive(Debug, PartialEq, Eq)]
pub struct Test {
    /// The file, relative to the root.
    pub file: String,
    /// The line of its `fn`.
    pub line: usize,
    /// What nextest calls the test inside its binary: `draft::tests::a_cut_is_kept`.
    pub name: String,
    /// The binary it is built into.
    pub binary: Binary,
    /// What its doc comment names.
    pub ids: Vec<String>,
}

/// A test binary, as far as the file's place tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Binary {
    /// The unit tests of a package: its library's or its programs'.
    Unit(String),
    /// Exactly this one, in nextest's words: `everturn::it`.
    Named(String),
}

impl Test {
    /// Whether a result is of this test, or of one of the cases a macro made of it.
    pub fn is(&self, result: &TestResult) -> bool {
        let same_binary = match &self.binary {
            Binary::Named(binary) => result.binary == *binary,
            Binary::Unit(package) => {
                let rest = result.binary.strip_prefix(package.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::bin/"))
            }
        };
        let rest = result.name.strip_prefix(self.name.as_str());
        same_binary && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    }

    /// How the table shows it.
    pub fn title(&self) -> String {
        let (Binary::Unit(binary) | Binary::Named(binary)) = &self.binary;
        format!("{binary} {}", self.name)
    }
}

/// Finds the tests in a file of `package` that stands at `inside` in the package and at `file` in the repository.
pub fn scan(package: &str, inside: &str, file: &str, text: &str) -> Result<Vec<Test>> {
    let (binary, modules) = place(package, inside);
    let tokens = lex(text)?;
    let mut tests = Vec::new();
    for found in Walk::over(&tokens, modules) {
        let ids = ids(&found.docs);
        if !ids.is_empty() {
            tests.push(Test { file: file.into(), line: found.line, name: found.name, binary: binary.clone(), ids });
        }
    }
    Ok(tests)
}

/// From a file's place to its binary and module path.
fn place(package: &str, inside: &str) -> (Binary, Vec<String>) {
    let parts: Vec<&str> = inside.trim_end_matches(".rs").split('/').collect();
    let named = |kind: &str, name: &str| Binary::Named(format!("{package}::{kind}{name}"));
    let (binary, modules) = match parts.as_slice() {
        ["tests", name, rest @ ..] => (named("", name), rest),
        ["examples", name, rest @ ..] => (named("example/", name), rest),
        ["benches", name, rest @ ..] => (named("bench/", name), rest),
        ["src", "bin", name, rest @ ..] => (named("bin/", name), rest),
        ["src", rest @ ..] => (Binary::Unit(package.to_owned()), rest),
        rest => (Binary::Unit(package.to_owned()), rest),
    };
    let modules = match modules {
        [rest @ .., "mod" | "main" | "lib"] => rest,
        all => all,
    };
    (binary, modules.iter().map(|&module| module.to_owned()).collect())
}

struct Found {
    name: String,
    line: usize,
    docs: String,
}

/// Follows modules in and out, and collects the attributes in front of each function.
struct Walk {
    modules: Vec<String>,
    /// For each open bracket, whether it is a module's.
    brackets: Vec<bool>,
    docs: String,
    is_test: bool,
}

impl Walk {
    fn over(tokens: &[Token], modules: Vec<String>) -> Vec<Found> {
        let mut walk = Self { modules, brackets: Vec::new(), docs: String::new(), is_test: false };
        let mut found = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            at = walk.step(tokens, at, &mut found);
        }
        found
    }

    /// Takes one token or one attribute; answers where to go on.
    fn step(&mut self, tokens: &[Token], at: usize, found: &mut Vec<Found>) -> usize {
        if let Some(open) = attribute(tokens, at) {
            if let Some(text) = doc_text(tokens, at) {
                self.docs.push_str(&text);
                self.docs.push('\n');
            }
            self.is_test |= makes_test(tokens, open);
            return closing(tokens, open) + 1;
        }
        let token = &tokens[at];
        let next = tokens.get(at + 1).filter(|next| next.kind == Kind::Word);
        match (token.kind, token.text.as_str(), next) {
            (Kind::Word, "pub" | "async" | "unsafe" | "const", _) => return at + 1,
            (Kind::Word, "fn", Some(name)) if self.is_test => {
                let name = [self.modules.as_slice(), std::slice::from_ref(&name.text)].concat().join("::");
                found.push(Found { name, line: token.line, docs: std::mem::take(&mut self.docs) });
            }
            (Kind::Word, "mod", Some(name)) if tokens.get(at + 2).is_some_and(|open| open.is_sign("{")) => {
                self.modules.push(name.text.clone());
                self.brackets.push(true);
                self.forget();
                return at + 3;
            }
            (Kind::Open, ..) => self.brackets.push(false),
            (Kind::Close, ..) if self.brackets.pop() == Some(true) => {
                self.modules.pop();
            }
            _ => {}
        }
        self.forget();
        at + 1
    }

    fn forget(&mut self) {
        self.docs.clear();
        self.is_test = false;
    }
}

/// Whether the attribute's path ends in `test`, as `#[test]` and `#[tokio::test(start_paused = true)]` do.
fn makes_test(tokens: &[Token], open: usize) -> bool {
    let path = tokens[open + 1..].iter().take_while(|token| token.kind == Kind::Word || token.is_sign(":"));
    path.last().is_some_and(|last| matches!(last.text.as_str(), "test" | "rstest" | "test_case"))
}

#[cfg(test)]
mod tests;
