//! Summaries that go wrong, and commands that arrive meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use everturn::core::chat::TurnEnd;
use everturn::core::command::{AnswerContent, CallAnswer};
use everturn::core::context::summary::SHORTER;
use everturn::core::ids::{CallUid, StepId, Timestamp};
use everturn::core::limits::Limits;
use everturn::core::message::{Output, Stop};
use everturn::core::prompt::ToolSpec;
use everturn::core::status::Status;
use everturn::core::view::Event;
use everturn::{Agent, Drivers, Engine};
use everturn_understudy::{
    Script, Understudy, call, hang, ping, reasoning, refuse, script, slow, stop, text, usage, wait, wait_ms,
};
use expect_test::expect;
use serde_json::json;

use crate::compaction::{long, says, small};
use crate::crash::die_at;
use crate::read::{adds_up, asks_summary, brief_lines, rows, shown, words};
use crate::stage::{Stage, agent, counter, echo, line};
use crate::stepwise::Stepwise;

/// A chat with a next step that needs a summary, for which these scripts are played.
async fn full(scripts: impl IntoIterator<Item = Script>) -> Stage {
    full_with(scripts, agent()).await
}

async fn full_with(scripts: impl IntoIterator<Item = Script>, agent: Agent) -> Stage {
    let scripts = [says(long(24_000))].into_iter().chain(scripts);
    let stage = Stage::new(small(scripts), agent).await;
    stage.run("Letters, please.").await;
    stage
}

fn is_compacting(event: &Event) -> bool {
    matches!(event, Event::Standing(standing) if standing.compacting.is_some())
}

