//! Whole turns: their messages, the order of events, and how they end.

use std::time::Duration;

use everturn::core::message::Stop;
use everturn_understudy::{call, reasoning, script, sealed, stop, text, usage, wait};
use expect_test::expect;
use serde_json::json;

use crate::stage::{Stage, agent, count, counter, echo, stage};

/// AW02, CR26: a call, its result, an answer; every delta in order; the second request holds the first step.
#[tokio::test(start_paused = true)]
async fn a_turn_with_a_tool() {
    let runs = counter();
    let understudy = everturn_understudy::Understudy::new([
        script([
            reasoning("Look first."),
            sealed("sig"),
            text("Let me "),
            wait(1),
            text("look."),
            call("echo", json!({"say": "kelp"})),
            usage(10, 5),
            stop(Stop::ToolUse),
        ]),
        script([text("Kelp it is."), usage(20, 4), stop(Stop::End)]),
    ]);
    let stage = Stage::new(understudy, agent().tool(echo("echo", &runs)).unwrap()).await;
    expect![[r#"
        t=000.0 message 1 user "kelp?"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 Reasoning("Look first.")
        t=000.0 delta 3 Sealed(Signature("sig"))
        t=000.0 delta 4 Ended
        t=000.0 delta 5 Text("Let me ")
        t=001.0 delta 6 Text("look.")
        t=001.0 delta 7 call echo
        t=001.0 delta 8 CallInput { slot: 0, json: "{\"say\":\"kelp\"}" }
        t=001.0 delta 9 CallEnded { slot: 0 }
        t=001.0 delta 10 usage Some((10, 5))
        t=001.0 message 2 reply [(Look first. ✓) "Let me look." echo({"say":"kelp"})] ToolUse
        t=001.0 running
        t=001.0 running
        t=001.0 message 3 result 1.0 echo Done "heard kelp"
        t=001.0 running
        t=001.0 delta 1 attempt 1 First understudy/one
        t=001.0 delta 2 Text("Kelp it is.")
        t=001.0 delta 3 usage Some((20, 4))
        t=001.0 message 4 reply ["Kelp it is."] End
        t=001.0 running
        t=001.0 idle Done
    "#]]
    .assert_eq(&stage.run("kelp?").await);
    assert_eq!(count(&runs), 1);
    let requests = stage.understudy.requests();
    assert_eq!(requests.len(), 2);
    expect![[r#"
        [
            (
                User,
                1,
            ),
            (
                Assistant,
                3,
            ),
            (
                Tool,
                1,
            ),
        ]
    "#]]
    .assert_debug_eq(&requests[1].entries.iter().map(|entry| (entry.role, entry.parts.len())).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_plain_answer() {
    let stage = stage([script([text("Hel"), wait(29), text("lo"), stop(Stop::End)])]).await;
    expect![[r#"
        t=000.0 message 1 user "hi"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 Text("Hel")
        t=029.0 delta 3 Text("lo")
        t=029.0 message 2 reply ["Hello"] End
        t=029.0 running
        t=029.0 idle Done
    "#]]
    .assert_eq(&stage.run("hi").await);
}

/// A store that takes ten seconds for what the model says in one: deltas that come meanwhile are stored together, and the
/// answer is read at the model's pace, not at the store's.
#[tokio::test(start_paused = true)]
async fn an_attempt_reads_on_while_the_store_is_slow() {
    let words = (1..=9).flat_map(|number| [text(format!("{number} ")), wait(1)]).chain([stop(Stop::End)]);
    let stage = stage([script(words)]).await;
    stage.store.append_in(Duration::from_secs(10));
    let began = tokio::time::Instant::now();
    stage.chat.send("count").await.unwrap();
    stage.chat.rest().await.unwrap();
    assert_eq!(stage.replies().await, "1 2 3 4 5 6 7 8 9 ");
    // One append for the beginning of the attempt, one for the first word, one for all others.
    assert_eq!(began.elapsed().as_secs(), 30);
}
