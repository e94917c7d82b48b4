//! Chats with a model of their own.

use everturn::core::command::ModelChoice;
use everturn::core::ids::Timestamp;
use everturn::core::limits::Limits;
use everturn::core::message::Stop;
use everturn::core::view::Event;
use everturn::{Agent, Engine};
use everturn_understudy::{Understudy, refuse, script, stop, text, wait};

use crate::compaction::{long, says, small};
use crate::read::rows;
use crate::stage::{Stage, agent};

fn own(model: &str) -> ModelChoice {
    ModelChoice::Own(model.parse().unwrap())
}

/// An agent with a model to fall back to, which gives up soon.
fn two() -> Agent {
    let mut limits = Limits::default();
    limits.retry.tries_max = 1;
    agent().or("second/two".parse().unwrap()).limits(limits)
}

/// A stage with three providers.
async fn stage(first: Understudy, second: Understudy, own: Understudy) -> Stage {
    let others = |builder: everturn::Builder| builder.provider(second.named("second")).provider(own.named("own"));
    Stage::built(first, two(), others).await
}

/// The models that were asked, in order, with what came of it.
async fn asked(stage: &Stage) -> Vec<String> {
    let rows = rows(&stage.chat).await;
    let words = |row: &str| row.split(' ').skip(1).take(2).collect::<Vec<_>>().join(" ");
    rows.lines().map(words).collect()
}

/// The chat's own model stands for the agent's first one, with the same to fall back to, until it is taken back.
#[tokio::test(start_paused = true)]
async fn a_chat_asks_the_model_that_was_chosen() {
    let down = || script([refuse(529)]);
    let (first, second) = (Understudy::new([says("First.")]), Understudy::new([says("Second.")]));
    let stage = stage(first, second, Understudy::new([says("Own."), down(), down()])).await;
    stage.chat.choose(own("own/model")).await.unwrap();
    stage.run("Hi.").await;
    stage.run("And now?").await;
    stage.chat.choose(ModelChoice::Agents).await.unwrap();
    stage.run("And again?").await;
    assert_eq!(stage.replies().await, "Own.|Second.|First.");
    let expected = ["own/model Answered", "own/model Overloaded", "second/two Answered", "understudy/one Answered"];
    assert_eq!(asked(&stage).await, expected);
}

/// A model that is also one to fall back to is asked once.
#[tokio::test(start_paused = true)]
async fn no_fall_back_goes_to_the_same_model() {
    let down = || script([refuse(529)]);
    let stage = stage(Understudy::new([]), Understudy::new([down(), says("Never.")]), Understudy::new([])).await;
    stage.chat.choose(own("second/two")).await.unwrap();
    stage.run("Hi.").await;
    assert_eq!(asked(&stage).await, ["second/two Overloaded"]);
}

/// A model chosen during a turn is used from the next turn on, also if another process takes the turn over.
#[tokio::test(start_paused = true)]
async fn a_turn_under_way_keeps_its_model() {
    let slow = script([text("Hel"), wait(60)]);
    let stage = Stage::new(Understudy::new([slow]), agent()).await;
    let mut watch = stage.watch();
    stage.chat.send("Hi.").await.unwrap();
    watch.until_text("Hel").await;
    let chosen = stage.chat.choose(own("own/model")).await.unwrap();
    stage.chat.outcome(chosen).await.unwrap().unwrap();
    assert_eq!(stage.chat.standing().await.unwrap().model, "own/model".parse().ok());
    stage.engine.shutdown().await;

    let first = Understudy::new([says("Hello.")]);
    let engine = Engine::builder()
        .store(stage.store.clone())
        .provider(first)
        .provider(Understudy::new([says("Own.")]).named("own"))
        .agent("it", agent())
        .starting_at(Timestamp(1_000))
        .start();
    let chat = engine.chat(stage.chat.id());
    engine.resume().await.unwrap();
    chat.rest().await.unwrap();
    chat.send("And now?").await.unwrap();
    chat.rest().await.unwrap();
    let asked: Vec<String> = chat.attempts(0).await.unwrap().iter().map(|row| row.model.to_string()).collect();
    assert_eq!(asked, ["understudy/one", "understudy/one", "own/model"]);
}

/// After a change of model a summary is requested again, although the turn before went on without one.
#[tokio::test(start_paused = true)]
async fn another_model_is_asked_for_what_the_last_one_refused() {
    let slow = script([wait(5), text("More it is."), stop(Stop::End)]);
    let first = small([says(long(24_000)), script([refuse(400)]), slow]);
    let second = small([says("Letters."), says("That is all.")]).named("own");
    let provider = second.clone();
    let stage = Stage::built(first, agent(), |builder| builder.provider(provider)).await;
    stage.run("Letters, please.").await;
    let mut watch = stage.watch();
    stage.chat.send("More!").await.unwrap();
    watch.until(|event| matches!(event, Event::Delta(_))).await;
    stage.chat.choose(own("own/model")).await.unwrap();
    stage.chat.send("And then?").await.unwrap();
    watch.until_rest().await;
    assert_eq!((second.scripts_left(), stage.replies().await.ends_with("|More it is.|That is all.")), (0, true));
    assert!(stage.told().await.contains("summary Automatic \"Letters.\""));
}
