//! Reading tells what is there, changes nothing, and never stops half-way through a commit.

use std::collections::BTreeSet;
use std::sync::Arc;

use everturn_core::chat::{CallState, TurnEnd};
use everturn_core::command::{Command, Delivery};
use everturn_core::ids::{Fence, InboxSeq, MessageId, Seq, StepId, Timestamp, Version};
use everturn_core::message::{Body, Stop};
use everturn_core::status::Status;
use everturn_core::view::{Cursor, Event, Snapshot, Standing, View};
use everturn_stores::{
    ChatQuery, Heading, Lease, MessageRange, MessageReader, NewChat, Store, StoreError, StoreExt as _, Submission,
    SubmitError, Unsettled, WriteError,
};
use everturn_testkit::rehearsal::sample::{attempt, call, chat_id, reply, send, text, words};
use everturn_testkit::rehearsal::tiny_limits;

use super::Witness;
use super::bounds::says;
use super::witness::PAGE_LEN_MIN;

/// CS02: whatever is asked about a chat that is not there, the answer is an error that says so.
pub async fn a_chat_that_is_not_there_is_an_error<S: Store>(store: Arc<S>) {
    let (chat, gone) = (chat_id(404), StoreError::NoSuchChat);
    let submission = Submission { command: send("hello", Delivery::Queue), key: Some("k".into()), at: Timestamp(0) };
    let submitted = store.submit(chat, submission, &tiny_limits()).await;
    assert_eq!(submitted, Err(SubmitError::Store(gone.clone())));
    assert_eq!(store.heading(chat).await, Err(gone.clone()));
    assert_eq!(store.outcome(chat, InboxSeq(1)).await, Err(gone.clone()));
    assert_eq!(store.acquire(chat).await.map(drop), Err(gone.clone().into()));
    assert_eq!(store.inbox(chat).await, Err(gone.clone()));
    assert_eq!(store.since(chat, None).await, Err(gone.clone()));
    assert_eq!(store.since(chat, Some(Cursor::default())).await, Err(gone.clone()));
    assert_eq!(store.transcript(chat).await, Err(gone.clone()));
    assert_eq!(store.attempts(chat, 0, 9).await, Err(gone.clone()));
    assert_eq!(store.calls(chat).await, Err(gone.clone()));
    assert_eq!(store.messages(chat, MessageRange::Before(None, 9)).await, Err(gone.clone()));
    assert_eq!(store.message(chat, MessageId(1), MessageReader::Client).await, Err(gone.clone()));
    assert_eq!(store.standing(chat).await, Err(gone.clone()));
    let mut forged = Lease::granted(chat, Fence(1), Fence(0));
    let gone = WriteError::Store(gone);
    assert_eq!(store.load(&forged).await.map(drop), Err(gone.clone()));
    assert_eq!(store.append_and_wait(forged.append_right(), Vec::new()).await, Err(gone.clone()));
    assert_eq!(store.commit(&mut forged, &[]).await, Err(gone));
    assert_eq!(store.unsettled().await, Ok(Vec::new()), "and asking has not made it");
}

/// CS02: reading raises no version, takes no lease and notifies no process.
pub async fn reading_changes_nothing<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    witness.journal(vec![attempt(), text("Hel")]).await;
    witness.submit(Command::Interrupt).await.expect("a turn is under way");
    let cursor = witness.now().await;
    for _ in 0..3 {
        witness.agrees().await;
        store.unsettled().await.expect("it can be asked");
    }
    assert_eq!(witness.since(Some(cursor)).await, None);
    witness.journal(vec![text("lo")]).await;
    witness.agrees().await;
}

