//! The process that gets killed: an engine on a store on disk, a model that counts, tools that leave a trace.
//!
//! It is this test binary again, told by its environment what to be. It reads commands from its input, a line each, and
//! prints what was accepted and what a subscriber has seen. What it has printed it cannot take back: that is
//! what its successor is held to.

use std::fs::OpenOptions;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use everturn::core::chat::{CallState, Effect, OpenCall};
use everturn::core::command::{AnswerContent, CallAnswer, Command, Delivery};
use everturn::core::draft::Draft;
use everturn::core::message::{Body, Output, Part, Stop, Text};
use everturn::core::prompt::ToolSpec;
use everturn::core::view::View;
use everturn::{Agent, Approval, ChatHandle, Engine, Metrics, Policy, ToolContext, ToolError, tool};
use everturn_understudy::{Cue, Heard, Script, Understudy, call, script, stop, text};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::task::JoinSet;

use crate::place::Place;

/// The variable with the location of the store. A process that has it is one that gets killed.
pub const PLACE: &str = "EVERTURN_MORTAL_PLACE";
/// The file in which tools leave their trace.
pub const TRACE: &str = "EVERTURN_MORTAL_TRACE";
/// The variable that makes a process trust its own lease for hours.
pub const SURE: &str = "EVERTURN_MORTAL_SURE";

/// A message to which the answer takes the process down.
pub const DEADLY: &str = "die";

/// The agent with turns that are never quarantined, however often their processes die.
pub const HARDY: &str = "hardy";
/// The agent with the usual quarantine.
pub const FRAIL: &str = "frail";
/// One that asks people: whether it may pay, and for a map.
pub const ASKING: &str = "asking";

/// How many numbers each answer has.
pub const TOKENS: usize = 40;

/// How many threads work, beside the one that reads.
const THREADS: usize = 2;

/// Lives until it is killed, or until its input ends and every chat rests.
#[test]
#[ignore = "a part that is played in another process"]
fn mortal() {
    let (Ok(place), Ok(trace)) = (std::env::var(PLACE), std::env::var(TRACE)) else { return };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(THREADS).enable_all().build().unwrap();
    runtime.block_on(live(&place.parse().unwrap(), trace.into()));
}

async fn live(place: &Place, trace: PathBuf) {
    let store = if is_sure() { place.open_sure().await } else { place.open().await };
    let mut registry = Registry::default();
    let engine = Engine::builder()
        .store(store)
        .metrics(Metrics::register(&mut registry))
        .provider(Understudy::hearing(counting))
        .agent(HARDY, hardy(&trace))
        .agent(FRAIL, agent(&trace))
        .agent(ASKING, asking(&trace))
        .start();
    say(format_args!("up"));
    let (mut chats, mut sends, mut watches): (Vec<ChatHandle>, _, _) = (Vec::new(), JoinSet::new(), JoinSet::new());
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["watch", id] => {
                let chat = engine.chat(id.parse().unwrap());
                watches.spawn(watch(chat.clone()));
                chats.push(chat);
            }
            ["answer", id] => drop(watches.spawn(answer(engine.chat(id.parse().unwrap())))),
            ["block", fifo] => block(fifo.into()),
            ["go"] => drop(engine.resume().await),
            ["send", id, key] => drop(sends.spawn(send(engine.chat(id.parse().unwrap()), key.into()))),
            [verb @ ("steer" | "interrupt" | "edit"), id, key] => {
                drop(sends.spawn(step_in(engine.chat(id.parse().unwrap()), verb.into(), key.into())));
            }
            _ => panic!("not a command: {line}"),
        }
    }
    sends.join_all().await;
    for chat in chats {
        while chat.rest().await.is_err() || !chat.standing().await.is_ok_and(|standing| standing.asks.is_empty()) {
            tokio::time::sleep(Duration::from_millis(2)).await; // An answer is about to come.
        }
    }
    engine.shutdown().await;
    watches.shutdown().await; // Its last word is the last.
    say(format_args!("lost {}", lost(&registry)));
    say(format_args!("rest"));
}

