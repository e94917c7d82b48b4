//! The house rules, held against this repository.

use xtask::{acceptance, tidy, workspace};

#[test]
fn the_repository_is_tidy() {
    let violations = tidy::check(&workspace::root()).expect("our own files can be read");
    let lines: Vec<_> = violations.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} to mend:\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn tests_and_waivers_name_only_behaviours_that_are_listed() {
    let violations = acceptance::unknown_ids(&workspace::root()).expect("our own files can be read");
    let lines: Vec<_> = violations.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} to mend:\n{}", lines.len(), lines.join("\n"));
}
