//! Tools that ran at the provider: perfect pairs, or words, or nothing.

use expect_test::expect;
use serde_json::json;

use super::build::{
    a_call, a_search, calls, check, check_for, finds, found, meta, reply, reply_of, result, says, searches, shown,
    signed, target, transcript, uid, user,
};
use crate::message::{Body, Call, Part, Provided, RunBy};
use crate::prompt::{PromptPart, Target, WireFormat, prepare};

/// How many halves of hosted pairs, and of which text, reach Anthropic.
fn sent<const N: usize>(parts: [Part; N]) -> (usize, String) {
    let entries = prepare(&transcript([user("go"), reply(parts), user("on")]), &target(WireFormat::Anthropic));
    let parts = entries.iter().flat_map(|entry| &entry.parts);
    let is_hosted = |part: &&PromptPart| matches!(part, PromptPart::HostedCall(_) | PromptPart::HostedResult(_));
    (parts.filter(is_hosted).count(), shown(&entries))
}

fn call(change: impl FnOnce(&mut Call)) -> Part {
    let mut call = a_search(1);
    change(&mut call);
    Part::Call(call)
}

fn outcome(change: impl FnOnce(&mut Provided)) -> Part {
    let mut provided = found(1);
    change(&mut provided);
    Part::Provided(provided)
}

