//! I20: whatever was stored comes back to the byte, from every place where text can be.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use everturn_core::change::Change;
use everturn_core::chat::{
    AskBelow, CallOpening, CallState, Compacting, Effect, OpenCall, QueuedMessage, RetryWait, StepAttempts,
    TranscriptTail, TurnEnd, TurnFailure,
};
use everturn_core::command::{AnswerContent, CallAnswer, Command, Delivery, Excess, Refusal};
use everturn_core::delta::Rung;
use everturn_core::error::{Cause, ErrorKind};
use everturn_core::fact::{AttemptOutcome, AttemptPurpose, AttemptRecord, Fact, QueueEnd};
use everturn_core::ids::{CallUid, InboxSeq, MessageId, StepId, Timestamp};
use everturn_core::message::Call;
use everturn_core::quarantine::TakeoverCount;
use everturn_core::retry::RetrySpent;
use everturn_core::status::{Status, Verb};
use everturn_stores::{ChatQuery, NewChat, Receipt, Store, StoreExt as _, Submission};
use everturn_testkit::rehearsal::sample::{chat_id, send};

use super::Witness;
use super::samples::{self, ODD};

const UID: CallUid = CallUid { step: StepId(1), ordinal: 0 };

/// Messages of every kind, each commit with one odd text.
pub async fn odd_text_comes_back_from_every_message<S: Store>(store: Arc<S>) {
    let mut witness = Witness::in_a_turn(&store, 1).await;
    for odd in ODD {
        let bodies = samples::bodies(odd, witness.stage.chat.step);
        let mut change = Change::new(&witness.stage.chat, witness.stage.now);
        for body in bodies {
            change.say(body);
        }
        let facts = change.facts();
        witness.commit(&facts).await;
        witness.agrees().await;
    }
}

/// Deltas of every kind, each chat with one odd text.
pub async fn odd_text_comes_back_from_every_delta<S: Store>(store: Arc<S>) {
    for (odd, number) in ODD.into_iter().zip(1..) {
        let mut witness = Witness::in_a_turn(&store, number).await;
        let deltas = samples::deltas(odd);
        assert_eq!(
            deltas.iter().map(samples::kind).collect::<BTreeSet<_>>().len(),
            samples::KINDS,
            "a kind has no sample"
        );
        for delta in deltas {
            witness.tick();
            witness.journal(vec![delta]).await;
        }
        witness.agrees().await;
    }
}

/// Commands of every kind, waiting in the inbox and as the body a key belongs to.
pub async fn odd_text_comes_back_from_every_command<S: Store>(store: Arc<S>) {
    for (odd, number) in ODD.into_iter().zip(1..) {
        let mut witness = Witness::in_a_turn(&store, number).await;
        for when in [Delivery::Queue, Delivery::Steer, Delivery::Now] {
            witness.submit(Command::Send { parts: samples::parts(odd).into(), when }).await.expect("there is room");
        }
        witness.submit(Command::Promote(InboxSeq(2))).await.expect("it will wait by then");
        witness.submit(Command::Unqueue(InboxSeq(3))).await.expect("and so will this");
        witness.submit(Command::Interrupt).await.expect("a turn is under way");
        let edit = Command::Edit { message: MessageId(1), parts: samples::parts(odd).into() };
        witness.submit(edit.clone()).await.expect("a person sent it");
        witness.agrees().await;
        while witness.stage.pending().next().is_some() {
            witness.obey_next().await;
        }
        witness.agrees().await;
        answers(&mut witness, odd).await;
        let (key, at) = (Some(odd.to_string()), Timestamp(0));
        let command = Command::Send { parts: samples::parts(odd).into(), when: Delivery::Queue };
        let again = Submission { command, key, at };
        let first = store.submit(witness.chat(), again.clone(), &witness.limits).await;
        assert!(first.is_ok() && first == store.submit(witness.chat(), again, &witness.limits).await, "{first:?}");
    }
}

/// Answers of every kind, each with what its call waits for.
pub fn answered(odd: &str) -> [(CallState, AnswerContent); 4] {
    [
        (CallState::AsksClient, AnswerContent::Output(samples::output(odd))),
        (CallState::AsksClient, AnswerContent::Error(samples::output(odd))),
        (CallState::AsksApproval, AnswerContent::Approve { input_hash: u64::MAX }),
        (CallState::AsksApproval, AnswerContent::Deny { reason: odd.into() }),
    ]
}