/// CR59: a summary that cannot be had is recorded, and the turn goes on without it.
#[tokio::test(start_paused = true)]
async fn a_turn_that_still_fits_does_without_a_summary() {
    let stage = full([script([slow(1), refuse(400)]), says("More it is.")]).await;
    expect![[r#"
        t=000.0 message 3 user "More!"
        t=000.0 running
        t=000.0 running compacting Automatic
        t=001.0 running
        t=001.0 delta 1 attempt 2 First understudy/one
        t=001.0 delta 2 Text("More it is.")
        t=001.0 message 4 reply ["More it is."] End
        t=001.0 running
        t=001.0 idle Done
    "#]]
    .assert_eq(&brief_lines(&stage.run("More!").await));
    expect![[r#"
        user "Letters, please."
        model "abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi … 24000 bytes"
        user "More!"
    "#]]
    .assert_eq(&shown(stage.understudy.requests().last().unwrap()));
    expect![[r#"
        1.1 understudy/one Answered 0.0s known 0+0 guess 6+8000 0.000000
        3.1 understudy/one Config (Refused) 1.0s known 0+0 guess 0+0 0.000000
        3.2 understudy/one Answered 0.0s known 0+0 guess 8007+4 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// A summary is tried again like an answer, and a provider that is down for a while costs the step none of its own tries.
#[tokio::test(start_paused = true)]
async fn trying_for_a_summary_costs_the_step_no_tries() {
    let limits = |tries_max| {
        let mut limits = Limits::default();
        limits.retry.tries_max = tries_max;
        limits.breaker.failures_max = 99;
        limits
    };
    let down = || script([refuse(529)]);
    let twice = [down(), down(), says("Letters."), down(), down(), says("More it is.")];
    let stage = full_with(twice, agent().limits(limits(3))).await;
    expect![[r#"
        t=000.0 message 3 user "More!"
        t=000.0 running
        t=000.0 running compacting Automatic
        t=000.0 running retry Overloaded until 0.9
        t=000.9 running compacting Automatic
        t=000.9 running retry Overloaded until 2.1
        t=002.1 running compacting Automatic
        t=002.1 message 4 summary Automatic "Letters."
        t=002.1 running
        t=002.1 delta 1 attempt 4 First understudy/one
        t=002.1 running retry Overloaded until 2.5
        t=002.5 delta 2 attempt 5 Restart understudy/one
        t=002.5 running retry Overloaded until 3.0
        t=003.0 delta 3 attempt 6 Restart understudy/one
        t=003.0 delta 4 Text("More it is.")
        t=003.0 message 5 reply ["More it is."] End
        t=003.0 running
        t=003.0 idle Done
    "#]]
    .assert_eq(&brief_lines(&stage.run("More!").await));
    let for_good = [down(), down(), down(), down(), down(), says("More it is.")];
    let stage = full_with(for_good, agent().limits(limits(3))).await;
    stage.run("More!").await;
    assert_eq!((stage.ended().await, stage.understudy.scripts_left()), (TurnEnd::Done, 0));
    assert!(!stage.told().await.contains("summary"));
}

/// I18: waits for a summary count. One that takes too long is done without.
#[tokio::test(start_paused = true)]
async fn waits_for_a_summary_count() {
    let mut limits = Limits::default();
    limits.retry.time_max = Duration::from_secs(12);
    let busy = || script([refuse(429).retry_after(7)]);
    let stage = full_with([busy(), busy(), says("More it is.")], agent().limits(limits)).await;
    stage.run("More!").await;
    assert_eq!((stage.ended().await, stage.understudy.scripts_left()), (TurnEnd::Done, 0));
    assert!(!stage.told().await.contains("summary"));
}

/// An unusable summary never replaces the transcript: an empty answer, one that was cut, a call, a refusal. A shorter one
/// is requested once more, except after a refusal, and then the turn goes on without.
#[tokio::test(start_paused = true)]
async fn an_unusable_summary_is_not_kept() {
    let filtered = Stop::Filtered { category: "odd".into(), detail: "no".into() };
    let mut seen = Vec::new();
    for (cues, tries) in [
        (vec![stop(Stop::End)], 2),
        (vec![text("  \n"), stop(Stop::End)], 2),
        (vec![text("It began"), stop(Stop::Length)], 2),
        (vec![text("Let me look."), call("echo", json!({"say": "a"})), stop(Stop::ToolUse)], 2),
        (vec![text("I cannot."), stop(filtered)], 1),
    ] {
        let no_summary = |_| script(cues.clone());
        let scripts = (0..tries).map(no_summary).chain([says("More it is.")]).collect::<Vec<_>>();
        let stage = full_with(scripts, agent().tool(echo("echo", &counter())).unwrap()).await;
        stage.run("More!").await;
        assert_eq!((stage.ended().await, stage.understudy.scripts_left()), (TurnEnd::Done, 0), "{cues:?}");
        assert!(!stage.told().await.contains("summary"), "{cues:?}");
        let requests = stage.understudy.requests();
        assert_eq!(requests.iter().filter(|request| words(request).contains(&SHORTER)).count(), tries - 1);
        seen.push(rows(&stage.chat).await.lines().nth(1).unwrap().to_string());
    }
    expect![[r#"
        3.1 understudy/one Truncated (ErrorFinish) 0.0s known 0+0 guess 8202+0 0.000000
        3.1 understudy/one Truncated (ErrorFinish) 0.0s known 0+0 guess 8202+1 0.000000
        3.1 understudy/one Truncated (ErrorFinish) 0.0s known 0+0 guess 8202+3 0.000000
        3.1 understudy/one Truncated (ErrorFinish) 0.0s known 0+0 guess 8202+29 0.000000
        3.1 understudy/one ContentFilter (ErrorFinish) 0.0s known 0+0 guess 8202+3 0.000000"#]]
    .assert_eq(&seen.join("\n"));
}

/// An empty summary that was asked for is an error, and the transcript stays as it is.
#[tokio::test(start_paused = true)]
async fn a_requested_summary_that_fails_fails_the_turn() {
    let empty = || script([stop(Stop::End)]);
    let stage = Stage::new(small([says("Hello."), empty(), empty()]), agent()).await;
    stage.run("Hi.").await;
    let watch = stage.watch();
    stage.chat.compact().await.unwrap();
    expect![[r#"
        t=000.0 running
        t=000.0 running compacting Asked
        t=000.0 running retry Truncated until 0.9
        t=000.9 running compacting Asked
        t=000.9 failed failed Truncated
    "#]]
    .assert_eq(&watch.until_rest().await);
    let TurnEnd::Failed(failure) = stage.ended().await else { panic!() };
    expect![[r#"
        The AI provider broke off before its answer was complete; try again
        the summary was empty (it failed the second time too)
        2 attempts"#]]
    .assert_eq(&format!("{}\n{}\n{} attempts", failure.message, failure.detail, failure.attempts));
    assert!(!stage.told().await.contains("summary"));
}

/// CL29: a summary has no deadline of its own: silence ends it as it ends an answer, pings or not, and thinking is life.
#[tokio::test(start_paused = true)]
async fn silence_ends_a_summary_as_it_ends_an_answer() {
    let pings = (0..30).flat_map(|_| [wait(10), ping()]);
    let pinging = script([text("The ")].into_iter().chain(pings).chain([text("end."), stop(Stop::End)]));
    let thoughts = (0..10).flat_map(|_| [wait(60), reasoning("Hm. ")]);
    let thinking = script(thoughts.chain([text("Letters."), stop(Stop::End)]));
    let stage = full([script([slow(61), text("late")]), pinging, thinking, says("More it is.")]).await;
    expect![[r#"
        t=000.0 message 3 user "More!"
        t=000.0 running
        t=000.0 running compacting Automatic
        t=060.0 running retry Silence until 60.9
        t=060.9 running compacting Automatic
        t=180.9 running retry Silence until 182.1
        t=182.1 running compacting Automatic
        t=782.1 message 4 summary Automatic "Letters."
        t=782.1 running
        t=782.1 delta 1 attempt 4 First understudy/one
        t=782.1 delta 2 Text("More it is.")
        t=782.1 message 5 reply ["More it is."] End
        t=782.1 running
        t=782.1 idle Done
    "#]]
    .assert_eq(&brief_lines(&stage.run("More!").await));
}

/// CL29: an interrupt gets through to a summary that hangs at once. What it cost by then is kept.
#[tokio::test(start_paused = true)]
async fn an_interrupt_does_not_wait_for_a_summary() {
    let stage = full([script([text("The story so far"), usage(8_200, 4), hang()])]).await;
    let mut watch = stage.watch();
    stage.chat.send("More!").await.unwrap();
    watch.until(is_compacting).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    stage.chat.interrupt().await.unwrap();
    expect![[r#"
        t=000.0 message 3 user "More!"
        t=000.0 running
        t=000.0 running compacting Automatic
        t=005.0 idle Interrupted
    "#]]
    .assert_eq(&watch.until_rest().await);
    assert_eq!(stage.understudy.streams_open(), 0, "the stream was dropped");
    expect![[r#"
        1.1 understudy/one Answered 0.0s known 0+0 guess 6+8000 0.000000
        3.1 understudy/one Interrupted 5.0s known 8200+4 guess 0+2 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// A message sent while a summary is written is read after it: a steer in this turn, any other in the next.
#[tokio::test(start_paused = true)]
async fn people_are_heard_while_a_summary_is_written() {
    let stage = full([script([wait(9), text("Letters."), stop(Stop::End)]), says("More it is."), says("Bye.")]).await;
    let mut watch = stage.watch();
    stage.chat.send("More!").await.unwrap();
    watch.until(is_compacting).await;
    stage.chat.send("Then goodbye.").await.unwrap();
    stage.chat.steer("Capitals!").await.unwrap();
    expect![[r#"
        t=000.0 message 3 user "More!"
        t=000.0 running
        t=000.0 running compacting Automatic
        t=000.0 running +"Then goodbye." +"Capitals!"! compacting Automatic
        t=000.0 running +"Then goodbye." +"Capitals!"! compacting Automatic
        t=009.0 message 4 summary Automatic "Letters."
        t=009.0 running +"Then goodbye." +"Capitals!"!
        t=009.0 message 5 user "Capitals!"
        t=009.0 running +"Then goodbye."
        t=009.0 delta 1 attempt 2 First understudy/one
        t=009.0 delta 2 Text("More it is.")
        t=009.0 message 6 reply ["More it is."] End
        t=009.0 running +"Then goodbye."
        t=009.0 message 7 user "Then goodbye."
        t=009.0 running
        t=009.0 delta 1 attempt 1 First understudy/one
        t=009.0 delta 2 Text("Bye.")
        t=009.0 message 8 reply ["Bye."] End
        t=009.0 running
        t=009.0 idle Done
    "#]]
    .assert_eq(&watch.until_rest().await);
    expect![[r#"
        user "Summary of the conversation so far, in place of it:\n\nLetters… 61 bytes"
        user "(The newest message before this point, word for word:)"
        user "More!"
        user "Capitals!"
    "#]]
    .assert_eq(&shown(&stage.understudy.requests()[2]));
}

/// A message sent while a requested summary is written is read after it too.
#[tokio::test(start_paused = true)]
async fn people_are_heard_while_a_summary_they_asked_for_is_written() {
    let slow_summary = script([wait(9), text("Letters."), stop(Stop::End)]);
    let stage = Stage::new(small([says("Hello."), slow_summary, says("Steered."), says("Bye.")]), agent()).await;
    stage.run("Hi.").await;
    let mut watch = stage.watch();
    stage.chat.compact().await.unwrap();
    watch.until(is_compacting).await;
    stage.chat.send("Then goodbye.").await.unwrap();
    stage.chat.steer("Capitals!").await.unwrap();
    expect![[r#"
        t=000.0 running
        t=000.0 running compacting Asked
        t=000.0 running +"Then goodbye." +"Capitals!"! compacting Asked
        t=000.0 running +"Then goodbye." +"Capitals!"! compacting Asked
        t=009.0 message 3 summary Asked "Letters."
        t=009.0 running +"Then goodbye." +"Capitals!"!
        t=009.0 message 4 user "Capitals!"
        t=009.0 running +"Then goodbye."
        t=009.0 delta 1 attempt 2 First understudy/one
        t=009.0 delta 2 Text("Steered.")
        t=009.0 message 5 reply ["Steered."] End
        t=009.0 running +"Then goodbye."
        t=009.0 message 6 user "Then goodbye."
        t=009.0 running
        t=009.0 delta 1 attempt 1 First understudy/one
        t=009.0 delta 2 Text("Bye.")
        t=009.0 message 7 reply ["Bye."] End
        t=009.0 running
        t=009.0 idle Done
    "#]]
    .assert_eq(&watch.until_rest().await);
}

/// An engine that shuts down leaves its summary; the next one makes it again and knows that one was lost.
#[tokio::test(start_paused = true)]
async fn a_summary_that_was_handed_over_is_made_again() {
    let stage = full([script([wait(9), text("never")]), says("Letters."), says("More it is.")]).await;
    let mut watch = stage.watch();
    stage.chat.send("More!").await.unwrap();
    watch.until(is_compacting).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    stage.engine.shutdown().await;
    let builder = Engine::builder().store(stage.store.clone()).provider(stage.understudy.clone()).agent("it", agent());
    let next = builder.seed(8).starting_at(Timestamp(60_000)).start();
    next.resume().await.unwrap();
    assert_eq!(next.chat(stage.chat.id()).rest().await.unwrap().ended(), Some(TurnEnd::Done));
    expect![[r#"
        message 1 user "Letters, please."
        message 2 reply ["abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi ab… 24024 bytes
        message 3 user "More!"
        message 4 summary Automatic "Letters."
        message 5 reply ["More it is."] End
    "#]]
    .assert_eq(&brief_lines(&stage.told().await));
    expect![[r#"
        1.1 understudy/one Answered 0.0s known 0+0 guess 6+8000 0.000000
        3.1 understudy/one Lost 1.0s known 0+0 guess 8142+0 0.000000
        3.2 understudy/one Answered 0.0s known 0+0 guess 8142+3 0.000000
        3.3 understudy/one Answered 0.0s known 0+0 guess 40+4 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// A model with a window of 24,000 bytes that says what it is asked for.
fn windowed(limit: Option<u64>) -> Understudy {
    let understudy = Understudy::improvising(|request| match request.entries.len() {
        _ if request.bytes() > 24_000 => script([refuse(413)]),
        _ if asks_summary(request) => script([wait_ms(20), text("Letters."), wait_ms(20), stop(Stop::End)]),
        1 if words(request).len() == 1 => says(long(24_000)),
        _ => says("More it is."),
    });
    understudy.with(|facts| facts.context_limit = limit)
}

/// Plays a turn that needs a summary, with a process that dies there and one that goes on. Says whether the first lived.
async fn survive(limit: Option<u64>, waits: usize) -> bool {
    let (store, understudy) = (Arc::new(Stepwise::default()), windowed(limit));
    let process = |number: i64| {
        let builder = Engine::builder().store(store.clone()).provider(understudy.clone()).agent("it", agent());
        builder.seed(7).starting_at(Timestamp(number * 1_000_000)).drivers(Drivers::ByHand).start()
    };
    let chat = process(1).create("it").await.unwrap();
    chat.send("Letters, please.").await.unwrap();
    chat.advance().await.unwrap();
    chat.send("More!").await.unwrap();
    let lived = die_at(process(2).chat(chat.id()).advance(), waits).await;
    process(3).chat(chat.id()).advance().await.unwrap();
    assert_eq!(chat.rest().await.unwrap().ended(), Some(TurnEnd::Done), "{waits}");
    let told: String = chat.transcript().await.unwrap().iter().map(|message| line(message)).collect();
    assert_eq!((told.matches("summary").count(), told.matches("More it is.").count()), (1, 1), "{waits}");
    let requests = understudy.requests();
    assert!(words(requests.last().unwrap()).contains(&"More!"), "{waits}");
    adds_up(&chat).await;
    let (rows, asked) = (chat.attempts(0).await.unwrap().len(), requests.len());
    assert!(rows == asked || rows == asked + 1, "{rows} rows of {asked} requests, {waits}");
    lived
}

/// A driver that dies anywhere around a summary is replaced by one that has it made, once; each request has its row.
#[tokio::test(start_paused = true)]
async fn a_driver_may_die_around_a_summary() {
    for limit in [Some(10_000), None] {
        let mut waits = 0;
        while !survive(limit, waits).await {
            waits += 1;
        }
        assert!(waits > 20, "a summary waits often: {waits}");
    }
}

/// CL28: a panic while a summary is made takes the driver down. The next one records the summary as lost and goes on.
#[tokio::test(start_paused = true)]
async fn a_panic_in_a_summary_is_recorded_and_survived() {
    let panics = counter();
    let understudy = Understudy::improvising(move |request| match request.entries.len() {
        _ if asks_summary(request) => {
            assert!(panics.fetch_add(1, Ordering::SeqCst) > 0, "on purpose");
            says("Letters.")
        }
        1 => says(long(24_000)),
        _ => says("Never."),
    });
    let stage = Stage::new(understudy.with(|facts| facts.context_limit = Some(10_000)), agent()).await;
    stage.run("Letters, please.").await;
    stage.run("More!").await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    expect![[r#"
        1.1 understudy/one Answered 0.0s known 0+0 guess 6+8000 0.000000
        3.1 understudy/one Lost 0.0s known 0+0 guess 8142+0 0.000000
        3.2 understudy/one Answered 0.0s known 0+0 guess 8142+3 0.000000
        3.3 understudy/one Answered 0.0s known 0+0 guess 40+8000 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// A turn that rests for a client has nothing to send yet. It is summarised when the answer is there
/// and the next request, with the answer in it, would be too long.
#[tokio::test(start_paused = true)]
async fn a_turn_that_rests_is_summarised_when_it_goes_on() {
    let asks = script([call("pick", json!({})), stop(Stop::ToolUse)]);
    let mut agent = agent();
    agent.toolbox.add_client(ToolSpec::new("pick", "Lets the person pick.", json!({"type": "object"}))).unwrap();
    let understudy = small([asks, says("They picked."), says("Fine.")]).with(|facts| facts.context_limit = Some(7_000));
    let stage = Stage::new(understudy, agent).await;
    let mut watch = stage.watch();
    stage.chat.send("Let me pick.").await.unwrap();
    watch.until(|event| matches!(event, Event::Standing(now) if now.status == Status::Awaiting)).await;
    assert!(!watch.seen.contains("compacting"));
    let output = AnswerContent::Output(Output::text(long(24_000)));
    let call = CallUid { step: StepId(1), ordinal: 0 };
    stage.chat.answer([CallAnswer { call, what: output }]).await.unwrap();
    expect![[r#"
        t=000.0 message 1 user "Let me pick."
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 call pick
        t=000.0 delta 3 CallInput { slot: 0, json: "{}" }
        t=000.0 delta 4 CallEnded { slot: 0 }
        t=000.0 message 2 reply [pick({})] ToolUse
        t=000.0 running
        t=000.0 awaiting client 1.0
        t=000.0 message 3 result 1.0 pick Done "abcdefghi abcdefghi abcdefghi abcdefghi … 16301 bytes
        t=000.0 running
        t=000.0 running compacting Automatic
        t=000.0 message 4 summary Automatic "They picked."
        t=000.0 running
        t=000.0 delta 1 attempt 2 First understudy/one
        t=000.0 delta 2 Text("Fine.")
        t=000.0 message 5 reply ["Fine."] End
        t=000.0 running
        t=000.0 idle Done
    "#]]
    .assert_eq(&brief_lines(&watch.until_rest().await));
}