/// A list shows those first in which something was said last, and goes on where it ended. What is asked for is found by
/// owner, by whether it is put away, and by its title in whatever case.
pub async fn chats_are_listed_and_found<S: Store>(store: Arc<S>) {
    let titles = ["Zürich weather", "100% of_it", "ZÜRICH again", "its weather\\", "αΣ"];
    let mut chats = Vec::new();
    for (title, number) in titles.into_iter().zip(1..) {
        let mut witness = Witness::new(&store, number).await;
        witness.stage.now = Timestamp([30, 10, 20, 20, 20][number as usize - 1]);
        witness.say(title).await;
        chats.push(witness);
    }
    chats[1].change(|change| change.finish(TurnEnd::Done)).await;
    chats[1].obey(Command::Archive).await;
    store.create(&NewChat::of(chat_id(6), "agent", "somebody else")).await.expect("a store makes chats");
    let found = async |query: ChatQuery| -> Vec<u128> {
        let found = store.headings(&query).await.expect("it can be asked");
        found.iter().map(|heading| (1..=8).find(|number| chat_id(*number) == heading.id).unwrap_or(0)).collect()
    };
    let of = |owner: &str| ChatQuery { owner: Some(owner.into()), ..ChatQuery::default() };
    assert_eq!(found(of("owner")).await, [1, 5, 4, 3, 2], "the newest words first, then the newest chat");
    assert_eq!(found(of("somebody else")).await, [6]);
    assert_eq!(found(of("")).await, [], "nobody's is nobody's");
    let put_away = |archived| ChatQuery { archived: Some(archived), ..of("owner") };
    assert_eq!((found(put_away(true)).await, found(put_away(false)).await), (vec![2], vec![1, 5, 4, 3]));
    for (text, expected) in [
        ("zürich", vec![1, 3]),
        ("WEATHER", vec![1, 4]),
        ("%", vec![2]),
        ("f_i", vec![2]),
        ("\\", vec![4]),
        ("Σ", vec![5]),
    ] {
        assert_eq!(found(ChatQuery { text: text.into(), ..of("owner") }).await, expected, "{text}");
    }
    let internal = NewChat { internal: true, ..NewChat::of(chat_id(7), "agent", "inside") };
    store.create(&internal).await.expect("a store makes chats");
    store.create(&NewChat::of(chat_id(8), "agent", "inside")).await.expect("a store makes chats");
    for (asked, expected) in [(None, vec![8, 7]), (Some(false), vec![8]), (Some(true), vec![7])] {
        assert_eq!(found(ChatQuery { internal: asked, ..of("inside") }).await, expected, "{asked:?}");
    }
    let heading = store.heading(chat_id(7)).await.expect("it is there");
    assert!(heading.internal && store.standing(chat_id(7)).await.is_ok());
    let mut after = None;
    for expected in [[1, 5], [4, 3]] {
        let page = store.headings(&ChatQuery { after, len: 2, ..of("owner") }).await.expect("it can be asked");
        assert_eq!(page.iter().map(|heading| heading.id).collect::<Vec<_>>(), expected.map(chat_id));
        after = page.last().map(Heading::place);
    }
    for witness in &chats {
        witness.agrees().await;
    }
}

/// Chats that are busy, or have commands to apply, are found after a restart.
pub async fn unsettled_chats_are_listed_oldest_first<S: Store>(store: Arc<S>) {
    // Not made in the order of their ids.
    let resting = Witness::new(&store, 5).await;
    let mut commanded = Witness::new(&store, 4).await;
    commanded.submit(send("hello", Delivery::Queue)).await.expect("it is idle");
    let mut settled = Witness::in_a_turn(&store, 3).await;
    settled.change(|change| change.finish(TurnEnd::Done)).await;
    let mut awaiting = Witness::in_a_turn(&store, 2).await;
    let asks = reply(StepId(1), &call(0, "client", "{}"), Stop::ToolUse);
    awaiting.change(|change| change.reply(asks, |_| CallState::AsksClient)).await;
    awaiting.change(|change| change.ask(Timestamp(9_000))).await;
    let mut running = Witness::in_a_turn(&store, 1).await;
    let found = |chats: &[(u128, bool)]| {
        let found = chats.iter().map(|(number, has_commands)| (chat_id(*number), *has_commands));
        Ok(found.map(|(chat, has_commands)| Unsettled { chat, has_commands }).collect())
    };
    assert_eq!(store.unsettled().await, found(&[(1, false), (2, false), (4, true)]));
    for (status, expected) in [(Status::Awaiting, vec![2]), (Status::Running, vec![1]), (Status::Idle, vec![5, 4, 3])] {
        let query = ChatQuery { status: Some(status), ..ChatQuery::default() };
        let mut found: Vec<_> =
            store.headings(&query).await.expect("they can be listed").iter().map(|heading| heading.id).collect();
        found.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(found, expected.into_iter().map(chat_id).collect::<Vec<_>>(), "{status:?}");
    }
    running.submit(Command::Interrupt).await.expect("it runs");
    assert_eq!(store.unsettled().await, found(&[(1, true), (2, false), (4, true)]));
    running.obey_next().await;
    commanded.obey_next().await;
    assert_eq!(store.unsettled().await, found(&[(1, false), (2, false), (4, false)]));
    running.change(|change| change.settle(None)).await;
    awaiting.change(|change| change.expire()).await;
    awaiting.change(|change| change.finish(TurnEnd::Done)).await;
    commanded.change(|change| change.finish(TurnEnd::Done)).await;
    assert_eq!(store.unsettled().await, found(&[]));
    resting.agrees().await;
}

/// A subscriber without a cursor gets everything at once, draft included.
pub async fn without_a_cursor_there_is_a_snapshot<S: Store>(store: Arc<S>) {
    let mut witness = Witness::new(&store, 1).await;
    witness.agrees().await;
    witness.say("hello").await;
    witness.journal(vec![attempt(), text("Hel")]).await;
    let news = witness.since(None).await.expect("there is always a snapshot");
    assert!(matches!(&news.events[..], [Event::Reset(shown)] if **shown == witness.snapshot()));
    witness.agrees().await;
}

