use serde_json::json;

use super::*;

fn event(name: &str, data: serde_json::Value) -> Event {
    Event::parse(name, &data.to_string()).unwrap().unwrap()
}

fn asked(id: u64, text: &str) -> serde_json::Value {
    json!({"id": id, "at": 0, "kind": "user", "parts": [{"type": "text", "text": text}]})
}

fn replied(id: u64, step: u64, text: &str) -> serde_json::Value {
    let parts = json!([{"type": "text", "text": text}]);
    json!({"id": id, "at": 0, "kind": "reply", "step": step, "parts": parts, "stop": {"why": "end"}, "model": "a/b",
        "runtime_ms": 1, "seams": 0})
}

fn delta(step: u64, text: &str) -> Event {
    event("delta", json!({"step": step, "n": 1, "at": 0, "kind": "text", "text": text}))
}

fn reset(messages: &[serde_json::Value], draft: Option<(u64, &str)>) -> Event {
    let status = json!({"version": 1, "step": 1, "title": "", "status": "running", "archived": false, "queue": [],
        "asks": [], "usage": everturn_server::wire::Usage::default()});
    let mut whole = json!({"messages": messages, "status": status});
    if let Some((step, text)) = draft {
        whole["draft"] = json!({"step": step, "n": 9, "parts": [{"type": "text", "text": text}]});
    }
    event("reset", whole)
}

/// The output for these events if `Hi!` was sent after message 2.
fn printed(events: &[Event]) -> String {
    let mut words = Words {
        out: Vec::new(),
        asked: Some("Hi!".into()),
        newest: 2,
        replied: None,
        printed: String::new(),
        is_open: false,
        is_terminal: false,
        asides: Asides::Off,
        attempt: 0,
        waits: None,
        progress: BTreeMap::new(),
    };
    words.events(events).unwrap();
    String::from_utf8(words.out).unwrap()
}

/// After a lost connection, each word of each answer is printed once.
#[test]
fn a_lost_connection_costs_no_word_and_repeats_none() {
    let hi = || event("message", asked(3, "Hi!"));
    let old = [asked(1, "Before."), replied(2, 1, "Old.")];
    let with = |more: &[serde_json::Value]| [&old[..], &[asked(3, "Hi!")], more].concat();
    for (events, out) in [
        (vec![hi(), delta(5, "One "), delta(5, "two"), event("message", replied(4, 5, "One two"))], "One two\n"),
        // The rest of the answer arrived meanwhile, as a draft or as a reply.
        (vec![hi(), delta(5, "One "), reset(&with(&[]), Some((5, "One two"))), delta(5, "!")], "One two!"),
        (vec![hi(), delta(5, "One "), reset(&with(&[replied(4, 5, "One two")]), None)], "One two\n"),
        // Several whole answers arrived meanwhile.
        (
            vec![reset(&with(&[replied(4, 5, "One"), replied(6, 7, "Two")]), Some((8, "Thr"))), delta(8, "ee")],
            "One\nTwo\nThree",
        ),
        // The answer was restarted meanwhile.
        (vec![hi(), delta(5, "One "), reset(&with(&[]), Some((5, "Once")))], "One \nOnce"),
        (vec![hi(), delta(5, "One "), reset(&with(&[replied(4, 5, "Once")]), None)], "One \nOnce\n"),
        (vec![hi(), delta(5, "One "), reset(&with(&[]), None), delta(5, "Once")], "One \nOnce"),
        (vec![hi(), delta(5, "One "), event("message", replied(4, 5, "Once"))], "One \nOnce\n"),
        // A complete answer is not printed again, nor is a draft after its reply.
        (
            vec![hi(), event("message", replied(4, 5, "One")), reset(&with(&[replied(4, 5, "One")]), Some((5, "One")))],
            "One\n",
        ),
    ] {
        assert_eq!(printed(&events), out, "{events:#?}");
    }
}

/// Answers before the prompt appears belong to other messages and are not printed.
#[test]
fn answers_to_others_are_not_printed() {
    let other = [delta(1, "Not "), event("message", replied(3, 1, "Not yours")), event("message", asked(4, "Ho!"))];
    let ours = [event("message", asked(5, "Hi!")), delta(6, "Yours")];
    assert_eq!(printed(&other), "");
    assert_eq!(printed(&[&other[..], &ours].concat()), "Yours");
}

/// Lines of JSON have no control characters for a terminal, and parse to the same value.
#[test]
fn lines_on_a_terminal_are_safe() {
    let data = json!({"text": "\u{9b}31m\u{7f}\u{202e}\u{e0041}é"});
    let printed = |is_terminal| {
        let mut lines = Lines { out: Vec::new(), is_terminal };
        lines.line("delta", &data).unwrap();
        String::from_utf8(lines.out).unwrap()
    };
    let (safe, raw) = (printed(true), printed(false));
    assert!(!safe.chars().any(|c| c != '\n' && (c.is_control() || c == '\u{202e}' || c == '\u{e0041}')), "{safe:?}");
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(read(&safe), read(&raw));
    assert!(raw.contains('\u{9b}'), "a program gets it as it is");
}
