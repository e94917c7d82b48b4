//! Turns in which something happens that is worth counting. Each plays on a stage of its own, into the metrics it is
//! given, until its chat rests.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use everturn::core::chat::Chat;
use everturn::core::cost::{Micros, Price, TokenCount, UsageReport};
use everturn::core::delta::Delta;
use everturn::core::error::{Cause, ErrorKind};
use everturn::core::ids::Timestamp;
use everturn::core::message::{Media, Stop};
use everturn::core::prompt::ToolSpec;
use everturn::core::recovery::{Capabilities, Reattach};
use everturn::stores::{Hint, Receipt, SubmitError};
use everturn::{Agent, Background, Beside, Engine, Hook, Metrics, Policy, ToolError, ToolOutput, tool};
use everturn_understudy::{
    Cue, Script, Understudy, begin_call, call, fail, hang, refuse, response_id, script, stop, text, usage, wait,
};
use serde_json::json;
use tokio::time::sleep;

use crate::stage::{Stage, agent, counter, echo};

/// A name only a model would choose, made to break out of its quotes.
pub const HOSTILE: &str = "rm\"} 1\neverturn_hacked_total 1\n# ";

async fn on_stage(metrics: Metrics, understudy: Understudy, agent: Agent) -> Stage {
    Stage::built(understudy, agent, |builder| builder.metrics(metrics)).await
}

async fn plays(metrics: Metrics, scripts: impl IntoIterator<Item = Script>) -> Stage {
    on_stage(metrics, Understudy::new(scripts), agent()).await
}

/// Says something and waits until it is over.
async fn say(stage: &Stage, text: &str) {
    over(stage, stage.chat.send(text).await).await;
}

/// Waits until a command was obeyed, the chat rests again and its driver has let go of it.
async fn over(stage: &Stage, submitted: Result<Receipt, SubmitError>) {
    stage.chat.outcome(submitted.unwrap()).await.unwrap().unwrap();
    stage.chat.rest().await.unwrap();
    sleep(Duration::from_millis(1)).await;
}

/// An answer that comes to its end.
pub fn answer() -> Script {
    script([text("Done."), usage(100, 10), stop(Stop::End)])
}

