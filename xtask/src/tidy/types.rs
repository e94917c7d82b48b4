//! One type per name, and one place per type.
//!
//! A reader who meets `Budget` should not have to ask which of two it is, and should find all its methods in the module
//! that declares it. So no public type name occurs twice in the product, no name occurs twice within a crate, and an
//! inherent `impl` stands in the file of its type. A program has no public types: its names count within it only. The mirrors of stored and sent types (`shape`, `wire`) keep the names
//! of what they mirror.

use std::collections::BTreeMap;

use super::{Violation, is_test_path, test_module_lines};
use crate::rust::lex::{Kind, Token, closing, lex};

/// Inherent `impl` blocks that may stand elsewhere: as many as there were when the rule came. Lower it with each that moves.
const SCATTERED_MAX: usize = 37;

/// A type that a file declares.
#[derive(Debug)]
struct Declaration<'a> {
    name: String,
    path: &'a str,
    line: usize,
    visibility: Visibility,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visibility {
    /// Visible to other crates.
    Public,
    /// Visible to other modules of the crate.
    Restricted,
    /// Visible in its module.
    Private,
}

/// An inherent `impl` block.
#[derive(Debug)]
struct Implementation<'a> {
    name: String,
    path: &'a str,
    line: usize,
}

pub fn check(files: &BTreeMap<&str, &str>) -> Vec<Violation> {
    let mut declarations = Vec::new();
    let mut implementations = Vec::new();
    for (&path, &text) in files {
        if crate_of(path).is_none() || !path.ends_with(".rs") || is_test_path(path) {
            continue;
        }
        // Files that do not parse are reported by the rules that look at one file.
        let Ok(tokens) = lex(text) else { continue };
        let tests = test_module_lines(&tokens);
        let is_product = |line: usize| !tests.iter().any(|lines| lines.contains(&line));
        let declared = declared(path, &tokens).filter(|declared| is_product(declared.line));
        let is_library =
            crate_of(path).is_some_and(|name| files.contains_key(format!("crates/{name}/src/lib.rs").as_str()));
        declarations.extend(declared.map(|declared| match declared.visibility {
            Visibility::Public if !is_library => Declaration { visibility: Visibility::Restricted, ..declared },
            _ => declared,
        }));
        implementations.extend(implemented(path, &tokens).filter(|block| is_product(block.line)));
    }
    let mut violations = doubles(&declarations);
    let scattered = scattered(&declarations, &implementations);
    if scattered.len() > SCATTERED_MAX {
        violations.extend(scattered);
    }
    violations.retain(|violation| !is_excused(files, violation));
    violations
}

/// Names that are declared twice: public ones in the workspace, those that other modules see within a crate.
fn doubles(declarations: &[Declaration<'_>]) -> Vec<Violation> {
    let mut first: BTreeMap<&str, Vec<&Declaration<'_>>> = BTreeMap::new();
    let mut violations = Vec::new();
    let is_seen =
        |declaration: &&Declaration<'_>| declaration.visibility != Visibility::Private && !is_mirror(declaration.path);
    for declaration in declarations.iter().filter(is_seen) {
        let earlier = first.entry(&declaration.name).or_default();
        let clash = earlier.iter().find(|other| {
            let is_same_crate = crate_of(other.path) == crate_of(declaration.path);
            is_same_crate || [other.visibility, declaration.visibility] == [Visibility::Public; 2]
        });
        if let Some(other) = clash {
            let name = &declaration.name;
            let what =
                format!("`{name}` is declared in {}:{} too: say in the name which one this is", other.path, other.line);
            violations.push(Violation::excusable(declaration.path, declaration.line, name, what));
        }
        earlier.push(declaration);
    }
    violations
}

/// Inherent `impl` blocks in another file than their type, for types that other modules see.
fn scattered(declarations: &[Declaration<'_>], implementations: &[Implementation<'_>]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for block in implementations {
        let named = declarations
            .iter()
            .filter(|declared| declared.name == block.name && crate_of(declared.path) == crate_of(block.path));
        let is_home = named.clone().any(|declared| declared.path == block.path);
        if let Some(first) = named.clone().find(|declared| declared.visibility != Visibility::Private)
            && !is_home
        {
            let what = format!("`impl {}` outside {}: move it there, or give this part a type", block.name, first.path);
            violations.push(Violation::excusable(block.path, block.line, &block.name, what));
        }
    }
    violations
}

/// `struct`, `enum`, `trait`, `type` and `union` items.
fn declared<'a, 't>(path: &'a str, tokens: &'t [Token]) -> impl Iterator<Item = Declaration<'a>> + use<'a, 't> {
    (0..tokens.len()).filter_map(move |at| {
        let (keyword, visibility) = match tokens.get(at + 1) {
            Some(next) if tokens[at].is_word("pub") && next.is_sign("(") => {
                (closing(tokens, at + 1) + 1, Visibility::Restricted)
            }
            Some(_) if tokens[at].is_word("pub") => (at + 1, Visibility::Public),
            _ if at > 0 && (tokens[at - 1].is_word("pub") || tokens[at - 1].is_sign(")")) => return None,
            _ => (at, Visibility::Private),
        };
        let is_type = ["struct", "enum", "trait", "type", "union"].iter().any(|word| tokens[keyword].is_word(word));
        let name = tokens.get(keyword + 1).filter(|token| is_type && token.kind == Kind::Word)?;
        Some(Declaration { name: name.text.clone(), path, line: name.line, visibility })
    })
}

