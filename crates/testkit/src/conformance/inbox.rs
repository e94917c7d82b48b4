//! What others want of a chat is taken once, in order, or refused without a trace.

use std::collections::BTreeSet;
use std::sync::Arc;

use everturn_core::chat::TurnEnd;
use everturn_core::command::{Command, Delivery, Refusal};
use everturn_core::ids::{InboxSeq, MessageId, Timestamp};
use everturn_core::status::{Status, Verb};
use everturn_stores::{NewChat, Receipt, Store, StoreError, StoreExt as _, Submission, SubmitError};
use everturn_testkit::rehearsal::sample::{chat_id, send, words};
use everturn_testkit::rehearsal::tiny_limits;

use super::Witness;

/// How many senders repeat themselves at once.
const REPEATS: u64 = 1_000;
/// How many have something of their own to say at once.
const SENDERS: u64 = 100;

fn keyed(key: &str, command: Command) -> Submission {
    Submission { command, key: Some(key.into()), at: Timestamp(0) }
}

fn hello() -> Command {
    send("hello", Delivery::Queue)
}

/// Making a chat again changes nothing, neither its agent nor its owner.
pub async fn a_chat_is_made_once<S: Store>(store: Arc<S>) {
    let mut witness = Witness::new(&store, 1).await;
    witness.agrees().await;
    witness.say("hello").await;
    assert_eq!(store.create(&NewChat::of(witness.chat(), "another", "somebody else")).await, Ok(witness.chat()));
    witness.agrees().await;
}

/// I2: the same key with the same body gives the same receipt for the life of the chat, and has no second effect.
pub async fn a_key_has_one_effect<S: Store>(store: Arc<S>) {
    let mut witness = Witness::new(&store, 1).await;
    let submit = || store.submit(chat_id(1), keyed("k", hello()), &witness.limits);
    assert_eq!(store.receipt(chat_id(1), "k").await, Ok(None));
    let first = submit().await;
    assert_eq!(first, Ok(Receipt { chat: chat_id(1), seq: InboxSeq(1) }));
    assert_eq!(store.receipt(chat_id(1), "k").await.map_err(SubmitError::from), first.clone().map(Some));
    assert_eq!(store.receipt(chat_id(1), "k ").await, Ok(None));
    assert_eq!(store.receipt(chat_id(404), "k").await, Err(StoreError::NoSuchChat));
    assert_eq!(submit().await, first);
    witness.stage.submit_as(Some("k"), hello(), &tiny_limits()).expect("an empty chat takes a message");
    witness.agrees().await;
    witness.obey_next().await;
    let later = Submission { at: Timestamp(99), ..keyed("k", hello()) };
    assert_eq!(store.submit(chat_id(1), later, &witness.limits).await, first, "also once it was obeyed, and later");
    witness.agrees().await;
}

/// I2: the same key with another body is a conflict, whatever the chat would say to it; another chat has keys of its own.
pub async fn a_key_belongs_to_one_body_in_one_chat<S: Store>(store: Arc<S>) {
    let (mut witness, limits) = (Witness::new(&store, 1).await, tiny_limits());
    let other = Witness::new(&store, 2).await;
    let submit = |chat, command| store.submit(chat, keyed("k", command), &limits);
    submit(chat_id(1), hello()).await.expect("an empty chat takes a message");
    witness.stage.submit_as(Some("k"), hello(), &limits).expect("as its picture does");
    for command in [send("bye", Delivery::Queue), send("hello", Delivery::Steer), Command::Archive] {
        assert_eq!(submit(chat_id(1), command).await, Err(SubmitError::Conflict));
    }
    witness.agrees().await;
    other.agrees().await;
    assert_eq!(submit(chat_id(2), hello()).await, Ok(Receipt { chat: chat_id(2), seq: InboxSeq(1) }));
    witness.agrees().await;
}

/// I2: however many repeat themselves at the same time, one command is stored, and all get its receipt.
pub async fn parallel_repeats_make_one_command<S: Store>(store: Arc<S>) {
    let mut witness = Witness::new(&store, 1).await;
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..REPEATS {
        let store = store.clone();
        senders.spawn(async move { store.submit(chat_id(1), keyed("k", hello()), &tiny_limits()).await });
    }
    for receipt in senders.join_all().await {
        assert_eq!(receipt, Ok(Receipt { chat: chat_id(1), seq: InboxSeq(1) }));
    }
    witness.stage.submit_as(Some("k"), hello(), &tiny_limits()).expect("an empty chat takes a message");
    witness.agrees().await;
}

