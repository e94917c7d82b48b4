//! Calls that must not run twice, whose process is gone, and whose tools know what became of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use everturn::core::chat::TurnEnd;
use everturn::core::message::Stop;
use everturn::core::prompt::ToolSpec;
use everturn::{Agent, Tool, ToolContext, ToolError, ToolOutput, ToolReturn};
use everturn_understudy::{Understudy, call, script, stop, text};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::stage::{Stage, agent, counter};
use crate::tools::{calling, results};

/// What the tool says after a crash.
#[derive(Debug, Clone, Copy)]
enum Says {
    Nothing,
    Done,
    Failed,
    Unknown,
    /// It does not return.
    Hangs,
    Panics,
}

/// A tool that begins, and never returns by itself.
struct Recorded {
    starts: Arc<AtomicUsize>,
    says: Says,
}

#[async_trait::async_trait]
impl Tool for Recorded {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new("pay", "Pays.", json!({"type": "object"}))
    }

    async fn run(&self, context: ToolContext, _: Value) -> Result<ToolReturn, ToolError> {
        self.starts.fetch_add(1, Ordering::SeqCst);
        context.show("half done");
        std::future::pending().await
    }

    async fn outcome_after_crash(&self, context: ToolContext, input: Value) -> Result<Option<ToolOutput>, ToolError> {
        assert_eq!((context.call.to_string(), input), ("1.0".to_owned(), json!({"sum": 5})));
        match self.says {
            Says::Nothing => Ok(None),
            Says::Done => Ok(Some("paid".into())),
            Says::Failed => Err(ToolError::new("no money")),
            Says::Unknown => Err(ToolError::unknown("the receipt is torn")),
            Says::Hangs => std::future::pending().await,
            Says::Panics => panic!("it panics"),
        }
    }
}

fn with(starts: &Arc<AtomicUsize>, says: Says) -> Agent {
    agent().tool(Recorded { starts: starts.clone(), says }).unwrap()
}

/// TR02, I9: the tool is asked once what became of its call, and not started again. What it says is the result; if it says
/// nothing, hangs or panics, the outcome is unknown.
#[tokio::test(start_paused = true)]
async fn a_tool_may_say_what_became_of_a_call() {
    let unknown = "This call was started, and then the process that ran it was lost.";
    for (says, failed, told) in [
        (Says::Nothing, true, unknown),
        (Says::Done, false, "paid"),
        (Says::Failed, true, "no money"),
        (Says::Unknown, true, "the receipt is torn"),
        (Says::Hangs, true, unknown),
        (Says::Panics, true, unknown),
    ] {
        let starts = counter();
        let calls = Understudy::new(calling([call("pay", json!({"sum": 5}))]));
        let stage = Stage::new(calls, with(&starts, says)).await;
        stage.chat.send("go").await.unwrap();
        while starts.load(Ordering::SeqCst) == 0 {
            sleep(Duration::from_millis(10)).await;
        }
        sleep(Duration::from_secs(1)).await; // What it shows is stored.
        let end = Understudy::new([script([text("Done."), stop(Stop::End)])]);
        let moved = Instant::now();
        let stage = stage.moved(end, with(&starts, says)).await;
        assert_eq!(stage.ended().await, TurnEnd::Done, "{says:?}");
        assert!(moved.elapsed() < Duration::from_secs(30), "{says:?}: {:?}", moved.elapsed());
        let results = results(&stage.understudy.requests()[0]);
        assert_eq!((results.len(), results[0].1), (1, failed), "{says:?}: {results:?}");
        assert!(results[0].2.contains(told), "{says:?}: {results:?}");
        assert_eq!(results[0].2.contains("half done"), told == unknown, "{says:?}: {results:?}");
        assert_eq!(starts.load(Ordering::SeqCst), 1, "{says:?}");
    }
}
