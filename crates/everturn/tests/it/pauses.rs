//! A provider with slow tools of its own stops in the middle, and wants to be asked to go on.

use std::time::Duration;

use everturn::core::chat::TurnEnd;
use everturn::core::delta::{CallBegan, Delta, ProvidedDelta};
use everturn::core::error::ErrorKind;
use everturn::core::fact::AttemptOutcome;
use everturn::core::limits::Limits;
use everturn::core::message::{Meta, RunBy, Stop};
use everturn::core::prompt::{PromptPart, Request, Role};
use everturn_understudy::{
    Cue, Script, Understudy, hang, pause, reasoning, refuse, reply_meta, reset, script, sealed, stop, text,
};
use expect_test::expect;
use serde_json::json;

use crate::stage::{Stage, agent, stage};

/// A search that the provider makes.
fn searches(slot: u32) -> Cue {
    let (provider_id, tool) = (format!("srvtoolu_{slot}"), "web_search".into());
    let call = CallBegan { slot, provider_id, tool, run_by: RunBy::Provider, meta: Meta::new() };
    let json = json!({"query": slot}).to_string();
    Cue::Say(vec![Delta::CallBegan(Box::new(call)), Delta::CallInput { slot, json }, Delta::CallEnded { slot }])
}

/// What one of this answer, or of the one before, came to.
fn finds(slot: Option<u32>) -> Cue {
    let (tool, output) = ("web_search".into(), json!([{"title": "Kelp"}]));
    Cue::Say(vec![Delta::Provided(Box::new(ProvidedDelta { slot, tool, output, meta: Meta::new() }))])
}

fn found() -> Script {
    script([text("There is kelp."), stop(Stop::End)])
}

/// The model's own parts at the end of a request.
fn sent_back(request: &Request) -> Vec<String> {
    let last = request.entries.last().filter(|last| last.role == Role::Assistant);
    let told = |part: &PromptPart| match part {
        PromptPart::Text(text) => text.text.clone(),
        PromptPart::Reasoning(sealed) => format!("({})", sealed.text),
        PromptPart::HostedCall(call) => call.id.clone(),
        PromptPart::HostedResult(result) => format!("{}!", result.id),
        other => panic!("{other:?}"),
    };
    last.map(|last| last.parts.iter().map(told).collect()).unwrap_or_default()
}

