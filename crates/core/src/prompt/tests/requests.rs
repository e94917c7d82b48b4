//! A request around the entries: what is settled, marked, chained and continued.

use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::json;

use super::build::{
    a_search, calls, finds, found, model, reply, reply_body, reply_of, result, says, searches, shown, signed, source,
    spoken, target, thinks, transcript, user,
};
use crate::ids::ModelId;
use crate::message::{Body, Call, Part, Provided, ReplyBody, Stop};
use crate::prompt::{
    CacheMarks, ContinueMode, Effort, Prompt, PromptEntry, PromptPart, Request, ResponseChain, Role, Target,
    ToolChoice, ToolSpec, UnfinishedAnswer, WireFormat, echoes, prepare, validate,
};
use crate::seam::Seam;

fn request<const N: usize>(target: &Target, bodies: [Body; N]) -> Request {
    Request::new(model(target.wire), target, prepare(&transcript(bodies), target))
}

fn tools() -> Arc<[ToolSpec]> {
    Arc::new([ToolSpec::new("look", "Looks.", json!({"type": "object"}))])
}

/// CR11: markers sit behind the system prompt and the last two entries, and only where the wire has them.
#[test]
fn cache_markers_sit_on_the_system_and_the_last_two_entries() {
    for wire in WireFormat::ALL {
        let system = vec!["You are a crab.".into(), " ".into()];
        let bodies = [user("a"), reply([says("b")]), user("c")];
        let fitted = Request { system, ..request(&target(wire), bodies) }.fit(&target(wire));
        let marks = CacheMarks { system: true, entries: [Some(1), Some(2)] };
        assert_eq!(fitted.marks, if wire == WireFormat::Anthropic { marks } else { CacheMarks::default() });
        assert_eq!(fitted.system, ["You are a crab."]);
    }
    let first = request(&target(WireFormat::Anthropic), [user("a")]).fit(&target(WireFormat::Anthropic));
    assert_eq!(first.marks, CacheMarks { system: false, entries: [None, Some(0)] });
}

#[test]
fn old_calls_without_tools_get_a_stand_in_that_cannot_be_called() {
    let bodies = || [user("a"), reply([calls(1, "look", "{}")]), result(1, "b")];
    for wire in WireFormat::ALL {
        let fitted = request(&target(wire), bodies()).fit(&target(wire));
        assert_eq!(fitted.tools.len(), usize::from(wire == WireFormat::Anthropic), "{wire:?}");
        assert_eq!(fitted.tool_choice == ToolChoice::None, wire == WireFormat::Anthropic);
        assert_eq!(validate(&fitted, &target(wire)), Ok(()));
    }
    let offered = Request { tools: tools(), ..request(&target(WireFormat::Anthropic), bodies()) };
    assert_eq!(offered.clone().fit(&target(WireFormat::Anthropic)).tools, offered.tools);
}

#[test]
fn reasoning_is_switched_off_where_it_would_be_refused() {
    let budgeted = Target { leading_reasoning: true, ..target(WireFormat::Anthropic) };
    let effort = |target: &Target, bodies: [Body; 3], tool_choice: ToolChoice| {
        let asked = Request { effort: Some(Effort::High), tools: tools(), tool_choice, ..request(target, bodies) };
        asked.fit(target).effort
    };
    let led = || [user("a"), reply([signed("", "sig"), calls(1, "look", "{}")]), result(1, "b")];
    let unled = || [user("a"), reply([calls(1, "look", "{}")]), result(1, "b")];
    let ended = || [user("a"), reply([says("b")]), user("c")];
    let (on, off) = (Some(Effort::High), Some(Effort::None));
    assert_eq!(effort(&budgeted, led(), ToolChoice::Auto), on);
    assert_eq!(effort(&budgeted, ended(), ToolChoice::Auto), on);
    assert_eq!(effort(&budgeted, unled(), ToolChoice::Auto), off);
    assert_eq!(effort(&target(WireFormat::Anthropic), unled(), ToolChoice::Auto), on);
    assert_eq!(effort(&target(WireFormat::Anthropic), ended(), ToolChoice::Required), off);
    assert_eq!(effort(&target(WireFormat::Gemini), ended(), ToolChoice::Tool("look".into())), on);
}

