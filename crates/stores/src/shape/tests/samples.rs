//! One of everything, whole.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use everturn_core::alive::Alive;
use everturn_core::chat::{
    AskBelow, AskDetail, CallOpening, CallState, Chat, Effect, OpenCall, StepAttempts, TranscriptTail, Turn,
};
use everturn_core::command::{AnswerContent, CallAnswer, Command, Delivery, ModelChoice, Refusal};
use everturn_core::fact::{AttemptRecord, Fact, Totals};
use everturn_core::ids::{CallUid, ChatId, InboxSeq, MessageId, Seq, StepId, Timestamp, Version};
use everturn_core::message::{Call, Message, SendReceipt};
use everturn_core::prompt::ToolSpec;
use everturn_core::setup::Setup;
use everturn_core::status::{Status, Verb};
use everturn_core::takeover::{DraftTakeovers, TakeoverPoint};
use everturn_core::view::JournalRow;
use everturn_testkit::conformance::{samples, unicode};
use serde_json::json;

use super::Appends;

const UID: CallUid = CallUid { step: StepId(u64::MAX), ordinal: u16::MAX };

pub(super) fn messages(odd: &str) -> Vec<Message> {
    let ids = [u64::MAX, 0].into_iter().chain(1..).map(MessageId);
    let ats = [i64::MIN, i64::MAX].into_iter().chain(1..).map(Timestamp);
    let bodies = samples::bodies(odd, StepId(u64::MAX - 9));
    let sents = [None, Some(SendReceipt { receipt: InboxSeq(u64::MAX), key: Some(odd.into()) })].into_iter().cycle();
    let all = bodies.into_iter().zip(ids).zip(ats).zip(sents);
    all.map(|(((body, id), at), sent)| Message { id, at, body, sent }).collect()
}

/// A chat after each fact there is, at each end of a turn, in every status and with every tail.
pub(super) fn chats(odd: &str) -> Vec<Chat> {
    let mut chat = Chat::new(ChatId::from_u128(u128::MAX), odd, odd);
    let mut chats = vec![chat.clone()];
    chat.apply(&[Fact::Moved(Status::Running), Fact::TurnBegan(Timestamp(-1))]);
    for fact in unicode::in_a_turn(odd) {
        chat.apply(&[fact]);
        chats.push(chat.clone());
        if chats.len() > 5 {
            chat.queue.clear(); // It has been seen, and is long.
        }
    }
    for end in unicode::ends(odd) {
        chats.push(Chat { ended: Some(end), ..chat.clone() });
    }
    let plain = Chat { version: Version(u64::MAX), obeyed: InboxSeq(u64::MAX), ..chats[0].clone() };
    chats.extend(Status::ALL.map(|status| Chat { status, archived: true, ..plain.clone() }));
    chats.extend(TAILS.map(|tail| Chat { tail, ..plain.clone() }));
    let open = |state| {
        let call = OpenCall::new(&Call::new(UID, odd, odd), state);
        vec![OpenCall { input_hash: u64::MAX, progress: Some(odd.into()), ..call }]
    };
    let (title, touched) = (odd.to_string(), Timestamp(i64::MIN));
    chats.push(Chat { calls: open(CallState::Ready), step: StepId(u64::MAX), title, touched, ..plain.clone() });
    let found = |version, seq| TakeoverPoint { version: Version(version), seq: Seq(seq) };
    chats.push(Chat { inherited: DraftTakeovers { last: found(7, u64::MAX), before: found(5, 1) }, ..plain });
    let mut chosen = Chat { model: Some(samples::model(odd)), ..chats[0].clone() };
    chosen.apply(&[Fact::Moved(Status::Running), Fact::TurnBegan(Timestamp(-1)), Fact::Chose(None)]);
    chats.push(chosen);
    let mut later = Chat { newest: MessageId(u64::MAX), ..chats[0].clone() };
    later.apply(&[Fact::Moved(Status::Running), Fact::TurnBegan(Timestamp(-1))]);
    chats.push(later);
    chats.push(Chat {
        media_hidden_until: MessageId(u64::MAX),
        tried: StepAttempts { without_media: true, ..StepAttempts::default() },
        ..chats[0].clone()
    });
    chats.push(Chat { debug: true, ..chats[0].clone() });
    let totals = Totals { steps: u64::MAX, time: Duration::from_nanos(u64::MAX), ..Totals::default() };
    chats.push(Chat { totals, ..chats[0].clone() });
    let tools = vec![ToolSpec::new(odd, odd, json!({"properties": {"of": {"type": "string"}}}))];
    let setup = Setup { instructions: odd.into(), tools, metadata: [(odd.into(), odd.into())].into() };
    chats.push(Chat { setup: Some(setup.into()), ..chats[0].clone() });
    chats.push(Chat { setup: Some(Setup::default().into()), ..chats[0].clone() });
    let totals = Totals { alive: Duration::from_nanos(u64::MAX), ..Totals::default() };
    let alive = Alive { until: Timestamp(-1), since_reply: Duration::from_nanos(u64::MAX) };
    let turn = Some(Turn { alive, ..Turn::default() });
    chats.push(Chat { totals, turn, ..chats[0].clone() });
    let asks = OpenCall::new(&Call::new(UID, odd, odd), CallOpening::Ask(Arc::new(samples::ask_detail(odd))));
    let (path, confinement, grant) = (None, None, None);
    let bare = AskDetail { basis: String::new(), effect: Effect::Read, path, confinement, grant, terms: String::new() };
    let calls = vec![asks.clone(), OpenCall { ask: Some(Arc::new(bare)), ..asks }];
    chats.push(Chat { calls, grants: vec![samples::grant(odd)], ..chats[0].clone() });
    let state = CallState::Rests { began: Timestamp(-1), look_at: Timestamp(i64::MAX), misses: u32::MAX };
    let rests = OpenCall::new(&Call::new(UID, odd, odd), CallState::Ready);
    let rests = OpenCall { state, handle: Some(odd.into()), ..rests };
    chats.push(Chat { calls: vec![rests], ..chats[0].clone() });
    let parent = Some(Arc::new(samples::parent(odd)));
    chats.push(Chat { parent, delegated: samples::budget_use(), ..chats[0].clone() });
    let asks_below = vec![AskBelow { chat: ChatId::from_u128(u128::MAX), call: UID }];
    let asked = OpenCall { delegates: true, asks_below, ..OpenCall::new(&Call::new(UID, odd, odd), CallState::Ready) };
    let turn = Some(Turn { sub_agents: u32::MAX, ..Turn::default() });
    chats.push(Chat { calls: vec![asked], turn, ..chats[0].clone() });
    for settings in samples::turn_settings(odd) {
        let turn = Some(Turn { settings: Some(settings.into()), ..Turn::default() });
        chats.push(Chat { turn, ..chats[0].clone() });
    }
    chats
}

