//! How the calls of a reply are run: which, in what order, and which at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use everturn::core::chat::{Effect, TurnEnd};
use everturn::core::command::CallAnswer;
use everturn::core::message::{Body, CallVerdict, Part, Stop};
use everturn::core::prompt::{PromptPart, Request, ToolSpec};
use everturn::{After, Approval, Beside, Policy, ToolContext, ToolError, tool};
use everturn_understudy::{Cue, Script, Understudy, begin_call, call, provided, script, stop, text, wait};
use expect_test::expect;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::stage::{Diary, Stage, agent};
use crate::stepwise::Between;

pub const SERIAL: Policy = beside(Beside::Serial);
pub const EXCLUSIVE: Policy = beside(Beside::Exclusive);

const fn beside(beside: Beside) -> Policy {
    Policy { beside, ..ANY }
}

/// A tool that runs beside any other. `Default` is no `const`.
pub const ANY: Policy = Policy {
    effect: Effect::Once,
    beside: Beside::Any,
    after: After::GoOn,
    approval: Approval::NotNeeded,
    time_max: None,
    shown_bytes_max: usize::MAX,
};

/// A reply that makes these calls, and one that says it is done.
pub fn calling(calls: impl IntoIterator<Item = Cue>) -> [Script; 2] {
    let calls = calls.into_iter().chain([stop(Stop::ToolUse)]);
    [script(calls), script([text("Done."), stop(Stop::End)])]
}

/// The results a request holds, in order: the tool, whether it failed, what it said.
pub fn results(request: &Request) -> Vec<(String, bool, String)> {
    let parts = request.entries.iter().flat_map(|entry| &entry.parts);
    let results = parts.filter_map(|part| match part {
        PromptPart::Result(result) => Some((result.tool.clone(), result.is_error, result.text.clone())),
        _ => None,
    });
    results.collect()
}

