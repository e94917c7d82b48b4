//! Texts in the database that are not what was written. Only their own chats are harmed.

use everturn_props::shared::psql;
use everturn_stores::postgres::PostgresOptions;
use everturn_stores::{ChatQuery, NewChat, Store as _, StoreError, StoreExt as _, WriteError};
use everturn_testkit::conformance::Witness;
use everturn_testkit::rehearsal::sample::{attempt, chat_id, text};

use super::{database, open};

/// A message that was changed by hand, or is no text any more, is told when it is read; other chats go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_message_harms_its_own_chat_alone() {
    // No input of the database takes such a text, so its bytes are called one.
    let not_text = "CREATE CAST (bytea AS text) WITHOUT FUNCTION;
        UPDATE messages SET body = CAST(convert_to(body, 'UTF8') || '\\xff'::bytea AS text) WHERE chat = ";
    let flipped = "UPDATE messages SET body = replace(body, 'hello', 'hellp') WHERE chat = ";
    for damage in [flipped, not_text] {
        let url = database();
        let store = open(&url, PostgresOptions::default()).await;
        let mut whole = Witness::in_a_turn(&store, 1).await;
        let lost = Witness::in_a_turn(&store, 2).await;
        psql(&url, &format!("{damage} '\\x{:032x}'", lost.chat().as_u128())).expect("it can be written");
        let is_damaged = |told: &StoreError| matches!(told, StoreError::Damaged(_));
        let told = store.transcript(lost.chat()).await.expect_err("it is damaged");
        assert!(is_damaged(&told), "{told}");
        let told = store.since(lost.chat(), None).await.expect_err("it is damaged");
        assert!(is_damaged(&told), "{told}");
        let told = store.load(&lost.lease).await.expect_err("it is damaged");
        assert!(matches!(&told, WriteError::Store(told) if is_damaged(told)), "{told}");
        store.state(&lost.lease).await.expect("the chat itself is whole");
        whole.agrees().await;
        whole.journal(vec![attempt(), text("goes on")]).await;
    }
}

/// A list leaves out chats that cannot be read, and its pages stay full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_leaves_out_only_damaged_chats() {
    let url = database();
    let store = open(&url, PostgresOptions::default()).await;
    for number in 1..=9 {
        store.create(&NewChat::of(chat_id(number), "agent", "owner")).await.expect("a store makes chats");
    }
    for (number, damage) in [(2, "title = '\\xff'"), (5, "status = 'asleep'"), (6, "agent = '\\xff'")] {
        let id = chat_id(number).as_u128();
        psql(&url, &format!("UPDATE chats SET {damage} WHERE id = '\\x{id:032x}'")).expect("it can be written");
    }
    let (mut found, mut query) = (Vec::new(), ChatQuery { len: 2, ..ChatQuery::default() });
    loop {
        let page = store.headings(&query).await.expect("it can be asked");
        let Some(last) = page.last() else { break };
        assert!(page.len() == 2, "a page that is not full would be the last for clients");
        query.after = Some(last.place());
        found.extend(page.into_iter().map(|heading| heading.id));
    }
    assert_eq!(found, [9, 8, 7, 4, 3, 1].map(chat_id));
    let told = store.heading(chat_id(5)).await.expect_err("it is damaged");
    assert!(matches!(told, StoreError::Unreadable(_)), "{told}");
}

/// Journal rows of some chats are damaged. A takeover finds the other chats complete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_batch_harms_its_own_chats_alone() {
    let url = database();
    let one = open(&url, PostgresOptions::default()).await;
    let (mut whole, mut lost) = (Witness::in_a_turn(&one, 1).await, Witness::in_a_turn(&one, 2).await);
    for witness in [&mut whole, &mut lost] {
        witness.journal(vec![attempt(), text("Hello")]).await;
    }
    let damage = "UPDATE tail SET body = replace(tail.body, 'Hello', 'Hellp') FROM chats
        WHERE no = ANY (nos) AND chats.id = '\\x";
    psql(&url, &format!("{damage}{:032x}'", lost.chat().as_u128())).expect("it can be written");
    psql(&url, "DELETE FROM workers").expect("it can be written");
    let two = open(&url, PostgresOptions::default()).await;
    let lease = two.acquire(whole.chat()).await.expect("its holder is given up");
    let loaded = two.load(&lease).await.expect("it is whole");
    assert_eq!(loaded.rows.len(), 2);
    let lease = two.acquire(lost.chat()).await.expect("its holder is given up");
    let told = two.load(&lease).await.expect_err("it is damaged");
    assert!(matches!(told, WriteError::Store(StoreError::Damaged(_))), "{told}");
    two.state(&lease).await.expect("the chat itself is whole");
}
