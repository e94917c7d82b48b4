//! Budgets of owners: per chat, per day and per month.

use std::time::Duration;

use everturn::core::budget::{Allowance, Budget};
use everturn::core::chat::{TurnEnd, TurnFailure};
use everturn::core::cost::{Micros, Price};
use everturn::core::error::ErrorKind;
use everturn::core::message::Stop;
use everturn::core::status::Status;
use everturn::{ChatHandle, Engine};
use everturn_understudy::{Understudy, call, script, stop, text, usage};
use serde_json::json;
use tokio::time::sleep;

use crate::stage::{Diary, Stage, agent};
use crate::tools::ANY;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Every answer uses 100 tokens.
fn frugal() -> Understudy {
    let price = Price { input: Micros::units(10), output: Micros::units(10), ..Price::default() };
    let answer = |_: &_| script([text("Here."), usage(90, 10), stop(Stop::End)]);
    Understudy::improvising(answer).with(|facts| facts.price = Some(price))
}

/// Calls a tool again and again.
fn restless() -> Understudy {
    Understudy::improvising(|request| {
        let n = request.entries.len();
        script([call("look", json!({ "n": n })), usage(90, 10), stop(Stop::ToolUse)])
    })
}

fn daily(tokens: u64) -> Budget {
    Budget { day: Allowance { tokens_max: Some(tokens), ..Allowance::default() }, ..Budget::default() }
}

async fn chat_of(engine: &Engine, owner: &str) -> ChatHandle {
    engine.create_as(engine.new_id(), "it", owner).await.unwrap()
}

async fn ended(chat: &ChatHandle) -> TurnEnd {
    chat.send("go").await.unwrap();
    chat.rest().await.unwrap().ended().unwrap()
}

fn failure(end: TurnEnd) -> TurnFailure {
    match end {
        TurnEnd::Failed(failure) => *failure,
        other => panic!("it ended well: {other:?}"),
    }
}

/// I17: an owner's chats share a budget, the turn that would go over it fails with a reason, others go on, and the next
/// day it is as new.
#[tokio::test(start_paused = true)]
async fn a_budget_that_is_used_up_ends_turns_until_the_next_day() {
    let stage =
        Stage::built(frugal(), agent(), |builder| builder.budget(daily(200)).budget_of("rich", daily(900))).await;
    let (one, two) = (chat_of(&stage.engine, "poor").await, chat_of(&stage.engine, "poor").await);
    assert_eq!((ended(&one).await, ended(&two).await), (TurnEnd::Done, TurnEnd::Done));
    let asked = stage.understudy.requests().len();
    let refused = failure(ended(&one).await);
    assert_eq!((refused.kind, refused.attempts), (ErrorKind::Budget, 0));
    assert_eq!(refused.detail, "200 of 200 tokens used today; renewed at midnight UTC");
    assert!(refused.message.contains("budget"), "{}", refused.message);
    assert_eq!(stage.understudy.requests().len(), asked, "no model was asked");
    assert_eq!(one.view().await.unwrap().standing.unwrap().status, Status::Failed);
    let rich = chat_of(&stage.engine, "rich").await;
    assert_eq!(
        (ended(&rich).await, ended(&rich).await, ended(&rich).await),
        (TurnEnd::Done, TurnEnd::Done, TurnEnd::Done)
    );
    sleep(DAY).await;
    assert_eq!(ended(&one).await, TurnEnd::Done);
}

/// I17: a chat has a budget of its own, whatever its owner may still use elsewhere, and no day renews it.
#[tokio::test(start_paused = true)]
async fn a_chat_that_has_used_its_budget_is_over_and_others_of_its_owner_are_not() {
    let chat = Allowance { tokens_max: Some(200), ..Allowance::default() };
    let budget = Budget { chat, ..daily(1_000) };
    let stage = Stage::built(frugal(), agent(), |builder| builder.budget(budget)).await;
    let (one, two) = (chat_of(&stage.engine, "a").await, chat_of(&stage.engine, "a").await);
    assert_eq!((ended(&one).await, ended(&one).await), (TurnEnd::Done, TurnEnd::Done));
    for _ in 0..2 {
        let refused = failure(ended(&one).await);
        assert_eq!((refused.kind, refused.attempts), (ErrorKind::Budget, 0));
        assert_eq!(refused.detail, "200 of 200 tokens used in this chat; a new one begins at nothing");
        sleep(DAY).await;
    }
    assert_eq!(ended(&two).await, TurnEnd::Done);
}

