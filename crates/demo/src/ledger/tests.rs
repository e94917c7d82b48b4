use everturn_server::wire::{Body, Call, Part, Reasoning, Reply, ResultOf, RunBy, Stop, Text, Verdict};

use super::*;
use crate::style::Style;

const CHAT: &str = "chat";

fn order() -> Order {
    Order { thoughts: 2, first: 1, before: 3, calls: vec![("note", 7), ("look", 8)], after: 2, is_stopped: false }
}

fn message(id: u64, body: Body) -> Message {
    Message { id, at: 0, body }
}

fn text(text: &str) -> Part {
    Part::Text(Text { text: text.into() })
}

fn reply(id: u64, parts: Vec<Part>) -> Message {
    let (stop, model) = (Stop::End, "a/b".into());
    let reply = Reply {
        step: id,
        parts,
        stop,
        model,
        usage: None,
        runtime_ms: 1,
        alive_ms: 1,
        context_limit: None,
        seams: 0,
        joined: vec![],
        retracted: vec![],
    };
    message(id, Body::Reply(reply))
}

fn call(id: &str, tool: &str, number: u64) -> Part {
    let input = format!("{{\"number\":{number}}}");
    Part::Call(Call { id: id.into(), tool: tool.into(), input, whole: true, run_by: RunBy::Us, at: 0 })
}

fn result(id: u64, call: &str, tool: &str, verdict: Verdict) -> Message {
    let (call, tool, output) = (call.into(), tool.into(), String::new());
    message(
        id,
        Body::Result(ResultOf { call, tool, verdict, output, media: vec![], cut: false, began: None, ended: 0 }),
    )
}

fn line(tool: &str, number: u64, what: What) -> Line {
    Line { chat: CHAT.into(), call: "1.0".into(), tool: tool.into(), number, what }
}

/// A lane in which all went well.
fn good() -> Played {
    let thought = Part::Reasoning(Reasoning { text: "r1 r2".into(), began: 0, ended: 0 });
    let stored = vec![
        message(1, Body::User { parts: vec![text(&order().prompt())], receipt: None, key: None }),
        reply(2, vec![thought, text("t1 t2 t3"), call("2.0", "note", 7), call("2.1", "look", 8)]),
        result(3, "2.0", "note", Verdict::Done),
        result(4, "2.1", "look", Verdict::Done),
        reply(5, vec![text("t4 t5")]),
    ];
    let list = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
    let shown = |client| Shown { client, messages: stored.clone(), resets: 1 };
    let lines = [("note", 7), ("look", 8)].into_iter();
    Played {
        kind: Kind::Cut,
        wire: "chat",
        orders: vec![order()],
        sent: Sent { words: list("t1 t2 t1 t2 t3 t4 t5"), thoughts: list("r1 r2"), ..Sent::default() },
        shown: vec![shown("A"), shown("B")],
        effects: lines.flat_map(|(tool, n)| [line(tool, n, What::Start), line(tool, n, What::Effect)]).collect(),
        stored,
        usage: Usage::default(),
        ended: Some(Ended::Done),
        rungs: vec![Rung::First, Rung::Continue],
        gaps_ms: vec![12],
        words_at_stop: 0,
    }
}

fn closed(change: impl FnOnce(&mut Played)) -> Ledger {
    let mut played = good();
    change(&mut played);
    Ledger::close(1, 2.0, &[played])
}

/// The findings after a change.
fn said(change: impl FnOnce(&mut Played)) -> String {
    let ledger = closed(change);
    assert_eq!(ledger.balanced, ledger.wrong.is_empty());
    ledger.wrong.join("\n")
}

fn say(message: &mut Message, words: &str) {
    if let Body::Reply(reply) = &mut message.body {
        reply.parts.iter_mut().for_each(|part| {
            if let Part::Text(text) = part {
                text.text = words.into();
            }
        });
    }
}

fn verdict(message: &mut Message, verdict: Verdict) {
    if let Body::Result(result) = &mut message.body {
        result.verdict = verdict;
    }
}

