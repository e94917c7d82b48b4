//! The store in a data directory, held to the rules of stores and to its own.

use crate::housed::Housed;

everturn_stores::conformance! {
    /// CS02, CS03, CS05, CS10, CS13, CS15, CS17, CS23, CS24, PR13: SQLite keeps the rules of stores.
    #[test]
    fn kept_open() -> Housed {
        Housed::new(u64::MAX)
    }
}

everturn_stores::conformance! {
    /// CS05, CS24: and nobody can tell that it was closed and opened again in between.
    #[test]
    fn opened_again() -> Housed {
        Housed::new(41)
    }
}