const TAILS: [TranscriptTail; 7] = [
    TranscriptTail::Nothing,
    TranscriptTail::Input,
    TranscriptTail::Reply,
    TranscriptTail::CutReply,
    TranscriptTail::FilteredReply,
    TranscriptTail::EmptyReply,
    TranscriptTail::StoppedReply,
];

pub(super) fn commands(odd: &str) -> Vec<Command> {
    let parts: Arc<[_]> = samples::parts(odd).into();
    let answer = |(_, what)| CallAnswer { call: UID, what };
    let mut commands = [Delivery::Queue, Delivery::Steer, Delivery::Now]
        .map(|when| Command::Send { parts: parts.clone(), when })
        .to_vec();
    commands.extend([
        Command::Promote(InboxSeq(u64::MAX)),
        Command::Unqueue(InboxSeq(1)),
        Command::Interrupt,
        Command::Answer(unicode::answered(odd).map(answer).into()),
        Command::Edit { message: MessageId(u64::MAX), parts },
        Command::Compact,
        Command::Archive,
        Command::Unarchive,
        Command::Rename(odd.into()),
        Command::Patch { title: Some(odd.into()), archived: Some(true), model: None, debug: None },
        Command::Patch { title: None, archived: None, model: Some(ModelChoice::Agents), debug: None },
        Command::Patch { title: None, archived: None, model: Some(ModelChoice::Own(samples::model(odd))), debug: None },
        Command::Patch { title: None, archived: None, model: None, debug: Some(true) },
    ]);
    let (by, until) = (odd.into(), Timestamp(i64::MIN));
    let what = AnswerContent::Grant { input_hash: u64::MAX, by, until };
    commands.extend([Command::Answer([CallAnswer { call: UID, what }].into()), Command::Revoke(UID)]);
    let is_asked = |verb: &Verb| commands.iter().any(|command| command.verb() == *verb);
    let others = Verb::ALL.iter().take_while(|verb| **verb != Verb::Begin); // From there on they are the driver's.
    assert_eq!(others.filter(|verb| !is_asked(verb)).count(), 0, "a command has no sample");
    commands
}

pub(super) fn outcomes() -> Vec<Result<(), Refusal>> {
    unicode::refusals().into_iter().map(Err).chain([Ok(())]).collect()
}

pub(super) fn attempts(odd: &str) -> Vec<AttemptRecord> {
    let attempted = |fact| match fact {
        Fact::Attempted(attempted, _) => Some(*attempted),
        _ => None,
    };
    unicode::attempts(odd).into_iter().chain(unicode::later(odd)).filter_map(attempted).collect()
}

/// All deltas at once and one by one, at times that jump about.
pub(super) fn journals(odd: &str) -> Vec<Vec<JournalRow>> {
    let deltas = samples::deltas(odd);
    assert_eq!(deltas.iter().map(samples::kind).collect::<BTreeSet<_>>().len(), samples::KINDS, "a kind is missing");
    let ats = [0, 0, i64::MAX, i64::MIN, -1, -1, 7].into_iter().cycle().map(Timestamp);
    let rows = deltas.into_iter().zip(ats).zip(5..).map(|((delta, at), seq)| {
        let (step, delta) = (StepId(u64::MAX), Arc::new(delta));
        JournalRow { step, seq: Seq(seq), at, delta }
    });
    let rows: Vec<JournalRow> = rows.collect();
    rows.iter().map(|row| vec![row.clone()]).chain([rows.clone(), Vec::new()]).collect()
}

/// Appends of chats that share a text: one by one, and all together.
pub(super) fn appends(odd: &str) -> Vec<Appends> {
    let journals = || journals(odd).into_iter().filter(|rows| !rows.is_empty());
    let chats = [1, 4_096, i64::MAX].into_iter().cycle();
    let alone = journals().map(|rows| Appends(vec![(7, rows)]));
    alone.chain([Appends(chats.zip(journals()).collect())]).collect()
}