/// CS03: commands that come at the same time are taken one after the other: none is lost, and no two have one number.
pub async fn parallel_commands_have_numbers_of_their_own<S: Store>(store: Arc<S>) {
    let witness = Witness::new(&store, 1).await;
    let mut limits = tiny_limits();
    limits.queue_len_max = SENDERS as usize;
    let mut senders = tokio::task::JoinSet::new();
    for i in 0..SENDERS {
        let (store, limits) = (store.clone(), limits.clone());
        let submission = Submission { command: send(&format!("{i}"), Delivery::Queue), key: None, at: Timestamp(0) };
        senders.spawn(async move { store.submit(chat_id(1), submission, &limits).await });
    }
    let receipts = senders.join_all().await.into_iter().map(|receipt| receipt.map(|receipt| receipt.seq.0));
    assert_eq!(receipts.collect::<Result<BTreeSet<_>, _>>(), Ok((1..=SENDERS).collect()));
    let stored = store.inbox(witness.chat()).await.expect("the chat is there");
    assert_eq!(stored.iter().map(|inbound| inbound.seq.0).collect::<Vec<_>>(), (1..=SENDERS).collect::<Vec<_>>());
    let words: BTreeSet<_> = stored.iter().map(|inbound| format!("{:?}", inbound.command)).collect();
    assert_eq!(words.len(), SENDERS as usize, "each of them once");
}

/// CS10, CS15: a command that does not fit is refused by name; nothing is stored, told or counted, and its key is
/// free.
pub async fn a_refused_command_leaves_no_trace<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    let cursor = witness.now().await;
    let edit = |message, text| Command::Edit { message: MessageId(message), parts: words(text) };
    let cases = [
        (send(" ", Delivery::Queue), Refusal::Empty),
        (Command::Promote(InboxSeq(1)), Refusal::NotQueued),
        (Command::Unqueue(InboxSeq(9)), Refusal::NotQueued),
        (edit(1, ""), Refusal::Empty),
        (edit(7, "again"), Refusal::NotEditable),
        (Command::Answer([].into()), Refusal::Status(Status::Running, Verb::Answer)),
        (Command::Compact, Refusal::Status(Status::Running, Verb::Compact)),
        (Command::Archive, Refusal::Status(Status::Running, Verb::Archive)),
    ];
    for (command, refusal) in cases {
        let refused = store.submit(witness.chat(), keyed("k", command.clone()), &witness.limits).await;
        assert_eq!(refused, Err(SubmitError::Refused(refusal)), "{command:?}");
        assert_eq!(witness.submit(command).await, Err(refusal));
        assert_eq!(witness.since(Some(cursor)).await, None);
    }
    witness.agrees().await;
    let free = store.submit(witness.chat(), keyed("k", hello()), &witness.limits).await;
    assert_eq!(free, Ok(Receipt { chat: witness.chat(), seq: InboxSeq(2) }));
}

/// A command is checked against the chat it will meet, with whatever was accepted before it.
pub async fn commands_are_checked_against_what_is_on_its_way<S: Store>(store: Arc<S>) {
    let mut witness = Witness::new(&store, 1).await;
    witness.submit(Command::Archive).await.expect("an idle chat can be put away");
    assert_eq!(witness.submit(hello()).await, Err(Refusal::Archived));
    witness.submit(Command::Unarchive).await.expect("and taken out again");
    witness.submit(hello()).await.expect("and written to");
    assert_eq!(witness.submit(Command::Archive).await, Err(Refusal::Status(Status::Running, Verb::Archive)));
    witness.agrees().await;
    while witness.stage.pending().next().is_some() {
        witness.obey_next().await;
    }
    witness.agrees().await;
}

/// What became of a command is unknown until the driver has come to it, and known for ever after.
pub async fn an_outcome_is_known_once_obeyed<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    let interrupt = witness.submit(Command::Interrupt).await.expect("a turn is under way");
    assert_eq!(store.outcome(witness.chat(), interrupt).await, Ok(None));
    witness.change(|change| change.finish(TurnEnd::Done)).await;
    witness.obey_next().await;
    assert_eq!(store.outcome(witness.chat(), interrupt).await, Ok(Some(Ok(()))), "a chat at rest has stopped");
    for unknown in [0, 3, u64::MAX] {
        assert_eq!(store.outcome(witness.chat(), InboxSeq(unknown)).await, Ok(None), "{unknown}");
    }
    witness.agrees().await;
}

/// Commands are read oldest first and leave one by one.
pub async fn obeyed_commands_leave_the_inbox_in_order<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    for when in [Delivery::Queue, Delivery::Steer, Delivery::Now] {
        witness.submit(send("more", when)).await.expect("there is room");
    }
    for _ in 0..3 {
        witness.agrees().await;
        witness.obey_next().await;
    }
    witness.agrees().await;
}

/// CS13: a full queue refuses the next message, whether the others wait in it or still in the inbox.
pub async fn a_full_queue_is_full<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    for i in 0..witness.limits.queue_len_max {
        witness.submit(hello()).await.expect("there is room");
        if i % 2 == 0 {
            witness.obey_next().await;
        }
    }
    assert_eq!(witness.submit(hello()).await, Err(Refusal::QueueFull));
    witness.submit(Command::Unqueue(InboxSeq(2))).await.expect("it waits");
    witness.submit(hello()).await.expect("there is room again");
    witness.agrees().await;
}
