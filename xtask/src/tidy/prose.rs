//! Comments name things.
//!
//! "Whoever asks is told" leaves the reader to find out which part of the program is meant. A doc comment therefore begins
//! with the thing it is about, and comments as a whole do without people who are not people. Predicates ask and do not
//! act: `is_`, `has_` and `can_` borrow what they look at.

use std::collections::BTreeMap;

use super::{Source, Violation};
use crate::rust::lex::doc_text;

/// How a doc comment must not begin.
const OPENINGS: [&str; 6] = ["Who", "Whoever", "Nobody", "Somebody", "The same", "That"];
/// Words that stand for a part of the program which has a name.
const PERSONS: [&str; 4] = ["who", "whoever", "nobody", "somebody"];
/// Comment lines in the whole repository that may have such a word. People do use the product.
pub const PERSON_LINES_MAX: usize = 50;

pub fn check(source: &Source<'_>) -> Vec<Violation> {
    let mut violations = openings(source);
    violations.extend(predicates(source));
    violations
}

fn openings(source: &Source<'_>) -> Vec<Violation> {
    let tokens = &source.tokens;
    let mut violations = Vec::new();
    let mut last_line = None;
    for (at, token) in tokens.iter().enumerate() {
        let Some(text) = doc_text(tokens, at) else { continue };
        let is_first = last_line.is_none_or(|last| last + 1 != token.line);
        last_line = Some(token.line);
        let opening = OPENINGS.iter().find(|opening| {
            let rest = text.trim_start().strip_prefix(**opening);
            rest.is_some_and(|rest| rest.starts_with(|next: char| !next.is_alphanumeric()))
        });
        if let Some(opening) = opening.filter(|_| is_first) {
            let what = format!("the doc comment begins with {opening}: begin with the thing it is about");
            violations.push(Violation::new(source.path, token.line, what));
        }
    }
    violations
}

fn predicates(source: &Source<'_>) -> Vec<Violation> {
    let tokens = &source.tokens;
    let mut violations = Vec::new();
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.is_word("fn")) {
        let [Some(name), Some(open), Some(and), Some(mutable), Some(this)] =
            [1, 2, 3, 4, 5].map(|n| tokens.get(at + n))
        else {
            continue;
        };
        let is_predicate =
            ["is_", "has_", "can_"].iter().any(|start| name.text.starts_with(start)) || name.text == "fits";
        let acts = open.is_sign("(") && and.is_sign("&") && mutable.is_word("mut") && this.is_word("self");
        if is_predicate && acts {
            let what = format!("fn {} takes `&mut self`: let it only look, or name what it does", name.text);
            violations.push(Violation::new(source.path, token.line, what));
        }
    }
    violations
}

/// Comment lines with a person for a part of the program, once they are more than the repository may have.
pub fn persons(files: &BTreeMap<&str, &str>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".rs")) {
        for (line, number) in text.lines().zip(1..) {
            if let Some(person) = person_in(line) {
                let what = format!("the comment says {person}: name the part of the program");
                violations.push(Violation::new(path, number, what));
            }
        }
    }
    if violations.len() <= PERSON_LINES_MAX {
        violations.clear();
    }
    violations
}

/// The first such word in a line that is a comment.
pub fn person_in(line: &str) -> Option<&'static str> {
    let comment = line.trim_start().strip_prefix("//")?;
    let mut words = comment.split(|c: char| !c.is_alphanumeric());
    words.find_map(|word| PERSONS.into_iter().find(|person| word.eq_ignore_ascii_case(person)))
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn a_doc_comment_begins_with_its_thing() {
        for opening in OPENINGS {
            let what = format!("1: the doc comment begins with {opening}: begin with the thing it is about");
            assert_eq!(found("a.rs", &format!("/// {opening} goes on.\nstruct A;")), [what]);
        }
        assert!(found("a.rs", "/// The samples.\nstruct A;").is_empty());
        assert!(found("a.rs", "/// A reply\n/// That goes on.\nstruct A;").is_empty(), "in the middle of a sentence");
    }

    #[test]
    fn predicates_only_look() {
        for name in ["is_open", "has_room", "can_go", "fits"] {
            assert_eq!(
                found("a.rs", &format!("impl A {{ fn {name}(&mut self) -> bool {{ true }} }}")).len(),
                1,
                "{name}"
            );
            assert!(found("a.rs", &format!("impl A {{ fn {name}(&self) -> bool {{ true }} }}")).is_empty(), "{name}");
        }
        assert!(found("a.rs", "impl A { fn issue(&mut self) {} }").is_empty());
    }

    #[test]
    fn a_few_people_may_be_spoken_of() {
        let text = "/// The user, who may wait.\n".repeat(PERSON_LINES_MAX + 1);
        let (few, _) = text.split_at(text.len() - 1 - "/// The user, who may wait.".len());
        assert!(persons(&BTreeMap::from([("a.rs", few)])).is_empty());
        assert_eq!(persons(&BTreeMap::from([("a.rs", text.as_str())])).len(), PERSON_LINES_MAX + 1);
        assert_eq!(person_in("let who = 1;"), None);
        assert_eq!(person_in("    // Whose is whole."), None);
    }
}
