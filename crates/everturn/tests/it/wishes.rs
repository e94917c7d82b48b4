//! Options of agents and chats in requests: sampling, output limit, instructions and tools.

use std::sync::Arc;
use std::time::Duration;

use everturn::core::message::{Body, Stop};
use everturn::core::prompt::{OUTPUT_MAX, Sampling, ToolSpec};
use everturn::core::setup::{BadSetup, Setup};
use everturn::core::status::Status;
use everturn::core::view::Event;
use everturn::stores::NewChat;
use everturn::{ChatHandle, CreateError};
use everturn_understudy::{Understudy, call, refuse, script, stop, text, wait};
use serde_json::json;

use crate::compaction::{long, says};
use crate::stage::{Diary, Stage, agent, counter, echo};
use crate::tools::ANY;

/// The agent's parameters are in every request, and nothing that would cut a summary short is in one for a summary.
#[tokio::test(start_paused = true)]
async fn an_agent_samples_and_bounds_its_answers() {
    let sampling = Sampling { temperature: Some(0.3), top_k: Some(9), stop: vec!["END".into()], ..Sampling::default() };
    let agent = agent().sampling(sampling.clone()).unwrap().output_tokens_max(500);
    let stage = Stage::new(Understudy::new([says("Hello."), says("In short."), says("Bye.")]), agent).await;
    stage.run(&long(300)).await;
    let watch = stage.watch();
    stage.chat.compact().await.unwrap();
    watch.until_rest().await;
    stage.run("And now?").await;
    let requests = stage.understudy.requests();
    let wishes: Vec<_> =
        requests.iter().map(|asked| (&asked.sampling, asked.max_output, asked.output_is_told)).collect();
    let unbounded = Sampling { stop: Vec::new(), ..sampling.clone() };
    assert_eq!(wishes, [(&sampling, 500, true), (&unbounded, OUTPUT_MAX, false), (&sampling, 500, true)]);
    let hot = Sampling { temperature: Some(3.0), ..Sampling::default() };
    assert!(self::agent().sampling(hot).is_err(), "what no provider takes is refused at the start");
}

/// A reply says how long the turn worked for it: calls, waits between attempts and tools, which may run beside each other.
#[tokio::test(start_paused = true)]
async fn a_reply_says_how_long_the_turn_worked_for_it() {
    let naps = [wait(2), call("nap", json!({})), call("nap", json!({})), stop(Stop::ToolUse)];
    let scripts = [script(naps), script([refuse(529)]), script([wait(5), text("Done."), stop(Stop::End)])];
    let stage = Stage::new(Understudy::new(scripts), agent().tool(Diary::new().tool("nap", 30, ANY)).unwrap()).await;
    stage.run("Go.").await;
    let transcript = stage.transcript().await;
    let alive = transcript.iter().filter_map(|message| match &message.body {
        Body::Reply(reply) => Some(reply.alive),
        _ => None,
    });
    let alive: Vec<Duration> = alive.collect();
    let (first, second) = (alive[0], alive[1]);
    assert_eq!(first, Duration::from_secs(2));
    assert!(second >= Duration::from_secs(35), "two naps beside each other, and an answer: {second:?}");
    assert!(second < Duration::from_secs(40), "and a wait of a second or so between the attempts: {second:?}");
    let totals = stage.chat.view().await.unwrap().standing.unwrap().totals;
    assert_eq!(totals.alive, first + second);
    let account = stage.engine.account("").await.unwrap();
    assert_eq!(account.day.alive, totals.alive);
}

fn setup() -> Setup {
    let tools = vec![ToolSpec::new("map", "Shows a map.", json!({"type": "object", "required": ["of"]}))];
    Setup { instructions: "Speak of kelp.".into(), tools, ..Setup::default() }
}

async fn made(stage: &Stage, setup: Setup) -> Result<ChatHandle, CreateError> {
    let new = NewChat { setup: Some(Arc::new(setup)), ..NewChat::of(stage.engine.new_id(), "it", "") };
    stage.engine.make(&new).await
}

/// A chat's own instructions and tools are sent with the agent's, its tool is run by the client, and other chats do not
/// have them.
#[tokio::test(start_paused = true)]
async fn a_chat_has_instructions_and_tools_of_its_own() {
    let scripts =
        [script([call("map", json!({"of": "Oslo"})), call("map", json!({})), stop(Stop::ToolUse)]), says("There.")];
    let agent = agent().system("Be brief.").tool(echo("echo", &counter())).unwrap();
    let mut stage = Stage::new(Understudy::new(scripts), agent).await;
    let own = made(&stage, setup()).await.unwrap();
    let plain = std::mem::replace(&mut stage.chat, own);
    stage.chat.send("Where?").await.unwrap();
    let awaits = |event: &Event| matches!(event, Event::Standing(it) if it.status == Status::Awaiting);
    stage.watch().until(awaits).await;
    let standing = stage.chat.standing().await.unwrap();
    assert_eq!(standing.asks.len(), 1, "what does not fit its schema is not the client's to judge");
    assert_eq!(standing.setup.as_deref(), Some(&setup()));
    let asked = stage.understudy.requests().pop().unwrap();
    assert_eq!(asked.system, ["Be brief.", "Speak of kelp."]);
    assert_eq!(asked.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["echo", "map"]);
    assert_eq!(plain.standing().await.unwrap().setup, None);
    stage.chat = plain;
    stage.run("And here?").await;
    let asked = stage.understudy.requests().pop().unwrap();
    assert_eq!((asked.system.len(), asked.tools.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn impossible_tools_of_a_chat_are_refused_at_creation() {
    let agent = agent().tool(echo("echo", &counter())).unwrap();
    let stage = Stage::new(Understudy::new([]), agent).await;
    let refused = async |setup: Setup| match made(&stage, setup).await {
        Err(CreateError::Setup(bad)) => bad,
        other => panic!("{:?}", other.map(|chat| chat.id())),
    };
    let named = |name: &str| Setup { tools: vec![ToolSpec::new(name, "", json!({}))], ..Setup::default() };
    assert_eq!(refused(named("echo")).await, BadSetup::AgentHas("echo".into()));
    assert!(matches!(refused(named("a b")).await, BadSetup::NotOfferable(_)));
    let long = Setup { instructions: "x".repeat(20_000), ..Setup::default() };
    assert_eq!(refused(long).await, BadSetup::Instructions(20_000));
}
