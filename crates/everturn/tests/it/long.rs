//! Answers that take long, and are well.

use everturn::core::chat::TurnEnd;
use everturn::core::message::Stop;
use everturn_understudy::{
    Cue, Script, Understudy, UnderstudyRequest, cut, hang, ping, reset, response_id, script, stop, text, usage, wait,
};

use crate::kept::{background, begun, cancelled, keeps};
use crate::stage::{Stage, agent};

/// Says a number every half minute for so long, and then that.
fn streams(minutes: u32, end: Cue) -> Script {
    let numbers = (0..2 * minutes).flat_map(|number| [text(format!("{number} ")), wait(30)]);
    script([response_id("r1")].into_iter().chain(numbers).chain([end]))
}

fn rest() -> Script {
    script([text("done."), stop(Stop::End)])
}

async fn is_whole(stage: &Stage, how: &str) {
    assert_eq!(stage.ended().await, TurnEnd::Done, "{how}");
    let said = stage.replies().await;
    assert!(said.ends_with("48 49 done."), "{how}: {said}");
    assert_eq!(cancelled(&stage.understudy), [""; 0], "{how}");
}

/// I18: an answer that has come for longer than retries may take is asked for the rest when it breaks off, as any other.
/// Only time in which nothing came is lost time.
#[tokio::test(start_paused = true)]
async fn a_long_answer_outlives_a_break() {
    let stage = Stage::new(Understudy::new([streams(25, reset()), rest()]), agent()).await;
    stage.run("Go.").await;
    is_whole(&stage, "asked again").await;
    let stage = Stage::new(Understudy::new([streams(25, reset()), rest()]).with(keeps), background()).await;
    stage.run("Go.").await;
    is_whole(&stage, "found again").await;
}

/// I7, I24: and so it does when its process goes, in good order or not.
#[tokio::test(start_paused = true)]
async fn a_long_answer_outlives_its_process() {
    let stage = begun(Understudy::new([streams(25, wait(60))]), "\"49 \"").await;
    is_whole(&stage.moved(Understudy::new([rest()]), agent()).await, "asked again").await;
    let stage = begun(Understudy::new([streams(25, wait(60))]).with(keeps), "\"49 \"").await;
    is_whole(&stage.moved(Understudy::new([rest()]).with(keeps), background()).await, "found again").await;
}

/// Shows every half minute that it lives, for so long, and then that.
fn thinks(minutes: u32, end: impl IntoIterator<Item = Cue>) -> Script {
    let pings = (0..2 * minutes).flat_map(|_| [wait(30), ping()]);
    script(pings.chain(end))
}

/// AW17: a generation that its provider keeps, and that shows that it lives, may think for longer than a stream may be
/// silent: it is found again as often as that takes, not ended, and paid for once.
#[tokio::test(start_paused = true)]
async fn a_kept_generation_may_think_for_long() {
    let scripts = [
        script([response_id("r1"), hang()]),
        thinks(5, [hang()]),
        thinks(1, [cut()]),
        thinks(1, [text("done."), usage(1_000, 20), stop(Stop::End)]),
    ];
    let stage = Stage::new(Understudy::new(scripts).with(keeps), background()).await;
    stage.run("Go.").await;
    assert_eq!((stage.ended().await, stage.replies().await.as_str()), (TurnEnd::Done, "done."));
    assert_eq!(cancelled(&stage.understudy), [""; 0]);
    let asked = stage.understudy.asked();
    assert!(matches!(
        &asked[..],
        [
            UnderstudyRequest::Answer(_),
            UnderstudyRequest::Reattach(_),
            UnderstudyRequest::Reattach(_),
            UnderstudyRequest::Reattach(_)
        ]
    ));
    let tokens: u64 = stage.chat.attempts(0).await.unwrap().iter().map(|row| row.tally.total()).sum();
    assert_eq!(tokens, 1_020);
}

/// I18: a provider that only ever sends pings is given up in the end, like one that sends nothing.
#[tokio::test(start_paused = true)]
async fn a_kept_generation_does_not_think_for_ever() {
    let first = script([response_id("r1"), hang()]);
    let scripts = [first].into_iter().chain((0..30).map(|_| thinks(60, [hang()])));
    let stage = Stage::new(Understudy::new(scripts).with(keeps), background()).await;
    stage.run("Go.").await;
    assert!(matches!(stage.ended().await, TurnEnd::Failed(_)));
    assert!(stage.understudy.asked().len() <= 10, "{}", stage.understudy.asked().len());
    assert_eq!(cancelled(&stage.understudy), ["r1"]);
}
