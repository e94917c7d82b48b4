//! The wall clock may be set while turns run: what is stored follows it, what is measured does not.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use everturn::core::chat::TurnEnd;
use everturn::core::ids::Timestamp;
use everturn::core::message::Stop;
use everturn::{ToolContext, ToolError, tool};
use everturn_understudy::{Understudy, call, refuse, script, stop, text};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::stage::{Stage, agent};
use crate::trouble::Log;

const DAY: i64 = 24 * 60 * 60 * 1_000;

/// The offset of the wall clock. Each test has its own process.
static SET_BY: AtomicI64 = AtomicI64::new(0);

fn wall() -> Timestamp {
    static STARTED: OnceLock<Instant> = OnceLock::new();
    let base = Timestamp(100 * DAY + SET_BY.load(Ordering::SeqCst));
    base + STARTED.get_or_init(Instant::now).elapsed()
}

/// A tool during which the clock is set by so much.
fn sets_the_clock(by: i64) -> impl everturn::Tool {
    tool("wind", "Sets the clock.", move |_: ToolContext, _: Value| async move {
        SET_BY.fetch_add(by, Ordering::SeqCst);
        sleep(Duration::from_secs(1)).await;
        Ok::<_, ToolError>("set".to_owned())
    })
}

/// A turn of a second in which the clock is set by a day is a turn of a second, and what is said later has the new time.
#[tokio::test(start_paused = true)]
async fn wall_time_jumps_and_durations_do_not() {
    for by in [DAY, -DAY] {
        let before = wall();
        let model = Understudy::new([
            script([call("wind", json!({})), stop(Stop::ToolUse)]),
            script([refuse(529)]),
            script([text("Done."), stop(Stop::End)]),
        ]);
        let mut agent = agent().tool(sets_the_clock(by)).unwrap();
        agent.limits.turn_time_max = Duration::from_secs(60 * 60);
        let stage = Stage::built(model, agent, |builder| builder.wall_clock(wall)).await;
        stage.run("go").await;
        assert_eq!(stage.ended().await, TurnEnd::Done, "a clock that is set is no work");
        assert_eq!(stage.engine.now(), wall());
        let said: Vec<_> = stage.transcript().await.iter().map(|message| message.at.0 - before.0).collect();
        assert!(said[..2].iter().all(|at| (0..60_000).contains(at)), "{said:?}");
        assert!((by..by + 60_000).contains(&said[3]), "what is said afterwards has the new time: {said:?}");
        let attempts = stage.chat.attempts(0).await.unwrap();
        assert!(attempts.iter().all(|attempt| attempt.took < Duration::from_secs(60)), "{attempts:?}");
        assert_eq!(attempts.len(), 3);
    }
}

/// A wait lasts as long as the provider asked for, though the clock is put back meanwhile.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_put_back_lengthens_no_wait() {
    let model = Understudy::new([
        script([refuse(429).retry_after(7)]),
        script([text("One."), stop(Stop::End)]),
        script([text("Two."), stop(Stop::End)]),
    ]);
    let stage = Stage::built(model, agent(), |builder| builder.wall_clock(wall)).await;
    let began = Instant::now();
    stage.chat.send("one").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    SET_BY.fetch_sub(DAY, Ordering::SeqCst);
    let other = stage.engine.create("it").await.unwrap();
    other.send("two").await.unwrap();
    assert_eq!(stage.ended().await, TurnEnd::Done);
    assert_eq!(other.rest().await.unwrap().ended(), Some(TurnEnd::Done));
    let took = began.elapsed();
    assert!((Duration::from_secs(7)..Duration::from_secs(30)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_jump_is_logged() {
    let (log, _guard) = Log::listen();
    let stage = Stage::built(Understudy::new([]), agent(), |builder| builder.wall_clock(wall)).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(log.take(), "");
    SET_BY.fetch_add(DAY, Ordering::SeqCst);
    sleep(Duration::from_secs(60)).await;
    let told = log.take();
    assert!(told.starts_with("WARN the wall clock jumped") && told.contains("jump_ms=86400000"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    drop(stage);
}