/// A pause is no failure: the parts so far are kept and sent back unchanged, and the answer goes on at once, in the same
/// reply.
#[tokio::test(start_paused = true)]
async fn a_pause_is_gone_on_from() {
    let paused = script([
        reasoning("Hm."),
        sealed("sig"),
        text("Let me see. "),
        searches(3),
        finds(Some(3)),
        searches(4),
        pause(),
    ]);
    let stage = stage([paused, script([finds(None), text("There is kelp."), stop(Stop::End)])]).await;
    expect![[r#"
        t=000.0 message 1 user "kelp?"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 Reasoning("Hm.")
        t=000.0 delta 3 Sealed(Signature("sig"))
        t=000.0 delta 4 Ended
        t=000.0 delta 5 Text("Let me see. ")
        t=000.0 delta 6 call web_search
        t=000.0 delta 7 CallInput { slot: 3, json: "{\"query\":3}" }
        t=000.0 delta 8 CallEnded { slot: 3 }
        t=000.0 delta 9 Provided(ProvidedDelta { slot: Some(3), tool: "web_search", output: Array [Object {"title": String("Kelp")}], meta: {} })
        t=000.0 delta 10 call web_search
        t=000.0 delta 11 CallInput { slot: 4, json: "{\"query\":4}" }
        t=000.0 delta 12 CallEnded { slot: 4 }
        t=000.0 running
        t=000.0 delta 13 attempt 2 Continue understudy/one
        t=000.0 delta 14 Provided(ProvidedDelta { slot: None, tool: "web_search", output: Array [Object {"title": String("Kelp")}], meta: {} })
        t=000.0 delta 15 Text("There is kelp.")
        t=000.0 message 2 reply [(Hm. ✓) "Let me see. " web_search({"query":3}) web_search→[{"title":"Kelp"}] web_search({"query":4}) web_search→[{"title":"Kelp"}] "There is kelp."] End
        t=000.0 running
        t=000.0 idle Done
    "#]]
    .assert_eq(&stage.run("kelp?").await);
    let requests = stage.understudy.requests();
    assert_eq!(sent_back(&requests[1]), ["(Hm.)", "Let me see. ", "srvtoolu_3", "srvtoolu_3!", "srvtoolu_4"]);
    let attempts = stage.chat.attempts(0).await.unwrap();
    assert!(attempts.iter().all(|attempt| attempt.outcome == AttemptOutcome::Answered), "{attempts:?}");
}

/// A pause without text so far: searches that were shown are not taken back, and not made again. It may
/// happen again and again.
#[tokio::test(start_paused = true)]
async fn searches_alone_are_kept() {
    let paused = |slot| script([searches(slot), finds(Some(slot)), pause()]);
    let stage = stage([paused(1), paused(2), paused(3), found()]).await;
    let seen = stage.run("kelp?").await;
    assert!(!seen.contains("Retract") && !seen.contains("retry"), "{seen}");
    let sent: Vec<_> = stage.understudy.requests().iter().map(|request| sent_back(request).len()).collect();
    assert_eq!((sent, stage.ended().await), (vec![0, 2, 4, 6], TurnEnd::Done));
}

/// The container of the provider's tools is sent back with the answer.
#[tokio::test(start_paused = true)]
async fn the_container_of_its_tools_goes_along() {
    let meta: Meta = [("understudy".to_owned(), json!({"container": {"id": "c1"}}))].into_iter().collect();
    let paused = script([reply_meta(meta.clone()), searches(1), finds(Some(1)), pause()]);
    let stage = stage([paused, found()]).await;
    stage.run("kelp?").await;
    let echoed: Vec<Meta> = stage.understudy.requests().iter().map(|request| request.echoed.clone()).collect();
    assert_eq!(echoed, [Meta::new(), meta]);
}

/// An error after a pause is a failure, and keeps the search results from before it; so does a new process.
#[tokio::test(start_paused = true)]
async fn search_results_survive() {
    let scripts = [
        script([searches(1), finds(Some(1)), pause()]),
        script([refuse(529)]),
        script([searches(2), reset()]),
        script([hang()]),
        found(),
    ];
    let understudy = Understudy::new(scripts);
    let stage = Stage::new(understudy.clone(), agent()).await;
    stage.chat.send("kelp?").await.unwrap();
    while understudy.requests().len() < 4 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let stage = stage.moved(understudy.clone(), agent()).await;
    assert_eq!((stage.ended().await, stage.replies().await), (TurnEnd::Done, "There is kelp.".into()));
    let sent: Vec<_> = understudy.requests().iter().map(|request| sent_back(request).len()).collect();
    assert_eq!(sent, [0, 2, 2, 3, 3]);
}

/// I17: pauses are limited; and a pause without anything to go on from is a failure like any other.
#[tokio::test(start_paused = true)]
async fn pauses_end() {
    let mut limits = Limits::default();
    (limits.retry.tries_max, limits.retry.attempts_max) = (3, 6);
    let endless = Understudy::improvising(|request| {
        let slot = u32::try_from(sent_back(request).len()).unwrap();
        script([searches(slot), finds(Some(slot)), pause()])
    });
    let stage = Stage::new(endless, agent().limits(limits.clone())).await;
    stage.run("kelp?").await;
    let TurnEnd::Failed(failure) = stage.ended().await else { panic!("it failed") };
    assert_eq!((failure.attempts, failure.kind), (6, ErrorKind::Truncated), "pauses are attempts like others");

    let idle = Understudy::improvising(|_| script([reasoning("Hm."), pause()]));
    let stage = Stage::new(idle, agent().limits(limits)).await;
    let before = tokio::time::Instant::now();
    stage.run("kelp?").await;
    let TurnEnd::Failed(failure) = stage.ended().await else { panic!("it failed") };
    assert_eq!(failure.attempts, 3);
    assert!(before.elapsed() > Duration::from_millis(100), "{:?}", before.elapsed());
}
