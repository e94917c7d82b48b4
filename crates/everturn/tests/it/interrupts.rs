//! Stopping a turn: at once, whatever hangs, and nothing that was shown is lost.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use everturn::core::change::Change;
use everturn::core::chat::TurnEnd;
use everturn::core::command::Command;
use everturn::core::fact::AttemptOutcome;
use everturn::core::ids::Timestamp;
use everturn::core::message::{Body, Part, RunBy, Stop, text_of};
use everturn::core::view::Event;
use everturn::stores::{Loaded, Store as _, StoreExt as _};
use everturn::{Drivers, ToolContext, ToolError, tool};
use everturn_understudy::{
    Cue, Script, Understudy, begin_call, call, hang, provided, reasoning, refuse, script, slow, stop, text, wait,
};
use expect_test::expect;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::stage::{Diary, Stage, Watch, agent, stage};
use crate::stepwise::Stepwise;
use crate::tools::{ANY, SERIAL, after_reply, calling, results};

async fn seconds(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

/// Interrupts, and says how long that took.
async fn interrupted(stage: &Stage) -> Duration {
    let asked = Instant::now();
    stage.chat.interrupt().await.unwrap();
    asked.elapsed()
}

/// AW08, I11: the partial answer that is kept is what was shown, to the byte; the stream is closed, its attempt has a
/// row, nothing is retried, and the next turn goes on from there.
#[tokio::test(start_paused = true)]
async fn shown_words_are_kept() {
    let first = [reasoning("Hm."), text("Hello, wor"), wait(1), text("ld \u{1f30a}"), hang()];
    let stage = stage([script(first), script([text("Bye."), stop(Stop::End)])]).await;
    let mut watch = stage.watch();
    stage.chat.send("hi").await.unwrap();
    watch.until_text("\u{1f30a}").await;
    let shown = watch.view.draft.clone().unwrap();
    assert_eq!(interrupted(&stage).await, Duration::ZERO);
    let Body::Reply(kept) = &stage.transcript().await[1].body else { panic!("a reply") };
    let words = |parts: &[Part]| crate::stage::parts(parts);
    assert_eq!((words(&kept.parts), &kept.stop), (words(shown.parts()), &Stop::Interrupted));
    assert_eq!((stage.ended().await, stage.understudy.streams_open()), (TurnEnd::Interrupted, 0));
    let rows = stage.chat.attempts(0).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.outcome).collect::<Vec<_>>(), [AttemptOutcome::Interrupted]);
    stage.run("and?").await;
    expect![[r#"
        message 1 user "hi"
        message 2 reply [(Hm.) "Hello, world 🌊"] Interrupted
        message 3 user "and?"
        message 4 reply ["Bye."] End
    "#]]
    .assert_eq(&stage.told().await);
    assert_eq!(stage.understudy.requests().len(), 2);
}

/// I11: an interrupt while words are on their way into the journal waits until they are stored: nothing is kept that was never
/// shown.
#[tokio::test(start_paused = true)]
async fn words_being_stored_are_shown_before_they_are_kept() {
    let stage = stage([script([text("Hello"), hang()])]).await;
    let mut watch = stage.watch();
    stage.store.append_in(Duration::from_secs(10));
    stage.chat.send("hi").await.unwrap();
    seconds(15).await; // The attempt is in the journal, and its first word is on the way.
    let shown = timeout(Duration::from_secs(60), watch.until_text("Hello"));
    let (waited, shown) = tokio::join!(interrupted(&stage), shown);
    assert_eq!((waited, shown), (Duration::from_secs(5), Ok(())));
    assert_eq!((stage.replies().await.as_str(), stage.ended().await), ("Hello", TurnEnd::Interrupted));
}

/// CR25, AW08: cut in the middle of a call's input, what came is kept, the call is answered and never run, and so is
/// the whole call before it. The next request is one the provider takes.
#[tokio::test(start_paused = true)]
async fn a_call_cut_in_its_input_is_kept_and_answered() {
    let diary = Diary::new();
    let agent = agent().tool(diary.tool("look", 1, ANY)).unwrap();
    let cues = [text("Let me see."), call("look", json!({"n": 1})), begin_call("look", "{\"n\": [2, "), hang()];
    let understudy = Understudy::new([script(cues), script([text("Fine."), stop(Stop::End)])]);
    let stage = Stage::new(understudy, agent).await;
    stage.chat.send("go").await.unwrap();
    seconds(1).await;
    interrupted(&stage).await;
    stage.run("never mind").await;
    expect![[r#"
        message 1 user "go"
        message 2 reply ["Let me see." look({"n":1}) look({"n": [2, )…] Interrupted
        message 3 result 1.0 look Interrupted "The turn was interrupted before this call could be run. It was not run."
        message 4 result 1.1 look Interrupted "The turn was interrupted before this call could be run. It was not run."
        message 5 user "never mind"
        message 6 reply ["Fine."] End
    "#]]
    .assert_eq(&stage.told().await);
    assert_eq!(diary.read(), "");
    let told = results(&stage.understudy.requests()[1]);
    assert!(told.len() == 2 && told.iter().all(|(_, failed, _)| *failed), "{told:?}");
}

/// CR42, CR43: an interrupted search of the provider's own gets no made-up result; a local call beside it does.
#[tokio::test(start_paused = true)]
async fn only_local_calls_are_answered_for() {
    let Cue::Say(mut search) = provided("web_search", &json!({"q": "kelp"}), json!([])) else { panic!("deltas") };
    search.pop(); // It never came back.
    let cues = [Cue::Say(search), begin_call("look", "{"), hang()];
    let stage = stage([script(cues), script([text("Fine."), stop(Stop::End)])]).await;
    stage.chat.send("go").await.unwrap();
    seconds(1).await;
    interrupted(&stage).await;
    let transcript = stage.transcript().await;
    let Body::Reply(reply) = &transcript[1].body else { panic!("a reply") };
    let calls = reply.parts.iter().filter(|part| matches!(part, Part::Call(call) if call.run_by == RunBy::Provider));
    let answered: Vec<_> = transcript.iter().filter(|message| matches!(message.body, Body::Result(_))).collect();
    assert_eq!((calls.count(), answered.len()), (1, 1));
    stage.run("never mind").await;
    assert_eq!(stage.ended().await, TurnEnd::Done, "the next request is valid");
    let told = results(&stage.understudy.requests()[1]);
    assert_eq!(told.iter().map(|(tool, ..)| tool.as_str()).collect::<Vec<_>>(), ["look"]);
}

/// AW09: an opening or a stream that hangs is left at once.
#[tokio::test(start_paused = true)]
async fn a_hanging_provider_is_left_at_once() {
    for hangs in [script([slow(50), text("late"), stop(Stop::End)]), script([hang()]), script([text("He"), hang()])] {
        let stage = stage([hangs]).await;
        stage.chat.send("hi").await.unwrap();
        seconds(20).await;
        assert_eq!(interrupted(&stage).await, Duration::ZERO);
        assert_eq!((stage.ended().await, stage.understudy.streams_open()), (TurnEnd::Interrupted, 0));
        seconds(600).await;
        assert_eq!(stage.understudy.requests().len(), 1, "nothing is retried");
    }
}

/// AW09, CR38: tools that hang are told to stop, given a moment, and dropped. What had finished by then stays
/// finished; what ran is said to be unknown, and what had not begun not to have been run.
#[tokio::test(start_paused = true)]
async fn hanging_tools_are_stopped_and_finished_ones_kept() {
    let diary = Diary::new();
    let deaf = {
        let diary = diary.clone();
        tool("deaf", "Hangs.", move |_: ToolContext, _: Value| {
            let dropped = Dropped(diary.clone());
            async move {
                let _dropped = dropped;
                std::future::pending::<Result<String, ToolError>>().await
            }
        })
    };
    let stubborn = tool("stubborn", "Ends when it likes.", |context: ToolContext, _: Value| async move {
        context.cancel.cancelled().await;
        sleep(Duration::from_millis(700)).await;
        Ok::<_, ToolError>("made it")
    });
    let agent = agent().tool(deaf).unwrap().tool(stubborn).unwrap();
    let agent = agent.tool(diary.tool("quick", 1, ANY)).unwrap().tool(diary.tool("slow", 60, ANY)).unwrap();
    let agent = agent.tool(diary.tool("edit", 1, SERIAL)).unwrap();
    let calls = ["deaf", "stubborn", "quick", "slow", "edit"].map(|tool| call(tool, json!({})));
    let stage = Stage::new(Understudy::new(calling(calls)), agent).await;
    let watching = tokio::spawn(stage.watch().until_rest());
    stage.chat.send("go").await.unwrap();
    seconds(5).await;
    assert_eq!(interrupted(&stage).await, Duration::from_secs(1), "the grace, and no more");
    expect![[r#"
        t=000.0 message 2 reply [deaf({}) stubborn({}) quick({}) slow({}) edit({})] ToolUse
        t=000.0 running
        t=000.0 running
        t=001.0 message 3 result 1.2 quick Done "quick did {}"
        t=001.0 running
        t=005.0 interrupting
        t=005.0 message 4 result 1.3 slow Error "I was told to stop."
        t=005.0 interrupting
        t=005.7 message 5 result 1.1 stubborn Done "made it"
        t=005.7 interrupting
        t=006.0 message 6 result 1.0 deaf Interrupted "The turn was interrupted while this call ran, and it was stopped. Whether it took effect is unknown."
        t=006.0 message 7 result 1.4 edit Interrupted "The turn was interrupted before this call could be run. It was not run."
        t=006.0 idle Interrupted
    "#]].assert_eq(&after_reply(&watching.await.unwrap()));
    expect![[r#"
        t=000.0 quick {} begins
        t=000.0 slow {} begins
        t=001.0 quick {} ends
        t=005.0 slow {} is told to stop
        t=006.0 deaf is dropped
    "#]]
    .assert_eq(&diary.read());
}

/// Notes when it is dropped.
struct Dropped(Diary);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.note("deaf is dropped");
    }
}

/// AW09: a subscriber that never reads holds nothing up.
#[tokio::test(start_paused = true)]
async fn a_stalled_subscriber_delays_nothing() {
    let stage = stage([script([text("He"), wait(1), text("llo"), hang()])]).await;
    let mut stalled = stage.watch();
    stage.chat.send("hi").await.unwrap();
    stalled.step().await;
    seconds(5).await;
    assert_eq!(interrupted(&stage).await, Duration::ZERO);
    assert_eq!(stage.replies().await, "Hello");
    stalled.until_rest().await; // It gets everything, once it reads.
}

/// AW23: while the next attempt waits, an interrupt ends the turn at once, and keeps what the last one showed.
#[tokio::test(start_paused = true)]
async fn an_interrupt_ends_the_wait_for_a_retry() {
    let stage = stage([script([text("half "), refuse(529).retry_after(100)]), script([refuse(529)])]).await;
    stage.chat.send("hi").await.unwrap();
    seconds(20).await;
    assert_eq!(interrupted(&stage).await, Duration::ZERO);
    assert_eq!(stage.ended().await, TurnEnd::Interrupted);
    seconds(600).await;
    expect![[r#"
        message 1 user "hi"
        message 2 reply ["half "] Interrupted
    "#]]
    .assert_eq(&stage.told().await);
    assert_eq!(stage.understudy.requests().len(), 1);
    assert_eq!(stage.chat.attempts(0).await.unwrap().len(), 1);
}

/// I11: stopping what has stopped is no error and changes nothing: new, done, interrupted, failed.
#[tokio::test(start_paused = true)]
async fn stopping_what_rests_is_harmless() {
    let stage = stage([script([text("Hi."), stop(Stop::End)]), script([refuse(401)])]).await;
    for message in ["", "one", "two"] {
        if !message.is_empty() {
            stage.run(message).await;
        }
        let before = stage.chat.view().await.unwrap();
        assert_eq!(interrupted(&stage).await, Duration::ZERO);
        assert_eq!(stage.chat.view().await.unwrap(), before);
    }
    assert!(matches!(stage.ended().await, TurnEnd::Failed(_)));
}

/// I12: an interrupt ends one turn. Queued messages come next, in order; also when the chat waits for an answer, which is
/// then not asked for any more.
#[tokio::test(start_paused = true)]
async fn an_interrupt_lets_the_queue_go_on() {
    let mut agent = agent();
    agent
        .toolbox
        .add_client(everturn::core::prompt::ToolSpec::new("photo", "Takes one.", json!({"type": "object"})))
        .unwrap();
    let [asks, done] = calling([call("photo", json!({}))]);
    let again = script([text("Done too."), stop(Stop::End)]);
    let stage = Stage::new(Understudy::new([asks, done, again]), agent).await;
    let mut watch = stage.watch();
    stage.chat.send("one").await.unwrap();
    watch.until_asked().await;
    stage.chat.send("two").await.unwrap();
    stage.chat.send("three").await.unwrap();
    assert_eq!(interrupted(&stage).await, Duration::ZERO);
    expect![[r#"
        t=000.0 message 2 reply [photo({})] ToolUse
        t=000.0 running
        t=000.0 awaiting client 1.0
        t=000.0 message 3 result 1.0 photo Interrupted "The turn was interrupted before the client answered this call."
        t=000.0 message 4 user "two"
        t=000.0 running +"three"
        t=000.0 message 5 reply ["Done."] End
        t=000.0 running +"three"
        t=000.0 message 6 user "three"
        t=000.0 running
        t=000.0 message 7 reply ["Done too."] End
        t=000.0 running
        t=000.0 idle Done
    "#]]
    .assert_eq(&after_reply(&watch.until_rest().await));
}

/// Checks a stage that was interrupted at any point.
async fn check(stage: &Stage, ran: &str, yields: usize) -> bool {
    let transcript = stage.transcript().await;
    let (mut open, mut results) = (Vec::new(), 0);
    for message in &transcript {
        match &message.body {
            Body::Reply(reply) => open.extend(reply.calls().map(|call| call.uid)),
            Body::Result(result) => {
                let place = open.iter().position(|uid| *uid == result.call);
                open.remove(place.unwrap_or_else(|| panic!("{yields}: a second result for {}", result.call)));
                let says_so = !result.output.text.contains("It was not run.");
                assert_eq!(ran.contains(&result.call.to_string()), says_so, "{yields}: {}", result.output.text);
                results += 1;
            }
            Body::User(_) => assert!(open.is_empty(), "{yields}: {open:?} has no result before the next message"),
            Body::Context(_) | Body::Summary(_) => {}
        }
    }
    assert!(open.is_empty(), "{yields}: {open:?} has no result");
    results == 3
}

/// The text a watcher was shown of the first reply before it was committed, or the turn was over.
async fn shown(mut watch: Watch) -> String {
    loop {
        let before = watch.view.draft.as_ref().map_or(String::new(), |draft| text_of(draft.parts()));
        match watch.step().await {
            Event::Message(message) if matches!(message.body, Body::Reply(_)) => return before,
            Event::Standing(standing) if standing.ended.is_some() => return before,
            _ => {}
        }
    }
}

/// AW08, CR47, I8, I11: an interrupt may come between any two things the engine does: while a reply or a result is being
/// committed, before or after a start. Every call has one result that tells whether it ran, no call starts if its start
/// was stored after the interrupt, and what is kept is what was shown.
#[tokio::test(start_paused = true)]
async fn an_interrupt_may_come_at_any_moment() {
    for yields in 0.. {
        assert!(yields < 500, "the turn never ends by itself");
        let (runs, late) = (Diary::new(), Arc::new(AtomicBool::new(false)));
        let (diary, too_late) = (runs.clone(), late.clone());
        let clock = Arc::new((OnceLock::<Arc<Stepwise>>::new(), AtomicUsize::new(usize::MAX)));
        let (store, stopped) = (clock.clone(), clock);
        let step = tool("step", "Steps.", move |context: ToolContext, _: Value| {
            let started = store.0.get().unwrap().writes();
            too_late.fetch_or(store.1.load(Ordering::SeqCst) < started, Ordering::SeqCst);
            diary.note(&context.call.to_string());
            async { Ok::<_, ToolError>("stepped") }
        });
        let calls = (1..4).map(|n| call("step", json!({ "n": n })));
        let cues = [text("One "), text("moment.")].into_iter().chain(calls);
        let stage = Stage::new(Understudy::new(calling(cues)), agent().tool(step.with(SERIAL)).unwrap()).await;
        assert!(stopped.0.set(stage.store.clone()).is_ok());
        let watching = tokio::spawn(shown(stage.watch()));
        stage.chat.send("go").await.unwrap();
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        if stage.chat.submit(Command::Interrupt, None).await.is_ok() {
            stopped.1.store(stage.store.writes(), Ordering::SeqCst);
        }
        let end = stage.ended().await;
        let all = check(&stage, &runs.read(), yields).await;
        assert!(!late.load(Ordering::SeqCst), "{yields}: a call started after the interrupt was accepted");
        let kept = stage.replies().await;
        assert_eq!(kept.split('|').next(), Some(watching.await.unwrap().as_str()), "{yields}");
        if end == TurnEnd::Done {
            return assert!(all);
        }
        assert_eq!(end, TurnEnd::Interrupted, "{yields}");
    }
}

/// AW09: a tool that holds its thread cannot be dropped. It is not waited for either. (Needs a thread to hold, so time
/// is not paused here; nothing waits for it.)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_blocks_is_not_waited_for() {
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let started = Arc::new(tokio::sync::Notify::new());
    let (begun, held) = (started.clone(), gate.clone());
    let block = tool("block", "Blocks.", move |_: ToolContext, _: Value| {
        let (begun, held) = (begun.clone(), held.clone());
        async move {
            begun.notify_one();
            let _ = held.lock().unwrap().recv();
            Ok::<_, ToolError>("at last")
        }
    });
    let mut agent = agent().tool(block).unwrap();
    (agent.limits.kill_grace_max, agent.limits.interrupt_max) = (Duration::ZERO, Duration::ZERO);
    let scripts: [Script; 2] = calling([call("block", json!({}))]);
    let stage = Stage::new(Understudy::new(scripts), agent).await;
    stage.chat.send("go").await.unwrap();
    started.notified().await;
    stage.chat.interrupt().await.unwrap();
    assert_eq!(stage.ended().await, TurnEnd::Interrupted);
    release.send(()).unwrap();
}

/// An interrupt is for the turn that its sender saw. If that one ended before the driver heard of it, the queued message
/// that has begun a turn meanwhile is answered in full, and the sender got what they wanted.
#[tokio::test(start_paused = true)]
async fn a_late_interrupt_spares_the_next_turn() {
    let understudy = Understudy::new([script([hang()]), script([text("In full."), stop(Stop::End)])]);
    let stage = Stage::built(understudy, agent(), |builder| builder.drivers(Drivers::ByHand)).await;
    stage.chat.send("first").await.unwrap();
    stage.chat.send("second").await.unwrap();
    assert!(timeout(Duration::from_secs(1), stage.chat.advance()).await.is_err(), "a process that dies");
    let late = stage.chat.submit(Command::Interrupt, None).await.unwrap();
    let mut lease = stage.store.acquire(stage.chat.id()).await.unwrap();
    let Loaded { chat, .. } = stage.store.load(&lease).await.unwrap();
    let mut change = Change::new(&chat, Timestamp(2_000));
    change.finish(TurnEnd::Done);
    stage.store.commit(&mut lease, &change.facts()).await.unwrap();
    stage.chat.advance().await.unwrap();
    assert_eq!(stage.chat.outcome(late).await.unwrap(), Ok(()), "its turn has stopped");
    assert_eq!((stage.replies().await.as_str(), stage.ended().await), ("In full.", TurnEnd::Done));
}
