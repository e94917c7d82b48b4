//! Drafts are stored row by row before anyone sees them, and go when their step is over.

use std::sync::Arc;

use everturn_core::chat::{CallState, TurnEnd, TurnFailure};
use everturn_core::command::{Command, Delivery};
use everturn_core::error::ErrorKind;
use everturn_core::fact::Fact;
use everturn_core::ids::{MessageId, Seq, StepId};
use everturn_core::message::{Body, Stop};
use everturn_core::view::{Cursor, Event, JournalRow};
use everturn_stores::{Ack, NewsRead, Store, StoreExt as _, WriteError};
use everturn_testkit::rehearsal::sample::{attempt, send, text, words};

use super::Witness;

/// I3: a watcher gets a row once, when it is stored, and in order.
pub async fn rows_are_shown_once_they_are_stored<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    let mut cursor = witness.now().await;
    assert_eq!(witness.since(Some(cursor)).await, None);
    for batch in [vec![attempt()], vec![text("Hel"), text("lo")], vec![text("!")]] {
        let rows = witness.journal(batch).await;
        let news = witness.since(Some(cursor)).await.expect("there is news");
        assert_eq!(news.events, rows.into_iter().map(Event::Delta).collect::<Vec<_>>());
        cursor = news.cursor;
    }
    assert_eq!(store.append_and_wait(witness.lease.append_right(), Vec::new()).await, Ok(()));
    assert_eq!(witness.since(Some(cursor)).await, None, "nothing was added");
    witness.agrees().await;
}

/// Rows that leave a gap, come again or belong to another step are refused, and with them all that came along.
pub async fn rows_that_do_not_follow_are_refused_together<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    witness.journal(vec![attempt(), text("Hel")]).await;
    let step = witness.stage.chat.step;
    let row = |step, seq| JournalRow { step, seq: Seq(seq), at: witness.stage.now, delta: Arc::new(text("lo")) };
    let before = StepId(step.0 - 1);
    let cases = [
        vec![row(step, 4)],
        vec![row(step, 2)],
        vec![row(step, 0)],
        vec![row(step, 3), row(step, 5)],
        vec![row(step, 3), row(step, 3)],
        vec![row(step, 4), row(step, 3)],
        vec![row(before, 3)],
        vec![row(before, 1)],
        vec![row(step.next(), 1)],
        vec![row(step, 3), row(step.next(), 4)],
        vec![row(step, 3), row(step.next(), 1)],
    ];
    for rows in cases {
        let refused = store.append_and_wait(witness.lease.append_right(), rows.clone()).await;
        assert_eq!(refused, Err(WriteError::OutOfPlace), "{rows:?}");
        witness.agrees().await;
    }
    witness.journal(vec![text("lo")]).await;
    witness.agrees().await;
}

/// I3: an append is acknowledged when its rows can be read and not before, or with the reason why they cannot be stored;
/// and news from memory are those that a read would return.
pub async fn rows_that_are_handed_in_can_be_read_when_that_is_told<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    witness.journal(vec![attempt()]).await;
    let (chat, cursor) = (witness.chat(), witness.now().await);
    let hand_in = async |pen, rows| {
        let (tell, told) = tokio::sync::oneshot::channel();
        let reader = store.clone();
        let ack = Ack::new(move |stored| {
            let known = match reader.since(chat, Some(cursor)) {
                NewsRead::Known(news) => news.map(|news| news.expect("memory cannot fail")),
                NewsRead::Reading(_) => None,
            };
            drop(tell.send((stored, known)));
        });
        store.append(pen, rows, ack).await;
        told.await.expect("everybody is told")
    };
    let rows = witness.stage.journal(vec![text("Hel"), text("lo")]);
    let (stored, at_hand) = hand_in(witness.lease.append_right(), rows.clone()).await;
    assert_eq!(stored, Ok(()));
    let news = witness.since(Some(cursor)).await;
    assert_eq!(
        news.as_ref().expect("there is news").events,
        rows.iter().cloned().map(Event::Delta).collect::<Vec<_>>()
    );
    assert!(at_hand.is_none_or(|at_hand| at_hand == news), "what is at hand when it is told");
    witness.agrees().await;
    assert_eq!(
        hand_in(witness.lease.append_right(), rows.clone()).await.0,
        Err(WriteError::OutOfPlace),
        "they are there"
    );
    assert_eq!(hand_in(witness.lease.append_right(), Vec::new()).await.0, Ok(()));
    let before = witness.take_over().await;
    assert_eq!(hand_in(before.append_right(), rows).await.0, Err(WriteError::Fenced));
    witness.agrees().await;
}

/// Commits that leave the step open leave its rows, and the journal goes on behind them.
pub async fn rows_outlive_commits_within_the_step<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    witness.journal(vec![attempt(), text("Hel")]).await;
    let cursor = witness.now().await;
    witness.obey(send("later", Delivery::Queue)).await;
    witness.agrees().await;
    let rows = witness.journal(vec![text("lo")]).await;
    witness.agrees().await;
    let news = witness.since(Some(cursor)).await.expect("there is news");
    assert!(matches!(&news.events[..], [Event::Standing(_), Event::Delta(row)] if [row.clone()] == rows[..]));
}

