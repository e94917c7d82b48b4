//! The replay of a chat in which everything failed once.

use everturn::core::cost::{Micros, Spend, Tally};
use everturn::core::error::{Cause, ErrorKind};
use everturn::core::ids::ModelId;
use everturn::core::message::{Call, Meta, Output, Reasoning, ReplyBody, RunBy, Summary, SummarySource, Text};
use everturn::core::seam::Seam;
use everturn::stores::CallRecord;
use expect_test::expect;

use super::*;

fn text(text: &str) -> Part {
    Part::Text(Text { text: text.into(), meta: Meta::new() })
}

fn message(id: u64, at: i64, body: Body) -> Arc<Message> {
    Arc::new(Message { id: MessageId(id), at: Timestamp(at), body, sent: None })
}

fn reply(step: u64, parts: Vec<Part>, stop: Stop) -> ReplyBody {
    ReplyBody {
        step: StepId(step),
        parts,
        stop,
        model: model("a/one"),
        usage: None,
        runtime: Duration::from_millis(100),
        alive: Duration::from_millis(100),
        context_limit: None,
        response_id: None,
        seams: Vec::new(),
        retracted: Vec::new(),
        meta: Meta::new(),
    }
}

fn spoken(body: ReplyBody) -> Body {
    Body::Reply(Box::new(Reply::restored(body)))
}

fn model(name: &str) -> ModelId {
    name.parse().unwrap()
}

fn attempt(step: u64, number: u32, by: &str, began: i64, outcome: AttemptOutcome) -> AttemptRecord {
    aimed(AttemptPurpose::Unknown, step, number, by, began, outcome)
}

fn aimed(aim: AttemptPurpose, step: u64, number: u32, by: &str, began: i64, outcome: AttemptOutcome) -> AttemptRecord {
    AttemptRecord {
        aim,
        step: StepId(step),
        number,
        model: model(by),
        began: Timestamp(began),
        took: Duration::from_millis(400),
        tally: Tally::default(),
        spend: Spend { known: Micros(5), estimated: Micros(u64::from(number - 1)) },
        outcome,
    }
}

const fn uid(step: u64) -> CallUid {
    CallUid { step: StepId(step), ordinal: 0 }
}

