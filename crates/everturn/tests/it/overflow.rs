//! Requests that are too long, by our measure or by the provider's.

use everturn::Agent;
use everturn::core::chat::TurnEnd;
use everturn::core::command::{Command, Delivery};
use everturn::core::context::CompactionThreshold;
use everturn::core::limits::Limits;
use everturn::core::message::{File, Meta, Part, Stop};
use everturn::core::prompt::Request;
use everturn::stores::SubmitError;
use everturn_understudy::{Script, Understudy, call, refuse, script, stop, text};
use expect_test::expect;
use serde_json::json;

use crate::compaction::{long, says, small};
use crate::read::{adds_up, asks_summary, brief_lines, rows, shown, words};
use crate::stage::{Stage, agent, counter, echo};

fn too_long() -> Script {
    script([refuse(413)])
}

/// A model of unknown window that refuses requests longer than so many bytes.
fn strict(window: usize, answer: impl Fn(&Request) -> Script + Send + 'static) -> Understudy {
    Understudy::improvising(move |request| if request.bytes() > window { too_long() } else { answer(request) })
}

fn failure(end: &TurnEnd) -> String {
    match end {
        TurnEnd::Failed(failure) => {
            format!(
                "{:?}\n{}\n{}",
                failure.kind,
                failure.message,
                failure.detail.replace("; ", ";\n").replace(" (", "\n(")
            )
        }
        other => panic!("{other:?}"),
    }
}

