//! A store that several processes share: each is notified of the others' writes, and one that may have lost its lease stops.

use std::time::Duration;

use everturn::core::chat::TurnEnd;
use everturn::core::command::{Command, Delivery};
use everturn::core::fact::Fact;
use everturn::core::ids::Timestamp;
use everturn::core::limits::Limits;
use everturn::core::message::{Part, Stop, Text};
use everturn::core::view::Event;
use everturn::stores::{Hint, Store as _, Submission};
use everturn::{ToolContext, ToolError, tool};
use everturn_understudy::{Understudy, call, script, stop, text, wait};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::stage::{Diary, Stage, agent, stage};
use crate::tools::ANY;

/// Another process accepts a command.
pub async fn accepted_elsewhere(stage: &Stage, command: Command) {
    let submission = Submission { command, key: None, at: Timestamp(0) };
    stage.store.submit(stage.chat.id(), submission, &Limits::default()).await.unwrap();
}

pub fn send(words: &str) -> Command {
    let parts = [Part::Text(Text { text: words.into(), meta: Default::default() })];
    Command::Send { parts: parts.into(), when: Delivery::Queue }
}

/// A subscriber here sees at once what another process writes, not at the next poll.
#[tokio::test(start_paused = true)]
async fn writes_of_other_processes_wake_subscribers() {
    let stage = stage([]).await;
    for hint in [Hint::News(stage.chat.id()), Hint::Missed] {
        let mut events = stage.chat.events(None);
        events.next().await.unwrap();
        let (since, asked) = (Instant::now(), events.next());
        let elsewhere = async {
            sleep(Duration::from_secs(1)).await;
            let mut lease = stage.store.acquire(stage.chat.id()).await.unwrap();
            stage.store.commit(&mut lease, &[Fact::Renamed("theirs".into())]).await.unwrap();
            stage.store.tell(hint);
        };
        let (event, ()) = tokio::join!(asked, elsewhere);
        assert!(matches!(event, Ok(Event::Standing(standing)) if standing.title == "theirs"));
        assert_eq!(since.elapsed(), Duration::from_secs(1), "{hint:?}");
    }
}

/// A command that another process accepted is applied at once by the process that drives the chat, and by no other.
#[tokio::test(start_paused = true)]
async fn commands_from_elsewhere_reach_the_driver() {
    let stage = stage([script([text("Once upon"), wait(60), text(" a time"), stop(Stop::End)])]).await;
    stage.chat.send("tell me").await.unwrap();
    let mut watch = stage.watch();
    watch.until_text("upon").await;
    let since = Instant::now();
    accepted_elsewhere(&stage, Command::Interrupt).await;
    stage.store.tell(Hint::Inbox(stage.chat.id()));
    assert_eq!((stage.ended().await, since.elapsed()), (TurnEnd::Interrupted, Duration::ZERO));

    sleep(Duration::from_secs(1)).await; // The driver is gone by then.
    accepted_elsewhere(&stage, send("and then?")).await;
    stage.store.tell(Hint::Inbox(stage.chat.id()));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(stage.understudy.requests().len(), 1, "its acceptor drives it");
}

/// A chat is found by a scan when the process that accepted its command is gone.
#[tokio::test(start_paused = true)]
async fn chats_without_a_driver_are_taken_up() {
    let stage = stage([script([text("Here."), stop(Stop::End)])]).await;
    accepted_elsewhere(&stage, send("anybody?")).await;
    stage.store.tell(Hint::Missed);
    assert_eq!((stage.ended().await, stage.replies().await.as_str()), (TurnEnd::Done, "Here."));
}

/// A process that may have been given up stops its tools within their grace and writes nothing more; should it be the
/// one that goes on after all, it asks the same question as any other.
#[tokio::test(start_paused = true)]
async fn a_process_that_may_be_given_up_stops_its_tools() {
    let (started, mut starts) = mpsc::unbounded_channel();
    let (dropped, mut drops) = mpsc::unbounded_channel();
    let pay = tool("pay", "Pays.", move |_: ToolContext, _: Value| {
        let (started, dropped) = (started.clone(), dropped.clone());
        async move {
            let _guard = OnDrop(dropped);
            started.send(()).unwrap();
            std::future::pending::<Result<String, ToolError>>().await
        }
    });
    let scripts =
        [script([call("pay", json!({})), stop(Stop::ToolUse)]), script([text("I will check."), stop(Stop::End)])];
    let stage = Stage::new(Understudy::new(scripts), agent().tool(pay).unwrap()).await;
    stage.chat.send("pay").await.unwrap();
    starts.recv().await.unwrap();
    let (since, limits) = (Instant::now(), Limits::default());
    stage.store.tell(Hint::Lost);
    drops.recv().await.unwrap();
    assert!(since.elapsed() <= limits.interrupt_max, "{:?}", since.elapsed());
    let writes = stage.store.writes();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(stage.store.writes(), writes, "nothing is written by a process that may be given up");
    stage.store.tell(Hint::Missed);
    assert_eq!((stage.ended().await, stage.replies().await.as_str()), (TurnEnd::Done, "|I will check."));
    assert!(stage.told().await.contains("Unknown"), "{}", stage.told().await);
    assert!(starts.try_recv().is_err(), "and it never runs twice");
}

/// A store that does not answer at all keeps neither the news from being heard nor a tool from being stopped, although
/// the driver itself waits for it.
#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_keeps_no_tool_alive() {
    let (dropped, mut drops) = mpsc::unbounded_channel();
    let pay = tool("pay", "Pays.", move |_: ToolContext, _: Value| {
        let guard = OnDrop(dropped.clone());
        async move {
            let _guard = guard;
            std::future::pending::<Result<String, ToolError>>().await
        }
    });
    let calls = script([call("look", json!({})), call("pay", json!({})), stop(Stop::ToolUse)]);
    let agent = agent().tool(pay).unwrap().tool(Diary::new().tool("look", 2, ANY)).unwrap();
    let stage = Stage::new(Understudy::new([calls]), agent).await;
    stage.chat.send("pay").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    stage.store.fall_silent();
    sleep(Duration::from_secs(2)).await; // What was looked up is being committed, for ever.
    stage.store.tell(Hint::Missed);
    stage.store.tell(Hint::Lost);
    let since = Instant::now();
    drops.recv().await.unwrap();
    assert_eq!(since.elapsed(), Limits::default().kill_grace_max);
}

struct OnDrop(mpsc::UnboundedSender<()>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}
