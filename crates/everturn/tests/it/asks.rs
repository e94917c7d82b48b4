//! Calls that wait for a client or a person: client tools and approvals.

use std::sync::Arc;
use std::time::Duration;

use everturn::core::chat::{OpenCall, TurnEnd};
use everturn::core::command::{AnswerContent, CallAnswer, Excess, Refusal};
use everturn::core::ids::{CallUid, StepId};
use everturn::core::limits::Limits;
use everturn::core::message::{Body, Output, Stop};
use everturn::core::prompt::ToolSpec;
use everturn::core::status::{Status, Verb};
use everturn::stores::SubmitError;
use everturn::{Agent, Approval, Policy, Rest};
use everturn_understudy::{Understudy, call, script, stop, text};
use expect_test::expect;
use serde_json::json;

use crate::stage::{Diary, Stage, Watch, agent};
use crate::stepwise::Fault;
use crate::tools::{ANY, after_reply, calling, results};

const APPROVED: Policy = Policy { approval: Approval::Needed, ..ANY };

/// An agent with the client tools `map` and `photo`.
fn with_clients() -> Agent {
    let mut agent = agent();
    let schema = json!({"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]});
    agent.toolbox.add_client(ToolSpec::new("map", "Shows a map.", schema)).unwrap();
    agent.toolbox.add_client(ToolSpec::new("photo", "Takes a photo.", json!({"type": "object"}))).unwrap();
    agent
}

/// A stage on which these calls were made and wait for answers, and its watcher.
async fn asked(agent: Agent, calls: impl IntoIterator<Item = everturn_understudy::Cue>) -> (Stage, Watch) {
    let stage = Stage::new(Understudy::new(calling(calls)), agent).await;
    let mut watch = stage.watch();
    stage.chat.send("go").await.unwrap();
    watch.until_asked().await;
    (stage, watch)
}

fn uid(ordinal: u16) -> CallUid {
    CallUid { step: StepId(1), ordinal }
}

fn answer(ordinal: u16, what: AnswerContent) -> CallAnswer {
    CallAnswer { call: uid(ordinal), what }
}

fn done(ordinal: u16, text: &str) -> CallAnswer {
    answer(ordinal, AnswerContent::Output(Output::text(text)))
}

/// The answer that allows a call as it was shown.
fn approve(ask: &OpenCall) -> CallAnswer {
    CallAnswer { call: ask.uid, what: AnswerContent::Approve { input_hash: ask.input_hash } }
}

fn asks(watch: &Watch) -> Vec<OpenCall> {
    watch.view.standing.as_ref().unwrap().asks.clone()
}

/// A turn that calls client tools rests until all are answered, in as many pieces as they like: the set is a barrier.
/// Tools of ours in the same reply have run by then.
#[tokio::test(start_paused = true)]
async fn partial_answers_wait_for_the_others() {
    let diary = Diary::new();
    let agent = with_clients().tool(diary.tool("look", 2, ANY)).unwrap();
    let calls = [call("map", json!({"of": "Oslo"})), call("look", json!({})), call("photo", json!({}))];
    let (stage, watch) = asked(agent, calls).await;
    let watching = tokio::spawn(watch.until_rest());
    tokio::time::sleep(Duration::from_secs(60)).await;
    stage.chat.answer([answer(2, AnswerContent::Error(Output::text("no camera")))]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(stage.understudy.requests().len(), 1, "one is still missing");
    stage.chat.answer([done(0, "a map")]).await.unwrap();
    expect![[r#"
        t=000.0 message 2 reply [map({"of":"Oslo"}) look({}) photo({})] ToolUse
        t=000.0 running
        t=000.0 running
        t=002.0 message 3 result 1.1 look Done "look did {}"
        t=002.0 running
        t=002.0 awaiting client 1.0 client 1.2
        t=062.0 message 4 result 1.2 photo Error "no camera"
        t=062.0 awaiting client 1.0
        t=122.0 message 5 result 1.0 map Done "a map"
        t=122.0 running
        t=122.0 message 6 reply ["Done."] End
        t=122.0 running
        t=122.0 idle Done
    "#]]
    .assert_eq(&after_reply(&watching.await.unwrap()));
    expect![[r#"
        [
            (
                "map",
                false,
                "a map",
            ),
            (
                "look",
                false,
                "look did {}",
            ),
            (
                "photo",
                true,
                "no camera",
            ),
        ]
    "#]]
    .assert_debug_eq(&results(&stage.understudy.requests()[1]));
}

/// CL24: an old name of a client's tool asks the client.
#[tokio::test(start_paused = true)]
async fn an_old_name_asks_the_client_too() {
    let mut agent = with_clients();
    agent.toolbox.alias("camera", "photo");
    let (stage, _watch) = asked(agent, [call("camera", json!({}))]).await;
    stage.chat.answer([done(0, "click")]).await.unwrap();
    stage.ended().await;
    assert_eq!(results(&stage.understudy.requests()[1]), [("camera".into(), false, "click".into())]);
}

/// Wrong, repeated, unknown and empty answers are refused, each by its own name, and change nothing at all.
#[tokio::test(start_paused = true)]
async fn a_bad_answer_changes_nothing() {
    let diary = Diary::new();
    let agent = with_clients().tool(diary.tool("deploy", 1, APPROVED)).unwrap();
    let calls = [call("map", json!({"of": "Oslo"})), call("deploy", json!({"to": "prod"})), call("photo", json!({}))];
    let (stage, watch) = asked(agent, calls).await;
    let hash = asks(&watch)[1].input_hash;
    let nobody = CallUid { step: StepId(9), ordinal: 0 };
    let bad: [(Vec<CallAnswer>, Refusal); 8] = [
        (vec![], Refusal::Empty),
        (vec![done(0, "a"), done(0, "b")], Refusal::AnsweredTwice(uid(0))),
        (vec![done(0, "a"), CallAnswer { call: nobody, ..done(0, "b") }], Refusal::NotAsked(nobody)),
        (vec![done(0, "a"), done(7, "b")], Refusal::NotAsked(uid(7))),
        (vec![done(1, "a")], Refusal::WrongAnswer(uid(1))),
        (vec![answer(0, AnswerContent::Approve { input_hash: hash })], Refusal::WrongAnswer(uid(0))),
        (vec![answer(2, AnswerContent::Deny { reason: "no".into() })], Refusal::WrongAnswer(uid(2))),
        (vec![answer(1, AnswerContent::Approve { input_hash: hash ^ 1 })], Refusal::InputChanged(uid(1))),
    ];
    for (answers, refusal) in bad {
        assert_eq!(stage.chat.answer(answers).await, Err(SubmitError::Refused(refusal)));
    }
    assert_eq!(stage.chat.view().await.unwrap(), watch.view, "nothing happened");
    stage
        .chat
        .answer([done(0, "a"), done(2, "b"), answer(1, AnswerContent::Approve { input_hash: hash })])
        .await
        .unwrap();
    let again = stage.chat.answer([done(0, "late")]).await;
    assert!(matches!(again, Err(SubmitError::Refused(Refusal::Status(Status::Running, Verb::Answer)))), "{again:?}");
    stage.ended().await;
    let late = stage.chat.answer([done(0, "late")]).await;
    assert_eq!(late, Err(SubmitError::Refused(Refusal::Status(Status::Idle, Verb::Answer))));
    assert_eq!(results(&stage.understudy.requests()[1]).len(), 3);
}

/// Of two answers to the same call at the same time one is refused, and leaves no trace.
#[tokio::test(start_paused = true)]
async fn of_two_answers_at_once_the_first_counts() {
    let (stage, _watch) = asked(with_clients(), [call("photo", json!({})), call("photo", json!({}))]).await;
    let (a, b) = tokio::join!(stage.chat.answer([done(0, "first")]), stage.chat.answer([done(0, "second")]));
    let (first, refusal) = if a.is_ok() { ("first", b) } else { ("second", a) };
    assert_eq!(refusal, Err(SubmitError::Refused(Refusal::NotAsked(uid(0)))));
    stage.chat.answer([done(1, "other")]).await.unwrap();
    stage.ended().await;
    let told = results(&stage.understudy.requests()[1]);
    assert_eq!(told.iter().map(|(_, _, text)| text.as_str()).collect::<Vec<_>>(), [first, "other"]);
}

/// TL03: no answer in time: each open call gets a result that says so, earlier answers stand, and the turn goes on.
#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_wait() {
    let diary = Diary::new();
    let mut agent = with_clients();
    agent.limits.awaiting_max = Duration::from_secs(3600);
    let agent = agent.tool(diary.tool("deploy", 1, APPROVED)).unwrap();
    let calls = [call("map", json!({"of": "Oslo"})), call("photo", json!({}))];
    let approvals = [call("deploy", json!({"n": 1})), call("deploy", json!({"n": 2}))];
    let (stage, watch) = asked(agent, calls.into_iter().chain(approvals)).await;
    let allowed = approve(&asks(&watch)[3]);
    let watching = tokio::spawn(watch.until_rest());
    stage.chat.answer([done(1, "click"), allowed]).await.unwrap();
    expect![[r#"
        t=000.0 message 2 reply [map({"of":"Oslo"}) photo({}) deploy({"n":1}) deploy({"n":2})] ToolUse
        t=000.0 running
        t=000.0 awaiting client 1.0 client 1.1 approve 1.2 approve 1.3
        t=000.0 message 3 result 1.1 photo Done "click"
        t=000.0 awaiting client 1.0 approve 1.2
        t=3600.0 message 4 result 1.0 map Error "Nobody answered this call in time."
        t=3600.0 message 5 result 1.2 deploy Error "Nobody allowed this call in time. It was not run."
        t=3600.0 running
        t=3600.0 running
        t=3601.0 message 6 result 1.3 deploy Done "deploy did {\"n\":2}"
        t=3601.0 running
        t=3601.0 message 7 reply ["Done."] End
        t=3601.0 running
        t=3601.0 idle Done
    "#]]
    .assert_eq(&after_reply(&watching.await.unwrap()));
    expect![[r#"
        t=3600.0 deploy {"n":2} begins
        t=3601.0 deploy {"n":2} ends
    "#]]
    .assert_eq(&diary.read());
}

/// TL07: an approval lets exactly the call run that was shown; a denial tells the model, with the reason if there is one.
#[tokio::test(start_paused = true)]
async fn allowed_calls_run_and_denied_ones_do_not() {
    let diary = Diary::new();
    let agent = agent().tool(diary.tool("deploy", 1, APPROVED)).unwrap();
    let calls = ["a", "b", "c"].map(|to| call("deploy", json!({ "to": to })));
    let (stage, watch) = asked(agent, calls).await;
    let allowed = approve(&asks(&watch)[1]);
    assert_eq!(diary.read(), "", "nothing runs unasked");
    let denied = |reason: &str| AnswerContent::Deny { reason: reason.into() };
    stage.chat.answer([answer(0, denied("too risky")), allowed, answer(2, denied(" "))]).await.unwrap();
    assert_eq!(stage.ended().await, TurnEnd::Done);
    assert_eq!(diary.read(), "t=000.0 deploy {\"to\":\"b\"} begins\nt=001.0 deploy {\"to\":\"b\"} ends\n");
    expect![[r#"
        message 1 user "go"
        message 2 reply [deploy({"to":"a"}) deploy({"to":"b"}) deploy({"to":"c"})] ToolUse
        message 3 result 1.0 deploy Denied "The user did not allow this call: too risky"
        message 4 result 1.2 deploy Denied "The user did not allow this call."
        message 5 result 1.1 deploy Done "deploy did {\"to\":\"b\"}"
        message 6 reply ["Done."] End
    "#]]
    .assert_eq(&stage.told().await);
}

/// TL02: of two approvals and an interrupt at the same time, in any order, at most one approval counts: the call has one result
/// and runs once at most, and not at all if no approval was accepted. Without an interrupt exactly one counts.
#[tokio::test(start_paused = true)]
async fn an_approval_beside_another_and_an_interrupt_counts_once() {
    for order in [[0, 1, 2], [0, 2, 1], [2, 0, 1], [0, 1, 3]] {
        let diary = Diary::new();
        let agent = agent().tool(diary.tool("deploy", 1, APPROVED)).unwrap();
        let (stage, watch) = asked(agent, [call("deploy", json!({}))]).await;
        let allow = approve(&asks(&watch)[0]);
        let act = async |what: usize| match what {
            0 | 1 => usize::from(stage.chat.answer([allow.clone()]).await.is_ok()),
            2 => stage.chat.interrupt().await.map(|()| 0).unwrap(),
            _ => 0,
        };
        let (a, b, c) = tokio::join!(act(order[0]), act(order[1]), act(order[2]));
        let approvals = a + b + c;
        let is_interrupted = order.contains(&2);
        let end = if is_interrupted { TurnEnd::Interrupted } else { TurnEnd::Done };
        assert_eq!(stage.ended().await, end, "{order:?}");
        assert!(approvals <= 1 && (is_interrupted || approvals == 1), "{order:?}: {approvals}");
        assert!(diary.read().matches("begins").count() <= approvals, "{order:?}: {}", diary.read());
        assert_eq!(stage.told().await.matches("result 1.0").count(), 1, "{order:?}");
    }
}

/// I1, I9, TL01: a chat that waits for a person outlives its process; what is allowed then runs once.
#[tokio::test(start_paused = true)]
async fn an_ask_survives_its_process() {
    let diary = Diary::new();
    let agent = || agent().tool(diary.tool("deploy", 1, APPROVED)).unwrap();
    let (stage, watch) = asked(agent(), [call("deploy", json!({})), call("deploy", json!({"again": 1}))]).await;
    let (before, both) = (watch.view.clone(), asks(&watch));
    stage.chat.answer([approve(&both[0])]).await.unwrap();
    let stage = stage.moved(Understudy::new([script([text("Done."), stop(Stop::End)])]), agent()).await;
    let now = stage.chat.view().await.unwrap().standing.unwrap();
    assert_eq!((now.asks.as_slice(), now.awaits_until), (&both[1..], before.standing.unwrap().awaits_until));
    assert_eq!(diary.read(), "", "the set is a barrier, over processes too");
    stage.chat.answer([approve(&both[1])]).await.unwrap();
    assert_eq!(stage.ended().await, TurnEnd::Done);
    assert_eq!(diary.read().matches("begins").count(), 2);
    assert!(results(&stage.understudy.requests()[0]).iter().all(|(_, failed, _)| !failed));
}

/// A deadline that passed while no process drove the chat is kept by the next one.
#[tokio::test(start_paused = true)]
async fn a_deadline_passes_without_a_driver() {
    let (stage, _watch) = asked(with_clients(), [call("photo", json!({}))]).await;
    stage.engine.shutdown().await;
    tokio::time::sleep(Limits::default().awaiting_max * 2).await;
    let stage = stage.moved(Understudy::new([script([text("Then not."), stop(Stop::End)])]), with_clients()).await;
    stage.watch().until_rest().await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    let told = results(&stage.understudy.requests()[0]);
    assert_eq!(told, [("photo".into(), true, "Nobody answered this call in time.".into())]);
}

/// I17: a person may take their time: only work counts against the turn's.
#[tokio::test(start_paused = true)]
async fn waiting_for_a_person_is_not_work() {
    let mut agent = with_clients();
    agent.limits.turn_time_max = Duration::from_secs(600);
    let call = || script([call("photo", json!({})), stop(Stop::ToolUse)]);
    let understudy = Understudy::new([call(), call(), script([text("Done."), stop(Stop::End)])]);
    let stage = Stage::new(understudy, agent).await;
    stage.chat.send("go").await.unwrap();
    for step in [1, 2] {
        let mut watch = stage.watch();
        watch.until_asked().await;
        tokio::time::sleep(Duration::from_secs(5 * 3600)).await;
        let call = CallUid { step: StepId(step), ordinal: 0 };
        stage.chat.answer([CallAnswer { call, ..done(0, "click") }]).await.unwrap();
        watch.until(|event| matches!(event, everturn::core::view::Event::Message(_))).await;
    }
    assert_eq!(stage.ended().await, TurnEnd::Done);
}

/// A call that cannot run is not put to a person: its input is invalid, or there is no such tool.
#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_run_asks_no_one() {
    let diary = Diary::new();
    let mut agent = with_clients();
    let echo = crate::stage::echo("echo", &crate::stage::counter());
    agent.toolbox.add(Wrapped(echo)).unwrap();
    let mut agent = agent.tool(diary.tool("deploy", 1, APPROVED)).unwrap();
    agent.toolbox.activate(["echo", "map", "deploy"]);
    let calls = [
        call("map", json!({"off": "Oslo"})),
        call("map", json!([1])),
        call("echo", json!({"say": 7})),
        call("photo", json!({})),
    ];
    let stage = Stage::new(Understudy::new(calling(calls)), agent).await;
    let seen = stage.run("go").await;
    assert!(!seen.contains("awaiting") && !seen.contains("approve"), "{seen}");
    expect![[r#"
        [
            (
                "map",
                true,
                "The input does not fit the tool's schema: \"of\" is a required property.",
            ),
            (
                "map",
                true,
                "The input must be a JSON object.",
            ),
            (
                "echo",
                true,
                "The input does not fit the tool's schema: /say: value is not of type \"string\".",
            ),
            (
                "photo",
                true,
                "There is no tool `photo`. The tools are: deploy, echo, map.",
            ),
        ]
    "#]]
    .assert_debug_eq(&results(&stage.understudy.requests()[1]));
}

/// A tool that has to be allowed.
struct Wrapped<T>(T);

#[async_trait::async_trait]
impl<T: everturn::Tool> everturn::Tool for Wrapped<T> {
    fn spec(&self) -> ToolSpec {
        self.0.spec()
    }

    fn policy(&self) -> Policy {
        APPROVED
    }

    async fn run(
        &self,
        context: everturn::ToolContext,
        input: serde_json::Value,
    ) -> Result<everturn::ToolReturn, everturn::ToolError> {
        self.0.run(context, input).await
    }
}

/// A call that was made before its tool was there, or before it had to be allowed, does not slip through unasked.
#[tokio::test(start_paused = true)]
async fn a_tool_that_comes_later_is_not_run_unasked() {
    let diary = Diary::new();
    let stage = Stage::new(Understudy::new(calling([call("deploy", json!({}))])), agent()).await;
    stage.store.fail_after(4, Fault::Refused); // The reply is written; that there is no such tool is not.
    stage.chat.send("go").await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(stage.told().await, "message 1 user \"go\"\nmessage 2 reply [deploy({})] ToolUse\n");
    let understudy = Understudy::new([script([text("Done."), stop(Stop::End)])]);
    let stage = stage.moved(understudy, agent().tool(diary.tool("deploy", 1, APPROVED)).unwrap()).await;
    stage.ended().await;
    assert_eq!(diary.read(), "");
    let told = results(&stage.understudy.requests()[0]);
    assert_eq!(told[0].2, "A person has to allow `deploy`, and none was asked. Call it again.");
}

/// A client's answer is cut like a tool's output and stored whole beside it; one above the limit is refused.
#[tokio::test(start_paused = true)]
async fn a_long_answer_is_cut_and_an_endless_one_refused() {
    let mut agent = with_clients();
    agent.limits.tool_output_bytes_max = 200_000;
    let (stage, _watch) = asked(agent, [call("photo", json!({}))]).await;
    let endless = stage.chat.answer([done(0, &"x".repeat(200_001))]).await;
    assert_eq!(endless, Err(SubmitError::Refused(Refusal::TooLong(Excess::AnswerBytes(200_000)))));
    stage.chat.answer([done(0, &"x".repeat(150_000))]).await.unwrap();
    stage.ended().await;
    let Body::Result(result) = &stage.transcript().await[2].body else { panic!("a result") };
    assert!(result.output.text.len() <= 64 * 1024 && result.output.text.contains("left out"));
    assert_eq!(result.output.full.as_ref().unwrap().len(), 150_000);
}

/// A chat that waits for a user keeps only its status in memory; the transcript is read again when the answer comes.
#[tokio::test(start_paused = true)]
async fn a_long_wait_unloads_the_transcript() {
    let calls = [call("map", json!({"of": "Oslo"})), call("photo", json!({}))];
    let (stage, watch) = asked(with_clients(), calls).await;
    drop(watch);
    for ordinal in [0, 1] {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let transcript = stage.transcript().await;
        assert!(transcript.iter().all(|message| Arc::strong_count(message) == 2), "only the store and this test");
        stage.chat.answer([done(ordinal, "Here.")]).await.unwrap();
    }
    assert_eq!(stage.ended().await, TurnEnd::Done);
    let told = &stage.understudy.requests()[1].entries;
    assert_eq!(told.iter().map(|entry| entry.parts.len()).collect::<Vec<_>>(), [1, 2, 2], "all of it: {told:?}");
}

/// A process that shuts down wakes every waiting chat, and reads nothing for that.
#[tokio::test(start_paused = true)]
async fn a_waiting_chat_is_handed_over_unread() {
    let (stage, _watch) = asked(with_clients(), [call("photo", json!({}))]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    stage.engine.shutdown().await;
    assert_eq!(stage.store.loads(), 1, "by the process that took it up");
}

/// Waiting for rest returns how the chat rests, not how the turn before ended.
#[tokio::test(start_paused = true)]
async fn a_chat_that_waits_for_an_answer_says_so() {
    let done = script([text("Hello."), stop(Stop::End)]);
    let [calls, answered] = calling([call("photo", json!({}))]);
    let stage = Stage::new(Understudy::new([done, calls, answered]), with_clients()).await;
    assert_eq!(stage.chat.rest().await.unwrap(), Rest::Idle(None));
    stage.chat.send("hi").await.unwrap();
    assert_eq!(stage.chat.rest().await.unwrap(), Rest::Idle(Some(TurnEnd::Done)));
    stage.chat.send("go").await.unwrap();
    let Rest::Awaiting(asks) = stage.chat.rest().await.unwrap() else { panic!("it waits") };
    assert_eq!(asks.iter().map(|open| open.tool.as_str()).collect::<Vec<_>>(), ["photo"]);
    let what = AnswerContent::Output(Output::text("click"));
    stage.chat.answer([CallAnswer { call: asks[0].uid, what }]).await.unwrap();
    assert_eq!(stage.chat.rest().await.unwrap(), Rest::Idle(Some(TurnEnd::Done)));
}

/// An ask carries the input: a client need not look for it in the transcript, also after a restart. Once that is
/// decided it is not kept twice.
#[tokio::test(start_paused = true)]
async fn an_ask_carries_its_input() {
    let diary = Diary::new();
    let agent = with_clients().tool(diary.tool("deploy", 1, APPROVED)).unwrap();
    let calls = [call("deploy", json!({"to": "live"})), call("map", json!({"of": "Oslo"}))];
    let (stage, _watch) = asked(agent, calls).await;
    let asks = stage.chat.standing().await.unwrap().asks;
    let inputs: Vec<_> = asks.iter().map(|ask| (ask.tool.as_str(), ask.input.as_deref())).collect();
    assert_eq!(inputs, [("deploy", Some("{\"to\":\"live\"}")), ("map", Some("{\"of\":\"Oslo\"}"))]);
    stage.chat.answer([CallAnswer::approve(&asks[0])]).await.unwrap();
    stage.chat.answer([CallAnswer::output(asks[1].uid, "here")]).await.unwrap();
    assert_eq!(stage.chat.rest().await.unwrap(), Rest::Idle(Some(TurnEnd::Done)));
    assert!(diary.read().contains("deploy {\"to\":\"live\"} ends"), "{}", diary.read());
}