/// All of them, with hashes that use every bit.
async fn answers<S: Store>(witness: &mut Witness<S>, odd: &str) {
    let answered = answered(odd);
    let uid = |ordinal| CallUid { step: StepId(1), ordinal };
    let calls = answered.iter().zip(0..).map(|((state, _), ordinal)| {
        let call = OpenCall::new(&Call::new(uid(ordinal), odd, odd), *state);
        OpenCall { input_hash: u64::MAX, ..call }
    });
    let calls = Fact::Opened(calls.collect());
    witness.change(|change| change.fact(calls).ask(Timestamp(i64::MAX))).await;
    for ((_, what), ordinal) in answered.into_iter().zip(0..) {
        let answer = CallAnswer { call: uid(ordinal), what };
        witness.submit(Command::Answer([answer].into())).await.expect("it is asked");
        witness.agrees().await;
        witness.obey_next().await;
    }
    witness.agrees().await;
}

/// Everything else a commit can say: queues, calls, turns and their ends, attempts, waits, outcomes.
pub async fn odd_text_comes_back_from_every_other_fact<S: Store>(store: Arc<S>) {
    for (odd, number) in ODD.into_iter().zip(1..) {
        let mut witness = Witness::in_a_turn(&store, number).await;
        let facts = [in_a_turn(odd), later(odd)].concat();
        assert_eq!(facts.iter().filter_map(kind).collect::<BTreeSet<_>>().len(), KINDS, "a kind has no sample");
        for fact in facts {
            witness.commit(&[fact]).await;
            witness.agrees().await;
        }
        for end in ends(odd) {
            witness.commit(&[Fact::TurnEnded(end), Fact::TurnBegan(Timestamp(i64::MAX))]).await;
            witness.agrees().await;
        }
        witness.commit(&[Fact::Archived(true), Fact::Rewound { from: MessageId(1) }]).await;
        witness.agrees().await;
    }
    outcomes(Witness::in_a_turn(&store, 99).await).await;
}

/// Facts in a turn, with this text in all of their fields.
pub fn in_a_turn(odd: &str) -> Vec<Fact> {
    let tool = odd.to_string();
    let call = |state| {
        let call = OpenCall::new(&Call::new(UID, odd, odd), state);
        vec![OpenCall { input_hash: u64::MAX, ..call }]
    };
    let (at, parts): (_, Arc<[_]>) = (Timestamp(-1), samples::parts(odd).into());
    let queued = |id, steers| QueuedMessage {
        id: InboxSeq(id),
        at,
        parts: parts.clone(),
        steers,
        key: steers.then(|| odd.into()),
    };
    let wait = |kind| Fact::Waits(Box::new(RetryWait { until: at, kind, message: odd.into(), attempt: 3 }));
    let started = |effect| Fact::Started { call: UID, effect, at };
    let spent =
        RetrySpent { tries: 1, attempts: 2, once: 1, time: Duration::from_millis(3), cost: samples::spend().known };
    let mut facts = vec![
        Fact::Queued(queued(7, true), QueueEnd::Back),
        Fact::Queued(queued(8, false), QueueEnd::Front),
        Fact::Queued(queued(9, false), QueueEnd::Back),
        Fact::Unqueued(InboxSeq(7)),
        Fact::Opened(call(CallState::AsksApproval)),
        Fact::Approved(UID),
        started(Effect::Read),
        started(Effect::Idempotent),
        started(Effect::Once),
        Fact::Opened(call(CallState::AsksClient)),
        Fact::Awaits { since: at, until: Timestamp(i64::MAX) },
        Fact::Moved(Status::Awaiting),
        Fact::Resumed(Timestamp(86_400_000)),
        Fact::Moved(Status::Running),
        Fact::StopAfter(tool),
        Fact::Renamed(odd.into()),
        Fact::Reasked,
        Fact::Overflowed,
        Fact::Briefed,
        Fact::CompactionAsked,
        Fact::TakenUp(TakeoverCount {
            still: 1,
            in_tools: u32::MAX,
            step: StepId(2),
            attempt: 3,
            newest: MessageId(u64::MAX),
        }),
        Fact::Tried(StepAttempts {
            attempts: u32::MAX,
            model: 2,
            spent,
            without_chain: true,
            without_media: false,
            unbilled_attempt: true,
        }),
        Fact::Compacts(Box::new(Compacting {
            began: Timestamp(-1),
            model: samples::model(odd),
            source: everturn_core::message::SummarySource::Overflow,
            tokens: u64::MAX,
        })),
    ];
    facts.extend(ErrorKind::ALL.map(wait));
    facts.extend(attempts(odd));
    facts
}