#[test]
fn books_in_which_all_agree_balance() {
    let ledger = closed(|_| {});
    assert_eq!(ledger.wrong, Vec::<String>::new());
    let row = &ledger.rows[0];
    assert_eq!((row.sent, row.stored, row.shown.as_slice(), row.paid_again), (9, 7, [7, 7].as_slice(), 2));
    assert_eq!((row.lost, row.duplicated, row.rungs.as_slice()), (0, 0, ["continue"].as_slice()));
    assert_eq!((row.calls.made, row.calls.once, row.calls.once_effects, row.calls.done), (2, 1, 1, 2));
    let told = table(&ledger, Style::PLAIN, 100).join("\n");
    assert!(told.contains("The ledger balances: lost 0, duplicated 0"), "{told}");
    assert!(!Ledger::close(1, 0.0, &[]).balanced, "nothing played proves nothing");
}

#[test]
fn tokens_that_were_lost_or_doubled_are_named() {
    let lost = said(|played| {
        say(&mut played.stored[4], "t5");
        let stored = played.stored.clone();
        played.shown.iter_mut().for_each(|shown| shown.messages = stored.clone());
    });
    assert_eq!(lost, "cut on chat: the store lost 1 of the tokens: t4");
    let doubled = said(|played| say(&mut played.shown[1].messages[4], "t4 t4 t5"));
    assert_eq!(doubled, "cut on chat: client B has twice 1 of the tokens: t4");
    let mangled = said(|played| say(&mut played.shown[0].messages[4], "t4t5"));
    assert!(mangled.contains("client A never heard 1 of the tokens: t4t5"), "{mangled}");
    assert_eq!(closed(|played| say(&mut played.shown[1].messages[4], "t5")).lost, 1);
}

#[test]
fn clients_must_be_shown_exactly_the_stored_text() {
    let other = said(|played| played.shown[0].messages[4].at = 9);
    assert_eq!(other, "cut on chat: client A was shown something else than what is stored");
    assert_eq!(said(|played| played.shown[1].resets = 2), "cut on chat: client B had to begin anew 1 times");
    let unsent = said(|played| played.sent.words.retain(|word| word != "t2"));
    assert_eq!(unsent, "cut on chat: tokens are stored that the model never sent: t2");
}

#[test]
fn a_tool_that_ran_twice_is_named() {
    let twice = said(|played| played.effects.push(line("note", 7, What::Effect)));
    assert_eq!(twice, "cut on chat: note 7 ran twice, and must not: 1 starts, 2 effects in the side file");
    let again = |kind| {
        closed(|played| {
            played.kind = kind;
            played.effects.extend([line("look", 8, What::Start), line("look", 8, What::Effect)]);
        })
    };
    let killed = again(Kind::Kill);
    assert_eq!((killed.balanced, killed.rows[0].calls.run_again), (true, 1), "a read-only tool may run again");
    assert!(table(&killed, Style::PLAIN, 100).join("\n").contains("no tool twice that must not run twice"));
    assert_eq!(again(Kind::Cut).wrong, ["cut on chat: look 8 ran 2 times, and nothing was killed"]);
    let missing = said(|played| played.effects.clear());
    assert!(missing.contains("note 7 is said to be done and left no effect"), "{missing}");
    let foreign = said(|played| played.effects.push(line("note", 9, What::Start)));
    assert_eq!(foreign, "cut on chat: note 9 ran without a call");
}

/// An unknown outcome is honest, whether the effect happened or not; more than one effect never is.
#[test]
fn an_unknown_outcome_balances_with_one_effect_or_none() {
    let unknown = |effects: usize| {
        closed(|played| {
            played.kind = Kind::KillTool;
            verdict(&mut played.stored[2], Verdict::Unknown);
            let stored = played.stored.clone();
            played.shown.iter_mut().for_each(|shown| shown.messages = stored.clone());
            played.effects.retain(|line| line.tool != "note");
            played.effects.extend(vec![line("note", 7, What::Effect); effects]);
        })
    };
    assert!(unknown(0).balanced && unknown(1).balanced && !unknown(2).balanced);
    assert_eq!(unknown(0).rows[0].calls.unknown, 1);
    let reads = said(|played| verdict(&mut played.stored[3], Verdict::Unknown));
    assert!(reads.contains("look 8 may run again, and its outcome is still called unknown"), "{reads}");
}

#[test]
fn messages_results_and_ends_are_counted() {
    let failed = said(|played| played.ended = None);
    assert_eq!(failed, "cut on chat: the turn did not end well: None");
    let forgotten = said(|played| played.orders.push(Order { first: 6, before: 1, ..Order::default() }));
    assert!(forgotten.contains("2 messages were sent and 1 are stored"), "{forgotten}");
    let unanswered = said(|played| {
        played.stored.remove(3);
        let stored = played.stored.clone();
        played.shown.iter_mut().for_each(|shown| shown.messages = stored.clone());
    });
    assert!(unanswered.contains("look 8 has 0 results"), "{unanswered}");
}

