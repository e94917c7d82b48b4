//! Every shape of broken session that people have reported, by name.

use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::{Expect, expect};

use super::{mended, shown};
use crate::doctor::{CallKnowledge, TranscriptOrigin, repair};
use crate::ids::{CallUid, StepId};
use crate::message::{Body, Call, CallResult, CallVerdict, Media, Message, Output, Part, ReplyBody, RunBy, Seal};
use crate::prompt::WireFormat;
use crate::prompt::tests::build::{
    a_call, calls, model, reply, reply_body, result, result_with, says, signed, spoken, summary, thinks, transcript,
    user,
};

/// What is found, and what the transcript is afterwards.
fn check<const N: usize>(bodies: [Body; N], expected: Expect) {
    let repaired = mended(transcript(bodies));
    let mut told = String::new();
    for finding in &repaired.findings {
        writeln!(told, "{finding}; {}", finding.flaw.repair()).unwrap();
    }
    write!(told, "kept {}\n{}", repaired.kept, shown(&repaired.messages)).unwrap();
    expected.assert_eq(&told);
}

/// A reply of a later step.
fn later(step: u64, parts: Vec<Part>) -> Body {
    spoken(ReplyBody { step: StepId(step), ..reply_body(model(WireFormat::Anthropic), parts) })
}

fn later_call(step: u64, tool: &str) -> Part {
    Part::Call(Call { uid: uid(step), ..a_call(0, tool, "{}", RunBy::Us) })
}

fn later_result(step: u64, text: &str) -> Body {
    let Body::Result(plain) = result(0, text) else { unreachable!("a result is a result") };
    Body::Result(Box::new(CallResult { call: uid(step), ..*plain }))
}

const fn uid(step: u64) -> CallUid {
    CallUid { step: StepId(step), ordinal: 0 }
}

