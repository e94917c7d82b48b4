//! I19: what is read does not grow with how long a chat is, nor with what people have sent to it.

use std::sync::Arc;

use everturn_core::blob::Blob;
use everturn_core::command::{Command, Delivery};
use everturn_core::delta::Delta;
use everturn_core::ids::{MessageId, Seq, StepId, Version};
use everturn_core::message::{Body, File, Message, Meta, Part};
use everturn_core::view::{Cursor, Event};
use everturn_stores::{MessageRange, MessageReader, PAGE_BYTES_MAX, PAGE_LEN_MAX, Store, StoreExt as _};
use everturn_testkit::rehearsal::sample::{attempt, text, words};

use super::Witness;
use super::reads::folded;

/// I19: a subscriber that missed more than a page gets the newest page instead; one that missed a page gets the events.
pub async fn a_subscriber_that_missed_too_much_gets_a_page<S: Store>(store: Arc<S>) {
    for (number, commits) in [(1, 1), (2, PAGE_LEN_MAX)] {
        let mut witness = Witness::in_a_turn(&store, number).await;
        let (seen, cursor) = (witness.snapshot(), witness.now().await);
        for _ in 0..commits {
            says(&mut witness, PAGE_LEN_MAX / commits, "a page ").await;
        }
        witness.journal(vec![attempt(), text("Hel")]).await;
        let news = witness.since(Some(cursor)).await.expect("there is news");
        assert_eq!(folded(seen, &news.events).messages, witness.stage.transcript);
        assert!(!matches!(&news.events[..], [Event::Reset(_)]), "a page is told");
        says(&mut witness, 1, "one more ").await;
        for cursor in [cursor, Cursor { version: Version(1), step: StepId(1), seq: Seq(0) }] {
            let news = witness.since(Some(cursor)).await.expect("there is news");
            let [Event::Reset(shown)] = &news.events[..] else { panic!("{} events", news.events.len()) };
            witness.is_shown(shown);
            assert_eq!(news.cursor, witness.now().await);
        }
    }
}

/// I19: a page is as long as its messages allow, and has at least one; a subscriber that missed more gets a page.
pub async fn long_messages_make_short_pages<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    let cursor = witness.now().await;
    let long = |parts: usize| Body::Context("x".repeat(PAGE_BYTES_MAX / parts));
    for body in [long(4), long(4), long(4), long(1), long(4), long(4)] {
        witness.change(|change| change.say(body)).await;
    }
    let (chat, ids) = (witness.chat(), |page: &[Arc<Message>]| page.iter().map(|m| m.id.0).collect::<Vec<_>>());
    let page = async |before: Option<u64>| {
        ids(&store.messages(chat, MessageRange::Before(before.map(MessageId), 9)).await.expect("it is there"))
    };
    let after = async |after: u64| {
        ids(&store.messages(chat, MessageRange::After(MessageId(after), 9)).await.expect("it is there"))
    };
    let newest = witness.stage.chat.newest.0;
    assert_eq!(newest, 7);
    assert_eq!((page(None).await, page(Some(6)).await, page(Some(5)).await), (vec![6, 7], vec![5], vec![1, 2, 3, 4]));
    assert_eq!((page(Some(4)).await, page(Some(2)).await), (vec![1, 2, 3], vec![1]));
    assert_eq!((after(0).await, after(3).await, after(4).await), (vec![1, 2, 3, 4], vec![4], vec![5]));
    assert_eq!((after(5).await, after(7).await), (vec![6, 7], vec![]));
    assert_eq!(store.transcript(chat).await.map(|all| all.len()), Ok(7), "all there is is all");
    let near = Cursor { version: Version(witness.stage.chat.version.0 - 2), ..witness.now().await };
    let news = witness.since(Some(near)).await.expect("there is news");
    assert!(matches!(&news.events[..], [Event::Message(_), Event::Message(_), Event::Standing(_)]), "a page is told");
    let news = witness.since(Some(cursor)).await.expect("there is news");
    let [Event::Reset(shown)] = &news.events[..] else { panic!("{} events", news.events.len()) };
    assert_eq!(ids(&shown.messages), [6, 7]);
}

/// Says so many things in one commit.
pub(super) async fn says<S: Store>(witness: &mut Witness<S>, len: usize, words: &str) {
    let facts = witness
        .stage
        .change(|change| (0..len).fold(change, |change, n| change.say(Body::Context(format!("{words}{n}")))));
    witness.commit(&facts).await;
}

/// I19: bytes are read for a message that is requested by its number, and for drivers in what is not committed yet.
/// Pages, streams and snapshots have the number of bytes only.
pub async fn bytes_are_read_for_whom_they_are<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    let file = |bytes: Blob| File { name: "a".into(), media_type: "a/b".into(), bytes: Some(bytes), meta: Meta::new() };
    let said = |bytes: Blob| -> Arc<[Part]> { Arc::new([Part::File(file(bytes))]) };
    let (whole, light) = (|| Blob::from(vec![7; 100_000]), || Blob::Kept(100_000));
    let cursor = witness.now().await;
    witness.obey(Command::Send { parts: said(whole()), when: Delivery::Steer }).await;
    witness.change(|change| change.begin()).await;
    witness.obey(Command::Send { parts: said(whole()), when: Delivery::Queue }).await;
    witness.journal(vec![attempt(), Delta::File(Box::new(file(whole())))]).await;
    witness.agrees().await;

    let (chat, number) = (witness.chat(), witness.stage.chat.newest);
    let is_light = |message: &Message| matches!(&message.body, Body::User(parts) if parts[..] == said(light())[..]);
    let standing = store.standing(chat).await.expect("the chat is there");
    assert_eq!(standing.queue[0].parts, said(light()));
    assert!(is_light(&store.messages(chat, MessageRange::Before(None, 1)).await.expect("the chat is there")[0]));
    assert!(is_light(
        &store.messages(chat, MessageRange::After(MessageId(number.0 - 1), 1)).await.expect("the chat is there")[0]
    ));
    let news = witness.since(Some(cursor)).await.expect("there is news");
    let told = |event: &Event| match event {
        Event::Message(message) => is_light(message),
        Event::Standing(standing) => standing.queue[0].parts == said(light()),
        Event::Delta(row) => !matches!(&*row.delta, Delta::File(told) if **told != file(light())),
        Event::Rewound(_) | Event::Reset(_) => false,
    };
    assert!(news.events.iter().all(told), "{:?}", news.events);
    let near = Cursor { seq: Seq(1), ..news.cursor };
    assert!(witness.since(Some(near)).await.expect("there is news").events.iter().all(told), "from memory too");

    let loaded = store.load(&witness.lease).await.expect("the lease is ours");
    assert!(is_light(loaded.messages.last().expect("it was said")));
    assert_eq!(loaded.chat.queue[0].parts, said(whole()));
    assert_eq!(*loaded.rows[1].delta, Delta::File(Box::new(file(whole()))));
    let message =
        store.message(chat, number, MessageReader::Client).await.expect("the chat is there").expect("it was said");
    assert!(message.is_whole() && message == *witness.stage.transcript.last().expect("it was said"));
    for missing in [0, number.0 + 1, u64::MAX] {
        assert_eq!(store.message(chat, MessageId(missing), MessageReader::Client).await, Ok(None), "{missing}");
    }
    witness.obey(Command::Edit { message: number, parts: words("again") }).await;
    assert_eq!(store.message(chat, number, MessageReader::Client).await, Ok(None), "it was rewound");
}