/// A step that is over takes its rows with it, with a reply or without one; a watcher is told.
pub async fn rows_go_with_their_step<S: Store>(store: Arc<S>) {
    let failure = || TurnFailure { kind: ErrorKind::Auth, message: "no".into(), detail: String::new(), attempts: 1 };
    for (ending, number) in ["replied", "failed", "interrupted", "edited", "finished"].into_iter().zip(1..) {
        let mut witness = Witness::in_a_turn(&store, number).await;
        witness.journal(vec![attempt(), text("Hello")]).await;
        let cursor = witness.now().await;
        let draft = witness.stage.draft.clone().expect("it was just journalled");
        let kept = |stop| draft.clone().seal(stop, witness.stage.now, None);
        let reply = kept(Stop::End).expect("an attempt was made");
        let partial = kept(Stop::Interrupted);
        match ending {
            "replied" => witness.change(|change| change.reply(reply, |_| CallState::Ready)).await,
            "failed" => witness.change(|change| change.fail(None, failure())).await,
            "edited" => witness.obey(Command::Edit { message: MessageId(1), parts: words("again") }).await,
            "finished" => witness.change(|change| change.finish(TurnEnd::Done)).await,
            _ => {
                witness.obey(Command::Interrupt).await;
                witness.change(|change| change.settle(partial)).await;
            }
        }
        assert_eq!(witness.stage.rows, [], "{ending}");
        witness.agrees().await;
        let news = witness.since(Some(cursor)).await.expect("there is news");
        let over = news.events.iter().any(|event| matches!(event, Event::Standing(now) if now.step > draft.step()));
        assert!(over, "{ending}: a watcher learns that the draft is over");
        assert!(!news.events.iter().any(|event| matches!(event, Event::Delta(_))), "{ending}");
    }
}

/// A row that comes late finds its step closed, and the next one begins from 1.
pub async fn a_step_that_is_over_takes_no_rows<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    let late = witness.journal(vec![attempt(), text("Hello")]).await;
    let reply = witness.stage.draft.clone().and_then(|draft| draft.seal(Stop::End, witness.stage.now, None));
    let reply = reply.expect("an attempt was made");
    witness.change(|change| change.reply(reply, |_| CallState::Ready)).await;
    let next = JournalRow { seq: Seq(3), ..late[1].clone() };
    assert_eq!(store.append_and_wait(witness.lease.append_right(), vec![next]).await, Err(WriteError::OutOfPlace));
    assert_eq!(store.append_and_wait(witness.lease.append_right(), late).await, Err(WriteError::OutOfPlace));
    witness.agrees().await;
    witness.change(|change| change.say(Body::Context("go on".into()))).await;
    witness.journal(vec![attempt()]).await;
    witness.agrees().await;
}

/// I3: a subscriber that saw more of a draft than a takeover found gets a snapshot, also once the draft has grown beyond
/// that point again. A subscriber that saw no more, or saw it later, continues.
pub async fn a_subscriber_that_saw_lost_deltas_gets_a_snapshot<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    witness.journal(vec![attempt(), text("Hel"), text("lo")]).await;
    let before = witness.now().await;
    witness.commit(&[Fact::Inherited(Seq(2))]).await; // The third that was seen is not the one that is there.
    witness.agrees().await;
    let between = witness.now().await;
    witness.journal(vec![text("!")]).await;
    let is_told = async |witness: &Witness<S>, cursor: Cursor, seq: u64| {
        let news = witness.since(Some(Cursor { seq: Seq(seq), ..cursor })).await.expect("there is news");
        assert_eq!(news.cursor, witness.now().await);
        match &news.events[..] {
            [Event::Reset(shown)] => {
                witness.is_shown(shown);
                false
            }
            events => {
                let told = events.iter().filter(|event| matches!(event, Event::Delta(_))).count();
                assert_eq!(told as u64, news.cursor.seq.0 - seq);
                true
            }
        }
    };
    for (cursor, seq, told) in [(before, 2, true), (before, 3, false), (between, 3, true)] {
        assert_eq!(is_told(&witness, cursor, seq).await, told, "{cursor}, {seq}");
    }
    witness.commit(&[Fact::Inherited(Seq(4))]).await;
    witness.journal(vec![text("!")]).await;
    for (cursor, seq, told) in [(before, 2, true), (before, 3, false), (between, 4, true), (between, 5, false)] {
        assert_eq!(is_told(&witness, cursor, seq).await, told, "{cursor}, {seq}, and again");
    }
    let reply = witness.stage.draft.clone().and_then(|draft| draft.seal(Stop::End, witness.stage.now, None));
    let reply = reply.expect("an attempt was made");
    witness.change(|change| change.reply(reply, |_| CallState::Ready)).await;
    witness.agrees().await;
    let news = witness.since(Some(before)).await.expect("there is news");
    assert!(matches!(&news.events[..], [Event::Message(_), Event::Standing(_)]), "the message stands for the draft");
    witness.commit(&[Fact::Inherited(Seq(0))]).await;
    let news = witness.since(Some(before)).await.expect("there is news");
    assert!(
        matches!(&news.events[..], [Event::Message(_), Event::Standing(_)]),
        "what the next draft lost was another"
    );
}