/// What was added later. It stands apart so that stored texts of before stay as they are.
pub fn later(odd: &str) -> Vec<Fact> {
    let rungs = [Rung::First, Rung::Reattach, Rung::Continue, Rung::Restart, Rung::FallBack];
    let aims = rungs.map(AttemptPurpose::Answer).into_iter().chain([AttemptPurpose::Summary]);
    let aimed = aims.zip(100..).map(|(aim, number)| attempted(odd, number, aim, AttemptOutcome::Answered));
    let chosen = [Fact::Chose(Some(samples::model(odd))), Fact::Chose(None)];
    let progressed = Fact::Progressed { call: UID, text: odd.into() };
    let rested = Fact::Rested {
        call: UID,
        handle: odd.into(),
        at: Timestamp(-1),
        look_at: Timestamp(i64::MAX),
        misses: u32::MAX,
    };
    let asks = OpenCall::new(&Call::new(UID, odd, odd), CallOpening::Ask(Arc::new(samples::ask_detail(odd))));
    let permissions = [Fact::Opened(vec![asks]), Fact::Granted(Box::new(samples::grant(odd))), Fact::Revoked(UID)];
    let asked = Fact::Asked { call: UID, handle: odd.into(), question: odd.into(), at: Timestamp(-1) };
    let questions = [asked, Fact::Answered { call: UID, answer: odd.into() }];
    let asks_below = Arc::new([AskBelow { chat: chat_id(u128::MAX), call: UID }]);
    let delegates = OpenCall { delegates: true, ..OpenCall::new(&Call::new(UID, odd, odd), CallState::Ready) };
    let delegated = [
        Fact::Opened(vec![delegates]),
        Fact::Started { call: UID, effect: Effect::Idempotent, at: Timestamp(1) },
        Fact::AsksBelow { call: UID, asks: asks_below },
        Fact::Delegated(samples::budget_use()),
    ];
    let debugged = [true, false].map(Fact::Debugged);
    aimed
        .chain(chosen)
        .chain(debugged)
        .chain([progressed, rested])
        .chain(permissions)
        .chain(questions)
        .chain(delegated)
        .collect()
}

/// The kind of a fact that belongs into the lists above. A new one does not compile until it is given a sample there.
const fn kind(fact: &Fact) -> Option<usize> {
    match fact {
        Fact::Said(..) | Fact::TurnBegan(_) | Fact::Settings(_) | Fact::Foreseen(_) | Fact::TurnEnded(_) => None,
        Fact::Archived(_) | Fact::Rewound { .. } | Fact::Obeyed(..) | Fact::Inherited(_) => None,
        Fact::Queued(..) => Some(0),
        Fact::Unqueued(_) => Some(1),
        Fact::Opened(_) => Some(2),
        Fact::Approved(_) => Some(3),
        Fact::Started { .. } => Some(4),
        Fact::Awaits { .. } => Some(5),
        Fact::Resumed(_) => Some(6),
        Fact::Moved(_) => Some(7),
        Fact::StopAfter(_) => Some(8),
        Fact::Reasked => Some(9),
        Fact::Overflowed => Some(10),
        Fact::Briefed => Some(11),
        Fact::CompactionAsked => Some(12),
        Fact::Tried(_) => Some(13),
        Fact::Waits(_) => Some(14),
        Fact::Attempted(..) => Some(15),
        Fact::Compacts(_) => Some(16),
        Fact::Renamed(_) => Some(17),
        Fact::TakenUp(_) => Some(18),
        Fact::Chose(_) => Some(19),
        Fact::Debugged(_) => Some(20),
        Fact::Progressed { .. } => Some(21),
        Fact::Rested { .. } => Some(22),
        Fact::Granted(_) => Some(23),
        Fact::Revoked(_) => Some(24),
        Fact::Asked { .. } => Some(25),
        Fact::Answered { .. } => Some(26),
        Fact::AsksBelow { .. } => Some(27),
        Fact::Delegated(_) => Some(28),
    }
}

const KINDS: usize = 29;

/// Attempts, with this text in all of their fields.
pub fn attempts(odd: &str) -> Vec<Fact> {
    use Cause::{ErrorFinish, GoAway, IdleStall, Malformed, Refused, Reset, Resumed, ServerError, Truncated};
    let causes = [Refused, Reset, GoAway, IdleStall, ServerError, Truncated, ErrorFinish, Malformed, Resumed];
    let broke = causes.into_iter().zip(ErrorKind::ALL).map(|(cause, kind)| AttemptOutcome::Broke(cause, kind));
    let outcomes = [AttemptOutcome::Answered, AttemptOutcome::Interrupted, AttemptOutcome::Lost];
    let outcomes = outcomes.into_iter().chain(broke).zip(1..);
    outcomes.map(|(outcome, number)| attempted(odd, number, AttemptPurpose::Unknown, outcome)).collect()
}

