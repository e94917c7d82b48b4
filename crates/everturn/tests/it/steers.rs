//! Words that come in the middle of an answer wait for its end, whatever happens to the answer and to its driver.

use std::sync::Arc;
use std::time::Duration;

use everturn::core::chat::TurnEnd;
use everturn::core::command::{Command, Delivery};
use everturn::core::error::{Cause, ErrorKind};
use everturn::core::ids::Timestamp;
use everturn::core::message::{Body, Message, Part, Stop, Text, text_of};
use everturn::core::prompt::{PromptPart, Request, Role};
use everturn::{ChatHandle, Drivers, Engine};
use everturn_understudy::{Script, Understudy, fail, refuse, script, stop, text, wait_ms};
use expect_test::expect;

use crate::commands::commits;
use crate::crash::{die_at, half_said, word_by_word};
use crate::stage::{agent, line, stage};
use crate::stepwise::Stepwise;

const FIRST: &str = "first second third fourth fifth sixth seventh eighth ninth tenth";
const SECOND: &str = "amber basalt coral dunes ember fjord glacier harbour island jungle";
const STEER: &str = "in French";

fn broken(words: &str) -> Script {
    script([text(words), fail(ErrorKind::Timeout, Cause::Reset)])
}

fn whole(words: &str) -> Script {
    script([text(words), stop(Stop::End)])
}

