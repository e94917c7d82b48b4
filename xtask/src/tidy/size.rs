//! How long a file and a function may be.

use super::{Source, Violation};
use crate::rust::lex::{Kind, Token, closing};

/// Lines a Rust file may have.
pub const FILE_LINES_MAX: usize = 700;
/// Lines a function's body may have, braces not counted.
pub const FN_LINES_MAX: usize = 70;

pub fn check(source: &Source<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let lines = source.text.lines().count();
    if lines > FILE_LINES_MAX {
        let what = format!("{lines} lines, at most {FILE_LINES_MAX}: look for the missing noun and give it a file");
        violations.push(Violation::new(source.path, lines, what));
    }
    for function in functions(&source.tokens) {
        if function.body_lines > FN_LINES_MAX {
            let Function { name, body_lines, line } = function;
            let what =
                format!("fn {name} has {body_lines} lines, at most {FN_LINES_MAX}: split it where it turns a page");
            violations.push(Violation::new(source.path, line, what));
        }
    }
    violations
}

struct Function<'a> {
    name: &'a str,
    line: usize,
    body_lines: usize,
}

fn functions(tokens: &[Token]) -> impl Iterator<Item = Function<'_>> {
    (0..tokens.len()).filter(|&at| tokens[at].is_word("fn")).filter_map(|at| {
        // `fn $name` is a function written by a macro; `fn(` is a type.
        let name = if tokens.get(at + 1)?.is_sign("$") { at + 2 } else { at + 1 };
        let name = tokens.get(name).filter(|token| token.kind == Kind::Word)?;
        let open = body(tokens, at + 1)?;
        let body_lines = tokens[closing(tokens, open)].line.saturating_sub(tokens[open].line + 1);
        Some(Function { name: &name.text, line: tokens[at].line, body_lines })
    })
}

/// The brace that opens the body, past parameters, bounds and constants in angle brackets.
fn body(tokens: &[Token], mut at: usize) -> Option<usize> {
    let mut angles = 0_i32;
    while let Some(token) = tokens.get(at) {
        match (token.kind, token.text.as_str()) {
            (Kind::Open, "{") if angles <= 0 => return Some(at),
            (Kind::Open, _) => at = closing(tokens, at),
            (Kind::Close, _) => return None,
            (Kind::Punct, ";") => return None,
            (Kind::Punct, "<") => angles += 1,
            (Kind::Punct, ">") if !tokens[at - 1].is_sign("-") && !tokens[at - 1].is_sign("=") => angles -= 1,
            (Kind::Word | Kind::Punct | Kind::Literal, _) => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    fn function(head: &str, lines: usize) -> String {
        format!("{head} {{\n{}}}\n", "    step();\n".repeat(lines))
    }

    #[test]
    fn long_functions_are_found_wherever_they_hide() {
        for head in ["fn long()", "pub async fn long<const N: usize>(a: [u8; N]) -> Wrap<{ N }> where A: Fn() -> u8"] {
            assert!(found("a.rs", &function(head, FN_LINES_MAX)).is_empty(), "{head}");
            let found = found("a.rs", &function(head, FN_LINES_MAX + 1));
            assert!(found[0].starts_with("1: fn long has 71 lines, at most 70"), "{head}: {found:?}");
        }
        let in_macro = format!("proptest! {{\n{}}}\n", function("fn long(x in 0..9)", FN_LINES_MAX + 1));
        assert!(found("a.rs", &in_macro)[0].starts_with("2: fn long has 71 lines"));
        let in_impl = format!("impl A {{\n{}}}\n", function("fn long(&self)", FN_LINES_MAX + 1));
        assert!(found("a.rs", &in_impl)[0].starts_with("2: fn long has 71 lines"));
    }

    #[test]
    fn tables_and_signatures_are_no_functions() {
        let table = format!("const TABLE: &[fn(u8) -> u8] = &[\n{}];\n", "    one,\n".repeat(200));
        assert!(found("a.rs", &table).is_empty());
        let signature = format!("trait A {{ fn a(&self); }}\nstruct B {{\n{}}}\n", "    // a field\n".repeat(200));
        assert!(found("a.rs", &signature).is_empty());
    }

    #[test]
    fn long_files_are_found() {
        assert!(found("a.rs", &"//\n".repeat(FILE_LINES_MAX)).is_empty());
        assert!(found("a.rs", &"//\n".repeat(FILE_LINES_MAX + 1))[0].starts_with("701: 701 lines, at most 700"));
        assert!(found("a.md", &"-\n".repeat(FILE_LINES_MAX + 1)).is_empty());
    }
}
