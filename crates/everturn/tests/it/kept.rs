//! Background generations: which attempt is billed for them, and when they are cancelled.

use everturn::core::chat::TurnEnd;
use everturn::core::error::{Cause, ErrorKind};
use everturn::core::message::Stop;
use everturn::core::prompt::{Target, WireFormat};
use everturn::core::recovery::Reattach;
use everturn::providers::ModelFacts;
use everturn::{Agent, Background};
use everturn_understudy::{
    Cue, Script, Understudy, UnderstudyRequest, begin_call, call, fail, hang, malformed, marked, part_meta, provided,
    reasoning, refuse, response_id, script, sealed, stop, text, usage,
};
use expect_test::expect;
use serde_json::json;

use crate::read::rows;
use crate::stage::{Stage, agent, count, counter, echo};

/// Part of the trace of a chat that waits before its next attempt.
pub const WAITS: &str = "retry: Some";

/// Gives a model the facts of a provider with background generations.
pub fn keeps(facts: &mut ModelFacts) {
    facts.target = Target::new(WireFormat::OpenAiResponses, "understudy");
    facts.can.reattach = Reattach::Yes;
}

fn keeping(scripts: impl IntoIterator<Item = Script>) -> Understudy {
    Understudy::new(scripts).with(keeps)
}

/// An agent that asks for generations that are kept.
pub fn background() -> Agent {
    Agent { background: Background::On, ..agent() }
}

/// A turn that has got so far that this was seen.
pub async fn begun(understudy: Understudy, sign: &str) -> Stage {
    let stage = Stage::new(understudy, background()).await;
    let mut watch = stage.watch();
    stage.chat.send("Go.").await.unwrap();
    watch.until(|event| format!("{event:?}").contains(sign)).await;
    stage
}

/// A generation that ends like this half-way.
fn half(end: Cue) -> Script {
    script([response_id("r1"), text("The quick brown fox "), end])
}

/// One that breaks half-way.
fn broken() -> Script {
    half(fail(ErrorKind::Timeout, Cause::Reset))
}

/// A generation that cannot be found again.
fn lost(cause: Cause) -> Script {
    script([text("The quick brown fox "), fail(ErrorKind::Timeout, cause)])
}

/// Checks that the turn has ended well, with all of the answer.
async fn is_whole(stage: &Stage) {
    assert_eq!((stage.ended().await, stage.replies().await.as_str()), (TurnEnd::Done, "The quick brown fox jumps."));
}

fn rest() -> Script {
    script([text("jumps."), usage(1_000, 20), stop(Stop::End)])
}

