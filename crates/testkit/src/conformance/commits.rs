//! A change is written whole, and read back as what it adds up to.

use std::future::{Future, poll_fn};
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use everturn_core::budget::{BudgetUse, Day};
use everturn_core::chat::{CallState, TranscriptTail, TurnEnd};
use everturn_core::command::{Command, Delivery};
use everturn_core::cost::Micros;
use everturn_core::fact::Fact;
use everturn_core::ids::{CallUid, MessageId, Timestamp, Version};
use everturn_core::message::{Body, CallResult, CallVerdict, Meta, Output, Stop, Summary, SummarySource};
use everturn_stores::{Store, StoreExt as _};
use everturn_testkit::rehearsal::sample::{attempt, call, reply, send, text, words};
use everturn_testkit::rehearsal::{Deed, Dice};

use super::Witness;

fn summary(text: &str) -> Body {
    let (source, runtime) = (SummarySource::Asked, Duration::from_millis(8));
    let newest_user = words("hello").to_vec();
    Body::Summary(Box::new(Summary { text: text.into(), newest_user, source, tokens_before: 7, runtime }))
}

/// What is used is counted for its owner, on the day it began, in the commit that says so.
pub async fn budget_use_is_counted_by_owner_and_day<S: Store>(store: Arc<S>) {
    const DAY: i64 = 86_400_000;
    let used = async |owner: &str, days: RangeInclusive<i64>| {
        let days = Day(*days.start())..=Day(*days.end());
        let used = store.used(owner, days).await.expect("it can be asked");
        BudgetUse { alive: Duration::ZERO, ..used } // Tested separately.
    };
    let Fact::Attempted(row, _) = sample(0) else { unreachable!("that is what it makes") };
    let bound = 1 << 40; // No true number is cut, and no number that a model makes up is too large to be added.
    let (tokens, cost) = (row.tally.total().min(bound), Micros(row.spend.total().0.min(bound)));
    let each = BudgetUse { time: row.took, tokens, cost, ..BudgetUse::default() };
    assert!(each.tokens > 0 && each.cost > Micros(0));
    let times = |len| (0..len).fold(BudgetUse::default(), |sum, _| sum.plus(each));
    let mut chats = [Witness::in_a_turn(&store, 1).await, Witness::in_a_turn(&store, 2).await];
    assert_eq!(used("owner", 0..=40).await, BudgetUse::default());
    chats[0].commit(&[sample(0)]).await;
    chats[0].commit(&[sample(DAY - 1), sample(DAY)]).await;
    chats[1].commit(&[sample(31 * DAY)]).await;
    chats[1].commit(&[sample(-1)]).await;
    for (days, len) in [(0..=0, 2), (1..=1, 1), (0..=30, 3), (0..=31, 4), (-1..=-1, 1), (2..=30, 0), (-9..=99, 5)] {
        assert_eq!(used("owner", days.clone()).await, times(len), "{days:?}");
    }
    for nobody in ["", "Owner", "somebody else", "own\0er"] {
        assert_eq!(used(nobody, 0..=99).await, BudgetUse::default(), "{nobody}");
    }
    for chat in &chats {
        chat.agrees().await;
    }
}