/// CL19, CL21, CL22: the reply names all calls before any runs; those that may run together do, and their results are
/// committed as they come; then the serial ones run one by one, in call order.
#[tokio::test(start_paused = true)]
async fn calls_run_together_and_then_the_serial_ones_in_order() {
    let diary = Diary::new();
    let agent = agent().tool(diary.tool("edit", 1, SERIAL)).unwrap();
    let agent = agent.tool(diary.tool("slow", 3, ANY)).unwrap().tool(diary.tool("quick", 2, ANY)).unwrap();
    let tools = ["edit", "slow", "edit", "quick"];
    let calls = tools.iter().enumerate().map(|(n, tool)| call(tool, json!({ "n": n })));
    let stage = Stage::new(Understudy::new(calling(calls)), agent).await;
    expect![[r#"
        t=000.0 message 2 reply [edit({"n":0}) slow({"n":1}) edit({"n":2}) quick({"n":3})] ToolUse
        t=000.0 running
        t=000.0 running
        t=002.0 message 3 result 1.3 quick Done "quick did {\"n\":3}"
        t=002.0 running
        t=003.0 message 4 result 1.1 slow Done "slow did {\"n\":1}"
        t=003.0 running
        t=003.0 running
        t=004.0 message 5 result 1.0 edit Done "edit did {\"n\":0}"
        t=004.0 running
        t=004.0 running
        t=005.0 message 6 result 1.2 edit Done "edit did {\"n\":2}"
        t=005.0 running
        t=005.0 message 7 reply ["Done."] End
        t=005.0 running
        t=005.0 idle Done
    "#]]
    .assert_eq(&after_reply(&stage.run("go").await));
    expect![[r#"
        t=000.0 slow {"n":1} begins
        t=000.0 quick {"n":3} begins
        t=002.0 quick {"n":3} ends
        t=003.0 slow {"n":1} ends
        t=003.0 edit {"n":0} begins
        t=004.0 edit {"n":0} ends
        t=004.0 edit {"n":2} begins
        t=005.0 edit {"n":2} ends
    "#]]
    .assert_eq(&diary.read());
}

/// The trace from the first reply on.
pub fn after_reply(seen: &str) -> String {
    let lines = seen.lines().skip_while(|line| !line.contains(" reply "));
    lines.filter(|line| !line.contains(" delta ")).map(|line| format!("{line}\n")).collect()
}

/// CR29: every call and every result has its own times.
#[tokio::test(start_paused = true)]
async fn calls_and_results_carry_their_own_times() {
    let diary = Diary::new();
    let agent = agent().tool(diary.tool("slow", 3, ANY)).unwrap().tool(diary.tool("quick", 1, ANY)).unwrap();
    let calls = [wait(5), call("slow", json!({})), wait(1), call("quick", json!({})), wait(1)];
    let stage = Stage::new(Understudy::new(calling(calls)), agent).await;
    stage.run("go").await;
    let mut times = Vec::new();
    for message in stage.transcript().await {
        match &message.body {
            Body::Reply(reply) => times.extend(reply.parts.iter().filter_map(|part| match part {
                Part::Call(call) => Some(format!("{} called at {}", call.tool, call.at.0)),
                _ => None,
            })),
            Body::Result(result) => {
                let began = result.began.unwrap().0;
                times.push(format!("{} ran from {began} to {}", result.tool, result.ended.0));
            }
            _ => {}
        }
    }
    expect![[r#"
        slow called at 5000
        quick called at 6000
        quick ran from 7000 to 8000
        slow ran from 7000 to 10000"#]]
    .assert_eq(&times.join("\n"));
}

/// I8: however many calls a reply makes, at most so many run at once, each once, and the next request has one result
/// for each, in call order.
#[tokio::test(start_paused = true)]
async fn never_more_at_once_than_the_limit() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (at_once, peak) = (now.clone(), most.clone());
    let run = move |_: ToolContext, input: Value| {
        let (now, most) = (now.clone(), most.clone());
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let n = input["n"].as_u64().unwrap();
            tokio::time::sleep(Duration::from_millis(100 + 37 * (n * 5 % 11))).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, ToolError>(format!("{n}"))
        }
    };
    let mut agent = agent().tool(tool("nap", "Naps.", run)).unwrap();
    agent.limits.tools_at_once_max = 3;
    agent.limits.calls_len_max = 20;
    let calls = (0..22).map(|n| call("nap", json!({ "n": n })));
    let stage = Stage::new(Understudy::new(calling(calls)), agent).await;
    stage.run("go").await;
    assert_eq!((peak.load(Ordering::SeqCst), at_once.load(Ordering::SeqCst)), (3, 0));
    let results = results(&stage.understudy.requests()[1]);
    let texts: Vec<&str> = results.iter().map(|(_, _, text)| text.as_str()).collect();
    let ran: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    assert_eq!(texts[..20], ran);
    assert_eq!(texts[20..], ["Not run: one reply may make at most 20 calls."; 2]);
}

/// CL15, CL20, CR30: an exclusive call beside others: none runs, each is told why, and the turn goes on.
#[tokio::test(start_paused = true)]
async fn an_exclusive_call_beside_others_stops_them_all() {
    let diary = Diary::new();
    let agent = agent().tool(diary.tool("deploy", 1, EXCLUSIVE)).unwrap().tool(diary.tool("look", 1, ANY)).unwrap();
    let calls = [call("look", json!({})), call("deploy", json!({})), call("nonsense", json!({}))];
    let stage = Stage::new(Understudy::new(calling(calls)), agent).await;
    expect![[r#"
        t=000.0 message 2 reply [look({}) deploy({}) nonsense({})] ToolUse
        t=000.0 running
        t=000.0 message 3 result 1.0 look Error "Not run, because `deploy` must be called alone. Call this again afterwards."
        t=000.0 message 4 result 1.1 deploy Error "`deploy` must be called alone. Nothing was run: call it again without other calls."
        t=000.0 message 5 result 1.2 nonsense Error "Not run, because `deploy` must be called alone. Call this again afterwards."
        t=000.0 running
        t=000.0 message 6 reply ["Done."] End
        t=000.0 running
        t=000.0 idle Done
    "#]].assert_eq(&after_reply(&stage.run("go").await));
    assert_eq!(diary.read(), "", "nothing ran");
}

/// CL17: two exclusive calls are both refused, of one tool or of two.
#[tokio::test(start_paused = true)]
async fn two_exclusive_calls_are_both_refused() {
    let diary = Diary::new();
    for other in ["deploy", "erase"] {
        let agent = agent().tool(diary.tool("deploy", 1, EXCLUSIVE)).unwrap();
        let agent = agent.tool(diary.tool("erase", 1, EXCLUSIVE)).unwrap();
        let understudy = Understudy::new(calling([call("deploy", json!({})), call(other, json!({}))]));
        let stage = Stage::new(understudy, agent).await;
        stage.run("go").await;
        let results = results(&stage.understudy.requests()[1]);
        assert!(results.len() == 2 && results.iter().all(|(_, failed, _)| *failed), "{results:?}");
        assert_eq!(diary.read(), "", "nothing ran");
    }
}

/// CR31: an exclusive call beside a client's: both are refused and no answer is waited for; also when a person would have
/// had to allow the exclusive one.
#[tokio::test(start_paused = true)]
async fn an_exclusive_call_beside_a_clients_asks_no_one() {
    for approval in [Approval::NotNeeded, Approval::Needed] {
        let diary = Diary::new();
        let mut agent = agent().tool(diary.tool("deploy", 1, Policy { approval, ..EXCLUSIVE })).unwrap();
        agent.toolbox.add_client(ToolSpec::new("map", "Shows a map.", json!({"type": "object"}))).unwrap();
        let understudy = Understudy::new(calling([call("map", json!({})), call("deploy", json!({}))]));
        let stage = Stage::new(understudy, agent).await;
        let seen = stage.run("go").await;
        assert!(!seen.contains("awaiting"), "{seen}");
        let results = results(&stage.understudy.requests()[1]);
        assert!(results.len() == 2 && results.iter().all(|(_, failed, _)| *failed), "{results:?}");
        assert_eq!((stage.ended().await, diary.read()), (TurnEnd::Done, String::new()));
    }
}

/// CR32: alone, an exclusive call runs. CR33: a search of the provider's own beside it is not company.
#[tokio::test(start_paused = true)]
async fn an_exclusive_call_alone_runs() {
    let search = provided("web_search", &json!({"q": "kelp"}), json!([]));
    for calls in [vec![call("deploy", json!({}))], vec![search, call("deploy", json!({}))]] {
        let diary = Diary::new();
        let agent = agent().tool(diary.tool("deploy", 1, EXCLUSIVE)).unwrap();
        let stage = Stage::new(Understudy::new(calling(calls)), agent).await;
        stage.run("go").await;
        assert_eq!(diary.read(), "t=000.0 deploy {} begins\nt=001.0 deploy {} ends\n");
    }
}

/// AW06, CR32: a call that the output limit cut off will never run, so it is no company for an exclusive one.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_cut_off_is_no_company() {
    let diary = Diary::new();
    let agent = agent().tool(diary.tool("deploy", 1, EXCLUSIVE)).unwrap().tool(diary.tool("look", 1, ANY)).unwrap();
    let cues = [call("deploy", json!({})), begin_call("look", "{\"n\": "), stop(Stop::Length)];
    let stage = Stage::new(Understudy::new([script(cues), script([text("Done."), stop(Stop::End)])]), agent).await;
    expect![[r#"
        t=000.0 message 2 reply [deploy({}) look({"n": )…] Length
        t=000.0 message 3 result 1.1 look Error "This call was cut off before its input was complete. It was not run."
        t=000.0 running
        t=000.0 running
        t=001.0 message 4 result 1.0 deploy Done "deploy did {}"
        t=001.0 running
        t=001.0 message 5 reply ["Done."] End
        t=001.0 running
        t=001.0 idle Done
    "#]]
    .assert_eq(&after_reply(&stage.run("go").await));
}

/// CR27: a stop-after tool that succeeds ends the turn, once every call of its reply has its result.
#[tokio::test(start_paused = true)]
async fn a_stop_after_tool_ends_the_turn() {
    let diary = Diary::new();
    let stops = Policy { after: After::Stop, ..ANY };
    let agent = agent().tool(diary.tool("submit", 1, stops)).unwrap().tool(diary.tool("look", 3, ANY)).unwrap();
    let understudy = Understudy::new(calling([call("submit", json!({})), call("look", json!({}))]));
    let stage = Stage::new(understudy, agent).await;
    expect![[r#"
        t=000.0 message 2 reply [submit({}) look({})] ToolUse
        t=000.0 running
        t=000.0 running
        t=001.0 message 3 result 1.0 submit Done "submit did {}"
        t=001.0 running
        t=003.0 message 4 result 1.1 look Done "look did {}"
        t=003.0 running
        t=003.0 idle StopAfter("submit")
    "#]]
    .assert_eq(&after_reply(&stage.run("go").await));
    assert_eq!(stage.understudy.requests().len(), 1);
}

/// CR28: one that fails does not: the model hears of it and goes on.
#[tokio::test(start_paused = true)]
async fn a_stop_after_tool_that_fails_does_not_end_the_turn() {
    let run = |_: ToolContext, _: Value| async { Err::<String, _>(ToolError::from("not today")) };
    let submit = tool("submit", "Submits.", run).with(Policy { after: After::Stop, ..ANY });
    let understudy = Understudy::new(calling([call("submit", json!({}))]));
    let stage = Stage::new(understudy, agent().tool(submit).unwrap()).await;
    stage.run("go").await;
    assert_eq!(results(&stage.understudy.requests()[1]), [("submit".into(), true, "not today".into())]);
    assert_eq!(stage.ended().await, TurnEnd::Done);
}

/// CR39: results of the provider's own tools carry the time they were received.
#[tokio::test(start_paused = true)]
async fn hosted_results_carry_times() {
    let search = provided("web_search", &json!({"q": "kelp"}), json!(["a seaweed"]));
    let stage = Stage::new(Understudy::new([script([wait(7), search, text("Kelp."), stop(Stop::End)])]), agent()).await;
    stage.run("go").await;
    let Body::Reply(reply) = &stage.transcript().await[1].body else { panic!("a reply") };
    let [Part::Call(call), Part::Provided(provided), Part::Text(_)] = reply.parts.as_slice() else {
        panic!("{:?}", reply.parts)
    };
    assert_eq!((call.at.0, provided.at.0), (7000, 7000));
    assert_eq!(stage.ended().await, TurnEnd::Done, "no answer is needed here");
}

/// I9: a process that stands still between saying that it starts a tool and starting it, until the chat may be another's,
/// does not start it: the other process has recorded by then that its outcome is unknown.
#[tokio::test(start_paused = true)]
async fn a_lease_that_lapsed_starts_no_tool() {
    let diary = Diary::new();
    let agent = agent().tool(diary.tool("pay", 1, Policy { effect: Effect::Once, ..ANY })).unwrap();
    let stage = Stage::new(Understudy::new(calling([call("pay", json!({}))])), agent).await;
    stage.store.at_start(Between::Lapsed);
    stage.chat.send("go").await.unwrap();
    sleep(Duration::from_secs(9)).await;
    assert_eq!(diary.read(), "");
    stage.engine.resume().await.unwrap();
    assert_eq!((stage.ended().await, diary.read().as_str()), (TurnEnd::Done, ""));
    let told = stage.told().await;
    assert!(told.contains("pay Unknown"), "{told}");
}

/// I9, I24: a process that has to stop at that moment says that it was not run; whatever may run twice is left to the next.
#[tokio::test(start_paused = true)]
async fn a_process_that_has_to_stop_starts_no_tool() {
    for (effect, told, runs) in [(Effect::Once, "pay Interrupted", 0), (Effect::Idempotent, "pay Done", 1)] {
        let diary = Diary::new();
        let agent = agent().tool(diary.tool("pay", 1, Policy { effect, ..ANY })).unwrap();
        let stage = Stage::new(Understudy::new(calling([call("pay", json!({}))])), agent).await;
        stage.store.at_start(Between::Halted);
        stage.chat.send("go").await.unwrap();
        sleep(Duration::from_secs(9)).await;
        assert_eq!(diary.read(), "", "{effect:?}");
        stage.engine.resume().await.unwrap();
        assert_eq!(stage.ended().await, TurnEnd::Done, "{effect:?}");
        assert_eq!(diary.read().matches("begins").count(), runs, "{effect:?}");
        let all = stage.told().await;
        assert!(all.contains(told), "{effect:?}: {all}");
    }
}

/// A tool that decides call by call, and may end in three ways.
struct Careful(Diary);

#[async_trait::async_trait]
impl everturn::Tool for Careful {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new("careful", "Does what it is told.", json!({"type": "object"}))
    }

    fn policy_for(&self, input: &Value) -> Policy {
        let asks = input["harm"] == true;
        Policy {
            approval: if asks { Approval::Needed } else { Approval::NotNeeded },
            effect: if asks { Effect::Once } else { Effect::Read },
            shown_bytes_max: 2_000,
            ..Policy::default()
        }
    }

    async fn run(&self, _: ToolContext, input: Value) -> Result<everturn::ToolReturn, ToolError> {
        self.0.note(&format!("runs {input}"));
        match input["lost"] == true {
            true => Err(ToolError::unknown("The server is gone.")),
            false => Ok("x".repeat(10_000).into()),
        }
    }
}

/// A tool decides call by call whether a person is asked and how much the model is shown, and can say that an outcome is
/// unknown.
#[tokio::test(start_paused = true)]
async fn a_policy_may_depend_on_the_input() {
    let diary = Diary::new();
    let calls = [json!({}), json!({"lost": true}), json!({"harm": true})].map(|input| call("careful", input));
    let stage = Stage::new(Understudy::new(calling(calls)), agent().tool(Careful(diary.clone())).unwrap()).await;
    stage.chat.send("go").await.unwrap();
    let everturn::Rest::Awaiting(asks) = stage.chat.rest().await.unwrap() else { panic!("it asks") };
    assert_eq!(asks.iter().map(|ask| ask.input.as_deref().unwrap()).collect::<Vec<_>>(), [r#"{"harm":true}"#]);
    assert_eq!(diary.read().lines().count(), 2, "{}", diary.read());
    stage.chat.answer([CallAnswer::deny(asks[0].uid, "no")]).await.unwrap();
    assert_eq!(stage.ended().await, TurnEnd::Done);
    let stored = stage.transcript().await;
    let results_of = |message: &Arc<everturn::core::message::Message>| match &message.body {
        Body::Result(result) => Some((result.verdict, result.output.text.len(), result.output.full.is_some())),
        _ => None,
    };
    let stored: Vec<_> = stored.iter().filter_map(results_of).collect();
    assert!(stored.iter().any(|(verdict, len, whole)| *verdict == CallVerdict::Done && *len <= 2_000 && *whole));
    assert!(stored.iter().any(|(verdict, ..)| *verdict == CallVerdict::Unknown), "{stored:?}");
}

/// A tool that some provider would refuse is refused when it is made, not when a turn needs it.
#[test]
fn a_tool_that_cannot_be_offered_is_refused_at_once() {
    let mut toolbox = everturn::Toolbox::new();
    let bad = toolbox.add_client(ToolSpec::new("2nd map", "", json!({"type": "object"}))).unwrap_err();
    assert!(
        bad.to_string().starts_with("tool `2nd map` cannot be offered: its name is not taken by Anthropic"),
        "{bad}"
    );
    let odd = json!({"type": "object", "properties": {"to whom?": {"type": "string"}}});
    let bad = toolbox.add_client(ToolSpec::new("map", "", odd)).unwrap_err();
    assert!(bad.to_string().contains("its input schema is not taken by Anthropic: a property"), "{bad}");
    let misspelt = json!({"type": "object", "properties": {"place": {"type": "objekt"}}});
    let bad = toolbox.add_client(ToolSpec::new("map", "", misspelt)).unwrap_err();
    assert!(bad.to_string().contains("a type is not string, number,"), "{bad}");
    let bad = toolbox.add(Diary::new().tool("naïve", 1, Policy::default())).unwrap_err();
    assert!(matches!(bad, everturn::BadTool::NotOfferable(name, _) if name == "naïve"));
}
