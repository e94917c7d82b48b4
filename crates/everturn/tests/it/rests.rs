//! Calls that go on elsewhere.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everturn::core::chat::{Effect, TurnEnd};
use everturn::core::command::CallAnswer;
use everturn::core::ids::{MessageId, Timestamp};
use everturn::core::message::{Body, Message, Stop};
use everturn::core::prompt::ToolSpec;
use everturn::core::status::Status;
use everturn::{Agent, Approval, LookResult, Policy, Rest, RestingCall, Tool, ToolContext, ToolError, ToolReturn};
use everturn_understudy::{Understudy, call, script, stop, text};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::stage::{Diary, Stage, agent, counter, echo};
use crate::stepwise::Fault;
use crate::tools::{calling, results};

/// A place where work goes on whatever becomes of us, and the tool that has it done there.
#[derive(Clone)]
struct Elsewhere {
    diary: Diary,
    /// What the next looks find; the last one stays.
    found: Arc<Mutex<VecDeque<LookResult>>>,
    policy: Policy,
}

impl Elsewhere {
    fn new(found: impl IntoIterator<Item = LookResult>) -> Self {
        Self {
            diary: Diary::new(),
            found: Arc::new(Mutex::new(found.into_iter().collect())),
            policy: Policy::default(),
        }
    }

    fn finds(&self, found: impl IntoIterator<Item = LookResult>) {
        *self.found.lock().unwrap() = found.into_iter().collect();
    }

    /// An agent with this tool, under two names, and one that runs here.
    fn agent(&self) -> Agent {
        let here = echo("here", &counter());
        agent().tool(self.clone()).unwrap().tool(here).unwrap()
    }
}

#[async_trait::async_trait]
impl Tool for Elsewhere {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new("elsewhere", "Has work done elsewhere.", json!({"type": "object"}))
    }

    fn policy(&self) -> Policy {
        self.policy.clone()
    }

    async fn run(&self, context: ToolContext, _: Value) -> Result<ToolReturn, ToolError> {
        self.diary.note(&format!("{} starts", context.call));
        let handle = json!({"job": context.call.to_string()});
        Ok(ToolReturn::Rests(RestingCall { handle, look_after: Duration::from_secs(10) }))
    }

    async fn look(&self, _: ToolContext, handle: Value) -> Result<LookResult, ToolError> {
        self.diary.note(&format!("look at {}", handle["job"].as_str().unwrap()));
        let mut found = self.found.lock().unwrap();
        let next = if found.len() > 1 { found.pop_front() } else { found.front().cloned() };
        next.ok_or_else(|| ToolError::unknown("the job is forgotten"))
    }

    async fn let_go(&self, _: ToolContext, handle: Value) {
        self.diary.note(&format!("let go of {}", handle["job"].as_str().unwrap()));
    }
}

fn pending(seconds: u64) -> LookResult {
    LookResult::Pending(Duration::from_secs(seconds))
}

fn done(said: &str) -> LookResult {
    LookResult::Done(said.into())
}

fn one_call() -> Understudy {
    Understudy::new(calling([call("elsewhere", json!({}))]))
}

fn the_end() -> Understudy {
    Understudy::new([script([text("Done."), stop(Stop::End)])])
}

/// Waits until every open call rests.
async fn until_it_rests(stage: &Stage) {
    while stage.chat.standing().await.unwrap().awaits_until.is_none() {
        sleep(Duration::from_millis(10)).await;
    }
}

/// TR01: the handle outlives the process: the next one looks, the call is not started again and has one result.
#[tokio::test(start_paused = true)]
async fn a_call_that_rests_is_looked_at_by_the_next_process() {
    let elsewhere = Elsewhere::new([pending(5)]);
    let stage = Stage::new(one_call(), elsewhere.agent()).await;
    stage.chat.send("go").await.unwrap();
    until_it_rests(&stage).await;
    let status = stage.chat.standing().await.unwrap().status;
    assert_eq!(status, Status::Running, "there is nothing for a person to do");
    elsewhere.finds([done("found")]);
    let stage = stage.moved(the_end(), elsewhere.agent()).await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    let told = results(&stage.understudy.requests()[0]);
    assert_eq!(told, [("elsewhere".to_string(), false, "found".to_string())]);
    assert_eq!(elsewhere.diary.read(), "t=000.0 1.0 starts\nt=010.0 look at 1.0\n");
}

