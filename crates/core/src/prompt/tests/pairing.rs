//! Calls and results find each other, whatever lies between them.

use expect_test::expect;

use super::build::{
    a_call, calls, check, check_for, context, model, reply, reply_body, reply_of, result, result_with, says, searches,
    signed, spoken, summary, target, transcript, uid, user,
};
use crate::message::{Body, Call, CallResult, CallVerdict, Output, Part, ReplyBody, RunBy, Stop};
use crate::prompt::{Prompt, PromptPart, RepairKind, WireFormat, prepare};

fn repairs<const N: usize>(bodies: [Body; N]) -> Vec<(u64, RepairKind)> {
    let mut prompt = Prompt::new(target(WireFormat::Anthropic));
    transcript(bodies).iter().for_each(|message| prompt.push(message));
    prompt.repairs().iter().map(|repair| (repair.message.0, repair.kind)).collect()
}

/// PR06, PR20: results are committed as they come and sent as they were asked for, before anything else.
#[test]
fn results_stand_behind_their_reply_in_the_order_of_its_calls() {
    check(
        [
            user("go"),
            reply([says("I look."), calls(1, "look", r#"{"at":"a"}"#), calls(2, "look", r#"{"at":"b"}"#)]),
            result(2, "second"),
            user("hurry"),
            context("it is noon"),
            result(1, "first"),
            reply([says("done")]),
        ],
        expect![[r#"
            user
              "go"
            assistant
              "I look."
              call_1 look {"at":"a"}
              call_2 look {"at":"b"}
            tool
              call_1 look gave "first"
              call_2 look gave "second"
            user
              "hurry"
              "it is noon"
            assistant
              "done"
            user
              "(No new message. Go on.)"
        "#]],
    );
}

/// PR07: a call that was never answered is said to have no result, and so is one with cut input.
#[test]
fn an_unanswered_call_gets_an_error_result() {
    let cut = Call { whole: false, ..a_call(2, "look", r#"{"at":"#, RunBy::Us) };
    check(
        [user("go"), reply([calls(1, "look", "{}"), Part::Call(cut)]), user("well?")],
        expect![[r#"
        user
          "go"
        assistant
          call_1 look {}
          call_2 look {}
        tool
          call_1 look failed "This call was interrupted and has no result."
          call_2 look failed "The input of this call was cut off, so it was not run."
        user
          "well?"
    "#]],
    );
}

/// Not PR09: an invented call would be one the model never made, and after a compaction it would believe that it had.
#[test]
fn a_result_without_a_call_becomes_a_note() {
    check(
        [
            user("go"),
            reply([calls(1, "look", "{}")]),
            summary("they looked", vec![says("go")]),
            result(1, "late"),
            result_with(2, CallVerdict::Unknown, Output::default()),
        ],
        expect![[r#"
            user
              "Summary of the conversation so far, in place of it:\n\nthey looked"
              "(The newest message before this point, word for word:)"
              "go"
              "(Result of an earlier call of look that is no longer shown:)\nlate"
              "(Result of an earlier call of look that is no longer shown:)\nThe call was started, and it is not known how it ended."
        "#]],
    );
}

#[test]
fn a_result_before_its_call_is_not_taken_for_its_answer() {
    check(
        [user("go"), result(1, "early"), reply([calls(1, "look", "{}")])],
        expect![[r#"
        user
          "go"
          "(Result of an earlier call of look that is no longer shown:)\nearly"
        assistant
          call_1 look {}
        tool
          call_1 look failed "This call was interrupted and has no result."
    "#]],
    );
}

#[test]
fn of_several_results_the_first_counts() {
    check(
        [user("go"), reply([calls(1, "look", "{}")]), result(1, "first"), result(1, "second")],
        expect![[r#"
        user
          "go"
        assistant
          call_1 look {}
        tool
          call_1 look gave "first"
    "#]],
    );
}

#[test]
fn calls_that_share_a_uid_are_answered_in_turn() {
    check(
        [user("go"), reply([calls(1, "look", "{}"), calls(1, "look", "{}")]), result(1, "a"), result(1, "b")],
        expect![[r#"
            user
              "go"
            assistant
              call_1 look {}
              call_2 look {}
            tool
              call_1 look gave "a"
              call_2 look gave "b"
        "#]],
    );
}

#[test]
fn replies_in_a_row_each_get_their_results() {
    check(
        [
            user("go"),
            reply([says("one"), calls(1, "look", "{}")]),
            reply([says("two"), calls(2, "look", "{}")]),
            result(2, "b"),
            result(1, "a"),
        ],
        expect![[r#"
            user
              "go"
            assistant
              "one"
              call_1 look {}
            tool
              call_1 look gave "a"
            assistant
              "two"
              call_2 look {}
            tool
              call_2 look gave "b"
        "#]],
    );
}

/// PR04: the provider's ids may be empty, repeated or full of odd characters; ours are counted.
#[test]
fn call_ids_are_counted_and_the_same_in_call_and_result() {
    let odd =
        |ordinal, id: &str| Part::Call(Call { provider_id: id.into(), ..a_call(ordinal, "look", "{}", RunBy::Us) });
    let bodies = [
        user("go"),
        reply([odd(1, ""), odd(2, "dup"), odd(3, "dup")]),
        result(1, "a"),
        result(2, "b"),
        result(3, "c"),
        reply([odd(4, "functions.look:0 ⚠")]),
        result(4, "d"),
    ];
    let entries = prepare(&transcript(bodies), &target(WireFormat::Anthropic));
    let mut ids = Vec::new();
    for part in entries.iter().flat_map(|entry| &entry.parts) {
        match part {
            PromptPart::Call(call) => ids.push((call.id.clone(), call.provider_id.clone())),
            PromptPart::Result(result) => assert!(ids.contains(&(result.id.clone(), result.provider_id.clone()))),
            _ => {}
        }
    }
    let ids: Vec<_> = ids.iter().map(|(id, theirs)| (id.as_str(), theirs.as_str())).collect();
    assert_eq!(ids, [("call_1", ""), ("call_2", "dup"), ("call_3", "dup"), ("call_4", "functions.look:0 ⚠")]);
}

#[test]
fn a_summary_starts_the_count_anew() {
    check(
        [
            user("go"),
            reply([calls(1, "look", "{}")]),
            result(1, "a"),
            summary("looked", vec![]),
            reply([calls(2, "look", "{}")]),
            result(2, "b"),
        ],
        expect![[r#"
            user
              "Summary of the conversation so far, in place of it:\n\nlooked"
            assistant
              call_1 look {}
            tool
              call_1 look gave "b"
        "#]],
    );
}

/// PR05: what is not a JSON object is an empty one; the model sees its call and the error result explains.
#[test]
fn an_input_that_is_no_object_becomes_an_empty_one() {
    for input in ["[1]", "null", "\"{}\"", "{\"a\":", "12", "\u{0}"] {
        let bodies = [user("go"), reply([calls(1, "look", input)]), result(1, "bad input")];
        let entries = prepare(&transcript(bodies), &target(WireFormat::Gemini));
        let Some(PromptPart::Call(call)) = entries.get(1).and_then(|entry| entry.parts.first()) else {
            panic!("the call is sent: {input}")
        };
        assert!(call.input.is_empty(), "{input}");
    }
    assert_eq!(
        repairs([user("go"), reply([calls(1, "look", "[1]")]), result(1, "bad input")]),
        [(2, RepairKind::UnreadableInput)]
    );
}

/// PR11: failed, refused, stopped and unknown are errors; what a tool says in JSON stays JSON.
#[test]
fn every_verdict_but_done_is_sent_as_an_error() {
    check(
        [
            user("go"),
            reply([
                calls(1, "look", "{}"),
                calls(2, "look", "{}"),
                calls(3, "look", "{}"),
                calls(4, "look", "{}"),
                calls(5, "look", "{}"),
            ]),
            result_with(1, CallVerdict::Done, Output::default()),
            result_with(2, CallVerdict::Error, Output::text(r#"{"error":{"code":7}}"#)),
            result_with(3, CallVerdict::Denied, Output::default()),
            result_with(4, CallVerdict::Interrupted, Output::text(" \n")),
            result_with(5, CallVerdict::Unknown, Output::default()),
        ],
        expect![[r#"
            user
              "go"
            assistant
              call_1 look {}
              call_2 look {}
              call_3 look {}
              call_4 look {}
              call_5 look {}
            tool
              call_1 look gave "(no output)"
              call_2 look failed "{\"error\":{\"code\":7}}"
              call_3 look failed "The call was refused."
              call_4 look failed "The call was interrupted."
              call_5 look failed "The call was started, and it is not known how it ended."
        "#]],
    );
}

#[test]
fn retracted_calls_are_told_after_the_results() {
    let body = ReplyBody {
        retracted: vec!["write file".into(), "look".into()],
        stop: Stop::ToolUse,
        ..reply_body(model(WireFormat::Anthropic), vec![calls(1, "look", "{}")])
    };
    check(
        [user("go"), spoken(body), user("and?"), result(1, "a")],
        expect![[r#"
        user
          "go"
        assistant
          call_1 look {}
        tool
          call_1 look gave "a"
        user
          "(Cut off and taken back before it ran: write_file, look.)"
          "and?"
    "#]],
    );
}

#[test]
fn a_name_the_model_made_up_is_cleaned_alike_in_call_and_result() {
    for (wire, expected) in [
        (
            WireFormat::Anthropic,
            expect![[r#"
        user
          "go"
        assistant
          call_1 read_file_ {}
          call_2 unnamed_tool {}
          call_3 7zip {}
        tool
          call_1 read_file_ failed "This call was interrupted and has no result."
          call_2 unnamed_tool failed "This call was interrupted and has no result."
          call_3 7zip failed "This call was interrupted and has no result."
    "#]],
        ),
        (
            WireFormat::Gemini,
            expect![[r#"
        user
          "go"
        assistant
          call_1 read_file_ {}
          call_2 unnamed_tool {}
          call_3 _7zip {}
        tool
          call_1 read_file_ failed "This call was interrupted and has no result."
          call_2 unnamed_tool failed "This call was interrupted and has no result."
          call_3 _7zip failed "This call was interrupted and has no result."
    "#]],
        ),
    ] {
        check_for(
            &target(wire),
            [user("go"), reply([calls(1, "read file!", "{}"), calls(2, "", "{}"), calls(3, "7zip", "{}")])],
            expected,
        );
    }
}

/// CR42, CR43, PR08: no search result is invented; the local call beside it is answered all the same.
#[test]
fn an_interrupted_search_gets_no_result_while_the_call_beside_it_does() {
    let parts = vec![says("both"), searches(1), calls(2, "look", "{}")];
    let body = ReplyBody { stop: Stop::Interrupted, ..reply_body(model(WireFormat::Anthropic), parts) };
    check(
        [user("go"), spoken(body), user("stop")],
        expect![[r#"
        user
          "go"
        assistant
          "both"
          call_1 look {}
        tool
          call_1 look failed "This call was interrupted and has no result."
        user
          "stop"
    "#]],
    );
}

#[test]
fn neighbouring_replies_merge_where_the_wire_alternates() {
    let bodies = || [user("go"), reply([says("one")]), reply([says("two")]), user("on")];
    let roles = |wire| prepare(&transcript(bodies()), &target(wire)).len();
    let sent = WireFormat::ALL.map(roles);
    assert_eq!(sent, [3, 4, 3, 3]);
}

/// SA04: a signature covers what stood around it, so signed replies stay apart.
#[test]
fn neighbouring_replies_never_merge_across_signed_reasoning() {
    check(
        [
            user("go"),
            reply([says("one")]),
            reply([signed("hm", "sig"), says("two")]),
            reply([says("three")]),
            reply([says("four")]),
            user("on"),
        ],
        expect![[r#"
            user
              "go"
            assistant
              "one"
            assistant
              thinks "hm" Signature("sig")
              "two"
            assistant
              "three"
              "four"
            user
              "on"
        "#]],
    );
}

#[test]
fn every_repair_is_noted_with_its_message() {
    let mine = |ordinal, text| {
        let Body::Result(plain) = result(0, text) else { unreachable!("a result is a result") };
        Body::Result(Box::new(CallResult { call: uid(ordinal), ..*plain }))
    };
    assert_eq!(
        repairs([
            user("go"),
            mine(9, "orphan"),
            reply([calls(1, "look", "{}"), calls(2, "look", "nonsense"), searches(3)]),
            mine(1, "first"),
            mine(1, "again"),
            reply_of(WireFormat::Gemini, [says("done"), searches(4)]),
        ]),
        [
            (2, RepairKind::OrphanResult),
            (3, RepairKind::UnreadableInput),
            (3, RepairKind::HostedTool),
            (5, RepairKind::RepeatedResult),
            (3, RepairKind::UnansweredCall),
        ]
    );
}