fn attempted(odd: &str, number: u32, aim: AttemptPurpose, outcome: AttemptOutcome) -> Fact {
    let (step, model, began) = (StepId(1), samples::model(odd), Timestamp(-1));
    let (took, tally, spend) = (Duration::from_millis(86_400_001), samples::tally(), samples::spend());
    let row = AttemptRecord { step, number, model, aim, began, took, tally, spend, outcome };
    Fact::Attempted(Box::new(row), StepAttempts::default())
}

/// Ends of a turn, with this text.
pub fn ends(odd: &str) -> Vec<TurnEnd> {
    let failure = |kind| TurnFailure { kind, message: odd.into(), detail: odd.into(), attempts: u32::MAX };
    let mut ends = vec![
        TurnEnd::Done,
        TurnEnd::StopAfter(odd.into()),
        TurnEnd::Interrupted,
        TurnEnd::Length,
        TurnEnd::Filtered,
        TurnEnd::Empty,
        TurnEnd::StepsMax,
        TurnEnd::TimeMax,
        TurnEnd::TokensMax,
        TurnEnd::CostMax,
        TurnEnd::SameCallMax,
    ];
    ends.extend(ErrorKind::ALL.map(|kind| TurnEnd::Failed(Box::new(failure(kind)))));
    ends
}

/// One of each refusal.
pub fn refusals() -> Vec<Refusal> {
    let mut refusals = vec![
        Refusal::Archived,
        Refusal::QueueFull,
        Refusal::NotQueued,
        Refusal::NotEditable,
        Refusal::Empty,
        Refusal::TooLong(Excess::MessageBytes(1)),
        Refusal::TooLong(Excess::Parts(2)),
        Refusal::TooLong(Excess::AnswerBytes(3)),
        Refusal::TooLong(Excess::TitleBytes(4)),
        Refusal::NotAsked(UID),
        Refusal::WrongAnswer(CallUid { step: StepId(u64::MAX >> 1), ordinal: u16::MAX }),
        Refusal::AnsweredTwice(UID),
        Refusal::InputChanged(UID),
    ];
    refusals.extend(Status::ALL.into_iter().flat_map(|status| Verb::ALL.map(|verb| Refusal::Status(status, verb))));
    refusals.extend([Refusal::NotGrantable(UID), Refusal::NotGranted]);
    refusals
}

/// Every way a command can be refused is stored as that.
async fn outcomes<S: Store>(mut witness: Witness<S>) {
    let refusals = refusals();
    witness.limits.queue_len_max = refusals.len() + 1;
    let mut facts = Vec::new();
    for refusal in refusals {
        let seq = witness.submit(send("x", Delivery::Queue)).await.expect("there is room");
        facts.push(Fact::Obeyed(seq, Err(refusal)));
    }
    witness.commit(&facts).await;
    witness.agrees().await;
}

/// Names that look alike, fold alike or sort alike are still different names.
pub async fn odd_names_and_keys_are_told_apart<S: Store>(store: Arc<S>) {
    let alike =
        ["k", "K", " k", "k ", "k\0", "k\0\0", "\0k", "\u{e9}", "e\u{301}", "E\u{301}", "\u{feff}k", "ß", "ss", ""];
    let keys: Vec<&str> = alike.into_iter().chain(ODD).collect();
    let witness = Witness::new(&store, 1).await;
    let mut limits = witness.limits.clone();
    limits.queue_len_max = keys.len();
    for round in 0..2 {
        for (key, seq) in keys.iter().zip(1..) {
            let (command, key) = (send(&format!("{seq}"), Delivery::Queue), Some((*key).to_string()));
            let submission = Submission { command, key, at: Timestamp(round) };
            let receipt = store.submit(witness.chat(), submission, &limits).await;
            assert_eq!(receipt, Ok(Receipt { chat: witness.chat(), seq: InboxSeq(seq) }));
        }
    }
    for (odd, number) in ODD.into_iter().zip(2..) {
        store.create(&NewChat::of(chat_id(number), odd, odd)).await.expect("an agent may be called anything");
        let heading = store.heading(chat_id(number)).await.expect("the chat was just made");
        assert_eq!((heading.agent.as_str(), heading.owner.as_str()), (odd, odd));
        let of_owner = ChatQuery { owner: Some(odd.into()), ..ChatQuery::default() };
        assert_eq!(store.headings(&of_owner).await, Ok(vec![heading]));
        let lease = store.acquire(chat_id(number)).await.expect("the chat was just made");
        let loaded = store.load(&lease).await.expect("the lease is ours");
        assert_eq!((loaded.chat.agent.as_str(), loaded.chat.tail), (odd, TranscriptTail::Nothing));
    }
}