/// TR02: a process that dies before the handle is stored leaves a call of unknown outcome; one that may run twice runs again.
#[tokio::test(start_paused = true)]
async fn a_handle_that_was_not_stored_is_an_unknown_outcome() {
    for (effect, failed, starts) in [(Effect::Once, true, 1), (Effect::Idempotent, false, 2)] {
        let policy = Policy { effect, ..Policy::default() };
        let elsewhere = Elsewhere { policy, ..Elsewhere::new([done("found")]) };
        let stage = Stage::new(one_call(), elsewhere.agent()).await;
        stage.store.fail_after(5, Fault::Refused); // The start is stored; the handle is not.
        stage.chat.send("go").await.unwrap();
        while !elsewhere.diary.read().contains("starts") {
            sleep(Duration::from_millis(10)).await;
        }
        let stage = stage.moved(the_end(), elsewhere.agent()).await;
        assert_eq!(stage.ended().await, TurnEnd::Done);
        let told = results(&stage.understudy.requests()[0]);
        assert_eq!(told[0].1, failed, "{told:?}");
        assert_eq!(told[0].2.contains("unknown"), failed, "{told:?}");
        assert_eq!(elsewhere.diary.read().matches("starts").count(), starts);
    }
}

/// TR04: results that are there are stored at once; the step goes on when the last one is in.
#[tokio::test(start_paused = true)]
async fn a_step_goes_on_when_the_last_call_is_back() {
    let elsewhere = Elsewhere::new([pending(5), done("found first"), done("found last")]);
    let calls = [call("elsewhere", json!({})), call("here", json!({"say": "x"})), call("elsewhere", json!({}))];
    let stage = Stage::new(Understudy::new(calling(calls)), elsewhere.agent()).await;
    stage.chat.send("go").await.unwrap();
    until_it_rests(&stage).await;
    let stored = stage.transcript().await;
    let is_result = |message: &&Arc<Message>| matches!(message.body, Body::Result(_));
    assert_eq!(stored.iter().filter(is_result).count(), 1, "that of the call that ran here");
    assert_eq!(stage.ended().await, TurnEnd::Done);
    let told: Vec<String> = results(&stage.understudy.requests()[1]).into_iter().map(|(_, _, said)| said).collect();
    assert_eq!(told.len(), 3);
    assert_eq!(told[1], "heard x");
    assert!(told.contains(&"found first".into()) && told.contains(&"found last".into()), "{told:?}");
}

/// TR05: an interrupt lets go once, answers the call, and ends the turn; later looks do not happen.
#[tokio::test(start_paused = true)]
async fn an_interrupt_lets_go() {
    let elsewhere = Elsewhere::new([pending(5)]);
    let stage = Stage::new(one_call(), elsewhere.agent()).await;
    stage.chat.send("go").await.unwrap();
    until_it_rests(&stage).await;
    let at = Instant::now();
    stage.chat.interrupt().await.unwrap();
    assert_eq!(stage.ended().await, TurnEnd::Interrupted);
    assert!(at.elapsed() <= Duration::from_secs(3));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(elsewhere.diary.read(), "t=000.0 1.0 starts\nt=000.0 let go of 1.0\n");
    assert!(stage.told().await.contains("may go on all the same"), "{}", stage.told().await);
}

/// TR06: a place that cannot be reached is tried again at growing intervals, and the turn's time does not run meanwhile.
#[tokio::test(start_paused = true)]
async fn a_place_that_is_down_is_tried_again() {
    let down = LookResult::Unreachable("connection refused".into());
    let elsewhere = Elsewhere::new([down]);
    let mut agent = elsewhere.agent();
    agent.limits.turn_time_max = Duration::from_secs(60);
    let stage = Stage::new(one_call(), agent).await;
    stage.chat.send("go").await.unwrap();
    sleep(Duration::from_secs(3600)).await;
    let looks = elsewhere.diary.read().matches("look at").count();
    assert!((58..=70).contains(&looks), "{looks} looks in an hour");
    elsewhere.finds([done("found")]);
    assert_eq!(stage.ended().await, TurnEnd::Done);
    assert_eq!(results(&stage.understudy.requests()[1])[0].2, "found");
}

