//! A deleted chat is gone, for everybody and for good.

use std::sync::Arc;

use everturn_core::command::{Command, Delivery};
use everturn_core::ids::{Fence, InboxSeq, MessageId, Timestamp};
use everturn_core::message::{Body, File, Meta, Part};
use everturn_core::view::{Cursor, JournalRow};
use everturn_stores::{
    ChatQuery, Lease, MessageRange, NewChat, Store, StoreError, StoreExt as _, Submission, SubmitError, WriteError,
};
use everturn_testkit::rehearsal::sample::{attempt, chat_id, send, text, words};
use everturn_testkit::rehearsal::tiny_limits;

use super::Witness;

async fn is_gone<S: Store>(store: &Arc<S>, cursor: Cursor) {
    let (chat, gone) = (chat_id(1), StoreError::NoSuchChat);
    assert_eq!(store.heading(chat).await, Err(gone.clone()));
    assert_eq!(store.since(chat, Some(cursor)).await, Err(gone.clone()), "also for a reader at the end");
    assert_eq!(store.since(chat, None).await, Err(gone.clone()));
    assert_eq!(store.transcript(chat).await, Err(gone.clone()));
    assert_eq!(store.messages(chat, MessageRange::After(MessageId(0), 9)).await, Err(gone.clone()));
    assert_eq!(store.attempts(chat, 0, 9).await, Err(gone.clone()));
    assert_eq!(store.calls(chat).await, Err(gone.clone()));
    assert_eq!(store.inbox(chat).await, Err(gone.clone()));
    assert_eq!(store.outcome(chat, InboxSeq(1)).await, Err(gone.clone()));
    assert_eq!(store.acquire(chat).await.map(drop), Err(gone.clone().into()));
    let submission = Submission { command: send("hello", Delivery::Queue), key: None, at: Timestamp(0) };
    assert_eq!(store.submit(chat, submission, &tiny_limits()).await, Err(SubmitError::Store(gone)));
    let found =
        store.headings(&ChatQuery { text: "hello".into(), owner: Some("owner".into()), ..ChatQuery::default() }).await;
    assert!(found.expect("it can be asked").iter().all(|heading| heading.id != chat));
    assert!(store.unsettled().await.expect("it can be asked").iter().all(|found| found.chat != chat));
}

/// Everything goes: what was said, what waits, the draft, what was started and what was paid. Others stay.
pub async fn nothing_is_left_of_a_deleted_chat<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    let other = Witness::in_a_turn(&store, 2).await;
    witness.obey(Command::Edit { message: MessageId(1), parts: words("hello again") }).await;
    let file = File { name: "a".into(), media_type: "a/b".into(), bytes: Some([7].into()), meta: Meta::new() };
    witness.obey(Command::Send { parts: Arc::new([Part::File(file)]), when: Delivery::Queue }).await;
    witness.submit(send("more", Delivery::Queue)).await.expect("there is room");
    witness.journal(vec![attempt(), text("Hel")]).await;
    let cursor = witness.now().await;
    store.delete(witness.lease).await.expect("the lease is ours");
    is_gone(&store, cursor).await;
    other.agrees().await;
}

/// I6: a driver of a deleted chat changes nothing, and brings nothing back.
pub async fn a_deleted_chat_is_not_written_to<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    witness.journal(vec![attempt()]).await;
    let cursor = witness.now().await;
    let mut old = witness.take_over().await;
    let facts = witness.stage.change(|change| change.say(Body::Context("a ghost".into())));
    let row = JournalRow { seq: cursor.seq.next(), ..witness.stage.rows[0].clone() };
    let mut newest = Lease::granted(witness.chat(), witness.lease.fence(), Fence(0));
    store.delete(witness.lease).await.expect("the lease is ours");
    let gone = WriteError::Store(StoreError::NoSuchChat);
    for lease in [&mut old, &mut newest] {
        assert_eq!(store.append_and_wait(lease.append_right(), vec![row.clone()]).await, Err(gone.clone()));
        assert_eq!(store.commit(lease, &facts).await, Err(gone.clone()));
        assert_eq!(store.load(lease).await.map(drop), Err(gone.clone()));
    }
    assert_eq!(store.delete(newest).await, Err(gone), "nor is it deleted twice");
    assert_eq!(store.release(old).await, Ok(()));
    is_gone(&store, cursor).await;
}

/// A chat of the same id, and one of the same key, are new ones: nothing of before is in them, and no lease of before
/// opens them.
pub async fn a_deleted_chat_can_be_made_anew<S: Store>(store: Arc<S>) {
    let new = NewChat { key: Some("k".into()), ..NewChat::of(chat_id(1), "agent", "owner") };
    for round in 0..3 {
        assert_eq!(store.create(&new).await, Ok(chat_id(1)));
        let mut witness = Witness::new(&store, 1).await;
        witness.agrees().await;
        witness.say("hello").await;
        witness.journal(vec![attempt(), text("Hel")]).await;
        let fence = witness.lease.fence();
        assert_eq!(store.keyed("owner", "k").await, Ok(Some(chat_id(1))));
        store.delete(witness.lease).await.expect("the lease is ours");
        assert_eq!(store.keyed("owner", "k").await, Ok(None), "a key goes with its chat");
        store.create(&new).await.expect("it can be made again");
        let again = Witness::new(&store, 1).await;
        assert!(again.lease.fence() > fence, "round {round}");
        again.is_shut_out(&mut Lease::granted(chat_id(1), fence, Fence(0)), &WriteError::Fenced).await;
    }
}

/// I6: only the newest lease deletes.
pub async fn deleting_takes_the_newest_lease<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    let old = witness.take_over().await;
    assert_eq!(store.delete(old).await, Err(WriteError::Fenced));
    witness.agrees().await;
    let nowhere = store.delete(Lease::granted(chat_id(404), witness.lease.fence(), Fence(0))).await;
    assert_eq!(nowhere, Err(StoreError::NoSuchChat.into()));
}
