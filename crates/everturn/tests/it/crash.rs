//! A driver that dies at every await point, and the one that goes on.

use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use everturn::core::chat::{Effect, TurnEnd};
use everturn::core::command::{Command, Delivery};
use everturn::core::ids::{ChatId, Timestamp};
use everturn::core::message::{Body, CallVerdict, Part, Stop, Text};
use everturn::core::prompt::{PromptPart, Request, Role};
use everturn::core::view::View;
use everturn::{Agent, ChatHandle, Drivers, Engine, Policy, Tool, ToolError, tool};
use everturn_understudy::{Script, Understudy, call, reasoning, script, sealed, stop, text, wait_ms};
use serde_json::json;

use crate::stage::{agent, count, counter};
use crate::stepwise::Stepwise;

const FIRST: &str = "first second third fourth fifth sixth seventh eighth ninth tenth ";
const SECOND: &str = "amber basalt coral dunes ember fjord glacier harbour island jungle";

/// A model that always says the same, and when it is asked to go on, it does, saying the last
/// two words again.
fn reciter() -> Understudy {
    Understudy::improvising(|request| {
        let steps = request.entries.iter().filter(|entry| entry.role == Role::Tool).count();
        let said = half_said(request);
        let rest = |whole: &str| {
            let from = said.trim_end().rmatch_indices(' ').nth(1).map_or(0, |(at, _)| at + 1);
            let from = if said.is_empty() { 0 } else { from };
            word_by_word(&whole[from.min(whole.len())..])
        };
        match steps {
            0 => {
                let thought = [reasoning("I should look."), sealed("sig")];
                let calls = [
                    call("pay", json!({"say": "a"})),
                    call("look", json!({"say": "b"})),
                    call("put", json!({"say": "c"})),
                ];
                script(thought.into_iter().chain(rest(FIRST)).chain(calls).chain([stop(Stop::ToolUse)]))
            }
            _ => script(rest(SECOND).into_iter().chain([stop(Stop::End)])),
        }
    })
}

pub fn word_by_word(words: &str) -> Script {
    words.split_inclusive(' ').flat_map(|word| [text(word), wait_ms(20)]).collect()
}