/// Usage is counted in the store: another process knows it, and days and months are counted apart.
#[tokio::test(start_paused = true)]
async fn a_budget_outlives_its_process() {
    let month = Allowance { cost_max: Some(Micros(2_000)), ..Allowance::default() };
    let budget = Budget { month, ..Budget::default() };
    let stage = Stage::built(frugal(), agent(), |builder| builder.budget(budget)).await;
    let id = chat_of(&stage.engine, "a").await.id();
    assert_eq!(ended(&stage.engine.chat(id)).await, TurnEnd::Done);
    stage.engine.shutdown().await;
    let second = |days: u32| {
        let builder = Engine::builder().store(stage.store.clone()).provider(frugal()).agent("it", agent());
        let now = everturn::core::ids::Timestamp(0) + DAY * days;
        builder.budget(budget).starting_at(now).start()
    };
    let engine = second(20);
    assert_eq!(ended(&engine.chat(id)).await, TurnEnd::Done);
    assert_eq!(
        failure(ended(&engine.chat(id)).await).detail,
        "$0.002 of $0.002 spent this month; renewed on the first of the next, UTC"
    );
    engine.shutdown().await;
    assert_eq!(ended(&second(31).chat(id)).await, TurnEnd::Done, "it is February");
}

/// Within a turn too: the step that would go over is not made, and a chat that waits goes on waiting.
#[tokio::test(start_paused = true)]
async fn a_turn_ends_at_the_step_that_would_go_over() {
    let agent = agent().tool(Diary::new().tool("look", 1, ANY)).unwrap();
    let stage = Stage::built(restless(), agent, |builder| builder.budget(daily(300))).await;
    stage.chat.send("go").await.unwrap();
    stage.chat.send("and then?").await.unwrap();
    assert_eq!(failure(stage.ended().await).kind, ErrorKind::Budget);
    let standing = stage.chat.view().await.unwrap().standing.unwrap();
    assert_eq!((stage.understudy.requests().len(), standing.queue.len()), (3, 1));
}

/// I17: steps and time are bounded across turns too, of a chat and of all that an owner has; time is what calls and tools
/// take, and waiting costs nothing.
#[tokio::test(start_paused = true)]
async fn steps_and_time_are_budgets_too() {
    let steps = Allowance { steps_max: Some(3), ..Allowance::default() };
    let time = Allowance { time_max: Some(Duration::from_secs(150)), ..Allowance::default() };
    let of_chat = "in this chat; a new one begins at nothing";
    let of_day = "today; renewed at midnight UTC";
    for (budget, used, made, is_shared) in [
        (Budget { chat: steps, ..Budget::default() }, format!("3 of 3 steps made {of_chat}"), 3, false),
        (Budget { day: steps, ..Budget::default() }, format!("3 of 3 steps made {of_day}"), 3, true),
        (Budget { chat: time, ..Budget::default() }, format!("3 of 2 minutes worked {of_chat}"), 3, false),
        (Budget { day: time, ..Budget::default() }, format!("3 of 2 minutes worked {of_day}"), 3, true),
    ] {
        let agent = agent().tool(Diary::new().tool("look", 60, ANY)).unwrap();
        let stage = Stage::built(restless(), agent, |builder| builder.budget(budget)).await;
        let (one, two) = (chat_of(&stage.engine, "a").await, chat_of(&stage.engine, "a").await);
        sleep(Duration::from_secs(3_600)).await;
        let refused = failure(ended(&one).await);
        assert_eq!((refused.kind, refused.detail.as_str()), (ErrorKind::Budget, used.as_str()));
        assert_eq!(stage.understudy.requests().len(), made);
        assert_eq!(failure(ended(&two).await).kind, ErrorKind::Budget);
        assert_eq!(stage.understudy.requests().len() == made, is_shared, "{used}");
    }
}
