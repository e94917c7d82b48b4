//! The store in Postgres, against a real server.

mod broken_line;
mod damaged;
mod elsewhere;
mod encrypted;
mod filing;
mod outage;
mod pooled;
mod schema;
mod searching;
mod takeover;
mod unpolled;

use std::sync::Arc;
use std::time::Duration;

use everturn_core::command::{Command, Delivery};
use everturn_core::ids::{ChatId, Timestamp};
use everturn_stores::postgres::PostgresOptions;
use everturn_stores::{NewChat, Postgres, Receipt, Store, Submission, SubmitError};
use everturn_testkit::rehearsal::sample::{chat_id, send};
use everturn_testkit::rehearsal::tiny_limits;

everturn_testkit::conformance! {
    /// CS01, CS02, CS03, CS05, CS10, CS13, CS15, CS17, CS23, CS24, PR13: Postgres keeps the rules of stores.
    #[test]
    fn conforms() -> Postgres {
        Postgres::open(&database(), PostgresOptions::default()).await.expect("it can be opened")
    }
}

everturn_testkit::conformance! {
    /// With every delta filed at once.
    #[test]
    fn conforms_when_all_is_filed() -> Postgres {
        let options = PostgresOptions { file_len_min: 1, ..PostgresOptions::default() };
        Postgres::open(&database(), options).await.expect("it can be opened")
    }
}

fn database() -> String {
    everturn_props::database().expect("a database can be made")
}

/// Leases that lapse while a test waits for it.
fn hasty() -> PostgresOptions {
    PostgresOptions {
        lease_max: Duration::from_secs(3),
        heartbeat: Duration::from_millis(150),
        ..PostgresOptions::default()
    }
}

async fn open(url: &str, options: PostgresOptions) -> Arc<Postgres> {
    Arc::new(Postgres::open(url, options).await.expect("it can be opened"))
}

async fn make(store: &Postgres, number: u128) -> ChatId {
    store.create(&NewChat::of(chat_id(number), "agent", "owner")).await.expect("a store makes chats");
    chat_id(number)
}

async fn submit(store: &Postgres, chat: ChatId, text: &str, key: Option<&str>) -> Result<Receipt, SubmitError> {
    let mut limits = tiny_limits();
    limits.queue_len_max = 10_000;
    let command: Command = send(text, Delivery::Queue);
    store.submit(chat, Submission { command, key: key.map(Into::into), at: Timestamp(0) }, &limits).await
}