/// TR06: one that never comes back ends at the deadline: the call is let go, its outcome is unknown, and the turn goes on.
#[tokio::test(start_paused = true)]
async fn a_call_that_never_ends_is_let_go_at_the_deadline() {
    let elsewhere = Elsewhere::new([pending(60)]);
    let mut agent = elsewhere.agent();
    agent.limits.awaiting_max = Duration::from_secs(300);
    let stage = Stage::new(one_call(), agent).await;
    stage.chat.send("go").await.unwrap();
    assert_eq!(stage.ended().await, TurnEnd::Done);
    assert!(elsewhere.diary.read().ends_with("t=300.0 let go of 1.0\n"), "{}", elsewhere.diary.read());
    assert!(results(&stage.understudy.requests()[1])[0].2.contains("did not end in time"));
}

/// TR07: a process that takes over obeys the time of the next look.
#[tokio::test(start_paused = true)]
async fn a_takeover_looks_no_earlier_than_planned() {
    let elsewhere = Elsewhere::new([pending(600), done("found")]);
    let stage = Stage::new(one_call(), elsewhere.agent()).await;
    stage.chat.send("go").await.unwrap();
    sleep(Duration::from_secs(20)).await; // One look was made.
    let stage = stage.moved(the_end(), elsewhere.agent()).await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    assert_eq!(elsewhere.diary.read(), "t=000.0 1.0 starts\nt=010.0 look at 1.0\nt=610.0 look at 1.0\n");
}