fn is_sure() -> bool {
    std::env::var_os(SURE).is_some()
}

/// How long a tool takes; with a trusted lease long enough to be stopped in the middle.
fn tool_time() -> Duration {
    Duration::from_millis(if is_sure() { 500 } else { 2 })
}

/// Blocks every thread of the runtime until this is opened for writing.
fn block(fifo: PathBuf) {
    let (begin, end) = (Arc::new(Barrier::new(THREADS + 1)), Arc::new(Barrier::new(THREADS + 1)));
    for _ in 0..THREADS {
        let (begin, end) = (begin.clone(), end.clone());
        tokio::spawn(async move {
            begin.wait();
            end.wait();
        });
    }
    begin.wait();
    say(format_args!("blocked"));
    std::fs::File::open(fifo).unwrap();
    end.wait();
}

/// One line, whole and at once.
fn say(line: std::fmt::Arguments<'_>) {
    let line = format!("@{line}\n");
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

/// How often a driver of this process wanted to write and was told that the chat is another's.
fn lost(registry: &Registry) -> u64 {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    let fenced = text.lines().filter_map(|line| line.strip_prefix("everturn_driver_failures_total{kind=\"fenced\"} "));
    fenced.map(|count| count.parse::<u64>().unwrap()).sum()
}

fn words(text: &str) -> Arc<[Part]> {
    [Part::Text(Text { text: text.into(), meta: Default::default() })].into()
}

async fn send(chat: ChatHandle, key: String) {
    let command = Command::Send { parts: words(&key), when: Delivery::Queue };
    while let Err(error) = chat.submit(command.clone(), Some(key.clone())).await {
        say(format_args!("not {key} {error}"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    say(format_args!("ok {key}"));
}

/// Does what people do besides sending, once. It may be refused or lost.
async fn step_in(chat: ChatHandle, verb: String, key: String) {
    let steer = |text: &str| Command::Send { parts: words(text), when: Delivery::Steer };
    let command = match &*verb {
        "steer" => steer(&key),
        "edit" => {
            let transcript = chat.transcript().await.unwrap_or_default();
            let first = transcript.iter().find(|message| matches!(message.body, Body::User(_)));
            let Some(message) = first.map(|first| first.id) else { return }; // It is about to be said.
            Command::Edit { message, parts: words(&key) }
        }
        _ => {
            if tokio::time::timeout(Duration::from_millis(50), chat.rest()).await.is_ok() {
                let spoken = format!("{key}-spoken"); // So that there is something to stop.
                took(&chat, "steer", steer(&spoken), spoken).await;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Command::Interrupt
        }
    };
    took(&chat, &verb, command, key).await;
}

/// Answers whatever the chat asks. Of two processes that do, both say the same.
async fn answer(chat: ChatHandle) {
    let (mut events, mut view) = (chat.events(None), View::default());
    loop {
        let Ok(event) = events.next().await else { continue };
        view.fold(&event).unwrap();
        let asks = view.standing.as_ref().map(|standing| standing.asks.clone()).unwrap_or_default();
        let Some(first) = asks.first() else { continue };
        let key = format!("answer{}", first.uid);
        let answered = |ask: &OpenCall| match ask.state {
            CallState::AsksApproval => AnswerContent::Approve { input_hash: ask.input_hash },
            _ => AnswerContent::Output(Output::text(&key)),
        };
        let answers = asks.iter().map(|ask| CallAnswer { call: ask.uid, what: answered(ask) });
        took(&chat, "answer", Command::Answer(answers.collect()), key.clone()).await;
    }
}

async fn took(chat: &ChatHandle, verb: &str, command: Command, key: String) {
    match chat.submit(command, Some(key.clone())).await {
        Ok(receipt) => say(format_args!("took {verb} {} {key} {}", chat.id(), receipt.seq)),
        Err(error) => say(format_args!("not {key} {error}")),
    }
}

/// Tells what a reader has seen, whenever that can be gone on from.
async fn watch(chat: ChatHandle) {
    let mut events = chat.events(None);
    let mut view = View::default();
    loop {
        let Ok(event) = events.next().await else { continue };
        view.fold(&event).unwrap();
        if let Some(cursor) = events.cursor() {
            let shown = view.draft.as_ref().map_or(0, fingerprint);
            say(format_args!("seen {} {cursor} {shown}", chat.id()));
        }
    }
}

/// A number for all that a draft shows.
pub fn fingerprint(draft: &Draft) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{draft:?}").hash(&mut hasher);
    hasher.finish()
}

/// `t1 t2 … tn`
pub fn tokens(count: usize) -> String {
    (1..=count).map(|number| format!("t{number}")).collect::<Vec<_>>().join(" ")
}

/// Counts, calls both tools, and counts again. Goes on where it broke off.
fn counting(heard: &Heard) -> Script {
    if heard.words == DEADLY {
        return script([text("I must."), call("die", json!({})), stop(Stop::ToolUse)]);
    }
    let whole = tokens(TOKENS);
    let left = whole.strip_prefix(heard.half_said.trim_end()).unwrap_or(&whole);
    let spoken = left.split_inclusive(' ').flat_map(|word| [text(word), Cue::Wait(Duration::from_micros(500))]);
    let other = if heard.tools.iter().any(|tool| tool.name == "map") { "map" } else { "look" };
    let end = match heard.results.is_empty() {
        true => vec![call("pay", json!({})), call(other, json!({})), stop(Stop::ToolUse)],
        false => vec![stop(Stop::End)],
    };
    script(spoken.chain(end))
}

fn hardy(trace: &std::path::Path) -> Agent {
    let mut agent = agent(trace);
    (agent.limits.deaths_max, agent.limits.deaths_waiting_max) = (u32::MAX, u32::MAX);
    agent
}

fn asking(trace: &std::path::Path) -> Agent {
    let policy = Policy { approval: Approval::Needed, ..Policy::default() };
    let agent = Agent::new("understudy/counting".parse().unwrap());
    let mut agent = agent.tool(leaving_a_trace("pay", trace, policy)).unwrap();
    agent.toolbox.add_client(ToolSpec::new("map", "Shows a map.", json!({"type": "object"}))).unwrap();
    (agent.limits.deaths_max, agent.limits.deaths_waiting_max) = (u32::MAX, u32::MAX);
    agent
}

fn agent(trace: &std::path::Path) -> Agent {
    let policy = |effect| Policy { effect, ..Policy::default() };
    let pay = leaving_a_trace("pay", trace, policy(Effect::Once));
    let look = leaving_a_trace("look", trace, policy(Effect::Read));
    let die = tool("die", "Ends the process.", |_: ToolContext, _: Value| async move {
        std::process::abort();
        #[allow(unreachable_code, reason = "it says what it would give back")]
        Ok::<String, ToolError>(String::new())
    });
    let agent = Agent::new("understudy/counting".parse().unwrap());
    agent.tool(pay).unwrap().tool(look).unwrap().tool(die).unwrap()
}

/// A tool that appends a line to a file, which no crash of the process takes back.
fn leaving_a_trace(name: &'static str, trace: &std::path::Path, policy: Policy) -> impl everturn::Tool {
    let trace: Arc<std::path::Path> = trace.into();
    let run = move |context: ToolContext, _: Value| {
        let trace = trace.clone();
        async move {
            let mut file = OpenOptions::new().append(true).create(true).open(&trace).unwrap();
            let line = format!("{name} {} {}\n", context.chat, context.call);
            file.write_all(line.as_bytes()).map_err(|error| error.to_string())?;
            tokio::time::sleep(tool_time()).await;
            Ok::<_, ToolError>("done".to_string())
        }
    };
    tool(name, "Leaves a trace.", run).with(policy)
}
