use everturn_server::wire::{Began, Body, Delta, Event, Message, RunBy, Rung, Stop, Text};

use super::*;
use crate::terminal::style::Colours;

/// Feeds events to a view and a story, and collects the printed lines.
#[derive(Default)]
struct Telling {
    view: View,
    story: Option<Story>,
    told: Vec<String>,
    n: u64,
}

impl Telling {
    fn take(&mut self, events: &[Event]) {
        for event in events {
            self.view.fold(event).unwrap();
        }
        let lines = self.story.get_or_insert_with(|| Story::new(60)).tell(events, &self.view);
        self.told.extend(lines.iter().map(|line| line.paint(Colours::Off)));
    }

    fn delta(&mut self, what: Increment) {
        self.n += 1;
        self.take(&[Event::Delta(Delta { step: 1, n: self.n, at: 0, what })]);
    }

    fn text(&mut self, text: &str) {
        self.delta(Increment::Text { text: text.into() });
    }

    fn attempt(&mut self, number: u32, rung: Rung) {
        self.delta(Increment::Attempt(Began { number, model: "a/b".into(), rung }));
    }
}

fn user(id: u64, text: &str) -> Event {
    let parts = vec![Part::Text(Text { text: text.into() })];
    Event::Message(Message { id, at: 0, body: Body::User { parts, receipt: None, key: None } })
}

fn reply(id: u64, parts: Vec<Part>, stop: Stop, seams: u64) -> Event {
    let reply = Reply {
        step: 1,
        parts,
        stop,
        model: "a/b".into(),
        usage: None,
        runtime_ms: 0,
        alive_ms: 0,
        context_limit: None,
        seams,
        joined: Vec::new(),
        retracted: Vec::new(),
    };
    Event::Message(Message { id, at: 0, body: Body::Reply(reply) })
}

fn text(text: &str) -> Part {
    Part::Text(Text { text: text.into() })
}

#[test]
fn an_answer_is_told_once_however_it_arrives() {
    let whole = "One line.\nAnother *line*,\nand the last.";
    for cuts in 1..whole.len() {
        let mut telling = Telling::default();
        telling.take(&[user(1, "Hi!")]);
        for piece in whole.as_bytes().chunks(cuts) {
            telling.text(std::str::from_utf8(piece).unwrap());
        }
        telling.take(&[reply(2, vec![text(whole)], Stop::End, 0)]);
        assert_eq!(telling.told, ["› Hi!", "", "One line.", "Another line,", "and the last.", ""], "pieces of {cuts}");
    }
}

#[test]
fn an_interrupted_answer_is_kept_and_said_to_be_so() {
    let mut telling = Telling::default();
    telling.text("Half a");
    telling.take(&[reply(2, vec![text("Half a")], Stop::Interrupted, 0)]);
    assert_eq!(telling.told, ["Half a", "", "■ stopped; the answer so far is kept"]);
}

#[test]
fn a_recovery_is_one_quiet_line() {
    let mut telling = Telling::default();
    telling.attempt(1, Rung::First);
    telling.text("t1 t2 ");
    telling.attempt(2, Rung::Continue);
    telling.attempt(3, Rung::Continue);
    telling.text("t3");
    telling.take(&[reply(2, vec![text("t1 t2 t3")], Stop::End, 2)]);
    assert_eq!(telling.told, ["t1 t2 t3", "", "↻ the answer broke off and was recovered (3 attempts)"]);
}

#[test]
fn a_retracted_answer_is_followed_by_a_note() {
    let mut telling = Telling::default();
    telling.text("Wrong.\nVery");
    telling.delta(Increment::RetractAll);
    telling.text("Right.");
    telling.take(&[reply(2, vec![text("Right.")], Stop::End, 0)]);
    let told = telling.told.join("\n");
    assert!(told.starts_with("Wrong.\nVery\n↻ the answer broke off; it begins again"), "{told}");
    assert!(told.ends_with("\nRight.\n"), "{told}");
}

#[test]
fn a_reset_tells_only_what_is_new() {
    let mut telling = Telling::default();
    telling.take(&[user(1, "Hi!")]);
    telling.text("One.\nTwo.\nThr");
    telling.told.clear();
    let (messages, draft) = (telling.view.messages.clone(), telling.view.draft.clone());
    let mut draft = draft.unwrap();
    draft.parts = vec![text("One.\nTwo.\nThree.\n")];
    let status: Standing = serde_json::from_value(serde_json::json!({
        "version": 1, "step": 1, "title": "", "status": "running", "archived": false, "queue": [], "asks": [],
        "usage": {"known": tokens(), "estimated": tokens(), "cost": {"known_micros": 0, "estimated_micros": 0}, "attempts": 0},
    }))
    .unwrap();
    telling.take(&[Event::Reset(Box::new(Snapshot { messages, status, draft: Some(draft) }))]);
    assert_eq!(telling.told, ["Three."]);
}

fn tokens() -> serde_json::Value {
    serde_json::json!({"input": 0, "output": 0, "reasoning": 0, "cache_read": 0, "cache_write": 0})
}

#[test]
fn calls_are_told_when_they_are_whole() {
    let mut telling = Telling::default();
    telling.text("Let me look.");
    telling.delta(Increment::Call { slot: 0, tool: "search".into(), run_by: RunBy::Us });
    telling.delta(Increment::Input { slot: 0, json: "{\"q\":".into() });
    assert_eq!(telling.told, ["Let me look.", ""]);
    telling.delta(Increment::Input { slot: 0, json: "\"\u{1b}[2J\"}".into() });
    telling.delta(Increment::CallEnded { slot: 0 });
    let parts = telling.view.draft.as_ref().unwrap().parts.clone();
    telling.take(&[reply(2, parts, Stop::ToolUse, 0)]);
    assert_eq!(telling.told, ["Let me look.", "", "▸ search {\"q\":\"␛[2J\"}"]);
}
