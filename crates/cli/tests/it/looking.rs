//! Looking at chats in Postgres changes nothing, and is not fooled by servers that are at work.

use everturn::core::ids::ChatId;
use everturn::stores::{Postgres, postgres};
use everturn_props::shared::psql;
use serde_json::json;

use crate::daemon::everturn;
use crate::doctor::store_as_it_is;

/// A chat in which a tool was called, and has answered.
async fn store_call(url: &str) -> ChatId {
    let store = Postgres::open(url, postgres::PostgresOptions::default()).await.unwrap();
    let said = json!([
        {"role": "user", "content": "Pay."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "paid"}]},
    ]);
    store_as_it_is(&store, &said).await
}

async fn looked(url: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let output = everturn(arguments).env("DATABASE_URL", url).output().await.unwrap();
    let told = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), told)
}

fn asked(url: &str, sql: &str) -> String {
    psql(url, sql).unwrap().trim().to_owned()
}

/// A command that only reads creates and migrates no table, and registers no worker that others would wait for.
#[tokio::test]
async fn looking_writes_nothing() {
    const TABLES: &str = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()";
    const SCHEMA: &str = "SELECT version FROM everturn_schema";
    const WORKERS: &str = "SELECT last_value FROM workers_id_seq";
    let url = everturn_props::database().unwrap();
    let missing = "01kdg1qg7v3m8s1t1j0a9n2x4c";
    for arguments in [vec!["doctor"], vec!["replay", missing]] {
        let (code, told) = looked(&url, &arguments).await;
        assert!(code == Some(1) && told.contains("start a server on it first"), "{told}");
        assert_eq!(asked(&url, TABLES), "0");
    }
    let chat = store_call(&url).await.to_string();
    let (newest, workers) = (asked(&url, SCHEMA), asked(&url, WORKERS));
    for (version, said) in [("2", format!("schema 2, and this program reads {newest}")), ("99", "upgrade it".into())] {
        asked(&url, &format!("UPDATE everturn_schema SET version = {version}"));
        for arguments in [vec!["doctor"], vec!["doctor", &chat], vec!["replay", &chat]] {
            let (code, told) = looked(&url, &arguments).await;
            assert!(code == Some(1) && told.contains(&said), "{told}");
        }
        assert_eq!(asked(&url, SCHEMA), version);
    }
    asked(&url, &format!("UPDATE everturn_schema SET version = {newest}"));
    for (arguments, said) in
        [(vec!["doctor"], "is in order"), (vec!["doctor", &chat], "no flaws"), (vec!["replay", &chat], "paid")]
    {
        let (code, told) = looked(&url, &arguments).await;
        assert!(code == Some(0) && told.contains(said), "{told}");
    }
    assert_eq!(asked(&url, WORKERS), workers);
}

/// A turn that ends during the inspection has not lost a call: what is compared is of one moment.
#[tokio::test]
async fn a_turn_that_ends_meanwhile_is_no_flaw() {
    let url = everturn_props::database().unwrap();
    let chat = store_call(&url).await.to_string();
    // What the tool says next.
    asked(&url, "CREATE TABLE next AS SELECT * FROM messages ORDER BY id DESC LIMIT 1");
    for arguments in [vec!["doctor"], vec!["doctor", &chat]] {
        asked(&url, "DELETE FROM messages USING next WHERE messages.id = next.id; UPDATE chats SET status = 'running'");
        let server = url.clone();
        let says = tokio::task::spawn_blocking(move || {
            let waits = "SELECT 1 FROM pg_locks WHERE relation = 'messages'::regclass AND NOT granted";
            let until = format!("DO $$ BEGIN WHILE NOT EXISTS ({waits}) LOOP PERFORM pg_sleep(0.01); END LOOP; END $$");
            let says = "INSERT INTO messages SELECT * FROM next; UPDATE chats SET status = 'idle'";
            psql(&server, &format!("BEGIN; LOCK TABLE messages; {until}; {says}; COMMIT")).unwrap();
        });
        let held =
            "SELECT count(*) FROM pg_locks WHERE relation = 'messages'::regclass AND mode = 'AccessExclusiveLock'";
        while asked(&url, held) == "0" {}
        let (code, told) = looked(&url, &arguments).await;
        says.await.unwrap();
        assert!(code == Some(0) && told.contains("2 messages"), "{told}");
        let (code, told) = looked(&url, &arguments).await;
        assert!(code == Some(0) && told.contains("3 messages"), "{told}");
    }
}
