//! The process that gets killed: an engine on a store on disk, a model that counts, tools that leave a trace.
//!
//! It is this test binary again, told by its environment what to be. It reads commands from its input, a line each, and
//! says on its output what was accepted and what whoever watches has seen. What it has said it cannot take back: that is
//! what its successor is held to.

use std::fs::OpenOptions;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use everturn::core::chat::Effect;
use everturn::core::command::{Command, When};
use everturn::core::draft::Draft;
use everturn::core::ids::ChatId;
use everturn::core::message::{Part, Stop, Text};
use everturn::core::view::View;
use everturn::{Agent, ChatHandle, Engine, Policy, ToolContext, ToolError, tool};
use everturn_understudy::{Cue, Heard, Script, Understudy, call, script, stop, text};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::task::JoinSet;

use crate::place::Place;

/// Where the store is; whoever is told so is mortal.
pub const PLACE: &str = "EVERTURN_MORTAL_PLACE";
/// The file in which tools leave their trace.
pub const TRACE: &str = "EVERTURN_MORTAL_TRACE";

/// A message to which the answer takes the process down.
pub const DEADLY: &str = "die";

/// An agent whose turns are never given up, however often their processes die.
pub const HARDY: &str = "hardy";
/// One whose turns are, as usual.
pub const FRAIL: &str = "frail";

/// How many numbers each answer has.
pub const TOKENS: usize = 40;

/// Lives until it is killed, or until its input ends and every chat rests.
#[test]
#[ignore = "a part that is played in another process"]
fn mortal() {
    let (Ok(place), Ok(trace)) = (std::env::var(PLACE), std::env::var(TRACE)) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(live(&place.parse().unwrap(), trace.into()));
}

async fn live(place: &Place, trace: PathBuf) {
    let store = place.open().await;
    let engine = Engine::builder()
        .store(store)
        .provider(Understudy::hearing(counting))
        .agent(HARDY, hardy(&trace))
        .agent(FRAIL, agent(&trace))
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
            ["go"] => drop(engine.resume().await),
            ["send", id, key] => drop(sends.spawn(send(engine.chat(id.parse().unwrap()), key.into()))),
            ["interrupt", id] => {
                let chat = engine.chat(id.parse::<ChatId>().unwrap());
                tokio::spawn(async move { drop(chat.interrupt().await) });
            }
            _ => panic!("not a command: {line}"),
        }
    }
    sends.join_all().await;
    for chat in chats {
        while chat.rest().await.is_err() {}
    }
    engine.shutdown().await;
    watches.shutdown().await; // Its last word is the last.
    say(format_args!("rest"));
}

/// One line, whole and at once.
fn say(line: std::fmt::Arguments<'_>) {
    let line = format!("@{line}\n");
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

async fn send(chat: ChatHandle, key: String) {
    let parts = [Part::Text(Text { text: key.clone(), meta: Default::default() })];
    let command = Command::Send { parts: parts.into(), when: When::Queue };
    while let Err(error) = chat.submit(command.clone(), Some(key.clone())).await {
        say(format_args!("not {key} {error}"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    say(format_args!("ok {key}"));
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
    let end = match heard.results.is_empty() {
        true => vec![call("pay", json!({})), call("look", json!({})), stop(Stop::ToolUse)],
        false => vec![stop(Stop::End)],
    };
    script(spoken.chain(end))
}

fn hardy(trace: &std::path::Path) -> Agent {
    let mut agent = agent(trace);
    agent.limits.deaths_max = u32::MAX;
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

/// A tool whose only effect is a line in a file, which no crash of ours takes back.
fn leaving_a_trace(name: &'static str, trace: &std::path::Path, policy: Policy) -> impl everturn::Tool {
    let trace: Arc<std::path::Path> = trace.into();
    let run = move |context: ToolContext, _: Value| {
        let trace = trace.clone();
        async move {
            let mut file = OpenOptions::new().append(true).create(true).open(&trace).unwrap();
            let line = format!("{name} {} {}\n", context.chat, context.call);
            file.write_all(line.as_bytes()).map_err(|error| error.to_string())?;
            tokio::time::sleep(Duration::from_millis(2)).await;
            Ok::<_, ToolError>("done".to_string())
        }
    };
    tool(name, "Leaves a trace.", run).with(policy)
}