/// A call and an answer, with everything a provider can report, at a price.
pub async fn a_turn(metrics: Metrics) {
    let price = Price {
        input: Micros::units(3),
        output: Micros::units(15),
        cache_read: Micros(300_000),
        cache_write: Micros(3_750_000),
        above: None,
    };
    let report = UsageReport {
        input: TokenCount::Known(1_000),
        output: TokenCount::Known(200),
        reasoning: TokenCount::Known(150),
        cache_read: TokenCount::Known(5_000),
        cache_write: TokenCount::Known(400),
    };
    let understudy = Understudy::new([
        script([
            wait(2),
            text("Let me look."),
            call("slow", json!({})),
            Cue::Say(vec![Delta::Usage(report.into())]),
            stop(Stop::ToolUse),
        ]),
        script([wait(1), text("Kelp it is."), wait(3), usage(100, 10), stop(Stop::End)]),
    ]);
    let slow = tool("slow", "Takes its time.", |_, _: NoInput| async {
        sleep(Duration::from_secs(4)).await;
        Ok::<_, ToolError>("kelp")
    });
    let understudy = understudy.with(|facts| facts.price = Some(price));
    say(&on_stage(metrics, understudy, agent().tool(slow).unwrap()).await, "kelp?").await;
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct NoInput {}

/// Text that breaks twice and goes on both times.
pub async fn continued(metrics: Metrics) {
    let reset = || fail(ErrorKind::Timeout, Cause::Reset);
    let scripts = [
        script([text("One, two, "), usage(100, 1), reset()]),
        script([text("three, four, "), usage(110, 4), fail(ErrorKind::Overloaded, Cause::ServerError)]),
        script([text("five."), usage(120, 2), stop(Stop::End)]),
    ];
    say(&plays(metrics, scripts).await, "count").await;
}

/// A generation that is lost and found again.
pub async fn reattached(metrics: Metrics) {
    let understudy = Understudy::new([
        script([response_id("r1"), text("Hel"), fail(ErrorKind::Timeout, Cause::Reset)]),
        script([text("lo."), usage(100, 3), stop(Stop::End)]),
    ]);
    let understudy = understudy.with(|facts| {
        facts.can = Capabilities { reattach: Reattach::Yes, ..Capabilities::default() };
        facts.target.background = true;
    });
    let agent = Agent { background: Background::On, ..agent() };
    say(&on_stage(metrics, understudy, agent).await, "hi").await;
}

/// One whole call and one that is cut: the whole one runs, and the model is not asked again for the other.
pub async fn salvaged(metrics: Metrics) {
    let understudy = Understudy::new([
        script([
            call("echo", json!({"say": "a"})),
            begin_call("echo", "{\"sa"),
            fail(ErrorKind::Timeout, Cause::Reset),
        ]),
        answer(),
    ]);
    say(&on_stage(metrics, understudy, agent().tool(echo("echo", &counter())).unwrap()).await, "go").await;
}

/// A refusal that is tried again, here and then elsewhere.
pub async fn fell_back(metrics: Metrics) {
    let first =
        Understudy::new([script([refuse(529)]), script([fail(ErrorKind::UsageLimit, Cause::Refused)])]).named("first");
    let agent = Agent::new("first/big".parse().unwrap()).or("understudy/one".parse().unwrap());
    let built = |builder: everturn::Builder| builder.metrics(metrics).provider(first);
    say(&Stage::built(Understudy::new([answer()]), agent, built).await, "hi").await;
}

/// One break of this kind, and then an answer.
pub async fn broken_once(metrics: Metrics, kind: ErrorKind, cause: Cause) {
    say(&plays(metrics, [script([text("Hm, "), fail(kind, cause)]), answer()]).await, "hi").await;
}

/// Everything that can go wrong with a call, one step each.
pub async fn tool_troubles(metrics: Metrics) {
    let nothing = || json!({});
    let step = |cues: Vec<Cue>| script(cues.into_iter().chain([stop(Stop::ToolUse)]));
    let understudy = Understudy::new([
        step(vec![call("fails", nothing())]),
        step(vec![call("panics", nothing())]),
        step(vec![call("sleeps", nothing())]),
        step(vec![call("echo", json!({"say": 7}))]),
        step(vec![call("old_echo", json!({"shout": "x"}))]),
        step(vec![call(HOSTILE, nothing()), call("also_made_up", nothing())]),
        step(vec![call("alone", nothing()), call("echo", json!({"say": "x"}))]),
        answer(),
    ]);
    let fails = tool("fails", "", |_, _: NoInput| async { Err::<String, _>(ToolError::from("no")) });
    let panics = tool("panics", "", |_, _: NoInput| async { bug() });
    let sleeps = tool("sleeps", "", |_, _: NoInput| async {
        sleep(Duration::from_secs(60)).await;
        Ok::<_, ToolError>("")
    });
    let alone = tool("alone", "", |_, _: NoInput| async { Ok::<_, ToolError>("") });
    let mut agent = agent()
        .tool(fails)
        .unwrap()
        .tool(panics)
        .unwrap()
        .tool(sleeps.with(Policy { time_max: Some(Duration::from_secs(5)), ..Policy::default() }))
        .unwrap()
        .tool(alone.with(Policy { beside: Beside::Exclusive, ..Policy::default() }))
        .unwrap()
        .tool(echo("echo", &counter()))
        .unwrap();
    agent.toolbox.alias("old_echo", "echo");
    say(&on_stage(metrics, understudy, agent).await, "go").await;
}

fn bug() -> Result<String, ToolError> {
    panic!("on purpose")
}

/// Results of every size.
pub async fn tool_results(metrics: Metrics) {
    let names = ["text", "nothing", "media", "endless", "error"];
    let calls = names.map(|name| call(name, json!({})));
    let understudy = Understudy::new([script(calls.into_iter().chain([stop(Stop::ToolUse)])), answer()]);
    let image = || Media { media_type: "image/png".into(), bytes: [7; 500].into() };
    let give = |name: &str, output: ToolOutput| {
        tool(name, "", move |_, _: NoInput| std::future::ready(Ok::<_, ToolError>(output.clone())))
    };
    let error = tool("error", "", |_, _: NoInput| async { Err::<String, _>(ToolError::from("it broke")) });
    let agent = agent()
        .tool(give("text", "twelve bytes".into()))
        .unwrap()
        .tool(give("nothing", ToolOutput::default()))
        .unwrap()
        .tool(give("media", ToolOutput { media: vec![image()], ..ToolOutput::default() }))
        .unwrap()
        .tool(give("endless", "x".repeat(1_000_000).into()))
        .unwrap()
        .tool(error)
        .unwrap();
    say(&on_stage(metrics, understudy, agent).await, "go").await;
}

/// Turns that need a summary before they can go on: it comes; it stays silent and comes the second time; it is refused,
/// and they go on without.
pub async fn compactions(metrics: Metrics) {
    let summary = || script([text("They want it long."), stop(Stop::End)]);
    for summaries in [vec![summary()], vec![script([hang()]), summary()], vec![script([refuse(401)])]] {
        say(&too_long(metrics.clone(), summaries).await, "go").await;
    }
}

/// A turn that is stopped while its summary is being written.
pub async fn compaction_interrupted(metrics: Metrics) {
    let stage = too_long(metrics, vec![script([hang()])]).await;
    stage.chat.send("go").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(stage.understudy.requests().len(), 2, "the summary was asked for");
    stage.chat.interrupt().await.unwrap();
}

/// A stage on which a tool fills the window.
async fn too_long(metrics: Metrics, summaries: Vec<Script>) -> Stage {
    let long = tool("long", "", |_, _: NoInput| async { Ok::<_, ToolError>("kelp! ".repeat(1_000)) });
    let first = script([call("long", json!({})), stop(Stop::ToolUse)]);
    let understudy = Understudy::new([vec![first], summaries, vec![answer()]].concat());
    let understudy = understudy.with(|facts| facts.context_limit = Some(2_500));
    on_stage(metrics, understudy, agent().tool(long).unwrap()).await
}

/// A turn is interrupted in the middle of its text.
pub async fn interrupted(metrics: Metrics) {
    let stage = plays(metrics, [script([text("Once upon a time"), hang()])]).await;
    stage.chat.send("a story").await.unwrap();
    let mut watch = stage.watch();
    watch.until_text("time").await;
    sleep(Duration::from_secs(7)).await;
    stage.chat.interrupt().await.unwrap();
}

/// While a turn is under way, three messages come: one waits, one is deleted, one steers. The model calls in between.
pub async fn queued(metrics: Metrics) {
    let slow_call = script([wait(10), call("echo", json!({"say": "a"})), stop(Stop::ToolUse)]);
    let understudy = Understudy::new([slow_call, script([wait(5), text("Yes."), stop(Stop::End)]), answer()]);
    let stage = on_stage(metrics, understudy, agent().tool(echo("echo", &counter())).unwrap()).await;
    stage.chat.send("go").await.unwrap();
    sleep(Duration::from_secs(3)).await;
    stage.chat.send("later").await.unwrap();
    let unwanted = stage.chat.send("never mind").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    stage.chat.steer("hurry").await.unwrap();
    over(&stage, stage.chat.unqueue(unwanted.seq).await).await;
}

/// A message is replaced while it is being answered.
pub async fn edited(metrics: Metrics) {
    let stage = plays(metrics, [script([text("Hm"), hang()]), answer()]).await;
    stage.chat.send("what is keep?").await.unwrap();
    stage.watch().until_text("Hm").await;
    sleep(Duration::from_secs(2)).await;
    let first = stage.transcript().await[0].id;
    over(&stage, stage.chat.edit(first, "what is kelp?").await).await;
}

/// Another process takes the chat over twice: in the middle of a text, and in the middle of a tool that must not run
/// twice.
pub async fn taken_over(metrics: Metrics) {
    let understudy = Understudy::new([
        script([text("Let me "), hang()]),
        script([text("look."), call("stuck", json!({})), stop(Stop::ToolUse)]),
        answer(),
    ]);
    let starts = counter();
    let counted = starts.clone();
    let stuck = tool("stuck", "", move |_, _: NoInput| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<Result<String, ToolError>>()
    });
    let agent = agent().tool(stuck).unwrap();
    let stage = on_stage(metrics.clone(), understudy, agent.clone()).await;
    let other = |metrics: Metrics| {
        let builder = Engine::builder().store(stage.store.clone()).provider(stage.understudy.clone());
        builder.agent("it", agent.clone()).seed(8).starting_at(Timestamp(0)).metrics(metrics).start()
    };
    stage.chat.send("go").await.unwrap();
    stage.watch().until_text("Let me").await;
    let second = other(metrics.clone());
    second.resume().await.unwrap();
    while starts.load(Ordering::SeqCst) == 0 {
        sleep(Duration::from_millis(100)).await;
    }
    let third = other(metrics);
    third.resume().await.unwrap();
    third.chat(stage.chat.id()).rest().await.unwrap();
    sleep(Duration::from_secs(700)).await; // The others find out when the stream or the tool is out of time.
}

