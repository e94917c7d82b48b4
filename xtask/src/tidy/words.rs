//! One word for one thing.
//!
//! The glossary gives each notion a name. Its rivals are refused here, unless they are plain Rust or plain English as
//! well (lock, item, block, context…), where a machine could not tell. Looked at are names we declare and the prose of
//! doc comments: not names of other crates, not code in backticks, not strings.

use super::{Source, Violation};
use crate::rust::lex::{Kind, Token, doc_text};
use crate::rust::paths::{Imports, imports, use_end};

/// A word that has a better one.
#[derive(Debug)]
pub struct Banned {
    /// How the word begins, in lower case; two words are separated by a space.
    pub stem: &'static str,
    /// What to say.
    pub instead: &'static str,
    /// Where it is refused.
    pub scope: Scope,
}

/// Where a word is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In names and in doc comments.
    Everywhere,
    /// In names; in prose the word is ordinary English.
    Names,
}

/// The words.
pub const BANNED: &[Banned] = &[
    Banned { stem: "abort", instead: "cancel a task, interrupt a chat", scope: Scope::Everywhere },
    Banned { stem: "checkpoint", instead: "journal, or commit", scope: Scope::Everywhere },
    Banned { stem: "episode", instead: "turn, step or attempt", scope: Scope::Everywhere },
    Banned { stem: "executor", instead: "worker or driver", scope: Scope::Everywhere },
    Banned { stem: "finalis", instead: "settle", scope: Scope::Everywhere },
    Banned { stem: "finaliz", instead: "settle", scope: Scope::Everywhere },
    Banned { stem: "history", instead: "transcript", scope: Scope::Names },
    Banned { stem: "mock", instead: "understudy or script", scope: Scope::Everywhere },
    Banned { stem: "notification", instead: "frame (from a provider) or event (to a client)", scope: Scope::Names },
    Banned { stem: "pending input", instead: "queue", scope: Scope::Everywhere },
    Banned { stem: "preview", instead: "draft", scope: Scope::Everywhere },
    Banned { stem: "revision", instead: "version", scope: Scope::Everywhere },
];

pub fn check(source: &Source<'_>) -> Vec<Violation> {
    let tokens = &source.tokens;
    let imports = imports(tokens);
    let mut violations = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if let Some(end) = use_end(tokens, at) {
            at = end;
            continue;
        }
        let token = &tokens[at];
        if let Some(text) = doc_text(tokens, at) {
            for banned in banned_in(&prose(&text)) {
                let Banned { stem, instead, .. } = banned;
                let what = format!("the text says {stem}: say {instead}");
                violations.push(Violation::excusable(source.path, token.line, stem, what));
            }
        } else if token.kind == Kind::Word && is_ours(tokens, at, &imports) {
            for Banned { stem, instead, .. } in BANNED.iter().filter(|banned| says(&segments(&token.text), banned)) {
                let what = format!("`{}` says {stem}: say {instead}", token.text);
                violations.push(Violation::excusable(source.path, token.line, stem, what));
            }
        }
        at += 1;
    }
    violations
}

/// Whether the name at `at` may be our choice: no method or path of another crate.
///
/// What follows a `.` or `::` was declared elsewhere; if we declared it, the declaration is found.
fn is_ours(tokens: &[Token], at: usize, imports: &Imports) -> bool {
    let after = |sign| at > 0 && tokens[at - 1].is_sign(sign);
    if after(".") || after(":") && at > 1 && tokens[at - 2].is_sign(":") {
        return false;
    }
    let ours = |path: &String| {
        let first = path.split("::").next().unwrap_or_default();
        matches!(first, "crate" | "self" | "super") || first.starts_with("everturn")
    };
    imports.get(&tokens[at].text).is_none_or(|paths| paths.iter().any(ours))
}

fn banned_in(words: &[String]) -> impl Iterator<Item = &'static Banned> {
    BANNED.iter().filter(|banned| banned.scope == Scope::Everywhere).filter(move |banned| says(words, banned))
}

fn says(words: &[String], banned: &Banned) -> bool {
    let stems: Vec<_> = banned.stem.split(' ').collect();
    words.windows(stems.len()).any(|run| run.iter().zip(&stems).all(|(word, stem)| word.starts_with(stem)))
}

/// The words of a text, without what stands in backticks.
fn prose(text: &str) -> Vec<String> {
    let outside = text.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    outside.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// The words of a name: `HTTPServer_two` is http, server, two.
fn segments(name: &str) -> Vec<String> {
    let chars: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (index, &c) in chars.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| chars[before]);
        let next_is_lower = chars.get(index + 1).is_some_and(|next| next.is_lowercase());
        let begins = c.is_uppercase()
            && before.is_some_and(|before| before.is_lowercase() || before.is_uppercase() && next_is_lower);
        if begins || !c.is_alphanumeric() {
            words.push(String::new());
        }
        if c.is_alphanumeric() {
            words.last_mut().expect("there is always a last word").extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn names_are_split_into_words() {
        assert_eq!(segments("HTTPServerMock_two"), ["http", "server", "mock", "two"]);
        assert_eq!(segments("r#PENDING_INPUT"), ["r", "pending", "input"]);
    }

    #[test]
    fn every_banned_word_bites_in_a_name() {
        for Banned { stem, instead, .. } in BANNED {
            let name = stem.replace(' ', "_");
            let found = found("a.rs", &format!("fn the_{name}() {{}}"));
            assert_eq!(found, [format!("1: `the_{name}` says {stem}: say {instead}")]);
        }
    }

    #[test]
    fn prose_is_read_where_the_word_has_no_other_use() {
        assert_eq!(found("a.rs", "//! One.\n//! Finalizes the turn.\n"), ["2: the text says finaliz: say settle"]);
        assert_eq!(found("a.rs", "/// Its pending inputs.\nstruct A;").len(), 1);
        assert!(found("a.rs", "/// The history of a bug.\nstruct A;").is_empty());
        assert!(found("a.rs", "/// Like `JoinHandle::abort`.\nstruct A;").is_empty());
    }

    #[test]
    fn what_other_crates_named_is_theirs() {
        assert!(found("a.rs", "fn a(t: T) { t.abort(); std::process::abort(); }").is_empty());
        let foreign = "use tokio::task::{AbortHandle, JoinSet};\nstruct A { handle: AbortHandle }";
        assert!(found("a.rs", foreign).is_empty());
        assert_eq!(found("a.rs", "use crate::AbortHandle;\nstruct A { handle: AbortHandle }").len(), 1);
    }

    #[test]
    fn ordinary_words_and_strings_are_left_alone() {
        let source = "fn update(lock: Lock, chunk: &[u8], item: Block) -> Context { say(\"mock\") }";
        assert!(found("a.rs", source).is_empty());
    }
}
