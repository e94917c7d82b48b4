//! Progress of running tools, logs of deltas, and chats that begin with an imported transcript.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use everturn::core::chat::TurnEnd;
use everturn::core::delta::Delta;
use everturn::core::doctor::foreign;
use everturn::core::ids::{ChatId, Timestamp};
use everturn::core::message::{Body, Stop};
use everturn::core::view::{Event, JournalRow};
use everturn::stores::{Memory, NewChat};
use everturn::{CreateError, DeltaLog, Drivers, Engine, Rest, ToolContext, ToolError, tool};
use everturn_understudy::{Understudy, call, script, stop, text, wait};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::stage::{Stage, agent};
use crate::stepwise::{Fault, Stepwise};
use crate::tools::{ANY, calling, results};

/// CL56, CL57, MC24: a tool's context carries the way to show something while the tool runs. It is stored before it is
/// shown, the newest stands for the one before, and the result is the only thing the model is told.
#[tokio::test(start_paused = true)]
async fn a_running_tool_shows_its_work() {
    let copy = tool("copy", "Copies.", |context: ToolContext, _: Value| async move {
        for done in 1..=100 {
            context.show(format!("{done} % done"));
            sleep(Duration::from_millis(10)).await;
        }
        Ok::<_, ToolError>("copied")
    });
    let understudy = Understudy::new(calling([call("copy", json!({}))]));
    let stage = Stage::new(understudy, agent().tool(copy.with(ANY)).unwrap()).await;
    let mut events = stage.chat.events(None);
    stage.chat.send("go").await.unwrap();
    let mut seen = Vec::new();
    while !seen.contains(&"copied".to_string()) {
        match events.next().await.unwrap() {
            Event::Standing(standing) => {
                let stored = stage.chat.standing().await.unwrap();
                assert!(stored.version >= standing.version, "what is shown is stored");
                let texts = standing.progress.iter().filter_map(|open| open.progress.as_deref());
                seen.extend(texts.map(str::to_string));
            }
            Event::Message(message) => {
                if let Body::Result(result) = &message.body {
                    seen.push(result.output.text.clone());
                }
            }
            _ => {}
        }
    }
    let steps: Vec<u32> = seen.iter().filter_map(|text| text.strip_suffix(" % done")?.parse().ok()).collect();
    assert!(
        (4..=5).contains(&steps.len()) && steps.windows(2).all(|two| (24..=26).contains(&(two[1] - two[0]))),
        "{seen:?}"
    );
    assert_eq!(stage.chat.rest().await.unwrap(), Rest::Idle(Some(TurnEnd::Done)));
    assert_eq!(stage.chat.standing().await.unwrap().progress, [], "the result stands for it");
    assert_eq!(results(&stage.understudy.requests()[1]).len(), 1);
    let sent = format!("{:?}", stage.understudy.requests()[1].entries);
    assert!(!sent.contains("% done") && sent.contains("copied"), "{sent}");
}

/// What a tool had shown when its process was lost is told with its unknown outcome.
#[tokio::test(start_paused = true)]
async fn what_a_lost_tool_has_shown_is_told() {
    let build = || {
        tool("build", "Builds.", |context: ToolContext, _: Value| async move {
            context.show("compiling 3 of 9");
            sleep(Duration::from_secs(60)).await;
            Ok::<_, ToolError>("built")
        })
    };
    let builder = || agent().tool(build().with(ANY)).unwrap();
    let [calls, done] = calling([call("build", json!({}))]);
    let stage = Stage::new(Understudy::new([calls]), builder()).await;
    stage.chat.send("go").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let stage = stage.moved(Understudy::new([done]), builder()).await;
    stage.watch().until_rest().await;
    let told = results(&stage.understudy.requests()[0]);
    assert!(told[0].2.ends_with(" The last that it showed:\ncompiling 3 of 9"), "{told:?}");
}

/// A log of every delta, by step and number.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<JournalRow>>>);

impl DeltaLog for Log {
    fn stored(&self, _: ChatId, rows: &[JournalRow]) {
        self.0.lock().unwrap().extend_from_slice(rows);
    }
}

impl Log {
    fn texts(&self) -> Vec<String> {
        let rows = self.0.lock().unwrap();
        let texts = rows.iter().filter_map(|row| match &*row.delta {
            Delta::Text(text) => Some(format!("{}.{} {text}", row.step, row.seq)),
            _ => None,
        });
        texts.collect()
    }
}

