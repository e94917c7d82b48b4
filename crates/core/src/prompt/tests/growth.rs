//! A prompt grows by what was said, and by nothing else.

use std::fmt::Write as _;

use super::build::{calls, file, reply, result, says, summary, target, transcript, user};
use crate::message::Body;
use crate::prompt::{MEDIA_BYTES, Prompt, PromptEntries, PromptPart, WireFormat, prepare};

fn turns(count: u16) -> Vec<Body> {
    let turn = |n: u16| [user("go"), reply([calls(n, "look", "{}")]), result(n, "seen"), reply([says("done")])];
    (0..count).flat_map(turn).collect()
}

#[test]
fn the_closed_beginning_is_shared_and_not_made_again() {
    let mut prompt = Prompt::new(target(WireFormat::Anthropic));
    transcript(turns(50)).iter().for_each(|message| prompt.push(message));
    let (first, second) = (prompt.entries(), prompt.entries());
    let address = |entries: &PromptEntries| entries.get(0).map(std::ptr::from_ref);
    assert_eq!(address(&first), address(&second));
    assert!(first.len() - first.closed_len() <= 2, "only the open segment is the request's own");
    drop((first, second));

    // No request is held, so closing a segment moves only that segment, while there is room.
    let mut moves = 0;
    for message in transcript(turns(50)) {
        let before = address(&prompt.entries());
        prompt.push(&message);
        moves += usize::from(address(&prompt.entries()) != before);
    }
    assert!(moves <= 2, "moved {moves} times in 50 turns");
}

#[test]
fn a_request_that_is_still_held_is_not_changed_by_a_push() {
    let mut prompt = Prompt::new(target(WireFormat::Anthropic));
    transcript(turns(3)).iter().for_each(|message| prompt.push(message));
    let held = prompt.entries();
    let copy: Vec<_> = held.iter().cloned().collect();
    transcript(turns(3)).iter().for_each(|message| prompt.push(message));
    assert!(held == PromptEntries::from(copy) && prompt.entries().len() > held.len());
}

#[test]
fn the_size_is_known_without_counting_again() {
    let mut prompt = Prompt::new(target(WireFormat::Anthropic));
    assert_eq!(prompt.entries().bytes(), "(The conversation begins here.)".len());
    let bodies = [user("12345"), reply([says("123"), calls(1, "look", r#"{"a":"bc"}"#)]), result(1, "1234567")];
    transcript(bodies).iter().for_each(|message| prompt.push(message));
    let input = r#"{"a":"bc"}"#.len() + 1; // An estimate: separators are counted as if there were one more.
    assert_eq!(prompt.entries().bytes(), 5 + 3 + "look".len() + input + "look".len() + 7);
}

#[test]
fn media_have_a_price_of_their_own() {
    let shot = file("a.png", "image/png", Some(&[0; 100_000]));
    let entries = prepare(&transcript([Body::User(vec![shot])]), &target(WireFormat::Anthropic));
    assert_eq!(entries.bytes(), MEDIA_BYTES);
}

#[test]
fn a_summary_makes_a_prompt_small_again() {
    let mut prompt = Prompt::new(target(WireFormat::Anthropic));
    transcript(turns(20)).iter().for_each(|message| prompt.push(message));
    let long = prompt.entries().bytes();
    prompt.push(&transcript([summary("short", vec![])])[0]);
    let entries = prompt.entries();
    assert!(entries.bytes() < long && entries.len() == 1 && entries.closed_len() == 0);
}

/// The end of one request is the beginning of the next, entry for entry, on every wire.
#[test]
fn each_request_begins_with_the_one_before() {
    for wire in WireFormat::ALL {
        let mut prompt = Prompt::new(target(wire));
        let (mut sent, mut log): (Vec<_>, String) = (Vec::new(), String::new());
        for message in transcript(turns(4)) {
            let asks = matches!(message.body, Body::User(_) | Body::Result(_));
            prompt.push(&message);
            if asks {
                let next: Vec<_> = prompt.entries().iter().cloned().collect();
                assert!(next.starts_with(&sent), "{wire:?} after {log}");
                writeln!(log, "{} entries", next.len()).unwrap();
                sent = next;
            }
        }
        assert!(sent.iter().flat_map(|entry| &entry.parts).any(|part| matches!(part, PromptPart::Call(_))));
    }
}