/// A generation that is given up while it waits to be re-attached was paid for.
#[tokio::test(start_paused = true)]
async fn a_generation_given_up_while_waiting_is_billed() {
    let stage = begun(keeping([broken(), rest()]), WAITS).await;
    stage.chat.interrupt().await.unwrap();
    assert_eq!((stage.ended().await, stage.understudy.scripts_left()), (TurnEnd::Interrupted, 1));
    expect![[r#"
        1.1 understudy/one Timeout (Reset) 0.0s known 0+0 guess 0+0 0.000000
        1.2 understudy/one Interrupted 0.0s known 0+0 guess 1+7 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// A generation that cannot be re-attached to is billed whole by the attempt that gives it up.
#[tokio::test(start_paused = true)]
async fn a_generation_that_cannot_be_read_is_billed() {
    let mut agent = background();
    agent.limits.retry.tries_max = 2;
    let stage = Stage::new(keeping([broken(), script([refuse(503)])]), agent).await;
    stage.run("Go.").await;
    assert!(matches!(stage.ended().await, TurnEnd::Failed(_)));
    expect![[r#"
        1.1 understudy/one Timeout (Reset) 0.0s known 0+0 guess 0+0 0.000000
        1.2 understudy/one Timeout (Refused) 0.0s known 0+0 guess 1+7 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// A process that may not re-attach says what the last one left unpaid, and goes on by itself.
#[tokio::test(start_paused = true)]
async fn a_generation_lost_to_the_next_process_is_billed() {
    let stage = begun(keeping([broken()]), WAITS).await.moved(keeping([rest()]), agent()).await;
    is_whole(&stage).await;
    expect![[r#"
        1.1 understudy/one Timeout (Reset) 0.0s known 0+0 guess 0+0 0.000000
        1.2 understudy/one Lost 0.0s known 0+0 guess 1+7 0.000000
        1.3 understudy/one Answered 0.0s known 1000+20 guess 0+0 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// The generations that were to be ended.
pub fn cancelled(understudy: &Understudy) -> Vec<String> {
    let ended = understudy.asked().into_iter().filter_map(|asked| match asked {
        UnderstudyRequest::Cancel(handle) => Some(handle.id),
        UnderstudyRequest::Answer(_) | UnderstudyRequest::Reattach(_) => None,
    });
    ended.collect()
}

/// Interrupting a turn cancels its generation, also while it waits to be re-attached.
#[tokio::test(start_paused = true)]
async fn an_interrupt_ends_the_generation() {
    let listening = script([response_id("r1"), text("The quick "), hang()]);
    for (first, sign) in [(listening, "The quick"), (broken(), WAITS)] {
        let stage = begun(keeping([first, rest()]), sign).await;
        assert_eq!(cancelled(&stage.understudy), [""; 0]);
        stage.chat.interrupt().await.unwrap();
        stage.engine.shutdown().await;
        assert_eq!(cancelled(&stage.understudy), ["r1"], "{sign}");
    }
}

/// An answer that is over has nothing to end, and a shutdown gives nothing up: the next process finds it again.
#[tokio::test(start_paused = true)]
async fn a_generation_that_is_not_given_up_goes_on() {
    let stage = Stage::new(keeping([broken(), rest()]), background()).await;
    stage.run("Go.").await;
    assert_eq!(cancelled(&stage.understudy), [""; 0]);
    let stage = begun(keeping([broken()]), WAITS).await;
    let (first, second) = (stage.understudy.clone(), keeping([rest()]));
    is_whole(&stage.moved(second.clone(), background()).await).await;
    assert_eq!([cancelled(&first), cancelled(&second)].concat(), [""; 0]);
    assert!(matches!(&second.asked()[..], [UnderstudyRequest::Reattach(handle)] if handle.id == "r1"));
}

/// A generation that is left for another one is cancelled too: it would be paid for unread.
#[tokio::test(start_paused = true)]
async fn a_generation_left_for_another_is_cancelled() {
    let gone = fail(ErrorKind::Truncated, Cause::ErrorFinish);
    for (end, left) in [(malformed(), vec!["r1"]), (gone, vec![])] {
        let stage = Stage::new(keeping([half(end), rest()]), background()).await;
        stage.run("Go.").await;
        is_whole(&stage).await;
        assert_eq!(cancelled(&stage.understudy), left, "one that failed is over");
    }
}

/// I19: a generation longer than a draft may be is cancelled, and its usage is estimated if it was not reported.
#[tokio::test(start_paused = true)]
async fn an_answer_cut_for_its_length_is_cancelled_and_billed() {
    let mut agent = background();
    agent.limits.draft_bytes_max = 300;
    let endless = script([response_id("r1"), usage(100, 1), text("a".repeat(400)), hang()]);
    let stage = Stage::new(keeping([endless]), agent).await;
    stage.run("Go.").await;
    assert_eq!((stage.ended().await, stage.replies().await.len()), (TurnEnd::Length, 400));
    assert_eq!(cancelled(&stage.understudy), ["r1"]);
    expect![[r#"
        1.1 understudy/one Lost 0.0s known 100+1 guess 0+133 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// I19: a generation whose attached structure fills the draft is cancelled too.
#[tokio::test(start_paused = true)]
async fn an_answer_cut_for_its_weight_is_cancelled() {
    let mut agent = background();
    agent.limits.draft_bytes_max = 4096;
    let found = json!(vec![json!({"": 0}); 100]);
    let endless = script([response_id("r1"), text("Found."), provided("web", &json!({}), found), hang()]);
    let stage = Stage::new(keeping([endless]), agent).await;
    stage.run("Go.").await;
    assert_eq!(stage.ended().await, TurnEnd::Length);
    assert_eq!(cancelled(&stage.understudy), ["r1"]);
}

/// One that breaks behind a whole call, and in another.
fn broken_behind_a_call() -> Script {
    let calls = [text("Look."), call("echo", json!({"say": "a"})), begin_call("echo", "{\"say")];
    script([response_id("r1")].into_iter().chain(calls).chain([fail(ErrorKind::Timeout, Cause::Reset)]))
}

/// AW12: when the rest of a generation cannot be read, the whole calls are kept, however that is refused.
#[tokio::test(start_paused = true)]
async fn a_whole_call_is_salvaged_when_the_rest_is_refused() {
    let refusals: [(&str, Vec<Cue>); 3] = [
        ("too long a wait", vec![refuse(429).retry_after(300)]),
        ("a key that is no longer good", vec![refuse(401)]),
        ("an outage", (0..8).map(|_| refuse(503)).collect()),
    ];
    for (name, refusals) in refusals {
        let refused = refusals.into_iter().map(|refusal| script([refusal]));
        let answer = script([text("Heard."), stop(Stop::End)]);
        let scripts = [broken_behind_a_call()].into_iter().chain(refused).chain([answer]);
        let runs = counter();
        let stage = Stage::new(keeping(scripts), background().tool(echo("echo", &runs)).unwrap()).await;
        stage.run("Go.").await;
        assert_eq!((stage.ended().await, stage.replies().await.as_str()), (TurnEnd::Done, "Look.|Heard."), "{name}");
        assert_eq!((count(&runs), stage.understudy.scripts_left()), (1, 0), "{name}");
        assert_eq!(cancelled(&stage.understudy), ["r1"], "{name}: the rest will not be read");
    }
}

/// A model that is left for the next while its generation waits to be found again leaves its whole calls behind: they are
/// run, and nothing that was shown is taken back.
#[tokio::test(start_paused = true)]
async fn a_whole_call_is_salvaged_when_the_next_model_is_asked() {
    let runs = counter();
    let mut agent = background().or("second/two".parse().unwrap()).tool(echo("echo", &runs)).unwrap();
    agent.limits.breaker.failures_max = 1;
    let second = Understudy::new([script([text("Heard."), stop(Stop::End)])]).named("second");
    let stage = Stage::built(keeping([broken_behind_a_call()]), agent, |builder| builder.provider(second)).await;
    expect![[r#"
        t=000.0 message 1 user "Go."
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 ResponseId("r1")
        t=000.0 delta 3 Handle(GenerationHandle { id: "r1", cursor: "0" })
        t=000.0 delta 4 Text("Look.")
        t=000.0 delta 5 call echo
        t=000.0 delta 6 CallInput { slot: 0, json: "{\"say\":\"a\"}" }
        t=000.0 delta 7 CallEnded { slot: 0 }
        t=000.0 delta 8 call echo
        t=000.0 delta 9 CallInput { slot: 1, json: "{\"say" }
        t=000.0 running retry Timeout until 0.9
        t=000.9 running retry Timeout until 0.9
        t=000.9 message 2 reply ["Look." echo({"say":"a"})] ToolUse
        t=000.9 running
        t=000.9 running
        t=000.9 message 3 result 1.0 echo Done "heard a"
        t=000.9 running
        t=000.9 running
        t=000.9 delta 1 attempt 1 First second/two
        t=000.9 delta 2 Text("Heard.")
        t=000.9 message 4 reply ["Heard."] End
        t=000.9 running
        t=000.9 idle Done
    "#]]
    .assert_eq(&stage.run("Go.").await);
    assert_eq!(count(&runs), 1);
    expect![[r#"
        1.1 understudy/one Timeout (Reset) 0.0s known 0+0 guess 0+0 0.000000
        1.2 understudy/one Lost 0.0s known 0+0 guess 61+50 0.000000
        2.1 second/two Answered 0.0s known 0+0 guess 87+2 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
    assert_eq!(cancelled(&stage.understudy), ["r1"]);
}

/// AW11: text that a seam holds back is stored with its handle or not at all: the process that reads on after a handover
/// gets it again, and joins it.
#[tokio::test(start_paused = true)]
async fn the_head_of_a_continuation_is_not_lost() {
    let head = script([response_id("r2"), marked(text("brown "), "r2", 5), hang()]);
    let stage = begun(keeping([lost(Cause::ErrorFinish), head]), "r2").await;
    let rest = script([marked(text("brown "), "r2", 5), marked(text("fox jumps."), "r2", 6), stop(Stop::End)]);
    let stage = stage.moved(keeping([rest]), background()).await;
    is_whole(&stage).await;
    assert!(matches!(&stage.understudy.asked()[..], [UnderstudyRequest::Reattach(handle)] if handle.cursor == "0"));
}

/// A stream that breaks there loses nothing: re-attaching brings more text to decide the seam with.
#[tokio::test(start_paused = true)]
async fn a_head_that_breaks_is_heard_again() {
    let head = script([response_id("r2"), marked(text("brown f"), "r2", 5), fail(ErrorKind::Timeout, Cause::Reset)]);
    let rest = script([marked(text("brown f"), "r2", 5), marked(text("ox jumps."), "r2", 6), stop(Stop::End)]);
    let stage = Stage::new(keeping([lost(Cause::ErrorFinish), head, rest]), background()).await;
    expect![[r#"
        t=000.0 message 1 user "Go."
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 Text("The quick brown fox ")
        t=000.0 running retry Timeout until 0.9
        t=000.9 delta 3 attempt 2 Continue understudy/one
        t=000.9 delta 4 ResponseId("r2")
        t=000.9 delta 5 Handle(GenerationHandle { id: "r2", cursor: "0" })
        t=000.9 running retry Timeout until 2.1
        t=002.1 delta 6 attempt 3 Reattach understudy/one
        t=002.1 delta 7 Seam(Seam { at: 20, dropped: 10, inserted: 0, unmatched: 0 })
        t=002.1 delta 8 Text("jumps.")
        t=002.1 delta 9 Handle(GenerationHandle { id: "r2", cursor: "6" })
        t=002.1 message 2 reply ["The quick brown fox jumps."] End
        t=002.1 running
        t=002.1 idle Done
    "#]]
    .assert_eq(&stage.run("Go.").await);
}

/// Metadata attached to the head of a continuation belongs to it, not to the reasoning before it.
#[tokio::test(start_paused = true)]
async fn a_handle_stays_with_the_head_it_covers() {
    let attached = [("understudy".to_owned(), json!({"id": "msg_1"}))];
    let again = [reasoning("Hm."), sealed("sig"), text("b"), part_meta(attached.into_iter().collect())];
    let again = script(again.into_iter().chain([text("uys a hat."), stop(Stop::End)]));
    let stage = crate::stage::stage([lost(Cause::Reset), again]).await;
    expect![[r#"
        t=000.0 message 1 user "Go."
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 Text("The quick brown fox ")
        t=000.0 running retry Timeout until 0.9
        t=000.9 delta 3 attempt 2 Continue understudy/one
        t=000.9 delta 4 Reasoning("Hm.")
        t=000.9 delta 5 Sealed(Signature("sig"))
        t=000.9 delta 6 Ended
        t=000.9 delta 7 Seam(Seam { at: 20, dropped: 0, inserted: 0, unmatched: 0 })
        t=000.9 delta 8 Text("b")
        t=000.9 delta 9 PartMeta({"understudy": Object {"id": String("msg_1")}})
        t=000.9 delta 10 Text("uys a hat.")
        t=000.9 message 2 reply ["The quick brown fox " (Hm. ✓) "buys a hat."] End
        t=000.9 running
        t=000.9 idle Done
    "#]]
    .assert_eq(&stage.run("Go.").await);
}