/// A reply is a step, on the day it came, and a tool takes time, on the day it began: for the owner and in the chat, and once,
/// however often it is said.
pub async fn steps_and_tools_are_counted_in_their_turn<S: Store>(store: Arc<S>) {
    const DAY: i64 = 86_400_000;
    let used = async |day: i64| store.used("owner", Day(day)..=Day(day)).await.expect("it can be asked");
    let (steps, time) = (
        |steps| BudgetUse { steps, ..BudgetUse::default() },
        |time| BudgetUse { time, alive: time, ..BudgetUse::default() },
    );
    let mut witness = Witness::in_a_turn(&store, 1).await;
    let asks = reply(witness.stage.chat.step, &call(0, "look", "{}"), Stop::ToolUse);
    let call = CallUid { step: witness.stage.chat.step, ordinal: 0 };
    witness.stage.now = Timestamp(50 * DAY - 1);
    witness.change(|change| change.reply(asks, |_| CallState::Ready)).await;
    witness.stage.now = Timestamp(51 * DAY);
    let (tool, verdict, output, meta) = ("look".into(), CallVerdict::Done, Output::text("seen"), Meta::new());
    let (began, ended) = (Some(Timestamp(51 * DAY - 2_500)), witness.stage.now);
    witness.change(|change| change.result(CallResult { call, tool, verdict, output, began, ended, meta })).await;
    let mut other = Witness::in_a_turn(&store, 2).await;
    other.stage.now = witness.stage.now;
    for chat in [&mut other, &mut witness] {
        for stop in [Stop::Length, Stop::End] {
            let answer = reply(chat.stage.chat.step, &[text("seen")], stop);
            chat.change(|change| change.reply(answer, |_| CallState::Ready)).await;
        }
    }
    witness.change(|change| change.finish(TurnEnd::Done)).await;
    let again: Vec<_> = witness.stage.transcript[1..].iter().map(|message| message.body.clone()).collect();
    witness
        .change(|change| {
            change.fact(Fact::Rewound { from: MessageId(2) });
            again.into_iter().fold(change, |change, body| change.say_as(body, TranscriptTail::Nothing))
        })
        .await;
    let ran = Duration::from_millis(2_500);
    for (day, expected) in
        [(48, BudgetUse::default()), (49, steps(1)), (50, time(ran)), (51, steps(4)), (52, BudgetUse::default())]
    {
        assert_eq!(used(day).await, expected, "day {day}");
    }
    let totals = witness.stage.chat.totals;
    assert_eq!((totals.steps, totals.time, totals.alive), (3, ran, ran));
    witness.agrees().await;
    other.agrees().await;
}

/// Work is counted once for its owner and in the chat, whatever ran beside what, and a reply says how much of it was its own.
pub async fn work_is_counted_once<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    let began = witness.stage.now;
    let at = |millis: u64| began + Duration::from_millis(millis);
    let attempt = |from: u64, to: u64| {
        let Fact::Attempted(mut row, tried) = sample(at(from).0) else { unreachable!("that is what it makes") };
        row.took = Duration::from_millis(to - from);
        Fact::Attempted(row, tried)
    };
    let calls = [call(0, "look", "{}"), call(1, "look", "{}")].concat();
    let step = witness.stage.chat.step;
    let asks = reply(step, &calls, Stop::ToolUse);
    witness.stage.now = at(100);
    witness.change(|change| change.fact(attempt(40, 100)).reply(asks, |_| CallState::Ready)).await;
    witness.stage.now = at(900);
    let result = |ordinal, from: u64, to: u64| CallResult {
        call: CallUid { step, ordinal },
        tool: "look".into(),
        verdict: CallVerdict::Done,
        output: Output::text("seen"),
        began: Some(at(from)),
        ended: at(to),
        meta: Meta::new(),
    };
    witness.change(|change| change.result(result(0, 200, 700))).await;
    witness.change(|change| change.result(result(1, 250, 900))).await;
    witness.stage.now = at(1_000);
    let answer = reply(witness.stage.chat.step, &[text("seen")], Stop::End);
    witness.change(|change| change.fact(attempt(950, 1_000)).reply(answer, |_| CallState::Ready)).await;
    let replies = witness.stage.transcript.iter().filter_map(|message| match &message.body {
        Body::Reply(reply) => Some(reply.alive.as_millis()),
        _ => None,
    });
    assert_eq!(replies.collect::<Vec<_>>(), [60, 700 + 50]);
    let used = store.used("owner", Day::of(began)..=Day::of(began)).await.expect("it can be asked");
    assert_eq!((used.alive.as_millis(), witness.stage.chat.totals.alive.as_millis()), (810, 810));
    assert_eq!(used.time.as_millis(), 60 + 500 + 650 + 50, "beside it, each for itself");
    witness.agrees().await;
}

fn sample(began: i64) -> Fact {
    let mut sample = super::unicode::attempts("odd").remove(0);
    if let Fact::Attempted(row, _) = &mut sample {
        row.began = Timestamp(began);
    }
    sample
}

/// I5, CS23: each commit raises the version by one, whatever it says, and nothing else does.
pub async fn versions_count_commits<S: Store>(store: Arc<S>) {
    let mut witness = Witness::new(&store, 1).await;
    witness.say("hello").await;
    for n in 2..10 {
        let facts = witness.stage.change(|change| change.say(Body::Context(format!("{n}"))));
        assert_eq!(witness.commit(&facts).await, Version(n));
        witness.submit(send(" ", Delivery::Queue)).await.ok();
        witness.take_over().await;
    }
    witness.agrees().await;
}

