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

everturn_testkit::conformance! {
    /// CS02, CS03, CS05, CS10, CS13, CS15, CS17, CS23, CS24, PR13: the reference keeps the rules that the others are held to.
    #[test]
    fn memory() -> Memory {
        Memory::new()
    }
}
