use super::*;
use crate::chat::{CallState, TurnFailure};
use crate::command::Delivery;
use crate::error::ErrorKind;
use crate::message::{Body, Stop};
use crate::rehearsal::sample::{call, chat_id, reply, send, text, words};
use crate::rehearsal::{Stage, tiny_limits};

#[test]
fn a_cursor_reads_back_as_written_and_nothing_else_is_one() {
    let cursor = Cursor { version: Version(300), step: StepId(7), seq: Seq(u64::MAX) };
    assert_eq!(cursor.to_string().parse(), Ok(cursor));
    for text in ["", ".", "1.2", "1.2.3.4", "1.2.-3", "1.2.+3", "1.2.g", "a.b. c", "1.2.fffffffffffffffff"] {
        assert_eq!(text.parse::<Cursor>(), Err(BadCursor), "{text}");
    }
}

fn row(step: u64, seq: u64, delta: Delta) -> Event {
    Event::Delta(JournalRow { step: StepId(step), seq: Seq(seq), at: Timestamp(0), delta: Arc::new(delta) })
}

fn message(id: u64) -> Event {
    let body = Body::Context(id.to_string());
    Event::Message(Arc::new(Message { id: MessageId(id), at: Timestamp(0), body, sent: None }))
}

fn fold(events: &[Event]) -> Result<View, BadFold> {
    events.iter().try_fold(View::default(), |mut view, event| view.fold(event).map(|()| view))
}

/// I13: an event that came twice, too late or not at all is noticed, not folded.
#[test]
fn events_that_do_not_follow_each_other_are_noticed() {
    let gap = |step, after, got| BadFold::Gap { step: StepId(step), after: Seq(after), got: Seq(got) };
    let cases = [
        (vec![row(1, 2, text("a"))], gap(1, 0, 2)),
        (vec![row(1, 1, text("a")), row(1, 1, text("a"))], gap(1, 1, 1)),
        (vec![row(1, 1, text("a")), row(1, 3, text("c"))], gap(1, 1, 3)),
        (vec![row(1, 1, text("a")), row(2, 2, text("b"))], gap(2, 0, 2)),
        (vec![row(1, 1, Delta::CallEnded { slot: 4 })], BadFold::OutOfOrder(OutOfOrder::NoSuchCall(4))),
        (vec![message(3), message(3)], BadFold::Repeated(MessageId(3))),
        (vec![message(3), message(2)], BadFold::Repeated(MessageId(2))),
    ];
    for (events, expected) in cases {
        assert_eq!(fold(&events), Err(expected), "{events:?}");
    }
}

#[test]
fn a_standing_tells_everything_but_the_words() {
    let mut stage = Stage::new(chat_id(1));
    let commands = [send("hello", Delivery::Queue), send("and then", Delivery::Steer)];
    for command in commands {
        stage.submit(command, &tiny_limits()).unwrap();
        stage.commit(&stage.obey_next().unwrap());
    }
    let asks = reply(StepId(1), &call(0, "client", "{}"), Stop::ToolUse);
    stage.commit(&stage.change(|change| change.reply(asks, |_| CallState::AsksClient)));
    stage.commit(&stage.change(|change| change.ask(Timestamp(9))));
    let wait = RetryWait { until: Timestamp(7), kind: ErrorKind::Overloaded, message: "busy".into(), attempt: 2 };
    let chat = Chat {
        archived: true,
        wait: Some(wait),
        ended: Some(TurnEnd::Length),
        totals: Totals { attempts: 3, ..Totals::default() },
        setup: None,
        ..stage.chat
    };
    let told = Standing::of(&chat, [].iter());
    assert_eq!((told.version, told.step, told.status), (chat.version, StepId(2), Status::Awaiting));
    assert_eq!((told.archived, &told.queue, told.queue.len()), (true, &chat.queue, 1));
    assert_eq!((&told.asks, told.asks.len(), told.awaits_until), (&chat.calls, 1, Some(Timestamp(9))));
    assert_eq!((told.retry, told.totals), (chat.wait, chat.totals));
    assert_eq!(told.ended, None, "a turn is under way");
    assert_eq!((told.received, told.unanswered), (InboxSeq(2), vec![InboxSeq(1), InboxSeq(2)]));
}