/// `impl Name {` and `impl<T> Name<T> {`, without those of traits and of paths.
fn implemented<'a, 't>(path: &'a str, tokens: &'t [Token]) -> impl Iterator<Item = Implementation<'a>> + use<'a, 't> {
    (0..tokens.len()).filter_map(move |at| {
        let starts_item = at == 0 || matches!(tokens[at - 1].kind, Kind::Close) || tokens[at - 1].is_sign(";");
        if !tokens[at].is_word("impl") || !starts_item {
            return None;
        }
        let name = after_angles(tokens, at + 1);
        let end = after_angles(tokens, name + 1);
        let is_inherent = tokens.get(end)?.is_sign("{") || tokens[end].is_word("where");
        (is_inherent && tokens[name].kind == Kind::Word).then(|| Implementation {
            name: tokens[name].text.clone(),
            path,
            line: tokens[at].line,
        })
    })
}

/// The first token after `<…>` at `at`, or `at` if there is none.
fn after_angles(tokens: &[Token], at: usize) -> usize {
    if !tokens.get(at).is_some_and(|token| token.is_sign("<")) {
        return at;
    }
    let mut depth = 0_i32;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.text.as_str() {
            "<" => depth += 1,
            ">" if !tokens[index - 1].is_sign("-") => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

fn crate_of(path: &str) -> Option<&str> {
    let (name, _) = path.strip_prefix("crates/")?.split_once("/src/")?;
    Some(name)
}

fn is_mirror(path: &str) -> bool {
    path.trim_end_matches(".rs").split('/').any(|name| matches!(name, "shape" | "wire"))
}

/// Whether the violation's file carries a marker for it. Unused markers are the business of the rules for one file.
fn is_excused(files: &BTreeMap<&str, &str>, violation: &Violation) -> bool {
    let marker = format!("// tidy: two types may be called {} because ", violation.term.as_deref().unwrap_or_default());
    files.get(violation.path.as_str()).is_some_and(|text| text.contains(&marker))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&'static str, &'static str)]) -> Vec<String> {
        let libraries = [("crates/b/src/lib.rs", "")];
        check(&libraries.into_iter().chain(files.iter().copied()).collect()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_public_name_is_declared_once_in_the_workspace() {
        let other = ("crates/a/src/lib.rs", "pub struct Budget;");
        let found_in = |path, text| found(&[other, (path, text)]);
        let clash = found_in("crates/b/src/x.rs", "\npub enum Budget {}");
        assert_eq!(
            clash,
            [
                "crates/b/src/x.rs:2: `Budget` is declared in crates/a/src/lib.rs:1 too: say in the name which one this is"
            ]
        );
        assert!(found_in("crates/b/src/x.rs", "pub(crate) enum Budget {}").is_empty(), "only its own crate sees it");
        assert_eq!(found_in("crates/a/src/x.rs", "pub(crate) enum Budget {}").len(), 1, "both are of one crate");
        assert!(found_in("crates/b/src/wire/x.rs", "pub struct Budget;").is_empty(), "a mirror keeps the name");
        assert!(found_in("crates/b/tests/it/x.rs", "pub struct Budget;").is_empty(), "tests are no product");
        assert!(found_in("crates/b/src/x.rs", "#[cfg(test)]\nmod tests { pub struct Budget; }").is_empty());
        let excused = "// tidy: two types may be called Budget because rustc says so\npub struct Budget;";
        assert!(found_in("crates/b/src/x.rs", excused).is_empty());
    }

    #[test]
    fn methods_stand_with_their_type() {
        let home = ("crates/a/src/lib.rs", "pub struct Driver<T>(T);\nimpl<T> Driver<T> {}");
        let found_in = |path, text| found(&[home, (path, text)]);
        let block = "impl<T: Fn() -> u8> Driver<T> where T: Clone {}\n";
        let many: &'static str = block.repeat(SCATTERED_MAX + 1).leak();
        let away = found_in("crates/a/src/x.rs", many);
        let what =
            "crates/a/src/x.rs:1: `impl Driver` outside crates/a/src/lib.rs: move it there, or give this part a type";
        assert_eq!((away.len(), away[0].as_str()), (SCATTERED_MAX + 1, what));
        assert!(found_in("crates/a/src/x.rs", block).is_empty(), "as many as there were");
        let private: &'static str = format!("struct Driver;\n{many}").leak();
        assert!(found_in("crates/a/src/x.rs", private).is_empty(), "a private type of the file");
        assert!(found_in("crates/a/src/x.rs", "impl Clone for Driver<u8> {}").is_empty(), "traits may be elsewhere");
        assert!(found_in("crates/b/src/x.rs", "impl Driver<u8> {}").is_empty(), "another crate's type");
        assert!(found_in("crates/a/src/x.rs", "fn a(x: impl Driver) -> impl Driver {}").is_empty());
    }
}
