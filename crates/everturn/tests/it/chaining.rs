//! Requests that build upon a response the provider keeps, and what happens when it no longer does.

use std::sync::Arc;

use everturn::core::chat::TurnEnd;
use everturn::core::delta::{CallBegan, Delta};
use everturn::core::error::{Cause, ErrorKind};
use everturn::core::ids::Timestamp;
use everturn::core::limits::Limits;
use everturn::core::message::{Meta, RunBy, Stop};
use everturn::core::prompt::{Request, Target, WireFormat};
use everturn::{Agent, Chaining, Drivers, Engine};
use everturn_understudy::{Cue, Script, Understudy, call, fail, hang, refuse, response_id, script, stop, text};
use expect_test::expect;
use serde_json::json;

use crate::compaction::{long, says};
use crate::crash::die_at;
use crate::read::{rows, shown};
use crate::stage::{Stage, agent, counter, echo};
use crate::stepwise::Stepwise;

/// A model of a provider that keeps responses.
fn keeper(scripts: impl IntoIterator<Item = Script>) -> Understudy {
    keeping(Understudy::new(scripts))
}

fn keeping(understudy: Understudy) -> Understudy {
    understudy.with(|facts| facts.target = Target::new(WireFormat::OpenAiResponses, "understudy"))
}

fn chained() -> Agent {
    Agent { chaining: Chaining::On, ..agent() }
}

/// An answer under a name.
fn named(id: &str, words: &str) -> Script {
    script([response_id(id), text(words), stop(Stop::End)])
}

fn forgotten() -> Script {
    script([fail(ErrorKind::ChainBroken, Cause::Refused)])
}

/// The response that each request builds upon, and its first new entry.
fn chains(stage: &Stage) -> String {
    let chain = |request: &Request| match &request.chain {
        Some(chain) => format!("{}[{}..{}]", chain.response_id, chain.from, request.entries.len()),
        None => format!("-[0..{}]", request.entries.len()),
    };
    stage.understudy.requests().iter().map(chain).collect::<Vec<_>>().join(" ")
}

