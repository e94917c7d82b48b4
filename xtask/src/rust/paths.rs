//! The paths a file mentions, with its imports resolved.
//!
//! `Instant::now()` reads the wall clock or the pausable one depending on an import thirty lines above. So every path is
//! looked up in the file's `use` declarations before a rule sees it. Scopes are ignored: an import counts for its file.

use std::collections::HashMap;

use super::lex::{Kind, Token, closing};

/// A path as a rule sees it: `std::time::Instant::now`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// The resolved path, joined by `::`.
    pub path: String,
    /// Where it is written.
    pub line: usize,
}

impl Mention {
    /// Whether the path is this one or lies below it.
    pub fn is_within(&self, prefix: &str) -> bool {
        self.path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    }

    /// Whether the path ends in these segments.
    pub fn ends_with(&self, suffix: &str) -> bool {
        self.path.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with("::"))
    }
}

/// All names that imports bring into the file, each with the paths it may stand for.
pub type Imports = HashMap<String, Vec<String>>;

/// The file's imports.
pub fn imports(tokens: &[Token]) -> Imports {
    let mut imports = Imports::new();
    for Import { path, name, .. } in use_declarations(tokens) {
        imports.entry(name).or_default().push(path);
    }
    imports
}

/// Every path in the file: those imported, and those written out, resolved.
pub fn mentions(tokens: &[Token]) -> Vec<Mention> {
    let imports = imports(tokens);
    let mut found: Vec<_> =
        use_declarations(tokens).into_iter().map(|Import { path, line, .. }| Mention { path, line }).collect();
    let mut at = 0;
    while at < tokens.len() {
        if let Some(end) = use_end(tokens, at) {
            at = end;
        } else if tokens[at].kind == Kind::Word {
            let (segments, end) = segments(tokens, at);
            found.extend(resolve(&imports, &segments).into_iter().map(|path| Mention { path, line: tokens[at].line }));
            at = end;
        } else {
            at += 1;
        }
    }
    found
}

/// If a `use` declaration begins at `at`, the index of its semicolon.
pub fn use_end(tokens: &[Token], at: usize) -> Option<usize> {
    // `use<'a>` in a return type captures lifetimes and imports nothing.
    if !tokens[at].is_word("use") || tokens.get(at + 1).is_none_or(|next| next.is_sign("<")) {
        return None;
    }
    Some((at..tokens.len()).find(|&index| tokens[index].is_sign(";")).unwrap_or(tokens.len()))
}

struct Import {
    path: String,
    name: String,
    line: usize,
}

fn use_declarations(tokens: &[Token]) -> Vec<Import> {
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        if let Some(end) = use_end(tokens, at) {
            use_tree(&tokens[at + 1..end], "", &mut found);
        }
    }
    found
}

/// Reads `a::b as c`, `a::{b, c::*}` and `a::{self}`, comma by comma.
fn use_tree(tokens: &[Token], prefix: &str, found: &mut Vec<Import>) {
    let mut at = 0;
    while at < tokens.len() {
        let (line, mut path, mut name) = (tokens[at].line, prefix.to_owned(), String::new());
        while at < tokens.len() && !tokens[at].is_sign(",") {
            let token = &tokens[at];
            if token.is_sign("{") {
                let end = closing(tokens, at);
                use_tree(&tokens[at + 1..end], &path, found);
                (at, name) = (end, String::new());
            } else if token.is_word("as") {
                at += 1;
                name = tokens.get(at).map_or_else(String::new, |alias| alias.text.clone());
            } else if token.is_word("self") && !path.is_empty() {
                name = path.rsplit("::").next().unwrap_or_default().to_owned();
            } else if token.kind == Kind::Word || token.is_sign("*") {
                name.clone_from(&token.text);
                path = if path.is_empty() { token.text.clone() } else { format!("{path}::{}", token.text) };
            }
            at += 1;
        }
        if !name.is_empty() {
            found.push(Import { path, name, line });
        }
        at += 1;
    }
}

/// The words joined by `::` from `at` on, and the index after them.
fn segments(tokens: &[Token], at: usize) -> (Vec<&str>, usize) {
    let mut segments = vec![tokens[at].text.as_str()];
    let mut end = at + 1;
    while let Some([first, second, word]) = tokens.get(end..end + 3)
        && first.is_sign(":")
        && second.is_sign(":")
        && word.kind == Kind::Word
    {
        segments.push(&word.text);
        end += 3;
    }
    (segments, end)
}

fn resolve(imports: &Imports, segments: &[&str]) -> Vec<String> {
    match imports.get(segments[0]) {
        Some(paths) => paths.iter().map(|path| [&[path.as_str()], &segments[1..]].concat().join("::")).collect(),
        None => vec![segments.join("::")],
    }
}

#[cfg(test)]
mod tests {
    use super::super::lex::lex;
    use super::*;

    fn paths(source: &str) -> Vec<String> {
        mentions(&lex(source).expect("this is Rust")).into_iter().map(|mention| mention.path).collect()
    }

    #[test]
    fn use_trees_are_spread_out() {
        let found = paths("use std::{fs, io::{self, Read as _}, net::*}; use crate::x as y;");
        assert_eq!(found, ["std::fs", "std::io", "std::io::Read", "std::net::*", "crate::x"]);
    }

    #[test]
    fn paths_are_resolved_through_imports() {
        assert!(
            paths("use std::time::Instant; fn f() { Instant::now(); }").contains(&"std::time::Instant::now".into())
        );
        assert!(
            paths("use tokio::time; fn f() { time::Instant::now(); }").contains(&"tokio::time::Instant::now".into())
        );
        assert!(paths("use rand as dice; fn f() { dice::random(); }").contains(&"rand::random".into()));
    }

    #[test]
    fn captured_lifetimes_are_no_import() {
        assert!(imports(&lex("fn f<'a>() -> impl Sized + use<'a> { g() }").expect("this is Rust")).is_empty());
    }

    #[test]
    fn prefixes_and_suffixes_are_whole_segments() {
        let mention = Mention { path: "std::fs::read".into(), line: 1 };
        assert!(mention.is_within("std::fs") && !mention.is_within("std::f"));
        assert!(mention.ends_with("fs::read") && !mention.ends_with("s::read"));
    }
}
