//! Answers that are none: refused, filtered, empty; and which provider is named.

use everturn::core::chat::TurnEnd;
use everturn::core::error::{Cause, ErrorKind};
use everturn::core::limits::Limits;
use everturn::core::message::Stop;
use everturn::core::status::Status;
use everturn::core::view::Event;
use everturn_understudy::{Script, Understudy, fail, hang, reasoning, refuse, script, stop, text, wait};
use expect_test::expect;

use crate::compaction::says;
use crate::read::{rows, shown};
use crate::stage::{Stage, Watch, agent, stage};

fn filtered() -> Stop {
    Stop::Filtered { category: "weapons".into(), detail: "this is not answered".into() }
}

fn told(end: &TurnEnd) -> String {
    match end {
        TurnEnd::Failed(failure) => format!("{}\n{}\n{} attempts", failure.message, failure.detail, failure.attempts),
        end => format!("{end:?}"),
    }
}

/// CL35: a refusal with no content fails the turn and says why. It is not tried again.
#[tokio::test(start_paused = true)]
async fn a_refusal_without_content_fails_the_turn() {
    let stage = stage([script([wait(1), stop(filtered())]), says("never")]).await;
    expect![[r#"
        t=000.0 message 1 user "How?"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=001.0 failed failed ContentFilter
    "#]]
    .assert_eq(&stage.run("How?").await);
    expect![[r#"
        The AI provider withheld its answer under its content policy (weapons); rephrase the request
        this is not answered
        1 attempts"#]]
    .assert_eq(&told(&stage.ended().await));
    expect![[r#"
        1.1 understudy/one ContentFilter (ErrorFinish) 1.0s known 0+0 guess 2+0 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// CL36: thoughts are no content. They are kept, and the turn fails.
#[tokio::test(start_paused = true)]
async fn a_refusal_with_thoughts_alone_fails_the_turn() {
    let stage = stage([script([reasoning("Should I?"), stop(filtered())]), says("never")]).await;
    expect![[r#"
        t=000.0 message 1 user "How?"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 Reasoning("Should I?")
        t=000.0 message 2 reply [(Should I?)] Broken
        t=000.0 failed failed ContentFilter
    "#]]
    .assert_eq(&stage.run("How?").await);
    assert_eq!(stage.understudy.scripts_left(), 1);
}

/// CL37: a refusal after visible text keeps the text as a reply, and the turn says how it ended. So does one that comes
/// when the text was being continued.
#[tokio::test(start_paused = true)]
async fn a_refusal_after_text_keeps_the_text() {
    let at_once = vec![script([text("First, you"), stop(filtered())])];
    let broke = script([text("First, you"), fail(ErrorKind::Timeout, Cause::Reset)]);
    let later = vec![broke, script([stop(filtered())])];
    for scripts in [at_once, later] {
        let stage = stage(scripts).await;
        let seen = stage.run("How?").await;
        assert!(seen.contains(r#"message 2 reply ["First, you"] Filtered"#), "{seen}");
        assert_eq!(stage.ended().await, TurnEnd::Filtered);
    }
}

/// An answer that says nothing is asked for once more; the model is told so.
#[tokio::test(start_paused = true)]
async fn an_empty_answer_is_asked_for_again() {
    let stage = stage([script([stop(Stop::End)]), says("Hello.")]).await;
    expect![[r#"
        t=000.0 message 1 user "Hi."
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 message 2 reply [] End
        t=000.0 running
        t=000.0 message 3 context "Your last answer was empty. Please answer."
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 Text("Hello.")
        t=000.0 message 4 reply ["Hello."] End
        t=000.0 running
        t=000.0 idle Done
    "#]]
    .assert_eq(&stage.run("Hi.").await);
    expect![[r#"
        user "Hi."
        user "Your last answer was empty. Please answer."
    "#]]
    .assert_eq(&shown(stage.understudy.requests().last().unwrap()));
}

/// And once only in a turn: empty twice, whatever empty means, is an end with a name. The next turn may ask again.
#[tokio::test(start_paused = true)]
async fn an_answer_that_stays_empty_is_an_end_of_its_own() {
    let nothing = || script([stop(Stop::End)]);
    let blank = || script([text(" \n"), stop(Stop::End)]);
    let thought = || script([reasoning("Hm."), stop(Stop::End)]);
    let stage = stage([nothing(), blank(), thought(), nothing(), says("never")]).await;
    for asked in [2, 4] {
        stage.run("Hi.").await;
        assert_eq!((stage.ended().await, stage.understudy.requests().len()), (TurnEnd::Empty, asked));
    }
}

/// A model behind another's protocol.
fn gateway(scripts: impl IntoIterator<Item = Script>) -> Understudy {
    Understudy::new(scripts).named("azure")
}

async fn behind_gateway(scripts: impl IntoIterator<Item = Script>) -> Stage {
    let mut limits = Limits::default();
    limits.retry.tries_max = 2;
    let mut agent = agent().limits(limits);
    agent.models = vec!["azure/one".parse().unwrap()];
    Stage::new(gateway(scripts), agent).await
}

/// CL07, CL08, CR16: errors, ours and the provider's, and the retries they lead to, name the provider as it is configured,
/// whosever protocol it speaks; and a retry says which attempt it is for.
#[tokio::test(start_paused = true)]
async fn the_configured_provider_is_named() {
    let stage = behind_gateway([script([refuse(529)]), script([text("Hel"), hang()]), script([hang()])]).await;
    let watch = stage.watch();
    stage.chat.send("Hi.").await.unwrap();
    expect![[r#"
        1 Overloaded: Azure OpenAI has more work than it can take; wait a minute, or choose another model
        2 Silence: Azure OpenAI sent nothing for too long; try again, or allow this model a longer silence
        Azure OpenAI sent nothing for too long; try again, or allow this model a longer silence
        it kept failing without getting further
        3 attempts"#]]
    .assert_eq(&troubles(watch).await);
}

/// A summary names the configured provider too.
#[tokio::test(start_paused = true)]
async fn the_provider_of_a_summary_is_named() {
    let stage = behind_gateway([says("Hello."), script([refuse(529)]), script([refuse(401)])]).await;
    stage.run("Hi.").await;
    let watch = stage.watch();
    stage.chat.compact().await.unwrap();
    expect![[r#"
        1 Overloaded: Azure OpenAI has more work than it can take; wait a minute, or choose another model
        Azure OpenAI refused the key; check that it is right and may use this model

        2 attempts"#]]
    .assert_eq(&troubles(watch).await);
}

/// The retries that a turn announces, and how it fails.
async fn troubles(mut watch: Watch) -> String {
    let mut seen = Vec::new();
    loop {
        let Event::Standing(standing) = watch.step().await else { continue };
        seen.extend(standing.retry.iter().map(|wait| format!("{} {:?}: {}", wait.attempt, wait.kind, wait.message)));
        if let (Some(end @ TurnEnd::Failed(_)), Status::Failed) = (&standing.ended, standing.status) {
            seen.push(told(end));
            seen.dedup();
            return seen.join("\n");
        }
    }
}