/// CR01: a response the provider lost is answered by one request with everything and without it, at once. The next turn
/// builds upon the new response.
#[tokio::test(start_paused = true)]
async fn a_broken_chain_is_answered_by_the_whole_transcript() {
    let scripts = [named("r1", "Hello."), forgotten(), named("r2", "Here I am."), named("r3", "Bye.")];
    let stage = Stage::new(keeper(scripts), chained()).await;
    stage.run("Hi.").await;
    expect![[r#"
        t=000.0 message 3 user "Are you there?"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 running
        t=000.0 delta 2 attempt 2 Restart understudy/one
        t=000.0 delta 3 ResponseId("r2")
        t=000.0 delta 4 Handle(GenerationHandle { id: "r2", cursor: "0" })
        t=000.0 delta 5 Text("Here I am.")
        t=000.0 message 4 reply ["Here I am."] End
        t=000.0 running
        t=000.0 idle Done
    "#]]
    .assert_eq(&stage.run("Are you there?").await);
    stage.run("Bye!").await;
    expect!["-[0..1] r1[2..3] -[0..3] r2[4..5]"].assert_eq(&chains(&stage));
    expect![[r#"
        user "Hi."
        model "Hello."
        user "Are you there?"
    "#]]
    .assert_eq(&shown(&stage.understudy.requests()[2]));
    expect![[r#"
        1.1 understudy/one Answered 0.0s known 0+0 guess 1+2 0.000000
        3.1 understudy/one ChainBroken (Refused) 0.0s known 0+0 guess 0+0 0.000000
        3.2 understudy/one Answered 0.0s known 0+0 guess 8+4 0.000000
        5.1 understudy/one Answered 0.0s known 0+0 guess 13+2 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// CR01: once. If the whole transcript is answered the same way, the turn fails.
#[tokio::test(start_paused = true)]
async fn a_chain_breaks_once() {
    let stage = Stage::new(keeper([named("r1", "Hello."), forgotten(), forgotten()]), chained()).await;
    stage.run("Hi.").await;
    let seen = stage.run("Are you there?").await;
    let TurnEnd::Failed(failure) = stage.ended().await else { panic!("{seen}") };
    assert_eq!((failure.kind, failure.attempts, stage.understudy.scripts_left()), (ErrorKind::ChainBroken, 2, 0));
}

/// CR02, CR03, CR07: the whole transcript is prepared like any request: a search without an outcome is left out, an
/// interrupted call is answered, and the provider accepts it.
#[tokio::test(start_paused = true)]
async fn the_whole_transcript_is_prepared_like_any_other() {
    let began = |slot, tool: &str, run_by| CallBegan {
        slot,
        provider_id: format!("ws_{slot}"),
        tool: tool.into(),
        run_by,
        meta: Meta::new(),
    };
    let search = Cue::Say(vec![
        Delta::CallBegan(Box::new(began(0, "web_search", RunBy::Provider))),
        Delta::CallInput { slot: 0, json: "{}".into() },
        Delta::CallEnded { slot: 0 },
    ]);
    let open = Cue::Say(vec![Delta::CallBegan(Box::new(began(1, "echo", RunBy::Us)))]);
    let scripts = [
        script([text("Let me look."), open, hang()]),
        script([response_id("r2"), search, text("Hello."), stop(Stop::End)]),
        forgotten(),
        named("r3", "Here I am."),
    ];
    let stage = Stage::new(keeper(scripts), chained().tool(echo("echo", &counter())).unwrap()).await;
    let mut watch = stage.watch();
    stage.chat.send("Hi.").await.unwrap();
    watch.until_text("Let me look.").await;
    stage.chat.interrupt().await.unwrap();
    stage.run("Hello?").await;
    stage.run("Are you there?").await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    expect!["-[0..1] -[0..4] r2[5..6] -[0..6]"].assert_eq(&chains(&stage));
    expect![[r#"
        user "Hi."
        model "Let me look."
        model call_1 echo({})
        tool call_1 echo "The turn was interrupted before this call could be run. It w… 71 bytes"
        user "Hello?"
        model "Hello."
        user "Are you there?"
    "#]]
    .assert_eq(&shown(stage.understudy.requests().last().unwrap()));
}

/// CR05: after a recovery the chain goes on with the next step, once: nothing is dropped or sent twice.
#[tokio::test(start_paused = true)]
async fn a_recovered_chain_goes_on_with_the_next_step() {
    let looks = script([response_id("r2"), call("echo", json!({"say": "kelp"})), stop(Stop::ToolUse)]);
    let scripts = [named("r1", "Hello."), forgotten(), looks, named("r3", "Kelp it is.")];
    let stage = Stage::new(keeper(scripts), chained().tool(echo("echo", &counter())).unwrap()).await;
    stage.run("Hi.").await;
    stage.run("Kelp?").await;
    expect!["-[0..1] r1[2..3] -[0..3] r2[4..5]"].assert_eq(&chains(&stage));
    assert_eq!(stage.ended().await, TurnEnd::Done);
}

/// CR08: talk of a chain where there is none is an error like others that are tried again once.
#[tokio::test(start_paused = true)]
async fn a_broken_chain_without_a_chain_is_an_ordinary_retry() {
    for chaining in [Chaining::Off, Chaining::On] {
        let stage = Stage::new(keeper([forgotten(), says("Hello.")]), Agent { chaining, ..agent() }).await;
        let seen = stage.run("Hi.").await;
        assert!(seen.contains("running retry ChainBroken until 0.9"), "{seen}");
        assert_eq!((stage.ended().await, chains(&stage).as_str()), (TurnEnd::Done, "-[0..1] -[0..1]"));
    }
}

/// CR09: a retry for another reason leaves the chain alone.
#[tokio::test(start_paused = true)]
async fn other_retries_keep_the_chain() {
    let cut = script([fail(ErrorKind::Timeout, Cause::Reset)]);
    let scripts = [named("r1", "Hello."), script([refuse(529)]), cut, named("r2", "Here I am.")];
    let stage = Stage::new(keeper(scripts), chained()).await;
    stage.run("Hi.").await;
    stage.run("Are you there?").await;
    expect!["-[0..1] r1[2..3] r1[2..3] r1[2..3]"].assert_eq(&chains(&stage));
}

/// A chain is only begun upon what the provider has whole: not a reply that was continued after a break, nor one
/// that was cut at the output limit, nor calls with repeated ids.
#[tokio::test(start_paused = true)]
async fn a_chain_needs_a_response_that_is_the_whole_truth() {
    let continued =
        [script([response_id("r1"), text("Hel"), fail(ErrorKind::Timeout, Cause::Reset)]), named("r2", "Hello.")];
    let echoes = || [call("echo", json!({"say": "a"})), call("echo", json!({"say": "b"}))];
    let twice = script([response_id("r1")].into_iter().chain(echoes()).chain([stop(Stop::ToolUse)]));
    let mut seen = Vec::new();
    let cut = script([response_id("r1"), text("Hello, I"), stop(Stop::Length)]);
    for scripts in [continued.to_vec(), vec![twice, says("Done.")], vec![cut]] {
        let stage = Stage::new(keeper(scripts.into_iter().chain([says("Bye.")])), chained()).await;
        stage.run("Hi.").await;
        stage.run("Bye.").await;
        seen.push(chains(&stage));
    }
    expect![[r#"
        -[0..1] -[0..3] -[0..3]
        -[0..1] -[0..3] -[0..5]
        -[0..1] -[0..3]"#]]
    .assert_eq(&seen.join("\n"));
}

/// A reply that was salvaged after a cut is not all of its response: the next request has everything.
#[tokio::test(start_paused = true)]
async fn a_response_whose_end_was_not_seen_is_not_built_upon() {
    let cut = script([response_id("r1"), call("echo", json!({"say": "kelp"})), fail(ErrorKind::Timeout, Cause::Reset)]);
    let scripts = [cut, named("r2", "Kelp it is."), named("r3", "Bye.")];
    let stage = Stage::new(keeper(scripts), chained().tool(echo("echo", &counter())).unwrap()).await;
    stage.run("Kelp?").await;
    stage.run("Bye!").await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    expect!["-[0..1] -[0..3] r2[4..5]"].assert_eq(&chains(&stage));
}

/// A refusal of a chained request is answered by the whole transcript, in whatever words the chain is refused; if that is
/// refused too, the turn fails with what the provider says.
#[tokio::test(start_paused = true)]
async fn a_refusal_of_a_chained_request_ends_the_chain() {
    for status in [400, 404, 422] {
        let refused = || script([refuse(status)]);
        let scripts = [named("r1", "Hello."), refused(), named("r2", "Here I am."), named("r3", "Bye.")];
        let stage = Stage::new(keeper(scripts), chained()).await;
        stage.run("Hi.").await;
        stage.run("Are you there?").await;
        assert_eq!(stage.ended().await, TurnEnd::Done, "{status}");
        stage.run("Bye!").await;
        expect!["-[0..1] r1[2..3] -[0..3] r2[4..5]"].assert_eq(&chains(&stage));

        let stage = Stage::new(keeper([named("r1", "Hello."), refused(), refused()]), chained()).await;
        stage.run("Hi.").await;
        stage.run("Are you there?").await;
        let TurnEnd::Failed(failure) = stage.ended().await else { panic!("{status}") };
        assert_eq!((failure.attempts, stage.understudy.scripts_left()), (2, 0), "{status}");
    }
}

/// If the provider's own copy is too long, the summary and the next step are requested without the chain.
#[tokio::test(start_paused = true)]
async fn an_overflow_ends_the_chain_for_the_summary() {
    let scripts = [
        named("r1", "Hello."),
        script([refuse(413)]),
        named("r2", "They said hello."),
        named("r3", "Here."),
        named("r4", "Bye."),
    ];
    let stage = Stage::new(keeper(scripts), chained()).await;
    for words in ["Hi.", "Are you there?", "Bye!"] {
        stage.run(words).await;
    }
    expect!["-[0..1] r1[2..3] -[0..3] -[0..1] r3[2..3]"].assert_eq(&chains(&stage));
}

/// Nor does it help to leave things out of what the provider has: then everything is sent, with less in it.
#[tokio::test(start_paused = true)]
async fn a_leaner_request_is_no_chain() {
    let looks = |id| script([response_id(id), call("echo", json!({"say": long(300)})), stop(Stop::ToolUse)]);
    let scripts = [looks("r1"), looks("r2"), script([refuse(413)]), named("r3", "Done.")];
    let limits = Limits { compactions_max: 0, ..Limits::default() };
    let stage = Stage::new(keeper(scripts), chained().limits(limits).tool(echo("echo", &counter())).unwrap()).await;
    stage.run("Look twice.").await;
    expect!["-[0..1] r1[2..3] r2[4..5] -[0..5]"].assert_eq(&chains(&stage));
}

/// CR04: all it takes is the store: a process that dies anywhere while a chain breaks is replaced by one that sends the
/// whole transcript and, once that was decided, does not try the chain again.
#[tokio::test(start_paused = true)]
async fn a_new_process_knows_that_the_chain_broke() {
    let mut waits = 0;
    let mut after_the_break = 0;
    loop {
        let store = Arc::new(Stepwise::default());
        let understudy = keeping(Understudy::improvising(|request| match &request.chain {
            Some(_) => forgotten(),
            None => named("r1", "Hello."),
        }));
        let process = || {
            let builder = Engine::builder().store(store.clone()).provider(understudy.clone()).agent("it", chained());
            builder.seed(7).starting_at(Timestamp(0)).drivers(Drivers::ByHand).start()
        };
        let chat = process().create("it").await.unwrap();
        chat.send("Hi.").await.unwrap();
        chat.advance().await.unwrap();
        chat.send("Are you there?").await.unwrap();
        let lived = die_at(process().chat(chat.id()).advance(), waits).await;
        let broken = chat.attempts(0).await.unwrap().len() > 1;
        let before = understudy.requests().len();
        process().chat(chat.id()).advance().await.unwrap();
        assert_eq!(chat.rest().await.unwrap().ended(), Some(TurnEnd::Done));
        let after = &understudy.requests()[before..];
        if broken && !after.is_empty() {
            after_the_break += 1;
            assert!(after.iter().all(|request| request.chain.is_none()), "{waits}");
        }
        if lived {
            break;
        }
        waits += 1;
    }
    assert!(after_the_break > 3, "{after_the_break}");
}
