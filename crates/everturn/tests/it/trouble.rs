//! Log lines of failures: one line each, with what happens next, and no text of the chat.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use everturn::Agent;
use everturn::core::message::Stop;
use everturn_understudy::{Understudy, hang, refuse, reset, script, stop, text, usage};
use expect_test::expect;
use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber, span};

use crate::stage::{Stage, agent};

/// Hears what is logged from `info` on.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<String>>);

impl Log {
    pub fn listen() -> (Self, DefaultGuard) {
        let log = Self::default();
        let guard = tracing::subscriber::set_default(log.clone());
        (log, guard)
    }

    pub fn take(&self) -> String {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

struct Fields(String, String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.0 = format!("{value:?}"),
            "chat" => {} // Another one every time.
            name => write!(self.1, " {name}={value:?}").unwrap(),
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && metadata.is_event() && metadata.target().starts_with("everturn::")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new(), String::new());
        event.record(&mut fields);
        writeln!(self.0.lock().unwrap(), "{} {}:{}", event.metadata().level(), fields.0, fields.1).unwrap();
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// Errors, retries, the recovery that follows, and its model.
#[tokio::test(start_paused = true)]
async fn errors_retries_and_recoveries_are_logged() {
    let (log, _guard) = Log::listen();
    let stage = Stage::new(
        Understudy::new([
            script([refuse(529)]),
            script([text("One two three four five six. "), reset()]),
            script([text("Seven eight nine."), usage(9, 3), stop(Stop::End)]),
        ]),
        agent(),
    )
    .await;
    stage.run("private words").await;
    expect![[r#"
        WARN attempt failed: turn=1 step=1 attempt=1 model=understudy/one aim="first" kind="overloaded" cause="refused" why="The AI provider has more work than it can take; wait a minute, or choose another model" next="asks again in 900 ms"
        INFO attempt after a failure: turn=1 step=1 attempt=2 model=understudy/one rung="restart" cause="refused"
        WARN attempt failed: turn=1 step=1 attempt=2 model=understudy/one aim="restart" kind="timeout" cause="reset" why="The AI provider cannot be reached at the moment; try again soon, and check the network if it lasts" next="asks again in 582 ms"
        INFO attempt after a failure: turn=1 step=1 attempt=3 model=understudy/one rung="continue" cause="reset"
        INFO answer recovered: turn=1 step=1 attempt=3 model=understudy/one rung="continue"
    "#]].assert_eq(&log.take());
}

/// A turn that fails says why, also when no model was asked, as without a key or a provider.
#[tokio::test(start_paused = true)]
async fn failed_turns_are_logged() {
    let (log, _guard) = Log::listen();
    let stage = Stage::new(Understudy::new([script([refuse(401)])]), agent()).await;
    stage.run("hi").await;
    let nobody = Agent::new("absent/one".parse().unwrap());
    let stage = Stage::new(Understudy::new([]), nobody).await;
    stage.run("hi").await;
    let mut short = agent();
    short.limits.steps_max = 0;
    let stage = Stage::new(Understudy::new([]), short).await;
    stage.run("hi").await;
    expect![[r#"
        WARN attempt failed: turn=1 step=1 attempt=1 model=understudy/one aim="first" kind="auth" cause="refused" why="The AI provider refused the key; check that it is right and may use this model" next="the turn ends"
        WARN turn failed: turn=1 step=1 attempt=1 model=understudy/one kind="auth" why="The AI provider refused the key; check that it is right and may use this model" detail="" next="the chat rests until it is sent a message"
        WARN turn failed: turn=1 step=1 attempt=0 model=absent/one kind="config" why="The AI provider does not accept this model or one of its settings; check the name and the options" detail="no provider `absent` for model absent/one; there are: understudy" next="the chat rests until it is sent a message"
        WARN turn ended at a limit: turn=1 step=1 model=understudy/one limit="steps_max" next="the chat rests until it is sent a message"
    "#]]
    .assert_eq(&log.take());
}

/// A turn that goes from one process to the next is logged by both.
#[tokio::test(start_paused = true)]
async fn hand_overs_and_takeovers_are_logged() {
    let (log, _guard) = Log::listen();
    let stage = Stage::new(Understudy::new([script([text("One two three four. "), hang()])]), agent()).await;
    stage.chat.send("hi").await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let stage = stage.moved(Understudy::new([script([text("Five."), stop(Stop::End)])]), agent()).await;
    stage.ended().await;
    expect![[r#"
        INFO turn handed over: turn=1 step=1 next="another process, or this one after its restart, goes on"
        INFO turn taken over from another process: turn=1 step=1 is_half_said=true
        INFO attempt of another process found: turn=1 step=1 attempt=1 model=understudy/one aim="first" kind="truncated" cause="resumed" next="asks again at once"
        INFO attempt after a failure: turn=1 step=1 attempt=2 model=understudy/one rung="continue" cause="resumed"
        INFO answer recovered: turn=1 step=1 attempt=2 model=understudy/one rung="continue"
    "#]]
    .assert_eq(&log.take());
}
