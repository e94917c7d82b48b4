//! Unfinished code: `todo!`, ignored tests, sleeps.

use super::{Source, Violation};
use crate::rust::lex::{attribute, closing};

/// What an ignored test says that is no test: another test starts it in a process of its own.
const PART: &str = "\"a part that is played in another process\"";

pub fn check(source: &Source<'_>) -> Vec<Violation> {
    let tokens = &source.tokens;
    let mut violations = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let is_call = tokens.get(at + 1).is_some_and(|next| next.is_sign("!"));
        if is_call && (token.is_word("todo") || token.is_word("unimplemented")) {
            let what = format!("{}!: finish it, or return an error that says what is missing", token.text);
            violations.push(Violation::new(source.path, token.line, what));
        }
        if let Some(open) = attribute(tokens, at)
            && let attribute = &tokens[open..closing(tokens, open)]
            && attribute.iter().any(|word| word.is_word("ignore"))
            && !attribute.iter().any(|token| token.text == PART)
        {
            let what = "#[ignore]: an ignored test proves nothing; run it or delete it";
            violations.push(Violation::new(source.path, token.line, what));
        }
    }
    let is_bench = source.path.split('/').any(|dir| dir == "benches"); // Their time is real.
    let sleeps = source.mentions.iter().filter(|mention| !is_bench && mention.is_within("std::thread::sleep"));
    violations.extend(sleeps.map(|mention| {
        let what = "std::thread::sleep: wait for the event, or use tokio::time with start_paused";
        Violation::new(source.path, mention.line, what)
    }));
    violations
}

#[cfg(test)]
mod tests {
    use super::super::found;

    #[test]
    fn unfinished_business_is_found() {
        for (source, says) in [
            ("fn a() { todo!() }", "todo!"),
            ("fn a() { unimplemented!(\"b\") }", "unimplemented!"),
            ("#[test]\n#[ignore]\nfn a() {}", "#[ignore]"),
            ("#[test]\n#[ignore = \"slow\"]\nfn a() {}", "#[ignore]"),
            ("#[cfg_attr(windows, ignore)]\nfn a() {}", "#[ignore]"),
            ("fn a() { std::thread::sleep(b); }", "std::thread::sleep"),
            ("use std::thread; fn a() { thread::sleep(b); }", "std::thread::sleep"),
        ] {
            let found = found("crates/everturn/tests/it/main.rs", source);
            assert_eq!(found.len(), 1, "{source}: {found:?}");
            assert!(found[0].contains(says), "{found:?}");
        }
    }

    #[test]
    fn finished_business_is_not() {
        for source in [
            "/// Do not ignore this; todo lists are data.\nfn todo(ignore: bool) {}",
            "use tokio::time::sleep; async fn a() { sleep(b).await; }",
            "#[test]\n#[ignore = \"a part that is played in another process\"]\nfn a() {}",
        ] {
            assert!(found("crates/everturn/tests/it/main.rs", source).is_empty(), "{source}");
        }
        let sleeps = "fn a() { std::thread::sleep(b); }";
        assert!(found("crates/everturn/benches/core.rs", sleeps).is_empty(), "a bench takes its time");
    }
}