/// AW19: a request the provider finds too long is summarised and sent once more, also where summaries are off and
/// the window is unknown.
#[tokio::test(start_paused = true)]
async fn a_refused_request_is_summarised_and_sent_again() {
    let agent = Agent { compaction: CompactionThreshold::OFF, ..agent() };
    let scripts = [says("Hello."), too_long(), says("They said hello."), says("Here I am.")];
    let stage = Stage::new(Understudy::new(scripts), agent).await;
    stage.run("Hi.").await;
    expect![[r#"
        t=000.0 message 3 user "Are you there?"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 running
        t=000.0 running compacting Overflow
        t=000.0 message 4 summary Overflow "They said hello."
        t=000.0 running
        t=000.0 delta 2 attempt 3 Restart understudy/one
        t=000.0 delta 3 Text("Here I am.")
        t=000.0 message 5 reply ["Here I am."] End
        t=000.0 running
        t=000.0 idle Done
    "#]]
    .assert_eq(&stage.run("Are you there?").await);
    expect![[r#"
        user "Summary of the conversation so far, in place of it:\n\nThey sa… 69 bytes"
        user "(The newest message before this point, word for word:)"
        user "Are you there?"
    "#]]
    .assert_eq(&shown(stage.understudy.requests().last().unwrap()));
    expect![[r#"
        1.1 understudy/one Answered 0.0s known 0+0 guess 1+2 0.000000
        3.1 understudy/one ContextFull (Refused) 0.0s known 0+0 guess 0+0 0.000000
        3.2 understudy/one Answered 0.0s known 0+0 guess 143+6 0.000000
        3.3 understudy/one Answered 0.0s known 0+0 guess 46+4 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// Refused again after the summary, it gets a shorter one; refused again, the person gets the numbers.
#[tokio::test(start_paused = true)]
async fn refused_again_it_is_made_shorter_and_then_fails_with_numbers() {
    let scripts = [says("Hello."), too_long(), says(long(9_000)), too_long(), says(long(8_000)), too_long()];
    let stage = Stage::new(small(scripts), agent()).await;
    stage.run("Hi.").await;
    expect![[r#"
        t=000.0 message 3 user "Are you there?"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 running
        t=000.0 running compacting Overflow
        t=000.0 message 4 summary Overflow "abcdefghi abcdefghi abcdefghi abcdefghi abcd… 9036 bytes
        t=000.0 running
        t=000.0 delta 2 attempt 3 Restart understudy/one
        t=000.0 running
        t=000.0 running compacting Overflow
        t=000.0 message 5 summary Overflow "abcdefghi abcdefghi abcdefghi abcdefghi abcd… 8036 bytes
        t=000.0 running
        t=000.0 delta 3 attempt 5 Restart understudy/one
        t=000.0 running
        t=000.0 failed failed ContextFull
    "#]]
    .assert_eq(&brief_lines(&stage.run("Are you there?").await));
    expect![[r#"
        ContextFull
        The AI provider cannot take a conversation this long; edit the newest message, or choose a model with a larger window
        the shortest request has about 2707 tokens and the model reads 10000;
        edit the newest message to be shorter, use fewer tools, or choose a model with a larger window"#]]
    .assert_eq(&failure(&stage.ended().await));
    assert_eq!(stage.understudy.scripts_left(), 0);
    adds_up(&stage.chat).await;
}

/// Without summaries to make, media are left out first, then old results, and only then is it hopeless.
#[tokio::test(start_paused = true)]
async fn stage_by_stage_more_is_left_out() {
    let looks = || script([text("Hm."), call("echo", json!({"say": long(300)})), stop(Stop::ToolUse)]);
    let scripts = [looks(), looks(), too_long(), too_long(), too_long()];
    let limits = Limits { compactions_max: 0, ..Limits::default() };
    let agent = agent().limits(limits).tool(echo("echo", &counter())).unwrap();
    let stage = Stage::new(Understudy::new(scripts), agent).await;
    let (name, media_type, bytes) = ("crab.png".into(), "image/png".into(), Some(b"pixels"[..].into()));
    let image = Part::File(File { name, media_type, bytes, meta: Meta::new() });
    let watch = stage.watch();
    stage.chat.submit(Command::Send { parts: [image].into(), when: Delivery::Queue }, None).await.unwrap();
    watch.until_rest().await;
    let requests = stage.understudy.requests();
    let sent: Vec<String> = requests[2..].iter().map(shown).collect();
    expect![[r#"
        user [crab.png]
        model "Hm."
        model call_1 echo({"say":"abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi ab… 310 bytes)
        tool call_1 echo "heard abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi abcd… 306 bytes"
        model "Hm."
        model call_2 echo({"say":"abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi ab… 310 bytes)
        tool call_2 echo "heard abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi abcd… 306 bytes"
        ---
        user "[An attachment was left out here to make room.]"
        model "Hm."
        model call_1 echo({"say":"abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi ab… 310 bytes)
        tool call_1 echo "heard abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi abcd… 306 bytes"
        model "Hm."
        model call_2 echo({"say":"abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi ab… 310 bytes)
        tool call_2 echo "heard abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi abcd… 306 bytes"
        ---
        user "[An attachment was left out here to make room.]"
        model "Hm."
        model call_1 echo({"say":"abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi ab… 310 bytes)
        tool call_1 echo "[This result was left out to make room. Call the tool again … 76 bytes"
        model "Hm."
        model call_2 echo({"say":"abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi ab… 310 bytes)
        tool call_2 echo "heard abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi abcd… 306 bytes"
    "#]]
    .assert_eq(&sent.join("---\n"));
    expect![[r#"
        ContextFull
        The AI provider cannot take a conversation this long; edit the newest message, or choose a model with a larger window
        the shortest request has about 418 tokens;
        edit the newest message to be shorter, use fewer tools, or choose a model with a larger window"#]]
    .assert_eq(&failure(&stage.ended().await));
}

/// A message that cannot fit, however its text is counted, fails with the numbers, and no model is asked. One that may fit
/// is sent: the provider has the last word.
#[tokio::test(start_paused = true)]
async fn a_message_longer_than_the_window_fails() {
    let stage = Stage::new(small([]), agent()).await;
    expect![[r#"
        t=000.0 message 1 user "abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi abcdef… 70025 bytes
        t=000.0 running
        t=000.0 failed failed ContextFull
    "#]]
    .assert_eq(&brief_lines(&stage.run(&long(70_000)).await));
    expect![[r#"
        ContextFull
        The AI provider cannot take a conversation this long; edit the newest message, or choose a model with a larger window
        the shortest request has about 23334 tokens and the model reads 10000;
        edit the newest message to about 15000 bytes, or choose a model with a larger window"#]]
    .assert_eq(&failure(&stage.ended().await));
    assert!(stage.understudy.requests().is_empty());

    let stage = Stage::new(small([says("That was long.")]), agent()).await;
    stage.run(&long(40_000)).await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    let stage = Stage::new(small([too_long()]), agent()).await;
    stage.run(&long(40_000)).await;
    expect![[r#"
        ContextFull
        The AI provider cannot take a conversation this long; edit the newest message, or choose a model with a larger window
        the shortest request has about 13334 tokens and the model reads 10000;
        edit the newest message to about 15000 bytes, or choose a model with a larger window"#]]
    .assert_eq(&failure(&stage.ended().await));
}

/// Where the summary's own request is too long, long texts lose their middle, and then the older half is left out,
/// until it is read.
#[tokio::test(start_paused = true)]
async fn a_request_for_a_summary_is_cut_until_it_fits() {
    let mut scripts: Vec<Script> = (0..2).map(|turn| says(format!("Answer {turn} {}", long(1_500)))).collect();
    scripts.extend([too_long(), too_long(), too_long(), too_long(), says("In short."), says("Fine.")]);
    let stage = Stage::new(Understudy::new(scripts), agent()).await;
    for turn in 0..2 {
        stage.run(&format!("Question {turn} {}", long(10_000))).await;
    }
    stage.run("Well?").await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    let requests = stage.understudy.requests();
    let sent: Vec<String> = requests[3..7].iter().map(shown).collect();
    expect![[r#"
        user "Question 0 abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi… 10011 bytes"
        model "Answer 0 abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi a… 1509 bytes"
        user "Question 1 abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi… 10011 bytes"
        model "Answer 1 abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi a… 1509 bytes"
        user "Well?"
        user "Summarise this conversation so that it can go on from your s… 404 bytes"
        ---
        user "Question 0 abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi… 8054 bytes"
        model "Answer 0 abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi a… 1509 bytes"
        user "Question 1 abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi… 8054 bytes"
        model "Answer 1 abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi a… 1509 bytes"
        user "Well?"
        user "Summarise this conversation so that it can go on from your s… 404 bytes"
        ---
        user "Question 0 abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi… 886 bytes"
        model "Answer 0 abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi a… 885 bytes"
        user "Question 1 abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi… 886 bytes"
        model "Answer 1 abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi a… 885 bytes"
        user "Well?"
        user "Summarise this conversation so that it can go on from your s… 404 bytes"
        ---
        user "(Older messages are left out here: they are too long to be r… 71 bytes"
        user "Question 1 abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi… 886 bytes"
        model "Answer 1 abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi a… 885 bytes"
        user "Well?"
        user "Summarise this conversation so that it can go on from your s… 404 bytes"
    "#]]
    .assert_eq(&sent.join("---\n"));
    expect![[r#"
        user "Summary of the conversation so far, in place of it:\n\nIn shor… 62 bytes"
        user "(The newest message before this point, word for word:)"
        user "Well?"
    "#]]
    .assert_eq(&shown(requests.last().unwrap()));
    expect![[r#"
        1.1 understudy/one Answered 0.0s known 0+0 guess 3337+503 0.000000
        3.1 understudy/one Answered 0.0s known 0+0 guess 7177+503 0.000000
        5.1 understudy/one ContextFull (Refused) 0.0s known 0+0 guess 0+0 0.000000
        5.2 understudy/one ContextFull (Refused) 0.0s known 0+0 guess 0+0 0.000000
        5.3 understudy/one ContextFull (Refused) 0.0s known 0+0 guess 0+0 0.000000
        5.4 understudy/one ContextFull (Refused) 0.0s known 0+0 guess 0+0 0.000000
        5.5 understudy/one Answered 0.0s known 0+0 guess 751+3 0.000000
        5.6 understudy/one Answered 0.0s known 0+0 guess 41+2 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// Several results at once can be longer than any window. They are cut before the summary is asked for.
#[tokio::test(start_paused = true)]
async fn results_that_fill_the_window_twice_are_cut_for_the_summary() {
    let calls = (0..4).map(|n| call("echo", json!({"say": format!("{n} {}", long(16_000))})));
    let scripts = [script(calls.chain([stop(Stop::ToolUse)])), says("Four echoes."), says("Done.")];
    let stage = Stage::new(small(scripts), agent().tool(echo("echo", &counter())).unwrap()).await;
    stage.run("Say it four times.").await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    let summary = stage.understudy.requests().into_iter().find(asks_summary).unwrap();
    let lengths: Vec<usize> = words(&summary).iter().map(|text| text.len()).collect();
    expect!["[18, 8054, 8054, 8054, 8054, 404]"].assert_eq(&format!("{lengths:?}"));
}

/// A refused request for which no summary is to be had gets by with less in it, or fails and says why.
#[tokio::test(start_paused = true)]
async fn without_a_summary_things_are_left_out_all_the_same() {
    let looks = || script([text("Hm."), call("echo", json!({"say": long(300)})), stop(Stop::ToolUse)]);
    let no_summary = || script([refuse(401)]);
    let scripts = [looks(), looks(), too_long(), no_summary(), says("Done.")];
    let stage = Stage::new(Understudy::new(scripts), agent().tool(echo("echo", &counter())).unwrap()).await;
    stage.run("Look twice.").await;
    assert_eq!((stage.ended().await, stage.understudy.scripts_left()), (TurnEnd::Done, 0));
    expect![[r#"
        user "Look twice."
        model "Hm."
        model call_1 echo({"say":"abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi ab… 310 bytes)
        tool call_1 echo "[This result was left out to make room. Call the tool again … 76 bytes"
        model "Hm."
        model call_2 echo({"say":"abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi ab… 310 bytes)
        tool call_2 echo "heard abcdefghi abcdefghi abcdefghi abcdefghi abcdefghi abcd… 306 bytes"
    "#]]
    .assert_eq(&shown(stage.understudy.requests().last().unwrap()));

    let stage = Stage::new(Understudy::new([says("Hello."), too_long(), no_summary()]), agent()).await;
    stage.run("Hi.").await;
    stage.run("Are you there?").await;
    expect![[r#"
        ContextFull
        The AI provider cannot take a conversation this long; edit the newest message, or choose a model with a larger window
        the shortest request has about 8 tokens;
        edit the newest message to be shorter, use fewer tools, or choose a model with a larger window
        (no summary could be had: The AI provider refused the key;
        check that it is right and may use this model)"#]]
    .assert_eq(&failure(&stage.ended().await));
}

/// Whatever the window and whatever is said, a chat goes on as long as the newest words fit, and they are always there.
#[tokio::test(start_paused = true)]
async fn a_chat_outgrows_its_window_and_goes_on() {
    for known in [None, Some(8_000)] {
        let understudy = strict(24_000, |request| match (asks_summary(request), request.entries.len() % 3) {
            (true, _) => says(format!("In short: {}\n## Constraints\n- be kind", long(500))),
            (false, 1) => script([call("echo", json!({"say": long(4_000)})), stop(Stop::ToolUse)]),
            (false, _) => says(long(2_500)),
        });
        let agent = agent().tool(echo("echo", &counter())).unwrap();
        let stage = Stage::new(understudy.with(|facts| facts.context_limit = known), agent).await;
        for turn in 0..25 {
            let newest = format!("Turn {turn}: {}", long((turn * 7_919) % 9_000));
            stage.run(&newest).await;
            assert_eq!(stage.ended().await, TurnEnd::Done, "turn {turn}");
            let last = stage.understudy.requests().pop().unwrap();
            assert!(words(&last).contains(&newest.as_str()), "turn {turn}");
            let folded = words(&last)[0].starts_with("Summary of");
            assert!(!folded || words(&last)[0].contains("- be kind"));
        }
        adds_up(&stage.chat).await;
    }
}

/// A file by this name. Its bytes are no real picture.
fn file(name: &str) -> Part {
    let (media_type, bytes) = ("application/pdf".into(), Some(b"pages"[..].into()));
    Part::File(File { name: name.into(), media_type, bytes, meta: Meta::new() })
}

/// I15: what was too long for the model is not in the way of what is said after it, however often it is said, and whether
/// or not something was answered before. Only the words of the turn itself are always whole.
#[tokio::test(start_paused = true)]
async fn later_turns_are_free_of_what_was_too_long() {
    for (known, before) in [(Some(10_000), 0), (Some(10_000), 1), (None, 0), (None, 1)] {
        let understudy = strict(30_000, |request| says(if asks_summary(request) { "In short." } else { "Hello." }));
        let stage = Stage::new(understudy.with(|facts| facts.context_limit = known), agent()).await;
        for _ in 0..before {
            stage.run("Hi.").await;
        }
        for tries in 0..5 {
            stage.run(&format!("Try {tries}: {}", long(70_000))).await;
            assert!(matches!(stage.ended().await, TurnEnd::Failed(_)), "{known:?}, {before} before");
        }
        for newest in [format!("Forget that. {}", long(9_000)), "Who are you?".into(), "Where?".into()] {
            stage.run(&newest).await;
            assert_eq!(stage.ended().await, TurnEnd::Done, "{known:?}, {before} before");
            let last = stage.understudy.requests().pop().unwrap();
            assert!(words(&last).contains(&newest.as_str()), "{known:?}, {before} before");
        }
        adds_up(&stage.chat).await;
    }
}

/// I15: the same in a window of 4,096 tokens, at two bytes each, known or not: bounds in bytes follow the window. A summary
/// that is asked for is asked of the model, and the next turn goes on with it.
#[tokio::test(start_paused = true)]
async fn a_small_window_is_not_filled_by_what_was_too_long() {
    for (known, before) in [(Some(4_096), 0), (Some(4_096), 1), (None, 0), (None, 1)] {
        let understudy = strict(8_192, |request| says(if asks_summary(request) { "In short." } else { "Hello." }));
        let stage = Stage::new(understudy.with(|facts| facts.context_limit = known), agent()).await;
        for _ in 0..before {
            stage.run("Hi.").await;
        }
        stage.run(&long(40_000)).await;
        assert!(matches!(stage.ended().await, TurnEnd::Failed(_)), "{known:?}, {before} before");
        if before > 0 {
            match stage.chat.compact().await {
                Ok(_) => drop(stage.ended().await),
                Err(SubmitError::NothingToCompact) => {} // The turn that failed had the summary made.
                Err(error) => panic!("{error}"),
            }
            assert!(stage.understudy.requests().iter().any(asks_summary), "{known:?}");
        }
        for newest in ["Forget that.", "Who are you?", "Where?"] {
            stage.run(newest).await;
            assert_eq!(stage.ended().await, TurnEnd::Done, "{known:?}, {before} before");
        }
        adds_up(&stage.chat).await;
    }
}

/// A file that was too long is left out likewise: only the provider can measure it.
#[tokio::test(start_paused = true)]
async fn a_file_that_was_too_long_does_not_stand_in_the_way_of_later_turns() {
    let has_file = |request: &Request| shown(request).contains("[long.pdf]");
    let answer = |request: &Request| says(if asks_summary(request) { "In short." } else { "Hello." });
    for before in [0, 1] {
        let refuses = move |request: &Request| if has_file(request) { too_long() } else { answer(request) };
        let stage = Stage::new(Understudy::improvising(refuses), agent()).await;
        for _ in 0..before {
            stage.run("Hi.").await;
        }
        let watch = stage.watch();
        stage
            .chat
            .submit(Command::Send { parts: [file("long.pdf")].into(), when: Delivery::Queue }, None)
            .await
            .unwrap();
        watch.until_rest().await;
        assert!(matches!(stage.ended().await, TurnEnd::Failed(_)), "{before} before");
        for newest in ["Forget that.", "Who are you?", "Where?"] {
            stage.run(newest).await;
            assert_eq!(stage.ended().await, TurnEnd::Done, "{before} before");
        }
    }
}

/// A server that refuses what would not fit together with the longest answer is asked for an answer that does.
#[tokio::test(start_paused = true)]
async fn an_answer_is_asked_for_that_fits_behind_its_question() {
    const WINDOW: usize = 16_000;
    let understudy = Understudy::improvising(|request| {
        let tokens = request.bytes() / 3 + request.max_output as usize;
        match asks_summary(request) {
            _ if tokens > WINDOW => too_long(),
            true => says("In short."),
            false => says(long(6_000)),
        }
    });
    let stage = Stage::new(understudy.with(|facts| facts.context_limit = Some(WINDOW as u64)), agent()).await;
    for turn in 0..12 {
        stage.run(&format!("Turn {turn}: {}", long(3_000))).await;
        assert_eq!(stage.ended().await, TurnEnd::Done, "turn {turn}");
    }
    let requests = stage.understudy.requests();
    assert_eq!(rows(&stage.chat).await.matches("Answered").count(), requests.len(), "nothing was refused");
    assert!(requests.iter().all(|request| request.max_output >= 1_500), "there is always room for an answer");
}
