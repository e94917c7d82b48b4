//! What of a reply may be told again: words, reasoning and metadata.

use expect_test::expect;
use serde_json::json;

use super::build::{
    a_call, calls, check, check_for, file, meta, model, reply, reply_body, reply_of, result, says, searches, shown,
    signed, source, spoken, target, thinks, transcript, user,
};
use crate::message::{Body, Call, Meta, Part, Provided, Reasoning, ReplyBody, RunBy, Seal, Stop, Text};
use crate::prompt::{PromptPart, SealedReasoning, Target, WireFormat, prepare};

fn attached(part: Part, meta: Meta) -> Part {
    match part {
        Part::Text(text) => Part::Text(Text { meta, ..text }),
        Part::Reasoning(reasoning) => Part::Reasoning(Reasoning { meta, ..reasoning }),
        Part::Call(call) => Part::Call(Call { meta, ..call }),
        Part::Provided(provided) => Part::Provided(Provided { meta, ..provided }),
        part => part,
    }
}

fn sealed<const N: usize>(target: &Target, bodies: [Body; N]) -> Vec<SealedReasoning> {
    let entries = prepare(&transcript(bodies), target);
    let parts = entries.iter().flat_map(|entry| entry.parts.clone());
    let sealed = parts.filter_map(|part| if let PromptPart::Reasoning(sealed) = part { Some(sealed) } else { None });
    sealed.collect()
}