/// What the request shows as said already and to be gone on with.
pub fn half_said(request: &Request) -> String {
    let mut newest = request.entries.iter().rev();
    let (Some(last), Some(before)) = (newest.next(), newest.next()) else { return String::new() };
    if last.role != Role::User || before.role != Role::Assistant {
        return String::new();
    }
    let texts = before.parts.iter().filter_map(|part| match part {
        PromptPart::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// The chat as the living process knows it.
type Here = Arc<Mutex<Option<ChatHandle>>>;

fn slow_tool(name: &str, runs: &Arc<AtomicUsize>, here: &Here, effect: Effect) -> impl Tool + use<> {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Input {
        say: String,
    }
    let (runs, here) = (runs.clone(), here.clone());
    let run = move |_, input: Input| {
        let (runs, here) = (runs.clone(), here.clone());
        async move {
            runs.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(30)).await;
            let chat = here.lock().unwrap().clone().unwrap();
            let parts = Arc::new([Part::Text(Text { text: "mind the gap".into(), ..Text::default() })]);
            let steer = Command::Send { parts, when: Delivery::Steer };
            chat.submit(steer, Some("steer".into())).await.unwrap(); // The first one counts; the others change nothing.
            Ok::<_, ToolError>(input.say)
        }
    };
    tool(name, "Takes its time.", run).with(Policy { effect, ..Policy::default() })
}

struct Runs {
    pay: Arc<AtomicUsize>,
    look: Arc<AtomicUsize>,
    put: Arc<AtomicUsize>,
}

fn equipped(here: &Here) -> (Agent, Runs) {
    let runs = Runs { pay: counter(), look: counter(), put: counter() };
    let agent = agent()
        .tool(slow_tool("pay", &runs.pay, here, Effect::Once))
        .and_then(|agent| agent.tool(slow_tool("look", &runs.look, here, Effect::Read)))
        .and_then(|agent| agent.tool(slow_tool("put", &runs.put, here, Effect::Idempotent)));
    (agent.unwrap(), runs)
}

/// A process: an engine on a store that outlives it.
fn process(store: &Arc<Stepwise>, agent: &Agent, number: u64) -> Engine {
    let builder = Engine::builder().store(store.clone()).provider(reciter()).agent("it", agent.clone());
    builder.seed(number).starting_at(Timestamp(number as i64 * 1_000_000)).drivers(Drivers::ByHand).start()
}

/// Polls `future` until it waits for the `waits`th time, and drops it there. `true` if it was done before.
pub async fn die_at<F: Future>(future: F, mut waits: usize) -> bool {
    let mut future = Box::pin(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(true),
        Poll::Pending if waits == 0 => Poll::Ready(false),
        Poll::Pending => {
            waits -= 1;
            Poll::Pending
        }
    })
    .await
}

/// Plays the whole turn with processes that die at these points, and checks every promise. Says whether the last of
/// them lived to the end.
async fn survive(deaths: &[usize]) -> bool {
    let store = Arc::new(Stepwise::default());
    let here = Here::default();
    let (agent, runs) = equipped(&here);
    let first = process(&store, &agent, 1);
    let id = first.create("it").await.unwrap().id();
    let chat = first.chat(id);
    chat.send("go").await.unwrap();
    let mut watched = View::default();
    let mut cursor = None;
    let mut lived = false;
    let lives = deaths.iter().map(Some).chain([None]);
    for (number, death) in lives.enumerate() {
        let process = process(&store, &agent, number as u64 + 2);
        let chat = process.chat(id);
        *here.lock().unwrap() = Some(chat.clone());
        lived = match death {
            Some(waits) => die_at(chat.advance(), *waits).await,
            None => {
                chat.advance().await.unwrap();
                lived
            }
        };
        let mut events = chat.events(cursor);
        while let Some(event) = events.try_next().await.unwrap() {
            watched.fold(&event).unwrap();
        }
        cursor = events.cursor();
        let server = chat.view().await.unwrap();
        assert_eq!(watched, server, "a subscriber sees what is stored, after {deaths:?}");
    }
    check(&first, id, &watched, &runs, deaths).await;
    lived
}

async fn check(engine: &Engine, id: ChatId, view: &View, runs: &Runs, deaths: &[usize]) {
    let chat = engine.chat(id);
    assert_eq!(chat.rest().await.unwrap().ended(), Some(TurnEnd::Done), "{deaths:?}");
    let mut texts = Vec::new();
    let mut results = Vec::new();
    let mut people = Vec::new();
    for message in &view.messages {
        match &message.body {
            Body::Reply(reply) => texts.push(reply.text()),
            Body::Result(result) => results.push((result.tool.clone(), result.verdict)),
            Body::User(_) => people.push(results.len()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(texts, [FIRST, SECOND], "every word once, after {deaths:?}");
    assert_eq!(people, [0, 3], "the steer comes once, behind the results, after {deaths:?}");
    results.sort_by(|a, b| a.0.cmp(&b.0));
    let names: Vec<_> = results.iter().map(|(tool, _)| tool.as_str()).collect();
    assert_eq!(names, ["look", "pay", "put"], "one result a call, after {deaths:?}");
    let verdict = |tool: &str| results.iter().find(|result| result.0 == tool).map(|result| result.1);
    assert_eq!((verdict("look"), verdict("put")), (Some(CallVerdict::Done), Some(CallVerdict::Done)), "{deaths:?}");
    match (count(&runs.pay), verdict("pay").unwrap()) {
        (1, CallVerdict::Done | CallVerdict::Unknown) | (0, CallVerdict::Unknown) => {}
        odd => panic!("a tool that must not run twice: {odd:?}, after {deaths:?}"),
    }
    assert!(count(&runs.look) >= 1 && count(&runs.put) >= 1);
}

/// AW20–AW22, AW27: a driver dies at every await point of a turn with reasoning, text, parallel tools and a steer; the
/// next one goes on. Nothing is lost, nothing is doubled, and what must not run twice does not.
#[tokio::test(start_paused = true)]
async fn a_driver_may_die_anywhere() {
    let mut waits = 0;
    while !survive(&[waits]).await {
        waits += 1;
    }
    assert!(waits > 100, "a turn waits often: {waits}");
}

/// A second death while recovering is survived too.
#[tokio::test(start_paused = true)]
async fn and_die_again_while_recovering() {
    for first in (3..130).step_by(7) {
        for second in (0..60).step_by(5) {
            survive(&[first, second]).await;
        }
    }
}
