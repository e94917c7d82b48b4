//! Hooks of the program that decide on calls and hear of their ends.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use everturn::core::chat::{Chat, Effect, TurnEnd};
use everturn::core::message::Stop;
use everturn::{Agent, Hook, HookedCall, Policy, async_trait};
use everturn_understudy::{Understudy, call, script, stop, text};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::stage::{Diary, Stage, agent, count, counter, echo};
use crate::tools::{ANY, calling, results};

/// Refuses `deploy`, thinks about `slow` for ever, and notes everything.
#[derive(Default)]
struct Guard {
    noted: Mutex<Vec<String>>,
}

impl Guard {
    fn note(&self, what: String) {
        self.noted.lock().unwrap().push(what);
    }

    fn noted(&self) -> Vec<String> {
        self.noted.lock().unwrap().clone()
    }
}

#[async_trait]
impl Hook for Guard {
    async fn before_step(&self, _: &Chat) -> Option<String> {
        None
    }

    fn hears_of_calls(&self) -> bool {
        true
    }

    async fn before_call(&self, call: HookedCall<'_>) -> Result<(), String> {
        self.note(format!("before {} {} {}", call.call, call.tool, call.input));
        match call.tool {
            "deploy" => Err("not on a Friday".into()),
            "slow" => std::future::pending().await,
            _ => Ok(()),
        }
    }

    async fn after_call(&self, call: HookedCall<'_>, returned: Result<&[u8], &str>) -> Option<String> {
        let returned = returned.map(String::from_utf8_lossy);
        self.note(format!("after {} {returned:?}", call.tool));
        Some(format!("{} was formatted", call.tool))
    }

    async fn turn_ended(&self, _: &Chat, end: &TurnEnd) {
        self.note(format!("ended {end:?}"));
    }
}

fn guarded(agent: Agent, guard: &Arc<Guard>) -> Agent {
    Agent { hook: Some(guard.clone()), ..agent }
}

/// TA09: a hook sees a call with its input before it starts, and refuses it with a reason that the model reads; other calls
/// run, and what the hook says of their ends is added to their results. The end of the turn is told too.
#[tokio::test(start_paused = true)]
async fn a_hook_refuses_calls_and_hears_of_their_ends() {
    let (guard, deployed, looked) = (Arc::new(Guard::default()), counter(), counter());
    let agent = agent().tool(echo("deploy", &deployed)).unwrap().tool(echo("look", &looked)).unwrap();
    let calls =
        [call("deploy", json!({"say": "a"})), call("look", json!({"say": "b"})), call("look", json!({"no": 1}))];
    let stage = Stage::new(Understudy::new(calling(calls)), guarded(agent, &guard)).await;
    stage.run("go").await;
    assert_eq!((count(&deployed), count(&looked)), (0, 1));
    let told: Vec<String> = results(&stage.understudy.requests()[1]).into_iter().map(|(_, _, text)| text).collect();
    assert_eq!(told[0], "This call was refused: not on a Friday. It was not run.");
    assert_eq!(told[1], "heard b\n\n[A hook says: look was formatted]");
    assert!(stage.told().await.contains("deploy Denied"), "people see that it was denied");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        guard.noted(),
        [
            r#"before 1.0 deploy {"say":"a"}"#,
            r#"before 1.1 look {"say":"b"}"#,
            r#"after look Ok("heard b")"#,
            "ended Done",
        ],
        "a call that cannot run is not asked about"
    );
}

/// TA09: a hook that does not decide refuses the call after a minute; an interrupt does not wait for it.
#[tokio::test(start_paused = true)]
async fn a_hook_that_hangs_refuses_and_holds_nothing_up() {
    let (guard, slow) = (Arc::new(Guard::default()), counter());
    let agent = guarded(agent().tool(echo("slow", &slow)).unwrap(), &guard);
    let stage = Stage::new(Understudy::new(calling([call("slow", json!({"say": "a"}))])), agent.clone()).await;
    stage.run("go").await;
    let told = results(&stage.understudy.requests()[1]);
    assert!(told[0].1 && told[0].2.contains("did not decide within 60 seconds"), "{told:?}");
    assert_eq!(stage.ended().await, TurnEnd::Done, "the turn goes on, with no call left to run");

    let stage = Stage::new(Understudy::new(calling([call("slow", json!({"say": "a"}))])), agent).await;
    stage.chat.send("go").await.unwrap();
    while guard.noted().iter().filter(|note| note.starts_with("before")).count() < 2 {
        sleep(Duration::from_millis(10)).await;
    }
    let began = Instant::now();
    stage.chat.interrupt().await.unwrap();
    assert_eq!(stage.ended().await, TurnEnd::Interrupted);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(count(&slow), 0);
}

/// A call that was permitted and started is not asked about again by the process that runs it again.
#[tokio::test(start_paused = true)]
async fn a_call_that_a_crash_interrupted_is_not_asked_about_again() {
    let (guard, diary) = (Arc::new(Guard::default()), Diary::new());
    let policy = Policy { effect: Effect::Idempotent, ..ANY };
    let agent = || guarded(agent().tool(diary.tool("look", 5, policy.clone())).unwrap(), &guard);
    let stage = Stage::new(Understudy::new(calling([call("look", json!({}))])), agent()).await;
    stage.chat.send("go").await.unwrap();
    while !diary.read().contains("begins") {
        sleep(Duration::from_millis(10)).await;
    }
    let stage = stage.moved(Understudy::new([script([text("Done."), stop(Stop::End)])]), agent()).await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    assert_eq!(diary.read().matches("begins").count(), 2);
    assert_eq!(guard.noted().iter().filter(|note| note.starts_with("before")).count(), 1, "{:?}", guard.noted());
}
