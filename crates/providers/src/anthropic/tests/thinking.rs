use everturn_core::prompt::{Effort, PromptEntries, PromptEntry, PromptPart, Request, Role, ToolChoice, ToolSpec};
use expect_test::expect;
use serde_json::{Value, json};

use crate::anthropic::request;
use crate::catalogue::Catalogue;

fn asked(model: &str) -> Request {
    let target = Catalogue::embedded().card("anthropic", model).facts("anthropic", super::WireFormat::Anthropic).target;
    let entries: PromptEntries = vec![PromptEntry::new(Role::User, vec![PromptPart::text("Hi")])].into();
    Request::new(format!("anthropic/{model}").parse().unwrap(), &target, entries)
}

/// What a request says about thinking: the field, the effort, the beta.
fn thought(model: &str, effort: Option<Effort>) -> String {
    let request = Request { effort, max_output: 20_000, ..asked(model) };
    let sent = request::body(&request, &Catalogue::embedded().card("anthropic", model));
    let field = |key: &str| sent.body.get(key).map_or("-".into(), Value::to_string);
    format!("{} {} {}", field("thinking"), field("output_config"), sent.beta.unwrap_or("-"))
}

/// Every generation is told how hard to think in its own words.
#[test]
fn every_generation_has_its_words() {
    let models = [
        "claude-3-haiku",
        "claude-haiku-4-5",
        "claude-opus-4-6",
        "claude-opus-4-8",
        "claude-opus-5",
        "claude-haiku-5-5",
        "claude-sonnet-5-5",
        "claude-opus-5-5",
        "claude-unheard-of",
    ];
    let efforts = [None, Some(Effort::None), Some(Effort::Minimal), Some(Effort::XHigh)];
    let mut table = String::new();
    for model in models {
        table += &format!("{model}\n");
        for effort in efforts {
            let name = effort.map_or("as it likes".to_owned(), |effort| format!("{effort:?}"));
            table += &format!("  {name}: {}\n", thought(model, effort));
        }
    }
    expect![[r#"
        claude-3-haiku
          as it likes: - - -
          None: - - -
          Minimal: - - -
          XHigh: - - -
        claude-haiku-4-5
          as it likes: - - -
          None: - - -
          Minimal: {"budget_tokens":1024,"type":"enabled"} - -
          XHigh: {"budget_tokens":18000,"type":"enabled"} - -
        claude-opus-4-6
          as it likes: - - -
          None: - - -
          Minimal: {"type":"adaptive"} {"effort":"low"} -
          XHigh: {"type":"adaptive"} {"effort":"max"} -
        claude-opus-4-8
          as it likes: - - -
          None: - - -
          Minimal: {"display":"summarized","type":"adaptive"} {"effort":"low"} -
          XHigh: {"display":"summarized","type":"adaptive"} {"effort":"xhigh"} -
        claude-opus-5
          as it likes: {"display":"summarized","type":"adaptive"} - -
          None: {"type":"disabled"} - -
          Minimal: {"display":"summarized","type":"adaptive"} {"effort":"low"} -
          XHigh: {"display":"summarized","type":"adaptive"} {"effort":"xhigh"} -
        claude-haiku-5-5
          as it likes: {"block_binding":{"prefix_mismatch_behavior":"drop_block"},"display":"summarized","type":"adaptive"} - thinking-binding-controls-2026-08-01
          None: {"type":"disabled"} - -
          Minimal: {"block_binding":{"prefix_mismatch_behavior":"drop_block"},"display":"summarized","type":"adaptive"} {"effort":"low"} thinking-binding-controls-2026-08-01
          XHigh: {"block_binding":{"prefix_mismatch_behavior":"drop_block"},"display":"summarized","type":"adaptive"} {"effort":"xhigh"} thinking-binding-controls-2026-08-01
        claude-sonnet-5-5
          as it likes: {"block_binding":{"prefix_mismatch_behavior":"drop_block"},"display":"summarized","type":"adaptive"} - thinking-binding-controls-2026-08-01
          None: {"type":"between_tools"} - -
          Minimal: {"block_binding":{"prefix_mismatch_behavior":"drop_block"},"display":"summarized","type":"adaptive"} {"effort":"low"} thinking-binding-controls-2026-08-01
          XHigh: {"block_binding":{"prefix_mismatch_behavior":"drop_block"},"display":"summarized","type":"adaptive"} {"effort":"xhigh"} thinking-binding-controls-2026-08-01
        claude-opus-5-5
          as it likes: {"block_binding":{"prefix_mismatch_behavior":"drop_block"},"display":"summarized","type":"adaptive"} - thinking-binding-controls-2026-08-01
          None: {"block_binding":{"prefix_mismatch_behavior":"drop_block"},"display":"summarized","type":"adaptive"} {"effort":"low"} thinking-binding-controls-2026-08-01
          Minimal: {"block_binding":{"prefix_mismatch_behavior":"drop_block"},"display":"summarized","type":"adaptive"} {"effort":"low"} thinking-binding-controls-2026-08-01
          XHigh: {"block_binding":{"prefix_mismatch_behavior":"drop_block"},"display":"summarized","type":"adaptive"} {"effort":"xhigh"} thinking-binding-controls-2026-08-01
        claude-unheard-of
          as it likes: - - -
          None: - - -
          Minimal: {"type":"adaptive"} {"effort":"low"} -
          XHigh: {"type":"adaptive"} {"effort":"high"} -
    "#]].assert_eq(&table);
}

/// Thinking needs room beside the answer; where there is none, there is no thinking.
#[test]
fn a_budget_leaves_room_for_the_answer() {
    let card = Catalogue::embedded().card("anthropic", "claude-haiku-4-5");
    for (max_output, budget) in
        [(1024, None), (1025, Some(1024_u32)), (5_000, Some(4_000)), (u32::MAX, Some(3_435_973_836_u32))]
    {
        let request = Request { effort: Some(Effort::High), max_output, ..asked("claude-haiku-4-5") };
        let body = request::body(&request, &card).body;
        assert_eq!(body.pointer("/thinking/budget_tokens"), budget.map(Value::from).as_ref(), "{max_output}");
    }
}

/// A model that can be made to call a tool is, and does not think then; one that cannot is left free to.
#[test]
fn a_tool_is_demanded_where_it_can_be() {
    let demanded = |model: &str, tool_choice| {
        let tools = [ToolSpec::new("look", "", Value::Null)].into();
        let request = Request { tool_choice, tools, effort: None, ..asked(model) };
        let body = request::body(&request, &Catalogue::embedded().card("anthropic", model)).body;
        (body.get("tool_choice").cloned(), body.get("thinking").cloned())
    };
    let tool = || ToolChoice::Tool("look".into());
    assert_eq!(demanded("claude-haiku-4-5", tool()), (Some(json!({"type": "tool", "name": "look"})), None));
    assert_eq!(
        demanded("claude-opus-5", ToolChoice::Required),
        (Some(json!({"type": "any"})), Some(json!({"type": "disabled"})))
    );
    let (choice, thinking) = demanded("claude-opus-5-5", tool());
    assert_eq!((choice, thinking.is_some()), (None, true));
    assert_eq!(demanded("claude-opus-4-6", ToolChoice::None).0, Some(json!({"type": "none"})));
    assert_eq!(demanded("claude-opus-4-6", ToolChoice::Auto).0, None);
}
