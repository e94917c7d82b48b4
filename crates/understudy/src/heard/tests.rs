use everturn_core::message::Part;
use everturn_core::message::Text;
use everturn_core::prompt::{ContinueMode, PromptEntry, Target, UnfinishedAnswer};

use super::*;

fn said(text: &str) -> PromptPart {
    PromptPart::text(text)
}

fn request(entries: Vec<PromptEntry>) -> Request {
    let target = Target::new(everturn_core::prompt::WireFormat::Anthropic, "understudy");
    Request::new("understudy/persona".parse().unwrap(), &target, entries.into())
}

#[test]
fn the_newest_words_are_heard() {
    let heard = Heard::from(&request(vec![
        PromptEntry::new(Role::User, vec![said("one")]),
        PromptEntry::new(Role::Assistant, vec![said("1")]),
        PromptEntry::new(Role::User, vec![said(" two ")]),
    ]));
    assert_eq!((heard.words.as_str(), heard.half_said.as_str(), heard.model.as_str()), ("two", "", "persona"));
}

#[test]
fn an_answer_to_go_on_with_is_heard_in_both_forms() {
    for (how, prefill) in [(ContinueMode::Prefill, true), (ContinueMode::Instruct, false)] {
        let mut target = Target::new(everturn_core::prompt::WireFormat::Anthropic, "understudy");
        target.prefill = prefill;
        let asked = request(vec![PromptEntry::new(Role::User, vec![said("count")])]);
        let by = asked.model.clone();
        let parts = [Part::Text(Text { text: "t1 t2".into(), ..Text::default() })];
        let heard = Heard::from(&asked.continuing(&target, UnfinishedAnswer { parts: &parts, by: &by }, how));
        assert_eq!((heard.words.as_str(), heard.half_said.as_str()), ("count", "t1 t2"), "{how:?}");
    }
}

#[test]
fn results_since_the_newest_words_are_heard() {
    let told = |tool: &str, text: &str| Utterance::Result(ToolAnswer { tool: tool.into(), text: text.into() });
    let user = |text: &str| Utterance::User(text.into());
    let all = vec![user("a"), told("x", "old"), user("b"), Utterance::Model("let me".into()), told("y", "new")];
    let heard = Heard::default().conversation(all);
    assert_eq!(heard.words, "b");
    assert_eq!(heard.results, [ToolAnswer { tool: "y".into(), text: "new".into() }]);
    assert_eq!(heard.half_said, "");
}

#[test]
fn notes_on_retracted_calls_are_not_user_messages() {
    let told = |rest: &str| Utterance::User(format!("(Cut off and taken back before it ran: note, look.){rest}"));
    let user = |text: &str| Utterance::User(text.into());
    let all = vec![user("a"), Utterance::Result(ToolAnswer::default()), told("")];
    let heard = Heard::default().conversation(all);
    assert_eq!((heard.words.as_str(), heard.results.len()), ("a", 1));
    assert_eq!(Heard::default().conversation(vec![user("a"), told("\nb")]).words, "b");
}