/// The store is not reached, again, and then for too long.
pub async fn lost(metrics: Metrics) {
    let stage = plays(metrics, [answer()]).await;
    for hint in [Hint::Late, Hint::Late, Hint::Lost, Hint::Missed] {
        stage.store.tell(hint);
    }
    say(&stage, "hi").await;
}

/// A program with a hook that panics once.
pub async fn panicked(metrics: Metrics) {
    struct Once(std::sync::atomic::AtomicBool);
    #[async_trait]
    impl Hook for Once {
        async fn before_step(&self, _: &Chat) -> Option<String> {
            assert!(self.0.swap(true, Ordering::SeqCst), "on purpose");
            None
        }
    }
    let agent = Agent { hook: Some(Arc::new(Once(false.into()))), ..agent() };
    say(&on_stage(metrics, Understudy::new([answer()]), agent).await, "hi").await;
}

/// A chat that waits for its client, and one with a refused key. Both are still in the gauges.
pub async fn resting(metrics: Metrics) -> (Stage, Stage) {
    let asks = Understudy::new([script([call("ask", json!({})), stop(Stop::ToolUse)])]);
    let mut agent = agent();
    agent.toolbox.add_client(ToolSpec::new("ask", "", json!({"type": "object"}))).unwrap();
    let awaiting = on_stage(metrics.clone(), asks, agent).await;
    say(&awaiting, "go").await;
    let failed = plays(metrics, [script([refuse(401)])]).await;
    say(&failed, "go").await;
    (awaiting, failed)
}

/// Everything.
pub async fn all(metrics: &Metrics) {
    a_turn(metrics.clone()).await;
    continued(metrics.clone()).await;
    reattached(metrics.clone()).await;
    salvaged(metrics.clone()).await;
    fell_back(metrics.clone()).await;
    tool_troubles(metrics.clone()).await;
    tool_results(metrics.clone()).await;
    compactions(metrics.clone()).await;
    compaction_interrupted(metrics.clone()).await;
    interrupted(metrics.clone()).await;
    queued(metrics.clone()).await;
    edited(metrics.clone()).await;
    taken_over(metrics.clone()).await;
    lost(metrics.clone()).await;
    panicked(metrics.clone()).await;
    resting(metrics.clone()).await;
}