#[test]
fn efforts_are_ordered_so_that_they_can_be_clamped() {
    assert!(Effort::ALL.is_sorted());
    assert_eq!(Effort::Max.min(Effort::Medium), Effort::Medium);
}

fn check_continued(target: &Target, parts: &[Part], how: ContinueMode, sent: Expect) {
    let by = model(target.wire);
    let request = request(target, [user("count")]).fit(target);
    let continued = request.clone().continuing(target, UnfinishedAnswer { parts, by: &by }, how);
    assert_eq!(validate(&continued, target), Ok(()));
    assert_eq!(continued.marks, request.marks, "what is not there to stay is not marked");
    sent.assert_eq(&shown(&continued.entries));
}

#[test]
fn an_answer_is_continued_from_its_own_words() {
    let able = Target { prefill: true, ..target(WireFormat::Anthropic) };
    let draft = [signed("hm", "sig"), says("one, two, \n"), calls(1, "look", "{}")];
    check_continued(
        &able,
        &draft,
        ContinueMode::Prefill,
        expect![[r#"
        user
          "count"
        assistant
          "one, two,"
    "#]],
    );
    check_continued(
        &able,
        &draft,
        ContinueMode::Instruct,
        expect![[r#"
        user
          "count"
        assistant
          thinks "hm" Signature("sig")
          "one, two, \n"
        user
          "Your last message broke off at its very end. Go on from exactly there: begin with the next character, repeat nothing of it, and say nothing before it."
    "#]],
    );
}

#[test]
fn a_prefill_that_would_be_refused_becomes_an_instruction() {
    let draft = [says("one, two")];
    check_continued(
        &target(WireFormat::Gemini),
        &draft,
        ContinueMode::Prefill,
        expect![[r#"
        user
          "count"
        assistant
          "one, two"
        user
          "Your last message broke off at its very end. Go on from exactly there: begin with the next character, repeat nothing of it, and say nothing before it."
    "#]],
    );
    let able = Target { prefill: true, ..target(WireFormat::Anthropic) };
    let by = model(WireFormat::Anthropic);
    let thinking = Request { effort: Some(Effort::Low), ..request(&able, [user("count")]) };
    let continued = thinking.continuing(&able, UnfinishedAnswer { parts: &draft, by: &by }, ContinueMode::Prefill);
    assert_eq!((continued.entries.len(), validate(&continued, &able)), (3, Ok(())));
    // There is no text to go on from yet.
    let searched = [searches(1), finds(1)];
    check_continued(
        &able,
        &searched,
        ContinueMode::Prefill,
        expect![[r#"
        user
          "count"
        assistant
          srvtoolu_1 web_search {"query":"kelp"}
          srvtoolu_1 web_search found [{"encrypted_content":"abc","title":"Kelp","url":"https://kelp.example"}]
        user
          "Your last message broke off at its very end. Go on from exactly there: begin with the next character, repeat nothing of it, and say nothing before it."
    "#]],
    );
}

/// PR20: an answer that paused goes back as it came: thoughts, words, searches, and the search without an
/// outcome. Tools with old uses that could not be sent back are no exception, since it is one answer.
#[test]
fn an_answer_that_paused_goes_back_as_it_came() {
    let fetched = Part::Call(Call { tool: "web_fetch".into(), ..a_search(2) });
    let draft = [signed("hm", "sig"), says("Let me look. "), searches(1), finds(1), source(), fetched, searches(3)];
    check_continued(
        &target(WireFormat::Anthropic),
        &draft,
        ContinueMode::Echo,
        expect![[r#"
        user
          "count"
        assistant
          thinks "hm" Signature("sig")
          "Let me look. "
          srvtoolu_1 web_search {"query":"kelp"}
          srvtoolu_1 web_search found [{"encrypted_content":"abc","title":"Kelp","url":"https://kelp.example"}]
          srvtoolu_2 web_fetch {"query":"kelp"}
          srvtoolu_3 web_search {"query":"kelp"}
    "#]],
    );
}

/// What cannot be sent as it came is not sent so: incomplete, out of order, of another provider, or finished.
#[test]
fn an_incomplete_answer_is_not_echoed() {
    let own = target(WireFormat::Anthropic);
    let by = model(WireFormat::Anthropic);
    let is_sent = |parts: &[Part], target: &Target, by: &ModelId| echoes(UnfinishedAnswer { parts, by }, target);
    assert!(is_sent(&[searches(1)], &own, &by) && is_sent(&[searches(1), finds(1), source()], &own, &by));
    let cut = Part::Call(Call { whole: false, ..a_search(1) });
    let unnamed = Part::Provided(Provided { uid: None, ..found(1) });
    let odd = Part::Call(Call { provider_id: "toolu_1".into(), ..a_search(1) });
    let broken: [&[Part]; 12] = [
        &[],
        &[says("a")],
        &[searches(1), finds(1), says("a")],
        &[searches(1), says("a"), finds(1)],
        &[searches(1), says("a"), searches(2)],
        &[thinks("hm", None), searches(1)],
        &[says("a"), signed("hm", "sig"), searches(1)],
        &[calls(2, "look", "{}"), searches(1)],
        &[searches(1), searches(1)],
        &[searches(1), unnamed],
        &[cut],
        &[odd],
    ];
    for parts in broken {
        assert!(!is_sent(parts, &own, &by), "{parts:?}");
    }
    assert!(!is_sent(&[searches(1)], &own, &model(WireFormat::Gemini)));
    for wire in [WireFormat::OpenAiResponses, WireFormat::OpenAiChat, WireFormat::Gemini] {
        assert!(!is_sent(&[searches(1)], &target(wire), &model(wire)), "{wire:?}");
    }
}

#[test]
fn nothing_worth_continuing_leaves_the_request_alone() {
    let able = target(WireFormat::Anthropic);
    let before = request(&able, [user("count")]);
    let by = model(WireFormat::Anthropic);
    let draft = [thinks("unsealed", None), says(" \n"), calls(1, "look", "{")];
    for how in [ContinueMode::Prefill, ContinueMode::Instruct, ContinueMode::Echo] {
        assert_eq!(before.clone().continuing(&able, UnfinishedAnswer { parts: &draft, by: &by }, how), before);
    }
}

#[test]
fn an_answer_of_another_model_is_continued_without_its_reasoning() {
    let anthropic = target(WireFormat::Anthropic);
    let by = model(WireFormat::Gemini);
    let draft = [signed("hm", "sig"), says("one")];
    let unfinished = UnfinishedAnswer { parts: &draft, by: &by };
    let continued = request(&anthropic, [user("count")]).continuing(&anthropic, unfinished, ContinueMode::Instruct);
    assert_eq!(validate(&continued, &anthropic), Ok(()));
    assert_eq!(continued.entries.get(1).map(|entry| entry.parts.len()), Some(1));
}

fn chain_after(bodies: impl IntoIterator<Item = Body>) -> Option<ResponseChain> {
    let target = target(WireFormat::OpenAiResponses);
    let mut prompt = Prompt::new(target.clone());
    transcript(bodies).iter().for_each(|message| prompt.push(message));
    let chain = prompt.chain(&model(WireFormat::OpenAiResponses));
    let request = Request::new(model(target.wire), &target, prompt.entries());
    assert_eq!(validate(&Request { chain: chain.clone(), ..request }, &target), Ok(()));
    chain
}

fn kept(parts: Vec<Part>) -> ReplyBody {
    let body = reply_body(model(WireFormat::OpenAiResponses), parts);
    ReplyBody { response_id: Some("resp_1".into()), stop: Stop::ToolUse, ..body }
}

#[test]
fn a_request_is_chained_to_the_last_response_with_what_came_after_it() {
    let chain = |from| Some(ResponseChain { response_id: "resp_1".into(), from });
    let look = || vec![says("I look."), calls(1, "look", "{}")];
    assert_eq!(chain_after([user("a"), spoken(kept(look())), user("steer"), result(1, "b")]), chain(2));
    assert_eq!(chain_after([user("a"), spoken(kept(vec![says("b")])), user("c")]), chain(2));
    let older = reply_of(WireFormat::OpenAiResponses, [says("older")]);
    assert_eq!(chain_after([user("a"), older, spoken(kept(vec![says("b")])), user("c")]), chain(3));
}

#[test]
fn a_response_the_provider_keeps_otherwise_than_we_do_is_not_chained_to() {
    let look = || vec![calls(1, "look", "{}")];
    let after = |body: ReplyBody| chain_after([user("a"), spoken(body), result(1, "b"), user("c")]);
    assert!(after(kept(look())).is_some());
    assert_eq!(after(ReplyBody { response_id: None, ..kept(look()) }), None);
    assert_eq!(after(ReplyBody { response_id: Some(" ".into()), ..kept(look()) }), None);
    assert_eq!(after(ReplyBody { stop: Stop::Interrupted, ..kept(look()) }), None);
    assert_eq!(after(ReplyBody { stop: Stop::Length, ..kept(look()) }), None);
    assert_eq!(
        after(ReplyBody { seams: vec![Seam { at: 1, dropped: 0, inserted: 0, unmatched: 0 }], ..kept(look()) }),
        None
    );
    assert_eq!(after(ReplyBody { retracted: vec!["look".into()], ..kept(look()) }), None);
    assert_eq!(after(ReplyBody { model: "openai/other".parse().unwrap(), ..kept(look()) }), None);
    assert_eq!(chain_after([user("a"), spoken(kept(look())), user("c")]), None, "a call has no result");
    assert_eq!(chain_after([user("a"), spoken(kept(vec![says("b")]))]), None, "there is nothing new to say");
    let twice = || vec![calls(1, "look", "{}"), calls(1, "look", "{}")];
    assert_eq!(chain_after([user("a"), spoken(kept(twice())), result(1, "b"), result(1, "c")]), None, "ids repeat");
    let empty = reply_of(WireFormat::OpenAiResponses, [says("")]);
    assert_eq!(chain_after([user("a"), spoken(kept(vec![says("b")])), empty, user("c")]), None);
}

/// A request for a summary is the same request with one more thing said, so it is taken like any other.
#[test]
fn something_can_be_said_for_one_request_alone() {
    for wire in WireFormat::ALL {
        let mut prompt = Prompt::new(target(wire));
        for body in [user("a"), reply([calls(1, "look", "{}")]), result(1, "b"), user("c")] {
            prompt.push(&transcript([body])[0]);
            let mut entries = prompt.entries();
            entries.push(PromptEntry::new(Role::User, vec![PromptPart::text("Summarise.")]));
            let asked = Request::new(model(wire), &target(wire), entries).fit(&target(wire));
            assert_eq!(validate(&asked, &target(wire)), Ok(()));
            assert!(shown(&asked.entries).ends_with("  \"Summarise.\"\n"));
            assert!(!shown(&prompt.entries()).contains("Summarise"));
        }
    }
}

#[test]
fn the_size_of_a_request_is_that_of_all_it_carries() {
    let plain = request(&target(WireFormat::Anthropic), [user("12345")]);
    assert_eq!(plain.bytes(), 5);
    let full = Request { system: vec!["123".into()], tools: tools(), ..plain };
    assert!(full.bytes() > 8 + "look".len() + "Looks.".len());
}
