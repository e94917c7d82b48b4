//! Answers that take long, and are well.

use everturn::core::chat::TurnEnd;
use everturn::core::message::Stop;
use everturn_understudy::{Cue, Script, Understudy, reset, response_id, script, stop, text, wait};

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

/// P1, I18: an answer that has come for longer than retries may take is asked for the rest when it breaks off, as any other.
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