#[test]
fn a_stopped_answer_has_all_that_was_shown() {
    let stopped = |at: u64| {
        closed(|played| {
            played.orders = vec![Order { first: 1, before: 9, is_stopped: true, ..Order::default() }];
            let prompt =
                message(1, Body::User { parts: vec![text(&played.orders[0].prompt())], receipt: None, key: None });
            played.stored = vec![prompt, reply(2, vec![text("t1 t2 t3 t")])];
            let stored = played.stored.clone();
            played.shown.iter_mut().for_each(|shown| shown.messages = stored.clone());
            played.effects.clear();
            played.kind = Kind::Stop;
            played.words_at_stop = at;
        })
    };
    assert!(stopped(3).balanced, "{:?}", stopped(3).wrong);
    assert!(!stopped(5).balanced, "five words were shown and three are there");
    assert_eq!(stopped(3).rows[0].stopped, 9 - 4);
}

/// How a call may end depends on what was done to the daemon.
#[test]
fn outcomes_must_fit_the_scene() {
    let ended = |kind, outcome, is_stopped| {
        said(|played| {
            played.kind = kind;
            played.orders[0].is_stopped = is_stopped;
            verdict(&mut played.stored[2], outcome);
            let stored = played.stored.clone();
            played.shown.iter_mut().for_each(|shown| shown.messages = stored.clone());
        })
    };
    for (kind, outcome, is_stopped, wrong) in [
        (Kind::KillTool, Verdict::Unknown, false, ""),
        (Kind::Kill, Verdict::Unknown, false, ""),
        (
            Kind::Join,
            Verdict::Unknown,
            false,
            "join on chat: the outcome of note 7 is called unknown, and nothing was killed",
        ),
        (
            Kind::Join,
            Verdict::Interrupted,
            false,
            "join on chat: note 7 is said to be interrupted, but there was no interrupt",
        ),
        (Kind::Join, Verdict::Interrupted, true, ""),
        (Kind::Join, Verdict::Error, false, "join on chat: note 7 ended with Error"),
    ] {
        assert_eq!(ended(kind, outcome, is_stopped), wrong, "{kind:?} {outcome:?}");
    }
}

/// A fault that did not strike proves nothing, whatever kind it is.
#[test]
fn a_fault_has_to_strike() {
    let without = |kind| {
        said(|played| {
            (played.kind, played.rungs) = (kind, vec![Rung::First]);
            (played.usage.attempts, played.gaps_ms) = (2, vec![]);
        })
    };
    for kind in Kind::ALL {
        assert!(without(kind).contains("the fault did not strike"), "{kind:?}: {}", without(kind));
    }
    let struck = |kind, change: fn(&mut Played)| {
        said(|played| {
            (played.kind, played.rungs) = (kind, vec![Rung::First]);
            (played.usage.attempts, played.gaps_ms) = (2, vec![]);
            change(played);
        })
    };
    assert_eq!(struck(Kind::Stall, |played| played.rungs.push(Rung::Restart)), "");
    assert_eq!(struck(Kind::Lose, |played| played.rungs.push(Rung::Reattach)), "");
    assert_ne!(
        struck(Kind::Lose, |played| played.rungs.push(Rung::Restart)),
        "",
        "the generation is there to reattach to"
    );
    assert_eq!(struck(Kind::Limit, |played| played.usage.attempts = 3), "");
    assert_eq!(struck(Kind::Kill, |played| played.gaps_ms.push(9)), "");
}

/// A model goes on from what arrived, which may be less than it had sent: `t2` of `t21` went out, `t` is
/// kept, and the next answer begins with `21`.
#[test]
fn a_token_may_go_out_in_two_halves() {
    let mut sent = Sent::default();
    for text in ["t19 t20 t2", "21 t22", "r1", "t23"] {
        sent.add(text, if text.starts_with('r') { 'r' } else { 't' });
    }
    assert_eq!((sent.words.len(), sent.thoughts.len()), (5, 1));
    for (token, is_sent) in [("t21", true), ("t221", true), ("t31", false), ("21", false), ("t2", false)] {
        assert_eq!(sent.is_of_halves(token), is_sent, "{token}");
    }
}
