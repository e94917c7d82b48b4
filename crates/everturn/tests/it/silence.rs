//! Streams that say nothing, for how long that is borne, and what is measured of a stream.

use std::time::Duration;

use everturn::Agent;
use everturn::core::error::{Cause, ErrorKind};
use everturn::core::limits::{Limits, Thinking};
use everturn::core::message::{Body, Stop};
use everturn::core::prompt::Effort;
use everturn_understudy::{Cue, Understudy, fail, hang, ping, reasoning, script, slow, stop, text, wait};
use expect_test::expect;

use crate::stage::{Stage, agent, stage};

fn impatient() -> Agent {
    let limits =
        Limits { open_max: Duration::from_secs(20), silence_max: Duration::from_secs(30), ..Limits::default() };
    agent().limits(limits)
}

/// Checks the trace of a stream that plays `cues` once and then answers.
async fn check(cues: impl IntoIterator<Item = Cue>, expected: expect_test::Expect) {
    let understudy = Understudy::new([script(cues), script([text("lo."), stop(Stop::End)])]);
    let stage = Stage::new(understudy, impatient()).await;
    expected.assert_eq(&stage.run("hi").await);
}

/// CL10, CR17: a stream that does not open.
#[tokio::test(start_paused = true)]
async fn silence_while_opening() {
    check(
        [slow(1000)],
        expect![[r#"
        t=000.0 message 1 user "hi"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=021.0 running retry Silence until 21.9
        t=021.9 delta 2 attempt 2 Restart understudy/one
        t=021.9 delta 3 Text("lo.")
        t=021.9 message 2 reply ["lo."] End
        t=021.9 running
        t=021.9 idle Done
    "#]],
    )
    .await;
}

/// CL11, CR18, CR20: a stream that opens and never speaks.
#[tokio::test(start_paused = true)]
async fn silence_from_the_first() {
    check(
        [hang()],
        expect![[r#"
        t=000.0 message 1 user "hi"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=030.0 running retry Silence until 30.9
        t=030.9 delta 2 attempt 2 Restart understudy/one
        t=030.9 delta 3 Text("lo.")
        t=030.9 message 2 reply ["lo."] End
        t=030.9 running
        t=030.9 idle Done
    "#]],
    )
    .await;
}

/// CR19: a stream that stops speaking; what it said is gone on with.
#[tokio::test(start_paused = true)]
async fn silence_in_the_middle() {
    check(
        [text("Hel"), wait(29), hang()],
        expect![[r#"
        t=000.0 message 1 user "hi"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 Text("Hel")
        t=030.0 running retry Silence until 30.9
        t=030.9 delta 3 attempt 2 Continue understudy/one
        t=030.9 delta 4 Seam(Seam { at: 3, dropped: 0, inserted: 0, unmatched: 0 })
        t=030.9 delta 5 Text("lo.")
        t=030.9 message 2 reply ["Hello."] End
        t=030.9 running
        t=030.9 idle Done
    "#]],
    )
    .await;
}

/// CL12, CR21, CL05: every piece of content starts the window anew, also one that comes at its very end.
#[tokio::test(start_paused = true)]
async fn slow_is_not_silent() {
    check(
        [wait(29), text("H"), wait(29), reasoning("e"), wait(29), text("l"), stop(Stop::End)],
        expect![[r#"
            t=000.0 message 1 user "hi"
            t=000.0 running
            t=000.0 delta 1 attempt 1 First understudy/one
            t=029.0 delta 2 Text("H")
            t=058.0 delta 3 Reasoning("e")
            t=087.0 delta 4 Text("l")
            t=087.0 message 2 reply ["H" (e) "l"] End
            t=087.0 running
            t=087.0 idle Done
        "#]],
    )
    .await;
}

/// AW17: pings are not content.
#[tokio::test(start_paused = true)]
async fn pings_do_not_break_the_silence() {
    check(
        [text("Hel"), wait(10), ping(), wait(10), ping(), wait(9), ping(), wait(9), text("never")],
        expect![[r#"
        t=000.0 message 1 user "hi"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 Text("Hel")
        t=030.0 running retry Silence until 30.9
        t=030.9 delta 3 attempt 2 Continue understudy/one
        t=030.9 delta 4 Seam(Seam { at: 3, dropped: 0, inserted: 0, unmatched: 0 })
        t=030.9 delta 5 Text("lo.")
        t=030.9 message 2 reply ["Hello."] End
        t=030.9 running
        t=030.9 idle Done
    "#]],
    )
    .await;
}

/// Neither are pieces with nothing in them.
#[tokio::test(start_paused = true)]
async fn empty_pieces_do_not_break_the_silence() {
    for empty in [text(""), reasoning("")] {
        let cues = (0..10).flat_map(|_| [wait(10), empty.clone()]);
        let understudy =
            Understudy::new([script(cues.chain([text("never")])), script([text("Hello."), stop(Stop::End)])]);
        let stage = Stage::new(understudy, impatient()).await;
        let seen = stage.run("hi").await;
        assert!(seen.contains("t=030.0 running retry Silence"), "{seen}");
        assert!(!seen.contains("never"), "{seen}");
    }
}

/// CL06, CL13: an error that comes before the window closes stays what it is; silence stays silence.
#[tokio::test(start_paused = true)]
async fn the_first_failure_is_the_cause() {
    check(
        [wait(29), fail(ErrorKind::Overloaded, Cause::ServerError)],
        expect![[r#"
        t=000.0 message 1 user "hi"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=029.0 running retry Overloaded until 29.9
        t=029.9 delta 2 attempt 2 Restart understudy/one
        t=029.9 delta 3 Text("lo.")
        t=029.9 message 2 reply ["lo."] End
        t=029.9 running
        t=029.9 idle Done
    "#]],
    )
    .await;
    check(
        [wait(31), fail(ErrorKind::Auth, Cause::Refused)],
        expect![[r#"
        t=000.0 message 1 user "hi"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=030.0 running retry Silence until 30.9
        t=030.9 delta 2 attempt 2 Restart understudy/one
        t=030.9 delta 3 Text("lo.")
        t=030.9 message 2 reply ["lo."] End
        t=030.9 running
        t=030.9 idle Done
    "#]],
    )
    .await;
}

/// AW17: models that think, and agents that ask for effort, get twice the time.
#[tokio::test(start_paused = true)]
async fn thinking_takes_longer() {
    let scripts = || [script([text("a"), wait(59), text("b"), stop(Stop::End)])];
    let thinker = Understudy::new(scripts()).with(|facts| facts.thinks = Thinking::Yes);
    let seen = Stage::new(thinker, impatient()).await.run("hi").await;
    assert!(!seen.contains("retry"), "{seen}");
    let eager = Agent { effort: Some(Effort::High), ..impatient() };
    let seen = Stage::new(Understudy::new(scripts()), eager).await.run("hi").await;
    assert!(!seen.contains("retry"), "{seen}");
    let slow_opener = Understudy::new([script([slow(39), text("b"), stop(Stop::End)])]);
    let seen = Stage::new(slow_opener.with(|facts| facts.thinks = Thinking::Yes), impatient()).await.run("hi").await;
    assert!(!seen.contains("retry"), "{seen}");
}

/// CL58, CL59: the runtime of a reply is the time its streams were open, waits between attempts left out.
#[tokio::test(start_paused = true)]
async fn runtime_is_streaming_time() {
    let broken =
        script([slow(2), text("The quick "), wait(3), text("brown "), fail(ErrorKind::Overloaded, Cause::Reset)]);
    let stage = stage([broken, script([wait(4), text("fox."), stop(Stop::End)])]).await;
    stage.run("hi").await;
    let transcript = stage.transcript().await;
    let Body::Reply(reply) = &transcript[1].body else { panic!("a reply") };
    assert_eq!(reply.runtime, Duration::from_secs(5 + 4));
    let attempts = stage.chat.attempts(0).await.unwrap();
    let took: Vec<_> = attempts.iter().map(|attempt| attempt.took.as_secs()).collect();
    assert_eq!(took, [5, 4]);
}

/// A stream that was given up is closed, not left to send on.
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_given_up_is_closed() {
    let stage = Stage::new(Understudy::new([script([text("Hel"), hang()])]), impatient()).await;
    let mut watch = stage.watch();
    stage.chat.send("hi").await.unwrap();
    watch.until_text("Hel").await;
    assert_eq!(stage.understudy.streams_open(), 1);
    stage.chat.interrupt().await.unwrap();
    assert_eq!(stage.understudy.streams_open(), 0);
}
