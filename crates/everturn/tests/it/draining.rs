//! A process that is told to end.

use std::time::Duration;

use everturn::core::chat::TurnEnd;
use everturn::core::message::Stop;
use everturn::core::status::Status;
use everturn::{Agent, Beside, ChatHandle, Policy};
use everturn_understudy::{Understudy, call, script, stop, text, wait};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::stage::{Diary, Stage, agent};
use crate::tools::ANY;

const GRACE: Duration = Duration::from_secs(10);

/// Answers each person after as many seconds as they say.
fn punctual() -> Understudy {
    Understudy::hearing(|heard| {
        let seconds = heard.words.parse().unwrap_or_default();
        script([text("One "), wait(seconds), text("moment."), stop(Stop::End)])
    })
}

async fn chat(stage: &Stage, words: &str) -> ChatHandle {
    let chat = stage.engine.create("it").await.unwrap();
    chat.send(words).await.unwrap();
    chat
}

async fn status(chat: &ChatHandle) -> Status {
    chat.view().await.unwrap().standing.unwrap().status
}

/// I24: steps that are nearly done finish, others are handed over with everything shown so far, and none begins.
#[tokio::test(start_paused = true)]
async fn work_under_way_ends_within_the_grace() {
    let stage = Stage::new(punctual(), agent()).await;
    let (near, far) = (chat(&stage, "6").await, chat(&stage, "60").await);
    near.send("0").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let since = Instant::now();
    stage.engine.drain(GRACE).await;
    assert_eq!(since.elapsed(), GRACE);
    let standing = near.view().await.unwrap().standing.unwrap();
    assert_eq!(
        (standing.ended, stage.understudy.requests().len()),
        (None, 2),
        "the next is about to begin, and did not"
    );
    assert_eq!(status(&far).await, Status::Running);
    let stage = stage.moved(punctual(), agent()).await;
    for id in [near.id(), far.id()] {
        assert_eq!(stage.engine.chat(id).rest().await.unwrap().ended(), Some(TurnEnd::Done));
    }
    assert_eq!(stage.engine.chat(far.id()).newest_reply().await.unwrap().as_deref(), Some("One moment."));
}

/// When all is done the grace is not waited for; a chat that rests or waits its time out is not waited for at all.
#[tokio::test(start_paused = true)]
async fn an_idle_engine_drains_at_once() {
    let stage = Stage::new(punctual(), agent()).await;
    let near = chat(&stage, "3").await;
    sleep(Duration::from_secs(1)).await;
    let since = Instant::now();
    stage.engine.drain(GRACE).await;
    assert_eq!((since.elapsed(), status(&near).await), (Duration::from_secs(2), Status::Idle));
}

/// A tool that runs may come to its end, another does not start, and the turn goes on elsewhere.
#[tokio::test(start_paused = true)]
async fn a_tool_that_runs_may_end_and_no_other_starts() {
    let diary = Diary::new();
    let equipped = |diary: &Diary| -> Agent {
        let policy = Policy { beside: Beside::Serial, ..ANY };
        agent().tool(diary.tool("dig", 4, policy)).unwrap()
    };
    let calls = script([call("dig", json!({"n": 1})), call("dig", json!({"n": 2})), stop(Stop::ToolUse)]);
    let stage = Stage::new(Understudy::new([calls]), equipped(&diary)).await;
    stage.chat.send("go").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let since = Instant::now();
    stage.engine.drain(GRACE).await;
    assert_eq!(since.elapsed(), Duration::from_secs(3));
    assert_eq!(diary.read(), "t=000.0 dig {\"n\":1} begins\nt=004.0 dig {\"n\":1} ends\n");
    let end = Understudy::new([script([text("Done."), stop(Stop::End)])]);
    let stage = stage.moved(end, equipped(&diary)).await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    assert_eq!(diary.read().matches("begins").count(), 2, "{}", diary.read());
}