/// C1: from the moment a message is accepted, everybody sees it, and a chat that does not look idle.
#[test]
fn an_accepted_command_shows_before_it_is_applied() {
    let limits = tiny_limits();
    let standing = |stage: &Stage| Standing::of(&stage.chat, stage.pending());
    let mut stage = Stage::new(chat_id(1));
    stage.submit(Command::Rename("Named".into()), &limits).unwrap();
    assert_eq!((standing(&stage).status, standing(&stage).received), (Status::Idle, InboxSeq(1)), "nothing to do");
    for (key, when) in [("a", Delivery::Queue), ("b", Delivery::Steer), ("c", Delivery::Now)] {
        stage.submit_as(Some(key), send(key, when), &limits).unwrap();
    }
    let shown = standing(&stage);
    assert_eq!((shown.status, shown.received, shown.version), (Status::Running, InboxSeq(4), Version(0)));
    let queue: Vec<_> = shown.queue.iter().map(|queued| (queued.id.0, queued.key.as_deref(), queued.steers)).collect();
    assert_eq!(queue, [(4, Some("c"), false), (2, Some("a"), false), (3, Some("b"), true)], "`now` is the next one");
    assert_eq!(shown.unanswered, [4, 2, 3].map(InboxSeq));
    while let Some(facts) = stage.obey_next() {
        let before = standing(&stage);
        stage.commit(&facts);
        let after = standing(&stage);
        let sorted = |standing: &Standing| {
            let mut seqs = standing.unanswered.clone();
            seqs.sort();
            seqs
        };
        assert_eq!(sorted(&after), sorted(&before), "a message is never nowhere");
        assert_eq!(after.received, before.received);
    }
    stage.commit(&stage.change(|change| change.settle(None))); // `now` has stopped the first turn, and is the next one.
    assert_eq!(standing(&stage).unanswered, [4, 3].map(InboxSeq));
    let failure = TurnFailure { kind: ErrorKind::Config, message: String::new(), detail: String::new(), attempts: 1 };
    stage.commit(&stage.change(|change| change.fail(None, failure)));
    let failed = standing(&stage);
    assert_eq!((failed.status, failed.ended.is_some()), (Status::Failed, true));
    assert_eq!(failed.unanswered, [InboxSeq(3)], "it waits for the user to decide");
    stage.submit(Command::Compact, &limits).unwrap();
    assert_eq!((standing(&stage).status, standing(&stage).ended), (Status::Running, None));
}

/// C2: what a sender was told ties it to what is said.
#[test]
fn a_message_carries_its_receipt_and_its_key() {
    let mut stage = Stage::new(chat_id(1));
    for (key, when) in [("a", Delivery::Queue), ("b", Delivery::Queue), ("c", Delivery::Steer)] {
        stage.submit_as(Some(key), send(key, when), &tiny_limits()).unwrap();
        stage.commit(&stage.obey_next().unwrap());
    }
    stage.commit(&stage.change(|change| change.begin())); // Takes in what steers.
    stage.commit(&stage.change(|change| change.finish(TurnEnd::Done)));
    stage.submit_as(Some("d"), Command::Edit { message: MessageId(2), parts: words("again") }, &tiny_limits()).unwrap();
    let carried = |stage: &Stage| {
        let sent = stage.transcript.iter().filter_map(|message| message.sent.as_ref());
        sent.map(|sent| format!("{} {}", sent.receipt.0, sent.key.as_deref().unwrap_or_default())).collect::<Vec<_>>()
    };
    assert_eq!(carried(&stage), ["1 a", "3 c", "2 b"]);
    let standing = Standing::of(&stage.chat, stage.pending());
    assert_eq!(
        standing.unanswered,
        [InboxSeq(2), InboxSeq(4)],
        "the turn's own, and the edit that is about to replace it"
    );
    stage.commit(&stage.obey_next().unwrap());
    assert_eq!(carried(&stage), ["1 a", "4 d"]);
    assert_eq!(Standing::of(&stage.chat, [].iter()).unanswered, [InboxSeq(4)]);
}

/// A draft is shown until its step is over, by whatever way it ended; what is rewound is gone with it.
#[test]
fn a_draft_goes_with_its_step() {
    let mut chat = Chat::new(chat_id(1), "agent", "");
    let standing = |chat: &Chat| Event::Standing(Box::new(Standing::of(chat, [].iter())));
    let shown = [message(1), message(2), row(1, 1, text("Hel"))];
    let still = fold(&[&shown[..], &[standing(&chat), row(1, 2, text("lo"))]].concat()).unwrap();
    assert_eq!(still.draft.as_ref().map(Draft::seq), Some(Seq(2)));
    chat.step = StepId(2);
    let over = fold(&[&shown[..], &[standing(&chat)]].concat()).unwrap();
    assert_eq!((over.draft, over.messages.len()), (None, 2));
    let next = fold(&[&shown[..], &[standing(&chat), row(2, 1, text("So"))]].concat()).unwrap();
    assert_eq!(next.draft.map(|draft| (draft.step(), draft.seq())), Some((StepId(2), Seq(1))));
    let rewound = fold(&[&shown[..], &[Event::Rewound(MessageId(2)), message(3)]].concat()).unwrap();
    assert_eq!((rewound.draft, rewound.messages.len()), (None, 2));
}
