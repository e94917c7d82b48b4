//! Laws of permissions, over rules and calls that were thrown together.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::super::{command, glob};
use super::*;

const RULES: [&str; 12] = [
    "*",
    "read",
    "edit",
    "edit(src/**)",
    "edit(src/*.rs)",
    "read(**/secret)",
    "shell",
    "shell(git *)",
    "shell(* -f*)",
    "shell(rm *)",
    "mcp__*",
    "m*__find",
];

const COMMANDS: [&str; 9] =
    ["git status", "git push -f", "rm x", "git a && rm b", "ls", "ls > x", "sudo rm x", "git log | cat", ""];

fn rules() -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(RULES.to_vec(), 0..=4).prop_shuffle()
}

fn permissions() -> impl Strategy<Value = [Vec<&'static str>; 3]> {
    [rules(), rules(), rules()]
}

fn made([allow, ask, deny]: &[Vec<&'static str>; 3], otherwise: Otherwise) -> Permissions {
    let permissions = Permissions::default().allow(allow).unwrap().ask(ask).unwrap().deny(deny).unwrap();
    permissions.otherwise(otherwise)
}

fn call() -> impl Strategy<Value = (&'static str, RuleSubject)> {
    let paths = select(vec!["src/a.rs", "src/x/secret", "secret", ".", "b"]);
    prop_oneof![
        (select(vec!["read", "edit"]), paths.prop_map(path)),
        Just(("edit", RuleSubject::Unknown)),
        select(COMMANDS.to_vec()).prop_map(|text| ("shell", command_of(text))),
        select(vec!["mcp__a__find", "note"]).prop_map(|tool| (tool, RuleSubject::Nothing)),
    ]
}

fn command_of(text: &str) -> RuleSubject {
    RuleSubject::Command(text.into())
}

/// Characters that mean something to a shell, and a few that do not.
fn shell_text() -> impl Strategy<Value = String> {
    proptest::collection::vec(select("ab -'\"\\$`();&|<>*?[]{}~=!#/\n\t\u{e9}".chars().collect::<Vec<_>>()), 0..12)
        .prop_map(|chars| chars.into_iter().collect())
}

proptest! {
    #[test]
    fn the_order_of_rules_never_matters(mut lists in permissions(), (tool, subject) in call()) {
        let verdict = |lists: &[Vec<_>; 3]| made(lists, Otherwise::Ask).decide(tool, &subject, ToolConsent::Runs).verdict;
        let before = verdict(&lists);
        lists.iter_mut().for_each(|rules| rules.reverse());
        prop_assert_eq!(verdict(&lists), before);
    }

    #[test]
    fn a_stricter_list_is_never_milder(
        lists in permissions(),
        (tool, subject) in call(),
        more in select(RULES.to_vec()),
        otherwise in select(Otherwise::ALL.to_vec()),
    ) {
        let verdict = |lists: &[Vec<_>; 3]| made(lists, otherwise).decide(tool, &subject, ToolConsent::AsksPerson).verdict;
        let before = verdict(&lists);
        let with = |list: usize| {
            let mut lists = lists.clone();
            lists[list].push(more);
            verdict(&lists)
        };
        prop_assert!(with(2) >= before, "one more denial");
        prop_assert!(with(1) >= before.min(Verdict::Ask), "one more ask");
        prop_assert!(with(0) <= before, "one more permission");
    }

    #[test]
    fn a_grant_covers_the_call_it_was_made_for((tool, subject) in call()) {
        if let Some(rule) = grant_for(tool, &subject) {
            prop_assert!(granted(&rule).covers(tool, &subject, "terms", Timestamp(1)), "{}", rule);
        }
    }

    #[test]
    fn what_is_understood_means_the_same_in_quotes(text in shell_text()) {
        let Some(commands) = command::split(&text) else { return Ok(()) };
        let quoted = |word: &String| match word.contains('\'') {
            true => format!("\"{word}\""),
            false => format!("'{word}'"),
        };
        let line = |words: &Vec<String>| words.iter().map(quoted).collect::<Vec<_>>().join(" ");
        let again = commands.iter().map(line).collect::<Vec<_>>().join(" ; ");
        prop_assert_eq!(command::split(&again), Some(commands), "{}", again);
    }

    #[test]
    fn a_name_pattern_matches_as_its_definition_says(pattern in "[ab*?]{0,6}", text in "[ab]{0,6}") {
        fn defined(pattern: &[u8], text: &[u8]) -> bool {
            match (pattern, text) {
                ([], []) => true,
                ([b'*', rest @ ..], _) => (0..=text.len()).any(|skip| defined(rest, &text[skip..])),
                ([b'?', rest @ ..], [_, tail @ ..]) => defined(rest, tail),
                ([char, rest @ ..], [first, tail @ ..]) if char == first => defined(rest, tail),
                _ => false,
            }
        }
        let expected = defined(pattern.as_bytes(), text.as_bytes());
        prop_assert_eq!(glob::TextGlob::new(&pattern).matches(&text), expected);
    }
}
