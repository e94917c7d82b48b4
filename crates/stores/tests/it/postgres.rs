//! The store in Postgres, against a server of its own.

use everturn_stores::Postgres;
use everturn_stores::postgres::Options;

everturn_stores::conformance! {
    /// CS01, CS02, CS03, CS05, CS10, CS13, CS15, CS17, CS23, CS24, PR13: Postgres keeps the rules of stores.
    #[test]
    fn postgres() -> Postgres {
        let url = everturn_props::database().expect("a database can be made");
        Postgres::open(&url, Options::default()).await.expect("it can be opened")
    }
}