/// CL18, CR36, CR41, SA01, PR20: a search with its outcome stays inside its reply, between the words, as it came.
#[test]
fn a_perfect_pair_is_sent_as_it_came() {
    check(
        [
            user("go"),
            reply([
                signed("hm", "sig"),
                searches(1),
                calls(2, "look", "{}"),
                finds(1),
                says("so"),
                searches(3),
                finds(3),
                calls(4, "look", "{}"),
            ]),
            result(4, "d"),
            result(2, "b"),
        ],
        expect![[r#"
            user
              "go"
            assistant
              thinks "hm" Signature("sig")
              srvtoolu_1 web_search {"query":"kelp"}
              call_1 look {}
              srvtoolu_1 web_search found [{"encrypted_content":"abc","title":"Kelp","url":"https://kelp.example"}]
              "so"
              srvtoolu_3 web_search {"query":"kelp"}
              srvtoolu_3 web_search found [{"encrypted_content":"abc","title":"Kelp","url":"https://kelp.example"}]
              call_2 look {}
            tool
              call_1 look gave "b"
              call_2 look gave "d"
        "#]],
    );
}

/// CL18, SA02: a call without an outcome is not sent. It stays in the transcript, where people can see it.
#[test]
fn a_call_without_an_outcome_is_dropped() {
    assert_eq!(sent([says("a"), searches(1), says("b")]), sent([says("a"), says("b")]));
}

/// CL18, CR46, SA03: an outcome without a call becomes words, of what a person could read in it.
#[test]
fn an_outcome_without_a_call_becomes_words() {
    check(
        [user("go"), reply([says("a"), finds(1), says("b")]), user("on")],
        expect![[r#"
        user
          "go"
        assistant
          "a"
          "(web_search found:)\nKelp\nhttps://kelp.example"
          "b"
        user
          "on"
    "#]],
    );
    let nothing = outcome(|provided| provided.output = json!([{"encrypted_content": "abc"}]));
    assert_eq!(sent([says("a"), nothing]), sent([says("a")]));
}

/// CL18, SA02: every way in which a pair can be less than perfect, and no half of it left.
#[test]
fn an_imperfect_pair_loses_both_halves() {
    let broken: [(&str, [Part; 2]); 13] = [
        ("outcome first", [finds(1), searches(1)]),
        ("input is no JSON", [call(|call| call.input = "{".into()), finds(1)]),
        ("input is no object", [call(|call| call.input = "[]".into()), finds(1)]),
        ("input is cut", [call(|call| call.whole = false), finds(1)]),
        ("no id", [call(|call| call.provider_id = String::new()), finds(1)]),
        ("an id of another provider", [call(|call| call.provider_id = "ws_1".into()), finds(1)]),
        ("no name", [call(|call| call.tool = String::new()), finds(1)]),
        ("a tool that cannot be sent back", {
            let name = |tool: &mut String| *tool = "code_execution".into();
            [call(|call| name(&mut call.tool)), outcome(|provided| name(&mut provided.tool))]
        }),
        ("another tool's outcome", [searches(1), outcome(|provided| provided.tool = "web_fetch".into())]),
        ("an outcome without shape", [searches(1), outcome(|provided| provided.output = json!("text"))]),
        ("an outcome of another call", [searches(1), outcome(|provided| provided.uid = Some(uid(7)))]),
        ("an outcome of no call", [searches(1), outcome(|provided| provided.uid = None)]),
        ("made elsewhere", [searches(1), outcome(|provided| provided.meta = meta("openai", json!(1)))]),
    ];
    for (name, [one, other]) in broken {
        let (hosted, text) = sent([says("a"), one, other, says("b")]);
        assert_eq!(hosted, 0, "{name}:\n{text}");
    }
}

/// CL18: of calls that share an id none can be told from the other.
#[test]
fn calls_with_one_id_are_all_dropped() {
    let again = Part::Call(Call { uid: uid(2), ..a_search(1) });
    assert_eq!(sent([searches(1), finds(1), again, finds(2)]).0, 0);
    assert_eq!(sent([searches(1), finds(1), finds(1)]).0, 0, "two outcomes of one call");
    let other = Part::Call(Call { uid: uid(1), ..a_search(2) });
    assert_eq!(sent([searches(1), other, finds(1)]).0, 0, "two calls for one outcome");
}

#[test]
fn an_id_is_sent_once_in_a_prompt() {
    check(
        [user("go"), reply([searches(1), finds(1), says("a")]), user("on"), reply([searches(1), finds(1), says("b")])],
        expect![[r#"
            user
              "go"
            assistant
              srvtoolu_1 web_search {"query":"kelp"}
              srvtoolu_1 web_search found [{"encrypted_content":"abc","title":"Kelp","url":"https://kelp.example"}]
              "a"
            user
              "on"
            assistant
              "(web_search found:)\nKelp\nhttps://kelp.example"
              "b"
            user
              "(No new message. Go on.)"
        "#]],
    );
}

/// CL18: a call and its result must have run in the same place; the local side stays.
#[test]
fn a_local_call_with_a_hosted_outcome_stays_a_local_call() {
    check(
        [
            user("go"),
            reply([Part::Call(a_call(1, "web_search", "{}", RunBy::Us)), finds(1), searches(2)]),
            result(2, "a local result for the hosted call"),
        ],
        expect![[r#"
            user
              "go"
            assistant
              call_1 web_search {}
              "(web_search found:)\nKelp\nhttps://kelp.example"
            tool
              call_1 web_search failed "This call was interrupted and has no result."
            user
              "(Result of an earlier call of look that is no longer shown:)\na local result for the hosted call"
        "#]],
    );
}

/// PR10: an outcome outside a reply is not sent.
#[test]
fn an_outcome_outside_a_reply_is_dropped_with_its_message() {
    check(
        [user("go"), reply([says("a")]), Body::User(vec![finds(1)]), user("on")],
        expect![[r#"
        user
          "go"
        assistant
          "a"
        user
          "on"
    "#]],
    );
}

/// SA05, SA07: dropping a broken half leaves the reasoning around it to the byte.
#[test]
fn signed_reasoning_around_a_broken_half_is_untouched() {
    check(
        [user("go"), reply([signed("x ", "sig a"), searches(1), signed("", "sig b"), says("a")]), user("on")],
        expect![[r#"
            user
              "go"
            assistant
              thinks "x " Signature("sig a")
              thinks "" Signature("sig b")
              "a"
            user
              "on"
        "#]],
    );
    check(
        [user("go"), reply([signed("x ", "sig a"), searches(1)]), user("on")],
        expect![[r#"
        user
          "go"
          "on"
    "#]],
    );
}

/// SA08: another provider's searches: the call goes, what it found is told.
#[test]
fn hosted_parts_of_another_provider_become_words() {
    for (wire, expected) in [
        (
            WireFormat::OpenAiResponses,
            expect![[r#"
        user
          "go"
        assistant
          "(web_search found:)\nKelp\nhttps://kelp.example"
          "a"
        user
          "on"
    "#]],
        ),
        (
            WireFormat::Gemini,
            expect![[r#"
        user
          "go"
        assistant
          "(web_search found:)\nKelp\nhttps://kelp.example"
          "a"
        user
          "on"
    "#]],
        ),
    ] {
        check_for(&target(wire), [user("go"), reply([searches(1), finds(1), says("a")]), user("on")], expected);
    }
}

/// CR46: what can be sent back is a matter of the target, not of the tools offered in this request.
#[test]
fn a_target_says_what_it_takes_back() {
    let openai = target(WireFormat::OpenAiResponses);
    let able = Target { replays: vec!["web_search".into()], ..openai.clone() };
    let search = Part::Call(Call { provider_id: "ws_1-a".into(), ..a_search(1) });
    let bodies =
        || [user("go"), reply_of(WireFormat::OpenAiResponses, [search.clone(), finds(1), says("a")]), user("on")];
    check_for(
        &openai,
        bodies(),
        expect![[r#"
        user
          "go"
        assistant
          "(web_search found:)\nKelp\nhttps://kelp.example"
          "a"
        user
          "on"
    "#]],
    );
    check_for(
        &able,
        bodies(),
        expect![[r#"
        user
          "go"
        assistant
          ws_1-a web_search {"query":"kelp"}
          ws_1-a web_search found [{"encrypted_content":"abc","title":"Kelp","url":"https://kelp.example"}]
          "a"
        user
          "on"
    "#]],
    );
}

#[test]
fn a_long_outcome_is_told_in_part() {
    let long = outcome(|provided| provided.output = json!([{"text": "ä".repeat(10_000)}]));
    let (_, text) = sent([long]);
    assert!(text.len() < 5_000 && text.contains("web_search found"));
}