/// PR02, CR37: blank text and blank unsealed reasoning are not sent, and a reply of nothing else is none.
#[test]
fn blanks_are_dropped_and_a_reply_of_blanks_is_no_reply() {
    check(
        [
            user("go"),
            reply([says(" \n"), says("a"), thinks("", None), says("")]),
            user("\t"),
            user("on"),
            reply([says(""), thinks(" ", None)]),
            user("well?"),
        ],
        expect![[r#"
            user
              "go"
            assistant
              "a"
            user
              "on"
              "well?"
        "#]],
    );
}

/// PR03, CR10: an empty thought with a seal is worth its seal, and stands where it stood.
#[test]
fn sealed_reasoning_is_kept_even_when_empty_and_in_its_place() {
    check(
        [
            user("go"),
            reply([
                signed("", "sig a"),
                thinks("", Some(Seal::Redacted("blob".into()))),
                says("first"),
                signed("more", "sig b"),
                says("second"),
            ]),
            user("on"),
        ],
        expect![[r#"
            user
              "go"
            assistant
              thinks "" Signature("sig a")
              thinks "" Redacted("blob")
              "first"
              thinks "more" Signature("sig b")
              "second"
            user
              "on"
        "#]],
    );
}

#[test]
fn sealed_reasoning_is_byte_equal_with_its_own_metadata() {
    let both = Meta::from([("anthropic".to_string(), json!({"k": "\0"})), ("gateway".to_string(), json!(1))]);
    let part = attached(signed("a\0b \u{fffd}", "s\0ig=="), both);
    let sent = sealed(&target(WireFormat::Anthropic), [user("go"), reply([part, says("x")])]);
    let expected = SealedReasoning {
        provider: "anthropic".into(),
        text: "a\0b \u{fffd}".into(),
        seal: Seal::Signature("s\0ig==".into()),
        meta: meta("anthropic", json!({"k": "\0"})),
    };
    assert_eq!(sent, [expected]);
}

#[test]
fn unsealed_reasoning_is_never_sent() {
    let blank = || Some(Seal::Signature(" ".into()));
    for wire in WireFormat::ALL {
        let parts = [thinks("secret", None), thinks("secret", blank()), says("x"), calls(1, "look", "{}")];
        assert_eq!(sealed(&target(wire), [user("go"), reply_of(wire, parts)]), [], "{wire:?}");
    }
}

#[test]
fn reasoning_of_another_provider_is_never_sent() {
    let anthropic = target(WireFormat::Anthropic);
    assert_eq!(sealed(&anthropic, [user("go"), reply_of(WireFormat::Gemini, [signed("a", "sig"), says("x")])]), []);
    // A fallback finished this reply, so it carries the last model's name; the part still names its own
    // model.
    let carried = attached(signed("a", "sig"), meta("openai", json!({})));
    assert_eq!(sealed(&anthropic, [user("go"), reply([carried, says("x")])]), []);
}

#[test]
fn a_target_that_takes_no_reasoning_gets_none() {
    let compatible = target(WireFormat::OpenAiChat);
    let bodies = || [user("go"), reply_of(WireFormat::OpenAiChat, [signed("a", "sig"), says("x")])];
    assert_eq!(sealed(&compatible, bodies()), []);
    assert_eq!(sealed(&Target { reasoning: true, ..compatible }, bodies()).len(), 1);
}

#[test]
fn reasoning_stands_where_each_wire_wants_it() {
    let parts = || [says("first"), signed("a", "sig a"), says("second"), signed("b", "sig b")];
    let sent =
        WireFormat::ALL.map(|wire| sealed(&target(wire), [user("go"), reply_of(wire, parts()), user("on")]).len());
    // Anthropic wants it first, OpenAI wants something after it, the compatible ones do not want it, Gemini does not mind.
    assert_eq!(sent, [0, 1, 0, 2]);
}

#[test]
fn reasoning_alone_is_no_reply() {
    for wire in WireFormat::ALL {
        let bodies = [user("go"), reply_of(wire, [signed("a", "sig")]), user("on")];
        assert_eq!(prepare(&transcript(bodies), &target(wire)).len(), 1, "{wire:?}");
    }
}

/// OpenAI ties each item to the reasoning before it, and each reasoning to the item after it.
#[test]
fn reasoning_whose_follower_is_gone_goes_too_and_the_ids_that_named_it() {
    let id = |name: &str| meta("openai", json!({"id": name}));
    check_for(
        &target(WireFormat::OpenAiResponses),
        [
            user("go"),
            reply_of(
                WireFormat::OpenAiResponses,
                [
                    signed("", "sig a"),
                    Part::Call(a_call(9, "web_search", "{}", RunBy::Provider)),
                    signed("", "sig b"),
                    attached(says("x"), id("msg_1")),
                    attached(calls(1, "look", "{}"), id("fc_1")),
                ],
            ),
            result(1, "a"),
            reply_of(
                WireFormat::OpenAiResponses,
                [attached(signed("", "sig c"), id("rs_2")), attached(says("y"), id("msg_2"))],
            ),
            user("on"),
        ],
        expect![[r#"
            user
              "go"
            assistant
              thinks "" Signature("sig b")
              "x"
              call_1 look {}
            tool
              call_1 look gave "a"
            assistant
              thinks "" Signature("sig c")
              "y" {"openai":{"id":"msg_2"}}
            user
              "on"
        "#]],
    );
}

/// PR19: each provider gets back what it attached, and never what another did.
#[test]
fn metadata_comes_back_to_whoever_attached_it() {
    let thought = |name: &str| meta(name, json!({"thought_signature": "t"}));
    for (wire, expected) in [
        (
            WireFormat::Gemini,
            expect![[r#"
        user
          "go"
        assistant
          "x" {"gemini":{"thought_signature":"t"}}
          call_1 look {} {"gemini":{"thought_signature":"t"}}
        tool
          call_1 look gave "a"
    "#]],
        ),
        (
            WireFormat::Anthropic,
            expect![[r#"
        user
          "go"
        assistant
          "x"
          call_1 look {}
        tool
          call_1 look gave "a"
    "#]],
        ),
    ] {
        check_for(
            &target(wire),
            [
                user("go"),
                reply_of(
                    WireFormat::Gemini,
                    [attached(says("x"), thought("gemini")), attached(calls(1, "look", "{}"), thought("gemini"))],
                ),
                result(1, "a"),
            ],
            expected,
        );
    }
}

#[test]
fn citations_of_a_search_that_is_gone_go_too() {
    let cited = || attached(says("x"), meta("anthropic", json!({"citations": [1]})));
    check(
        [user("go"), reply([cited()]), user("on"), reply([searches(1), cited()])],
        expect![[r#"
        user
          "go"
        assistant
          "x" {"anthropic":{"citations":[1]}}
        user
          "on"
        assistant
          "x"
        user
          "(No new message. Go on.)"
    "#]],
    );
}

/// PR01, PR15, PR17: sources, files the model made and parts we do not know are for people to see.
#[test]
fn parts_for_people_are_not_sent() {
    check(
        [
            user("go"),
            reply([says("x"), source(), file("a.png", "image/png", Some(b"png")), Part::Other(Meta::new())]),
            user("on"),
        ],
        expect![[r#"
            user
              "go"
            assistant
              "x"
            user
              "on"
        "#]],
    );
}

#[test]
fn interrupted_and_broken_replies_are_sent_like_others() {
    let sent = |stop| {
        let parts = vec![signed("a", "sig"), says("half"), thinks("unsealed", None)];
        let body = ReplyBody { stop, ..reply_body(model(WireFormat::Anthropic), parts) };
        shown(&prepare(&transcript([user("go"), spoken(body), user("on")]), &target(WireFormat::Anthropic)))
    };
    for stop in [Stop::Interrupted, Stop::Broken, Stop::Length] {
        assert_eq!(sent(stop), sent(Stop::End));
    }
    assert!(!sent(Stop::Interrupted).contains("unsealed"));
}

/// A conversation must begin with the person and end with an entry the model can answer.
#[test]
fn placeholders_stand_where_nobody_spoke() {
    check(
        [],
        expect![[r#"
        user
          "(The conversation begins here.)"
    "#]],
    );
    check(
        [reply([says("hello")])],
        expect![[r#"
        user
          "(The conversation begins here.)"
        assistant
          "hello"
        user
          "(No new message. Go on.)"
    "#]],
    );
    check(
        [user(""), reply([says("a")]), user(" "), reply([says("b")])],
        expect![[r#"
        user
          "(The conversation begins here.)"
        assistant
          "a"
        user
          "(No new message. Go on.)"
        assistant
          "b"
        user
          "(No new message. Go on.)"
    "#]],
    );
}