/// A cursor from the future, of a draft that never got so far, or of another chat that is ahead, gets a snapshot instead.
pub async fn a_cursor_that_cannot_be_used_gets_a_snapshot<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    let mut ahead = Witness::in_a_turn(&store, 2).await;
    witness.journal(vec![attempt(), text("Hel")]).await;
    for n in 0..5 {
        ahead.change(|change| change.say(Body::Context(format!("{n}")))).await;
    }
    let now = witness.now().await;
    let forged = [
        Cursor { version: now.version.next(), ..now },
        Cursor { version: Version(u64::MAX >> 1), ..now },
        Cursor { step: now.step.next(), ..now },
        Cursor { step: StepId(u64::MAX >> 1), seq: Seq(0), ..now },
        Cursor { seq: now.seq.next(), ..now },
        Cursor { seq: Seq(u64::MAX >> 1), ..now },
        Cursor { step: StepId(now.step.0 - 1), ..now },
        Cursor { version: Version(now.version.0 - 1), seq: now.seq.next(), ..now },
        ahead.now().await,
    ];
    for cursor in forged {
        let news = witness.since(Some(cursor)).await.expect("never silence");
        assert_eq!(news.cursor, now, "{cursor}");
        assert!(matches!(&news.events[..], [Event::Reset(shown)] if **shown == witness.snapshot()), "{cursor}");
    }
}

/// I13: however much was missed, a catch-up ends where a commit ends, and folds to what is there.
pub async fn a_catch_up_is_whole<S: Store>(store: Arc<S>) {
    let mut witness = Witness::new(&store, 1).await;
    let mut seen = vec![(witness.now().await, witness.snapshot())];
    witness.say("hello").await;
    seen.push((witness.now().await, witness.snapshot()));
    witness.journal(vec![attempt(), text("Hel")]).await;
    seen.push((witness.now().await, witness.snapshot()));
    let calls = [call(0, "look", "{}"), call(1, "write", "{}")].concat();
    let answer = reply(StepId(1), &calls, Stop::ToolUse);
    witness.change(|change| change.reply(answer, |_| CallState::Ready)).await;
    seen.push((witness.now().await, witness.snapshot()));
    witness.obey(Command::Interrupt).await;
    seen.push((witness.now().await, witness.snapshot()));
    witness.change(|change| change.settle(None)).await;
    for (cursor, snapshot) in seen {
        let news = witness.since(Some(cursor)).await.expect("there is news");
        let view = folded(snapshot, &news.events);
        let messages: BTreeSet<_> = view.messages.iter().map(|message| message.id).collect();
        assert_eq!(messages.len(), 4, "the results of one commit come together");
        let View { messages, standing, draft } = view;
        let expected = Standing::of(&witness.stage.chat, witness.stage.pending());
        assert_eq!((messages, standing, draft), (witness.stage.transcript.clone(), Some(expected), None));
        assert_eq!(news.cursor, witness.now().await);
    }
}

/// Several edits that were missed are told as one: what is gone of what was seen, then what is there now.
pub async fn an_edit_is_told_as_one<S: Store>(store: Arc<S>) {
    for (edits, number) in [[1, 5], [2, 1], [2, 5]].into_iter().zip(1..) {
        let mut witness = Witness::in_a_turn(&store, number).await;
        witness.obey(send("faster", Delivery::Steer)).await;
        witness.change(|change| change.begin()).await;
        let seen = witness.snapshot();
        let cursor = witness.now().await;
        witness.change(|change| change.say(Body::Context("never seen".into()))).await;
        for message in edits {
            witness.change(|change| change.say(Body::Context("nor this".into()))).await;
            witness.obey(Command::Edit { message: MessageId(message), parts: words("again") }).await;
        }
        let news = witness.since(Some(cursor)).await.expect("there is news");
        let [Event::Rewound(_), Event::Message(_), Event::Standing(_)] = &news.events[..] else {
            panic!("{edits:?}: {:?}", news.events)
        };
        let view = folded(seen, &news.events);
        assert_eq!(view.messages, witness.stage.transcript, "{edits:?}");
        witness.agrees().await;
    }
}

/// A long chat is shown by its newest page, a subscriber from the beginning has everything, and the transcript is complete.
pub async fn a_long_chat_is_shown_by_its_newest_page<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    let (mut cursor, mut told) = (witness.now().await, 0);
    const ROUNDS: usize = 6;
    for round in 0..ROUNDS {
        says(&mut witness, PAGE_LEN_MIN, &format!("{round}.")).await;
        let news = witness.since(Some(cursor)).await.expect("there is news");
        told += news.events.iter().filter(|event| matches!(event, Event::Message(_))).count();
        cursor = news.cursor;
    }
    witness.agrees().await;
    assert_eq!(told, ROUNDS * PAGE_LEN_MIN);
    let transcript = store.transcript(witness.chat()).await.expect("the chat is there");
    assert!(transcript.is_sorted_by_key(|message| message.id));
}

/// View of a subscriber after `snapshot` and these events.
pub(super) fn folded(snapshot: Snapshot, events: &[Event]) -> View {
    let mut view = View::default();
    view.fold(&Event::Reset(Box::new(snapshot))).expect("a snapshot folds into anything");
    for event in events {
        view.fold(event).expect("events follow each other");
    }
    view
}