/// A late reader sees a message; a delta log gets each delta it came in, and deltas stored by a process that died come from the
/// next.
#[tokio::test(start_paused = true)]
async fn a_log_hears_every_delta() {
    let begins = Understudy::new([script([text("One "), wait(1), text("two "), wait(60), stop(Stop::End)])]);
    let goes_on = Understudy::new([script([text("three "), wait(1), text("four."), stop(Stop::End)])]);
    let store = Arc::new(Memory::new());
    let process = |understudy: &Understudy, log: &Log, drivers| {
        let builder = Engine::builder().store(store.clone()).provider(understudy.clone()).agent("it", agent());
        builder.delta_log(log.clone()).seed(1).starting_at(Timestamp(0)).drivers(drivers).start()
    };
    let (first, second) = (Log::default(), Log::default());
    let chat = process(&begins, &first, Drivers::ByHand).create("it").await.unwrap();
    chat.send("Count.").await.unwrap();
    let dies = tokio::time::timeout(Duration::from_secs(4), chat.advance()).await;
    assert!(dies.is_err(), "it waits for the rest");
    assert_eq!(first.texts(), ["1.2 One ", "1.3 two "]);
    let engine = process(&goes_on, &second, Drivers::Spawned);
    engine.resume().await.unwrap();
    assert_eq!(engine.chat(chat.id()).rest().await.unwrap(), Rest::Idle(Some(TurnEnd::Done)));
    let told = second.texts();
    assert_eq!(told[..2], first.texts()[..], "what the first stored, again");
    let said: String = told.iter().filter_map(|text| Some(text.split_once(' ')?.1)).collect();
    assert_eq!(chat.newest_reply().await.unwrap(), Some(said));
}

/// I21: a delta log gets deltas that had to wait for the store too, whether or not the first write happened.
#[tokio::test(start_paused = true)]
async fn a_log_gets_deltas_that_waited_for_the_store() {
    for fault in [Fault::Refused, Fault::Unanswered] {
        let understudy = Understudy::new([script([wait(2), text("Hello"), wait(30), stop(Stop::End)])]);
        let store = Arc::new(Stepwise::default());
        let log = Log::default();
        let builder = Engine::builder().store(store.clone()).provider(understudy).agent("it", agent());
        let engine = builder.delta_log(log.clone()).seed(1).starting_at(Timestamp(0)).start();
        let chat = engine.create("it").await.unwrap();
        chat.send("go").await.unwrap();
        sleep(Duration::from_secs(1)).await;
        store.fail_after(0, fault);
        chat.rest().await.unwrap();
        assert!(!store.is_to_fail());
        assert_eq!(log.texts(), ["1.2 Hello"], "{fault:?}");
    }
}

/// A chat may begin with what another program kept; with what a provider would refuse it may not.
#[tokio::test(start_paused = true)]
async fn a_chat_may_begin_with_a_transcript() {
    let understudy = Understudy::new([script([text("You asked about kelp."), stop(Stop::End)])]);
    let stage = Stage::new(understudy, agent()).await;
    let read = |value: Value| foreign::read(value.to_string().as_bytes(), Timestamp(5)).unwrap().messages;
    let calls = json!([{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]);
    let said = json!([
        {"role": "user", "content": "What is kelp?"},
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "An alga."},
        {"role": "assistant", "content": "Kelp is a large brown alga."},
    ]);
    let new = NewChat { key: Some("k".into()), ..NewChat::of(stage.engine.new_id(), "it", "") };
    let chat = stage.engine.make_with(&new, &read(said.clone())).await.unwrap();
    let again = NewChat { id: stage.engine.new_id(), ..new.clone() };
    assert_eq!(stage.engine.make_with(&again, &read(said.clone())).await.unwrap().id(), chat.id());
    assert_eq!(chat.rest().await.unwrap(), Rest::Idle(Some(TurnEnd::Done)));
    assert_eq!((chat.transcript().await.unwrap().len(), stage.understudy.requests().len()), (4, 0));
    assert_eq!(chat.standing().await.unwrap().title, "What is kelp?");

    chat.send("What did I ask?").await.unwrap();
    chat.rest().await.unwrap();
    assert_eq!(chat.newest_reply().await.unwrap().as_deref(), Some("You asked about kelp."));
    let sent = format!("{:?}", stage.understudy.requests()[0].entries);
    assert!(["What is kelp?", "look", "An alga.", "What did I ask?"].iter().all(|said| sent.contains(said)), "{sent}");

    let open = json!([said[0], said[1]]);
    let refused = stage.engine.make_with(&NewChat::of(stage.engine.new_id(), "it", ""), &read(open)).await;
    let Err(CreateError::Transcript(findings)) = refused else { panic!("a call has no result") };
    assert_eq!(findings.len(), 1);
    assert!(findings[0].to_string().contains("the call of look has no result"), "{}", findings[0]);
}
