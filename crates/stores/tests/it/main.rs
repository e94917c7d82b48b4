//! Every store, held to the rules of stores.

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod reopened;
#[cfg(feature = "sqlite")]
mod scratch;
#[cfg(feature = "sqlite")]
mod sqlite;
mod tokens;

use everturn_stores::Memory;

everturn_stores::conformance! {
    /// CS02, CS03, CS05, CS10, CS13, CS15, CS17, CS23, CS24, PR13: the reference keeps the rules that the others are held to.
    #[test]
    fn memory() -> Memory {
        Memory::new()
    }
}

/// A case that is written and not listed never runs.
#[test]
fn every_case_is_listed() {
    let list = include_str!("../../src/conformance.rs");
    let cases = [
        include_str!("../../src/conformance/inbox.rs"),
        include_str!("../../src/conformance/lease.rs"),
        include_str!("../../src/conformance/journal.rs"),
        include_str!("../../src/conformance/commits.rs"),
        include_str!("../../src/conformance/reads.rs"),
        include_str!("../../src/conformance/making.rs"),
        include_str!("../../src/conformance/deleting.rs"),
        include_str!("../../src/conformance/unicode.rs"),
        include_str!("../../src/conformance/generated.rs"),
        include_str!("../../src/conformance/watchers.rs"),
    ];
    let names = cases.iter().flat_map(|file| file.split("\npub async fn ").skip(1));
    let names: Vec<&str> = names.filter_map(|rest| rest.split('<').next()).collect();
    assert!(names.len() > 40, "{names:?}");
    let unlisted: Vec<_> = names.iter().filter(|name| !list.contains(**name)).collect();
    assert!(unlisted.is_empty(), "not listed in conformance!: {unlisted:?}");
}