#[test]
fn a_call_without_a_result_is_answered_with_what_is_known() {
    check(
        [user("a"), reply([calls(0, "look", "{}"), calls(1, "pay", "{}")]), result(1, "paid"), user("b")],
        expect![[r#"
            message 2: the call of look has no result; a result is added: the outcome is not known
            kept 3
            1 user "a"
            2 reply 1 look({}) pay({})
            3 result 1.1 look Done "paid"
            5 result 1.0 look Unknown "The result of this call was lost. It is not known whether it ran, or how it ended." {"doctor":["made in place of a result that was missing"]}
            6 user "b"
        "#]],
    );
    let messages: Vec<Arc<Message>> = transcript([reply([calls(0, "look", "{}")])]).into_iter().map(Arc::new).collect();
    let said = |known: CallKnowledge| match &repair(&messages, TranscriptOrigin::Ours(&|_| known)).messages[1].body {
        Body::Result(result) => (result.verdict, result.output.text.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!(said(CallKnowledge::Nothing).0, CallVerdict::Unknown);
    assert_eq!(
        said(CallKnowledge::Started),
        (CallVerdict::Unknown, "The call was started, and it is not known how it ended.".into())
    );
}

#[test]
fn a_cut_call_is_said_never_to_have_run() {
    let cut = Part::Call(Call { whole: false, ..a_call(0, "pay", r#"{"amount": 1"#, RunBy::Us) });
    check(
        [user("a"), reply([cut]), user("b")],
        expect![[r#"
        message 2: the call of pay has no result; a result is added: it was cut off and never ran
        kept 2
        1 user "a"
        2 reply 1 pay({"amount": 1)
        4 result 1.0 pay Interrupted "The input of this call was cut off, so it was not run." {"doctor":["made in place of a result that was missing"]}
        5 user "b"
    "#]],
    );
}

#[test]
fn a_result_without_a_call_becomes_a_note_with_what_it_shows() {
    let media = vec![Media { media_type: "image/png".into(), bytes: b"png"[..].into() }];
    let shot = result_with(3, CallVerdict::Done, Output { text: String::new(), media, full: None });
    check(
        [user("a"), reply([says("b")]), result(2, "late"), shot, user("c")],
        expect![[r#"
        message 3: the result of look answers no call; it becomes a note of what the tool said
        message 4: the result of look answers no call; it becomes a note of what the tool said
        kept 2
        1 user "a"
        2 reply 1 "b"
        6 context "(Result of an earlier call of look that is no longer shown:)\nlate"
        7 context "(Result of an earlier call of look that is no longer shown:)\n(no output)"
        8 user file image/png Some(3)
        9 user "c"
    "#]],
    );
}

#[test]
fn a_result_behind_another_reply_is_brought_back() {
    check(
        [
            user("a"),
            later(1, vec![later_call(1, "look")]),
            user("b"),
            later(2, vec![later_call(2, "look")]),
            later_result(1, "one"),
            later_result(2, "two"),
            later(3, vec![says("c")]),
        ],
        expect![[r#"
            message 5: the result of look is not right behind its call; it is moved behind its call
            kept 2
            1 user "a"
            2 reply 1 look({})
            8 result 1.0 look Done "one" {"doctor":["moved behind its call"]}
            9 user "b"
            10 reply 2 look({})
            11 result 2.0 look Done "two"
            12 reply 3 "c"
        "#]],
    );
}

/// Preparing puts up with these, and providers do not.
#[test]
fn words_and_replies_between_a_call_and_its_result_are_moved() {
    check(
        [
            later(
                1,
                vec![
                    later_call(1, "look"),
                    Part::Call(Call {
                        uid: CallUid { step: StepId(1), ordinal: 1 },
                        ..a_call(0, "find", "{}", RunBy::Us)
                    }),
                ],
            ),
            later_result(1, "one"),
            user("b"),
            result(1, "two"),
            later(2, vec![later_call(2, "look")]),
            later(3, vec![says("c")]),
            later_result(2, "three"),
        ],
        expect![[r#"
            message 4: the result of look is not right behind its call; it is moved behind its call
            message 7: the result of look is not right behind its call; it is moved behind its call
            kept 2
            1 reply 1 look({}) find({})
            2 result 1.0 look Done "one"
            8 result 1.1 look Done "two" {"doctor":["moved behind its call"]}
            9 user "b"
            10 reply 2 look({})
            11 result 2.0 look Done "three" {"doctor":["moved behind its call"]}
            12 reply 3 "c"
        "#]],
    );
}

#[test]
fn a_result_before_its_call_is_brought_behind_it() {
    check(
        [user("a"), later_result(1, "early"), later(1, vec![later_call(1, "look")])],
        expect![[r#"
            message 2: the result of look is not right behind its call; it is moved behind its call
            kept 1
            1 user "a"
            4 reply 1 look({})
            5 result 1.0 look Done "early" {"doctor":["moved behind its call"]}
        "#]],
    );
}

#[test]
fn of_several_results_the_first_counts_and_another_is_told() {
    check(
        [reply([calls(0, "look", "{}")]), result(0, "one"), result(0, "one"), result(0, "two"), user("b")],
        expect![[r#"
            message 3: the result of look is there already; the copy is left out
            message 4: the call of look has a result already, and it says something else; the first counts, and this one becomes a note
            kept 2
            1 reply 1 look({})
            2 result 1.0 look Done "one"
            6 context "(Result of an earlier call of look that is no longer shown:)\ntwo"
            7 user "b"
        "#]],
    );
}

/// A summary stands for the call, and its result comes after.
#[test]
fn a_result_behind_a_summary_has_a_home() {
    check(
        [user("a"), reply([calls(0, "look", "{}")]), summary("s", vec![]), result(0, "late"), user("b")],
        expect![[r#"
            message 2: the call of look has no result; a result is added: the outcome is not known
            message 4: the result of look answers no call; it becomes a note of what the tool said
            kept 2
            1 user "a"
            2 reply 1 look({})
            6 result 1.0 look Unknown "The result of this call was lost. It is not known whether it ran, or how it ended." {"doctor":["made in place of a result that was missing"]}
            7 summary "s"
            8 context "(Result of an earlier call of look that is no longer shown:)\nlate"
            9 user "b"
        "#]],
    );
}

#[test]
fn inputs_become_objects_and_what_they_were_is_kept() {
    check(
        [
            reply([
                calls(0, "write", "{\"text\": \"a\u{7}b\nc\\\"d\"}"),
                calls(1, "write", "{\"text\": \"a"),
                calls(2, "write", " "),
            ]),
            result(0, "ok"),
            result(1, "ok"),
            result(2, "ok"),
        ],
        expect![[r#"
            message 1: the input of the call of write is no JSON object; its control characters are escaped
            message 1: the input of the call of write is no JSON object; an empty object takes its place, and the text is kept
            kept 0
            5 reply 1 write({"text": "a\u0007b\u000ac\"d"}) {"input":"{\"text\": \"a\u0007b\nc\\\"d\"}"} write({}) {"input":"{\"text\": \"a"} write( ) {"doctor":["made the input of a call a JSON object"]}
            6 result 1.0 look Done "ok"
            7 result 1.1 look Done "ok"
            8 result 1.2 look Done "ok"
        "#]],
    );
}

#[test]
fn copies_of_reasoning_and_replies_are_left_out() {
    let thought = || signed("Hm.", "c2lnbmVkLCBsb25nIGVub3VnaCB0byBiZSByZWFsISE=");
    let many = vec![thought(), thought(), says("b"), thought()];
    let copy = |step, parts| {
        spoken(ReplyBody {
            step: StepId(step),
            response_id: Some("msg_1".into()),
            ..reply_body(model(WireFormat::Anthropic), parts)
        })
    };
    check(
        [
            user("a"),
            copy(1, many),
            user("b"),
            copy(2, vec![says("c"), later_call(2, "look")]),
            later_result(2, "seen"),
            copy(3, vec![says("c"), later_call(3, "look")]),
            later_result(3, "seen"),
            user("d"),
            copy(4, vec![says("c"), later_call(4, "look")]),
            later_result(4, "seen"),
        ],
        expect![[r#"
            message 2: 2 parts of its reasoning are copies; copies are left out
            message 6: the reply is there already; copies are left out
            message 7: the result of look is there already; the copy is left out
            kept 1
            1 user "a"
            11 reply 1 [sealed "Hm."] "b" {"doctor":["left out 2 copies of reasoning"]}
            12 user "b"
            13 reply 2 "c" look({})
            14 result 2.0 look Done "seen"
            15 user "d"
            16 reply 4 "c" look({})
            17 result 4.0 look Done "seen"
        "#]],
    );
}

#[test]
fn seals_that_are_none_are_taken_off() {
    let whole = "c2lnbmVkLCBsb25nIGVub3VnaCB0byBiZSByZWFsISE=";
    let cut = &whole[..whole.len() - 3];
    let redacted = thinks("", Some(Seal::Redacted("not one".into())));
    check(
        [user("a"), reply([signed("1", whole), signed("2", cut), signed("3", ""), redacted, says("b")])],
        expect![[r#"
            message 2: the seal of its reasoning is cut or no seal; the reasoning is kept for people to read and not sent again
            kept 1
            1 user "a"
            3 reply 1 [sealed "1"] [open "2"] [open "3"] [open ""] "b" {"doctor":["took a broken seal off reasoning"]}
        "#]],
    );
}