/// TR08: an edit and a deletion let go first.
#[tokio::test(start_paused = true)]
async fn an_edit_and_a_deletion_let_go() {
    let elsewhere = Elsewhere::new([pending(5)]);
    let [first, second] = calling([call("elsewhere", json!({}))]);
    let [third, _] = calling([call("elsewhere", json!({}))]);
    let stage = Stage::new(Understudy::new([first, third, second]), elsewhere.agent()).await;
    stage.chat.send("go").await.unwrap();
    until_it_rests(&stage).await;
    stage.chat.edit(MessageId(1), "go again").await.unwrap();
    while elsewhere.diary.read().matches("starts").count() < 2 {
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(elsewhere.diary.read().matches("let go").count(), 1, "{}", elsewhere.diary.read());
    until_it_rests(&stage).await;
    stage.chat.delete().await.unwrap();
    assert_eq!(elsewhere.diary.read().matches("let go").count(), 2, "{}", elsewhere.diary.read());
}

/// TR03: chats whose calls rest hold no work slot: with one slot, a hundred of them come to their ends.
#[tokio::test(start_paused = true)]
async fn calls_that_rest_hold_no_work_slot() {
    let elsewhere = Elsewhere::new([done("found")]);
    let scripts = (0..100).map(|_| script([call("elsewhere", json!({})), stop(Stop::ToolUse)]));
    let ends = (0..100).map(|_| script([text("Done."), stop(Stop::End)]));
    let understudy = Understudy::new(scripts.chain(ends));
    let stage = Stage::built(understudy, elsewhere.agent(), |builder| builder.chats_max(1)).await;
    let mut chats = Vec::new();
    for _ in 0..100 {
        let chat = stage.engine.create("it").await.unwrap();
        chat.send("go").await.unwrap();
        chats.push(chat);
    }
    let at = Instant::now();
    for chat in &chats {
        assert_eq!(chat.rest().await.unwrap().ended(), Some(TurnEnd::Done));
    }
    assert!(at.elapsed() < Duration::from_secs(60), "they waited for each other: {:?}", at.elapsed());
}

/// A command meanwhile is applied at once, also while a look takes its time.
#[tokio::test(start_paused = true)]
async fn a_look_that_takes_long_holds_nothing_up() {
    #[derive(Clone)]
    struct Slow(Diary);
    #[async_trait::async_trait]
    impl Tool for Slow {
        fn spec(&self) -> ToolSpec {
            ToolSpec::new("elsewhere", "Has work done elsewhere.", json!({"type": "object"}))
        }
        async fn run(&self, _: ToolContext, _: Value) -> Result<ToolReturn, ToolError> {
            Ok(ToolReturn::Rests(RestingCall { handle: json!(1), look_after: Duration::ZERO }))
        }
        async fn look(&self, _: ToolContext, _: Value) -> Result<LookResult, ToolError> {
            self.0.note("looks");
            sleep(Duration::from_secs(20)).await;
            Ok(LookResult::Pending(Duration::ZERO))
        }
    }
    let diary = Diary::new();
    let stage = Stage::new(one_call(), agent().tool(Slow(diary.clone())).unwrap()).await;
    stage.chat.send("go").await.unwrap();
    while !diary.read().contains("looks") {
        sleep(Duration::from_millis(10)).await;
    }
    let at = Instant::now();
    stage.chat.interrupt().await.unwrap();
    assert_eq!(stage.ended().await, TurnEnd::Interrupted);
    assert!(at.elapsed() < Duration::from_secs(3), "{:?}", at.elapsed());
}

/// A person is asked about one call while another rests: the chat waits for the answer, and looks meanwhile.
#[tokio::test(start_paused = true)]
async fn a_call_may_rest_beside_one_that_asks() {
    let elsewhere = Elsewhere::new([done("found")]);
    let asked = Diary::new();
    let policy = Policy { approval: Approval::Needed, ..Policy::default() };
    let agent = elsewhere.agent().tool(asked.tool("asked", 0, policy)).unwrap();
    let calls = [call("elsewhere", json!({})), call("asked", json!({}))];
    let stage = Stage::new(Understudy::new(calling(calls)), agent).await;
    stage.chat.send("go").await.unwrap();
    let Rest::Awaiting(asks) = stage.chat.rest().await.unwrap() else { panic!("a person is asked") };
    sleep(Duration::from_secs(60)).await;
    assert!(elsewhere.diary.read().contains("look at"), "{}", elsewhere.diary.read());
    assert_eq!(stage.chat.standing().await.unwrap().status, Status::Awaiting);
    stage.chat.answer([CallAnswer::approve(&asks[0])]).await.unwrap();
    assert_eq!(stage.ended().await, TurnEnd::Done);
    let told = results(&stage.understudy.requests()[1]);
    assert_eq!(told.len(), 2);
    assert_eq!(told[0].2, "found");
}

/// A tool that panics when it looks, or that is not configured, is tried again like a place that is down.
#[tokio::test(start_paused = true)]
async fn a_look_that_panics_is_made_again() {
    let elsewhere = Elsewhere::new([]);
    let stage = Stage::new(one_call(), elsewhere.agent()).await;
    let poisoned = elsewhere.found.clone();
    let _ = std::thread::spawn(move || {
        let _guard = poisoned.lock().unwrap();
        panic!("the lock is poisoned: every look panics from now on");
    })
    .join();
    stage.chat.send("go").await.unwrap();
    sleep(Duration::from_secs(60)).await;
    assert!(elsewhere.diary.read().matches("look at").count() > 2, "{}", elsewhere.diary.read());
    let stage = stage.moved(the_end(), agent()).await; // A process without the tool.
    sleep(Duration::from_secs(300)).await;
    let elsewhere = Elsewhere::new([done("found")]);
    let stage = stage.moved(the_end(), elsewhere.agent()).await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    assert_eq!(results(&stage.understudy.requests()[0])[0].2, "found");
}

/// A time that was stored by a clock that was days ahead is not waited for.
#[tokio::test(start_paused = true)]
async fn a_clock_that_was_ahead_delays_no_look() {
    let ahead = Timestamp(10 * 24 * 3600 * 1000);
    let elsewhere = Elsewhere::new([done("found")]);
    let stage = Stage::built(one_call(), elsewhere.agent(), |builder| builder.starting_at(ahead)).await;
    stage.chat.send("go").await.unwrap();
    until_it_rests(&stage).await;
    let at = Instant::now();
    let stage = stage.moved(the_end(), elsewhere.agent()).await; // Its clock is right.
    assert_eq!(stage.ended().await, TurnEnd::Done);
    assert!(at.elapsed() < Duration::from_secs(60), "{:?}", at.elapsed());
}
