//! Broken streams, and what becomes of them.

use everturn::core::chat::TurnEnd;
use everturn::core::error::{Cause, ErrorKind};
use everturn::core::limits::Limits;
use everturn::core::message::{Body, Meta, Stop};
use everturn::core::recovery::{Prefill, Reattach};
use everturn_understudy::{
    Script, Understudy, UnderstudyRequest, begin_call, call, cut, fail, malformed, provided, reasoning, reply_meta,
    response_id, script, sealed, stop, text, usage,
};
use expect_test::expect;
use serde_json::json;

use crate::kept::background;
use crate::stage::{Stage, agent, count, counter, echo, stage};

fn reset() -> everturn_understudy::Cue {
    fail(ErrorKind::Timeout, Cause::Reset)
}

fn done(words: &str) -> Script {
    script([text(words), stop(Stop::End)])
}

/// AW11, CL60: text, then a reset: no step yet; it goes on from there, nothing is taken back, and the answer is both halves.
#[tokio::test(start_paused = true)]
async fn text_goes_on_where_it_was_cut() {
    let stage = stage([
        script([text("The quick brown fox "), reset()]),
        script([text("brown fox jumps over the dog."), stop(Stop::End)]),
    ])
    .await;
    expect![[r#"
        t=000.0 message 1 user "go"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 Text("The quick brown fox ")
        t=000.0 running retry Timeout until 0.9
        t=000.9 delta 3 attempt 2 Continue understudy/one
        t=000.9 delta 4 Seam(Seam { at: 20, dropped: 10, inserted: 0, unmatched: 0 })
        t=000.9 delta 5 Text("jumps over the dog.")
        t=000.9 message 2 reply ["The quick brown fox jumps over the dog."] End
        t=000.9 running
        t=000.9 idle Done
    "#]]
    .assert_eq(&stage.run("go").await);
    let transcript = stage.transcript().await;
    let Body::Reply(reply) = &transcript[1].body else { panic!("a reply") };
    assert_eq!(reply.seams.len(), 1, "the seam is recorded");
    assert_eq!(stage.understudy.requests().len(), 2, "exactly two attempts");
}

/// AW12: one whole and one open call, then a reset: the whole one runs, the open one is taken back, the model is not asked
/// again for it, and the model is told.
#[tokio::test(start_paused = true)]
async fn whole_calls_are_salvaged() {
    let runs = counter();
    let scripts = [
        script([text("Two."), call("echo", json!({"say": "a"})), begin_call("echo", "{\"say\": \"b"), reset()]),
        done("One came."),
    ];
    let stage = Stage::new(Understudy::new(scripts), agent().tool(echo("echo", &runs)).unwrap()).await;
    expect![[r#"
        t=000.0 message 1 user "go"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 Text("Two.")
        t=000.0 delta 3 call echo
        t=000.0 delta 4 CallInput { slot: 0, json: "{\"say\":\"a\"}" }
        t=000.0 delta 5 CallEnded { slot: 0 }
        t=000.0 delta 6 call echo
        t=000.0 delta 7 CallInput { slot: 1, json: "{\"say\": \"b" }
        t=000.0 message 2 reply ["Two." echo({"say":"a"})] ToolUse
        t=000.0 running
        t=000.0 running
        t=000.0 message 3 result 1.0 echo Done "heard a"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 Text("One came.")
        t=000.0 message 4 reply ["One came."] End
        t=000.0 running
        t=000.0 idle Done
    "#]]
    .assert_eq(&stage.run("go").await);
    assert_eq!(count(&runs), 1);
    let told = format!("{:?}", stage.understudy.requests()[1].entries.last());
    assert!(told.contains("echo"), "the model hears which call was lost: {told}");
}

/// AW13: text and an open call, then a reset: the call is taken back, the text goes on.
#[tokio::test(start_paused = true)]
async fn an_open_call_is_taken_back_and_the_text_goes_on() {
    let stage =
        stage([script([text("Let me see "), begin_call("echo", "{\"s"), reset()]), done("what I can do.")]).await;
    expect![[r#"
        t=000.0 message 1 user "go"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 Text("Let me see ")
        t=000.0 delta 3 call echo
        t=000.0 delta 4 CallInput { slot: 0, json: "{\"s" }
        t=000.0 running retry Timeout until 0.9
        t=000.9 delta 5 RetractCall { ordinal: 0 }
        t=000.9 delta 6 attempt 2 Continue understudy/one
        t=000.9 delta 7 Seam(Seam { at: 11, dropped: 0, inserted: 0, unmatched: 0 })
        t=000.9 delta 8 Text("what I can do.")
        t=000.9 message 2 reply ["Let me see what I can do."] End
        t=000.9 running
        t=000.9 idle Done
    "#]]
    .assert_eq(&stage.run("go").await);
}

/// AW14, AW15: nothing worth keeping, unsigned reasoning included: everything is taken back and asked again.
#[tokio::test(start_paused = true)]
async fn nothing_usable_begins_again() {
    let stage = stage([script([reasoning("Hm."), begin_call("echo", "{"), reset()]), done("Yes.")]).await;
    expect![[r#"
        t=000.0 message 1 user "go"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 Reasoning("Hm.")
        t=000.0 delta 3 call echo
        t=000.0 delta 4 CallInput { slot: 0, json: "{" }
        t=000.0 running retry Timeout until 0.9
        t=000.9 delta 5 RetractAll
        t=000.9 delta 6 attempt 2 Restart understudy/one
        t=000.9 delta 7 Text("Yes.")
        t=000.9 message 2 reply ["Yes."] End
        t=000.9 running
        t=000.9 idle Done
    "#]]
    .assert_eq(&stage.run("go").await);
    let requests = stage.understudy.requests();
    assert_eq!(requests[0], requests[1], "the same request again");
}

/// AW15: a provider that keeps the generation is found again, whatever the draft holds, and nothing is paid twice.
#[tokio::test(start_paused = true)]
async fn a_kept_generation_is_found_again() {
    let scripts = [
        script([response_id("resp_1"), reasoning("Thinking "), reset()]),
        script([reasoning("on."), sealed("sig"), text("Done."), usage(100, 10), stop(Stop::End)]),
    ];
    let understudy = Understudy::new(scripts).with(|facts| {
        facts.can.reattach = Reattach::Yes;
        facts.target.background = true;
    });
    let stage = Stage::new(understudy, background()).await;
    expect![[r#"
        t=000.0 message 1 user "go"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 ResponseId("resp_1")
        t=000.0 delta 3 Handle(GenerationHandle { id: "resp_1", cursor: "0" })
        t=000.0 delta 4 Reasoning("Thinking ")
        t=000.0 running retry Timeout until 0.9
        t=000.9 delta 5 attempt 2 Reattach understudy/one
        t=000.9 delta 6 Reasoning("on.")
        t=000.9 delta 7 Sealed(Signature("sig"))
        t=000.9 delta 8 Ended
        t=000.9 delta 9 Text("Done.")
        t=000.9 delta 10 usage Some((100, 10))
        t=000.9 message 2 reply [(Thinking on. ✓) "Done."] End
        t=000.9 running
        t=000.9 idle Done
    "#]]
    .assert_eq(&stage.run("go").await);
    assert!(matches!(&stage.understudy.asked()[1], UnderstudyRequest::Reattach(handle) if handle.id == "resp_1"));
    let attempts = stage.chat.attempts(0).await.unwrap();
    let paid: u64 = attempts.iter().map(|attempt| attempt.tally.total()).sum();
    assert_eq!(paid, 110, "paid once");
}

/// A model that takes the beginning of its answer gets it, and no instruction.
#[tokio::test(start_paused = true)]
async fn a_prefill_is_used_where_it_can_be() {
    let understudy = Understudy::new([script([text("The quick "), reset()]), done("brown fox.")]).with(|facts| {
        facts.can.prefill = Prefill::Yes;
        facts.target.prefill = true;
    });
    let stage = Stage::new(understudy, agent()).await;
    stage.run("go").await;
    assert_eq!(stage.replies().await, "The quick brown fox.");
    let last = stage.understudy.requests()[1].entries.last().map(|entry| entry.role);
    assert_eq!(last, Some(everturn::core::prompt::Role::Assistant));
}

/// AW18, CL09, CL55, CR22, CR23, CR21: every way to break is typed, retried, and told to clients; the answer is whole.
#[tokio::test(start_paused = true)]
async fn every_cause_climbs() {
    let breaks = [
        (ErrorKind::Timeout, Cause::Reset),
        (ErrorKind::Timeout, Cause::GoAway),
        (ErrorKind::Silence, Cause::IdleStall),
        (ErrorKind::Overloaded, Cause::ServerError),
        (ErrorKind::Truncated, Cause::Truncated),
        (ErrorKind::Timeout, Cause::ErrorFinish),
        (ErrorKind::Malformed, Cause::Malformed),
    ];
    for (kind, cause) in breaks {
        let stage = stage([script([text("The quick "), fail(kind, cause)]), done("brown fox.")]).await;
        let seen = stage.run("go").await;
        assert!(seen.contains(&format!("retry {kind:?}")), "{seen}");
        assert_eq!(stage.replies().await, "The quick brown fox.", "{cause:?}");
        let attempts = stage.chat.attempts(0).await.unwrap();
        let outcome = format!("{:?}", attempts[0].outcome);
        assert_eq!(outcome, format!("Broke({cause:?}, {kind:?})"));
    }
}

/// CE02: a stream that just ends is no answer, and neither is one that makes no sense.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_stream_is_not_the_end_of_an_answer() {
    for trouble in [cut(), malformed()] {
        let stage = stage([script([text("Half an "), trouble]), done("answer.")]).await;
        stage.run("go").await;
        assert_eq!(stage.replies().await, "Half an answer.");
        assert_eq!(stage.ended().await, TurnEnd::Done);
    }
}

/// AW24, I3: cut after every byte of a stream with reasoning, text and calls: the whole answer comes in the end, no word
/// twice, no call twice, whatever rung it took.
#[tokio::test(start_paused = true)]
async fn cut_anywhere_the_answer_is_whole() {
    const WORDS: &str = "Reefs of giant kelp grow half a metre a day, ";
    for at in 1..=WORDS.len() {
        let runs = counter();
        let call = call("echo", json!({"say": "x"}));
        let understudy = Understudy::new([
            script([reasoning("Hm."), sealed("sig"), text(&WORDS[..at]), reset()]),
            script([text(&WORDS[at..]), call, stop(Stop::ToolUse)]),
            done("Done."),
        ]);
        let stage = Stage::new(understudy, agent().tool(echo("echo", &runs)).unwrap()).await;
        stage.run("go").await;
        assert_eq!(stage.replies().await, format!("{WORDS}|Done."), "cut at byte {at}");
        assert_eq!(count(&runs), 1, "cut at byte {at}");
    }
}

/// AW25: equal seeds and faults give equal events, to the millisecond.
#[tokio::test(start_paused = true)]
async fn the_same_again_is_the_same() {
    let play = || async {
        let runs = counter();
        let scripts = [
            script([text("The quick "), reset()]),
            script([text("brown"), fail(ErrorKind::Overloaded, Cause::Refused)]),
            script([text(" fox."), call("echo", json!({"say": "a"})), stop(Stop::ToolUse)]),
            script([fail(ErrorKind::RateLimit, Cause::Refused)]),
            done("Done."),
        ];
        Stage::new(Understudy::new(scripts), agent().tool(echo("echo", &runs)).unwrap()).await.run("go").await
    };
    assert_eq!(play().await, play().await);
}

/// I19: results of a provider's own tools, and attached metadata, count towards a draft's limit with the memory they take:
/// `{"":0}` is a few bytes on the wire and a hundred times that in memory.
#[tokio::test(start_paused = true)]
async fn a_flood_of_structure_is_bounded() {
    let found = json!(vec![json!({"": 0}); 100]);
    let attached = || Meta::from([("understudy".to_owned(), found.clone())]);
    for cue in [provided("web", &json!({}), found.clone()), reply_meta(attached())] {
        let limits = Limits { draft_bytes_max: 64 * 1024, batch_bytes_max: 1024, ..Limits::default() };
        let cues = std::iter::repeat_n(cue, 30).chain([text("Found."), stop(Stop::End)]);
        let stage = Stage::new(Understudy::new([script(cues)]), agent().limits(limits)).await;
        stage.run("go").await;
        assert_eq!(stage.ended().await, TurnEnd::Length);
    }
}

/// I19: batches and drafts have bounds: a flood is shown piece by piece, and ends where a draft must.
#[tokio::test(start_paused = true)]
async fn a_flood_is_bounded() {
    let flood = || everturn_understudy::words(&"drop ".repeat(100));
    let mut limits = Limits::default();
    (limits.batch_len_max, limits.batch_bytes_max, limits.draft_bytes_max) = (1000, 50, 200);
    let understudy = Understudy::new([script([flood(), stop(Stop::End)])]);
    let stage = Stage::new(understudy, agent().limits(limits.clone())).await;
    let seen = stage.run("go").await;
    assert_eq!(seen.matches("Text(").count(), 5, "ten words a batch, and a batch too many is the last: {seen}");
    assert_eq!(stage.ended().await, TurnEnd::Length);

    (limits.batch_len_max, limits.batch_bytes_max, limits.draft_bytes_max) = (3, 1000, 10_000);
    let understudy = Understudy::new([script([flood(), stop(Stop::End)])]);
    let seen = Stage::new(understudy, agent().limits(limits)).await.run("go").await;
    assert_eq!(seen.matches("Text(").count(), 34, "three words a batch: {seen}");
}
