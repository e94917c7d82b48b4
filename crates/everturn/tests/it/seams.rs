//! Continuations that say again what was shown: nothing of it is read twice, however often the stream breaks.

use everturn::core::error::{Cause, ErrorKind};
use everturn::core::limits::Limits;
use everturn::core::message::{Body, Reply, Stop, text_of};
use everturn::core::recovery::Prefill;
use everturn_understudy::{Cue, Script, Understudy, call, fail, hang, script, stop, text};
use serde_json::json;

use crate::stage::{Stage, agent, counter, echo, stage};

fn reset() -> Cue {
    fail(ErrorKind::Timeout, Cause::Reset)
}

fn words(from: usize, to: usize) -> String {
    (from..=to).map(|n| format!("t{n}")).collect::<Vec<_>>().join(" ")
}

/// Plays the scripts, and gives back the replies.
async fn replies(stage: &Stage) -> Vec<Box<Reply>> {
    stage.run("go").await;
    let transcript = stage.transcript().await;
    transcript
        .iter()
        .filter_map(|message| if let Body::Reply(reply) = &message.body { Some(reply.clone()) } else { None })
        .collect()
}

async fn read(scripts: impl IntoIterator<Item = Script>) -> String {
    let stage = stage(scripts).await;
    replies(&stage).await.iter().map(|reply| text_of(&reply.parts)).collect()
}

/// Text that a seam holds back was never shown: it is dropped when its attempt breaks.
#[tokio::test(start_paused = true)]
async fn a_continuation_that_is_cut_while_it_repeats_leaves_nothing() {
    let said = read([
        script([text(words(1, 9)), reset()]),
        script([text(words(2, 8)), reset()]),
        script([text(" "), text(words(10, 12)), stop(Stop::End)]),
    ])
    .await;
    assert_eq!(said, words(1, 12));
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_flaps_says_the_beginning_once() {
    let opening = "First I will look at the harbour, then at the tide tables, and";
    let flaps = || script([text(&opening[..40]), reset()]);
    let whole = format!("{opening} finally at the weather.");
    let scripts =
        [script([text(opening), reset()]), flaps(), flaps(), flaps(), script([text(&whole), stop(Stop::End)])];
    assert_eq!(read(scripts).await, whole);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_continuation_that_repeats_leaves_nothing() {
    let opening = "The tide turns twice a day. Boats wait for it, and";
    let scripts = [
        script([text(opening), reset()]),
        script([text("The tide turns twice a day. Boats"), hang()]),
        script([text("The tide turns twice a day. Boats wait for it, and so do we."), stop(Stop::End)]),
    ];
    assert_eq!(read(scripts).await, format!("{opening} so do we."));
}

/// A lead-in that is said again before a call, whole or in part.
#[tokio::test(start_paused = true)]
async fn a_lead_in_is_said_once_before_its_call() {
    for again in ["Let me check the weather in Oslo.", "Let me check the weather in Oslo. I will now look"] {
        let runs = counter();
        let opening = "Let me check the weather in Oslo. I will now look";
        let scripts = [
            script([text(opening), reset()]),
            script([text(again), call("echo", json!({"say": "a"})), stop(Stop::ToolUse)]),
            script([text("Sunny."), stop(Stop::End)]),
        ];
        let stage = Stage::new(Understudy::new(scripts), agent().tool(echo("echo", &runs)).unwrap()).await;
        let replies = replies(&stage).await;
        assert_eq!(text_of(&replies[0].parts), opening, "{again:?}");
        assert_eq!(replies[0].seams[0].dropped, again.len());
    }
}

/// A model that ignores the request to go on tells the answer from its beginning, breaks in the middle of that, and the
/// next model tells it anew too.
#[tokio::test(start_paused = true)]
async fn an_answer_told_anew_after_many_words_is_read_once() {
    let whole = words(1, 1_500);
    for prefill in [Prefill::Yes, Prefill::No] {
        let tries = [2, 3, 1].map(|part| {
            let ending = if part == 1 { stop(Stop::End) } else { reset() };
            script([text(&whole[..whole.len() / part]), ending])
        });
        let (first, second) = tries.split_at(2);
        let second = Understudy::new(second.to_vec()).named("second");
        let mut limits = Limits::default();
        limits.retry.tries_max = 2;
        let agent = agent().limits(limits).or("second/two".parse().unwrap());
        let stage =
            Stage::built(Understudy::new(first.to_vec()).with(|facts| facts.can.prefill = prefill), agent, |builder| {
                builder.provider(second)
            })
            .await;
        let replies = replies(&stage).await;
        assert_eq!(text_of(&replies[0].parts), whole, "{prefill:?}");
        assert_eq!(replies[0].seams.len(), 1, "what the second attempt said was never shown");
    }
}