fn called(step: u64) -> Part {
    let (provider_id, tool, input) = (String::new(), "pay\x1b".into(), r#"{"to": "me"}"#.into());
    let (run_by, at, meta) = (RunBy::Us, Timestamp(0), Meta::new());
    Part::Call(Call { uid: uid(step), provider_id, tool, input, whole: true, run_by, at, meta })
}

fn result(step: u64, verdict: CallVerdict, ended: i64) -> Body {
    let (tool, output, ended) = ("pay".into(), Output::text("paid\n twice"), Timestamp(ended));
    Body::Result(Box::new(CallResult { call: uid(step), tool, verdict, output, began: None, ended, meta: Meta::new() }))
}

fn chat() -> Vec<Beat> {
    let at = Timestamp(0);
    let thought =
        Part::Reasoning(Reasoning { text: "Hm.".into(), seal: None, began: at, ended: at, meta: Meta::new() });
    let joined = ReplyBody {
        seams: vec![Seam { at: 4, dropped: 2, inserted: 0, unmatched: 0 }],
        retracted: vec!["look".into()],
        ..reply(2, vec![text("Paid"), text(" it.\r")], Stop::Interrupted)
    };
    let summary = Summary {
        text: "All paid.".into(),
        newest_user: Vec::new(),
        source: SummarySource::Asked,
        tokens_before: 0,
        runtime: Duration::from_secs(70),
    };
    let transcript = [
        message(1, 0, Body::User(vec![text("Pay.\x1b[2J")])),
        message(2, 500, spoken(reply(1, vec![thought, called(1)], Stop::ToolUse))),
        message(3, 2_500, result(1, CallVerdict::Done, 2_500)),
        message(4, 4_000, spoken(joined)),
        message(5, 5_000, Body::Context("Hurry.".into())),
        message(6, 6_000, Body::Summary(Box::new(summary))),
        message(7, 9_000, spoken(reply(4, vec![called(4)], Stop::Broken))),
        message(8, 9_500, result(4, CallVerdict::Unknown, 9_500)),
    ];
    let broke = AttemptOutcome::Broke(Cause::Reset, ErrorKind::Overloaded);
    let attempts = [
        attempt(1, 1, "a/one", 100, AttemptOutcome::Answered),
        attempt(2, 1, "a/one", 2_600, broke),
        attempt(2, 2, "a/one", 3_100, AttemptOutcome::Lost),
        attempt(2, 3, "b/two", 3_600, AttemptOutcome::Interrupted),
        attempt(3, 1, "a/one", 7_000, broke),
    ];
    let (effect, ended) = (everturn::core::chat::Effect::Idempotent, None);
    let calls = [CallRecord { uid: uid(1), tool: "pay".into(), effect, started: Timestamp(1_000), starts: 2, ended }];
    beats(&transcript, &attempts, &calls)
}

/// Every attempt, fault, seam and tool is shown, in order, and no control character reaches the terminal.
#[test]
fn a_chat_is_told_as_it_happened() {
    let told: String = chat().iter().map(|beat| format!("{:>4} {}\n", beat.at.0, beat.text)).collect();
    expect![[r#"
           0 1 > Pay.␛[2J
         100   · step 1, attempt 1: a/one
         100 2 < ~ Hm.
         177   → 1.0 pay␛ {"to": "me"}
         500   · answered after 400 ms, 0 tokens, $0.000005
        2500 3 ← 1.0 pay done after 1.5 s, started 2 times: paid twice
        2600   · step 2, attempt 1: a/one
        3000   · broke: reset (overloaded) after 400 ms, 0 tokens, $0.000005
        3100   · step 2, attempt 2, again: a/one
        3500   · lost with its process after 400 ms, 0 tokens, about $0.000006
        3600   · step 2, attempt 3, another model: b/two
        3600 4 < Paid it.␍
        4000   · interrupted after 400 ms, 0 tokens, about $0.000007
        4000   · joined at byte 4: 2 repeated bytes left out, 0 put in
        4000   · a call of look was cut off and retracted
        4000   · interrupted by the user; the text so far is kept
        5000 5 (note to the model: Hurry.)
        6000 6 = summary in 1 min 10 s: All paid.
        7000   · step 3, attempt 1: a/one
        7400   · broke: reset (overloaded) after 400 ms, 0 tokens, $0.000005
        8900 7 < → 4.0 pay␛ {"to": "me"}
        9000   · it broke and could not be recovered; the text so far is kept
        9500 8 ← 4.0 pay outcome not known: paid twice
        9500   · 5 attempts, 0 tokens, $0.000028
    "#]]
    .assert_eq(&told);
}

/// An answer lasts from its attempt to its commit.
#[test]
fn an_answer_lasts_from_its_attempt_to_its_commit() {
    let beats = chat();
    let of_message = |id: u64| beats.iter().filter(move |beat| beat.message == Some(MessageId(id)));
    let spoken: Duration = of_message(2).map(|beat| beat.lasts).sum();
    assert!((399..=400).contains(&spoken.as_millis()), "from 100 to 500: {spoken:?}");
    assert!(of_message(3).all(|beat| beat.lasts.is_zero()));
}

/// A replay can stop after any message, and at any time.
#[test]
fn a_replay_stops_at_a_message_or_a_time() {
    use super::super::Until;
    let mut until = chat();
    Until::Message(MessageId(3)).cut(&mut until);
    assert!(until.last().unwrap().text.starts_with("3 ← 1.0 pay done"));
    let mut until = chat();
    Until::Time(Timestamp(3_000)).cut(&mut until);
    assert_eq!(until.last().unwrap().at, Timestamp(3_000), "when the first attempt of the second step broke");
    let mut until = chat();
    Until::Message(MessageId(0)).cut(&mut until);
    assert_eq!(until, []);
}

/// Each attempt names its rung, and a salvage is shown too.
#[test]
fn attempts_name_their_rung() {
    let broke = AttemptOutcome::Broke(Cause::Reset, ErrorKind::Overloaded);
    let rungs = [Rung::First, Rung::Continue, Rung::Restart, Rung::Reattach, Rung::FallBack];
    let attempts: Vec<AttemptRecord> = (1..)
        .zip(rungs)
        .map(|(number, rung)| aimed(AttemptPurpose::Answer(rung), 1, number, "a/one", i64::from(number) * 10, broke))
        .chain([aimed(AttemptPurpose::Summary, 2, 1, "a/one", 900, AttemptOutcome::Answered)])
        .collect();
    let transcript = [
        message(1, 0, Body::User(vec![text("Pay.")])),
        message(2, 500, spoken(reply(1, vec![called(1)], Stop::ToolUse))),
    ];
    let beats = beats(&transcript, &attempts, &[]);
    let named: Vec<&str> = beats.iter().filter_map(|beat| beat.text.trim().strip_prefix("· ")).collect();
    let named: Vec<&str> =
        named.into_iter().filter(|text| text.contains("attempt ") || text.contains("salvage")).collect();
    assert_eq!(
        named,
        [
            "step 1, attempt 1, first: a/one",
            "step 1, attempt 2, continue: a/one",
            "step 1, attempt 3, restart: a/one",
            "step 1, attempt 4, re-attach: a/one",
            "step 1, attempt 5, fall back: a/one",
            "salvage: the complete calls are run, without another attempt",
            "step 2, attempt 1, for a summary: a/one",
        ]
    );
}