/// A driver is given the transcript from the newest summary on; people still have all of it.
pub async fn a_driver_goes_on_from_the_newest_summary<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    for round in ["one", "two"] {
        let answer = reply(witness.stage.chat.step, &[text(round)], Stop::End);
        witness.change(|change| change.reply(answer, |_| CallState::Ready)).await;
        let tail = witness.stage.chat.tail;
        witness.change(|change| change.say_as(summary(round), tail)).await;
        witness.agrees().await;
    }
    witness.change(|change| change.say(Body::Context("and on".into()))).await;
    let loaded = store.load(&witness.lease).await.expect("the lease is ours");
    assert_eq!(loaded.messages.iter().map(|message| message.id.0).collect::<Vec<_>>(), [5, 6]);
    witness.agrees().await;
}

/// An edit of what stands before a summary takes the summary out, and a driver is given what it stood for again.
pub async fn a_rewound_summary_brings_back_what_it_stood_for<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    let answer = reply(witness.stage.chat.step, &[text("hi")], Stop::End);
    witness.change(|change| change.reply(answer, |_| CallState::Ready)).await;
    witness.change(|change| change.finish(TurnEnd::Done)).await;
    witness.say("and?").await;
    witness.change(|change| change.say_as(summary("so far"), TranscriptTail::Input)).await;
    witness.agrees().await;
    witness.obey(Command::Edit { message: MessageId(3), parts: words("or?") }).await;
    let loaded = store.load(&witness.lease).await.expect("the lease is ours");
    assert_eq!(loaded.messages.iter().map(|message| message.id.0).collect::<Vec<_>>(), [1, 2, 5]);
    witness.agrees().await;
}

/// What was paid was paid: attempts stay, in order, also those of a turn that was taken back.
pub async fn attempts_are_kept_whatever_becomes_of_the_turn<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    for number in [0, 4, 6, 4, 4, 6, 4] {
        // Begins an attempt; then 4 answers it and 6 breaks it.
        match witness.stage.deed(&witness.limits, &mut Dice::new(number)) {
            Deed::Rest => {}
            Deed::Journal(deltas) => drop(witness.journal(deltas).await),
            Deed::Commit(facts) => drop(witness.commit(&facts).await),
        }
        witness.agrees().await;
    }
    let paid = witness.stage.attempts.clone();
    assert!(paid.len() >= 2, "{paid:?}");
    witness.obey(Command::Edit { message: MessageId(1), parts: words("again") }).await;
    assert_eq!(store.attempts(witness.chat(), 0, usize::MAX).await, Ok(witness.stage.attempts.clone()));
    let len = witness.stage.attempts.len();
    assert_eq!(store.attempts(witness.chat(), len, 9).await, Ok(Vec::new()), "there is no more");
    assert!(witness.stage.attempts.starts_with(&paid));
    witness.agrees().await;
}

/// I4: a driver may be dropped in the middle of a write. Then it happened or it did not, and the next load says which.
pub async fn a_dropped_write_happened_whole_or_not_at_all<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    for polls in 0..8 {
        let answer = reply(witness.stage.chat.step, &[text("hi")], Stop::End);
        let facts = witness.stage.change(|change| {
            change.reply(answer, |_| CallState::Ready).say(Body::Context("more".into())).fact(Fact::Briefed)
        });
        {
            let mut write = pin!(store.commit(&mut witness.lease, &facts));
            for _ in 0..polls {
                let poll = poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await;
                if poll.is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        let loaded = store.load(&witness.lease).await.expect("the lease is ours");
        if loaded.chat.version > witness.stage.chat.version {
            witness.stage.commit(&facts);
        }
        witness.agrees().await;
    }
}

/// What happens in one chat does not show in another.
pub async fn chats_are_apart<S: Store>(store: Arc<S>) {
    let mut one = Witness::in_a_turn(&store, 1).await;
    let two = Witness::new(&store, 2).await;
    let cursor = two.now().await;
    one.journal(vec![attempt(), text("Hello")]).await;
    one.obey(Command::Interrupt).await;
    assert_eq!(two.since(Some(cursor)).await, None);
    one.agrees().await;
    two.agrees().await;
}