/// I12: a steer that comes while a broken answer waits for its next attempt stands behind the whole answer, and is
/// answered by a step of its own.
#[tokio::test(start_paused = true)]
async fn a_steer_during_a_retry_stands_behind_the_answer() {
    let stage = stage([broken("The answer "), whole("is 42."), whole("C'est 42.")]).await;
    let mut watch = stage.watch();
    stage.chat.send("go").await.unwrap();
    watch.until_text("The answer ").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    stage.chat.steer(STEER).await.unwrap();
    expect![[r#"
        t=000.0 message 1 user "go"
        t=000.0 running
        t=000.1 running +"in French"! retry Timeout until 0.9
        t=000.1 running +"in French"! retry Timeout until 0.9
        t=000.9 message 2 reply ["The answer is 42."] End
        t=000.9 running +"in French"!
        t=000.9 message 3 user "in French"
        t=000.9 running
        t=000.9 message 4 reply ["C'est 42."] End
        t=000.9 running
        t=000.9 idle Done
    "#]]
    .assert_eq(&commits(&watch.until_rest().await));
    assert!(!heard(&stage.understudy.requests()[1]), "the rest is no answer to it");
}

/// A message that was queued and is promoted steers too, before the answer breaks.
#[tokio::test(start_paused = true)]
async fn a_promoted_message_stands_behind_the_answer() {
    let broken = script([text("The answer "), wait_ms(100), fail(ErrorKind::Timeout, Cause::Reset)]);
    let stage = stage([broken, whole("is 42."), whole("C'est 42.")]).await;
    let mut watch = stage.watch();
    stage.chat.send("go").await.unwrap();
    watch.until_text("The answer ").await;
    let queued = stage.chat.send(STEER).await.unwrap().seq;
    stage.chat.promote(queued).await.unwrap();
    watch.until_rest().await;
    expect![[r#"
        message 1 user "go"
        message 2 reply ["The answer is 42."] End
        message 3 user "in French"
        message 4 reply ["C'est 42."] End
    "#]]
    .assert_eq(&stage.told().await);
}

/// As long as nothing was said there is nothing to wait for: the model hears it with the next attempt.
#[tokio::test(start_paused = true)]
async fn a_steer_before_the_first_word_is_heard_at_once() {
    let stage = stage([script([refuse(429).retry_after(7)]), whole("C'est 42.")]).await;
    let watch = stage.watch();
    stage.chat.send("go").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    stage.chat.steer(STEER).await.unwrap();
    watch.until_rest().await;
    expect![[r#"
        message 1 user "go"
        message 2 user "in French"
        message 3 reply ["C'est 42."] End
    "#]]
    .assert_eq(&stage.told().await);
}

fn heard(request: &Request) -> bool {
    let says = |part: &PromptPart| matches!(part, PromptPart::Text(text) if text.text.contains(STEER));
    request.entries.iter().any(|entry| entry.role == Role::User && entry.parts.iter().any(says))
}

/// A model that says one thing before it was steered and another after, and breaks off once in the middle of each.
fn teller() -> Understudy {
    Understudy::improvising(|request| {
        let heard_last = request.entries.iter().last().is_some_and(|last| text_in(last.parts.iter()).contains(STEER));
        let said = if heard_last { String::new() } else { half_said(request) };
        let whole = if heard(request) { SECOND } else { FIRST };
        match said.is_empty() {
            true => script(word_by_word(&whole[..30]).into_iter().chain([fail(ErrorKind::Timeout, Cause::Reset)])),
            false => {
                let from = said.trim_end().rmatch_indices(' ').nth(1).map_or(0, |(at, _)| at + 1);
                script(word_by_word(&whole[from.min(whole.len())..]).into_iter().chain([stop(Stop::End)]))
            }
        }
    })
}

fn text_in<'p>(parts: impl Iterator<Item = &'p PromptPart>) -> String {
    let texts = parts.filter_map(|part| match part {
        PromptPart::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn process(store: &Arc<Stepwise>, number: u64) -> Engine {
    let builder = Engine::builder().store(store.clone()).provider(teller()).agent("it", agent());
    builder.seed(number).starting_at(Timestamp(number as i64 * 1_000_000)).drivers(Drivers::ByHand).start()
}

async fn steer(chat: &ChatHandle) {
    let parts = Arc::new([Part::Text(Text { text: STEER.into(), ..Text::default() })]);
    chat.submit(Command::Send { parts, when: Delivery::Steer }, None).await.unwrap();
}

/// Drives a turn, steers it when its driver waits for the `waits`th time, and lets the driver live on for so many more;
/// or to the end. Says whether the turn was over before.
async fn steered(waits: usize, lives_on: Option<usize>) -> bool {
    let store = Arc::new(Stepwise::default());
    let first = process(&store, 1);
    let chat = first.create("it").await.unwrap();
    chat.send("go").await.unwrap();
    let mut drive = Box::pin(chat.advance());
    let was_over = die_at(drive.as_mut(), waits).await;
    let draft = chat.view().await.unwrap().draft;
    let was_shown = was_over || draft.is_some_and(|draft| !text_of(draft.parts()).is_empty());
    steer(&chat).await;
    match lives_on {
        _ if was_over => {}
        Some(more) => drop(die_at(drive.as_mut(), more).await),
        None => drive.as_mut().await.unwrap(),
    }
    drop(drive);
    let next = process(&store, 2).chat(chat.id());
    next.advance().await.unwrap();
    let when = format!("steered at {waits}, and dead {lives_on:?} later");
    assert_eq!(next.rest().await.unwrap().ended(), Some(TurnEnd::Done), "{when}");
    let told: Vec<String> = next.transcript().await.unwrap().iter().map(|message| words(message)).collect();
    match told.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["go", FIRST, STEER, SECOND] => {}
        ["go", STEER, SECOND] if !was_shown => {}
        _ => panic!("{when}: {told:?}"),
    }
    was_over
}

fn words(message: &Message) -> String {
    match &message.body {
        Body::User(parts) => text_of(parts),
        Body::Reply(reply) => reply.text(),
        _ => line(message),
    }
}

/// I12, AW20: steered at every await point of an answer that breaks once, in the middle of words and of the wait before
/// the next attempt. What was being said is said to its end first; then the steer is answered, by a step of its own.
#[tokio::test(start_paused = true)]
async fn a_turn_may_be_steered_anywhere() {
    let mut waits = 0;
    while !steered(waits, None).await {
        waits += 1;
    }
    assert!(waits > 50, "a turn waits often: {waits}");
}

/// A steer survives a driver that dies of it, at once or a little later.
#[tokio::test(start_paused = true)]
async fn and_its_driver_may_die_then() {
    for lives_on in [0, 3, 10, 40] {
        let mut waits = 0;
        while !steered(waits, Some(lives_on)).await {
            waits += 1;
        }
    }
}
