//! Pictures and files that a provider refuses.

use everturn::core::chat::TurnEnd;
use everturn::core::command::{Command, Delivery};
use everturn::core::message::{File, Media, Meta, Part, Stop};
use everturn::core::prompt::{PromptPart, Request};
use everturn::{ToolContext, ToolError, ToolOutput, tool};
use everturn_understudy::{Script, Understudy, call, refuse, script, stop};
use expect_test::expect;
use serde_json::{Value, json};

use crate::compaction::says;
use crate::read::{asks_summary, rows, shown};
use crate::stage::{Stage, agent};

fn picture(name: &str) -> Part {
    let (media_type, bytes) = ("image/png".into(), Some(name.as_bytes().into()));
    Part::File(File { name: name.into(), media_type, bytes, meta: Meta::new() })
}

async fn show(stage: &Stage, name: &str) {
    let watch = stage.watch();
    stage.chat.submit(Command::Send { parts: [picture(name)].into(), when: Delivery::Queue }, None).await.unwrap();
    watch.until_rest().await;
}

/// Whether a request shows the picture that is refused.
fn is_bad(request: &Request) -> bool {
    let parts = || request.entries.iter().flat_map(|entry| &entry.parts);
    let files = parts().filter_map(|part| match part {
        PromptPart::File(file) => Some(&file.media),
        _ => None,
    });
    let media = parts().filter_map(|part| match part {
        PromptPart::Result(result) => Some(&result.media),
        _ => None,
    });
    files.chain(media.flatten()).any(|media| &media.bytes[..] == b"bad.png")
}

/// A model that refuses every request with one picture.
fn fussy(answer: impl Fn(&Request) -> Script + Send + 'static) -> Understudy {
    Understudy::improvising(move |request| if is_bad(request) { script([refuse(400)]) } else { answer(request) })
}

fn answers(request: &Request) -> Script {
    says(if asks_summary(request) { "In short." } else { "I see." })
}

/// I15: a picture that is refused is told of instead, and not shown again; a later one is.
#[tokio::test(start_paused = true)]
async fn a_refused_picture_is_told_of_and_not_shown_again() {
    let stage = Stage::new(fussy(answers), agent()).await;
    show(&stage, "bad.png").await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    show(&stage, "good.png").await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    expect![[r#"
        user "(A file that cannot be shown here: bad.png, image/png, 7 byt… 64 bytes"
        model "I see."
        user [good.png]
    "#]]
    .assert_eq(&shown(stage.understudy.requests().last().unwrap()));
    expect![[r#"
        1.1 understudy/one Config (Refused) 0.0s known 0+0 guess 0+0 0.000000
        1.2 understudy/one Answered 0.0s known 0+0 guess 22+2 0.000000
        3.1 understudy/one Answered 0.0s known 0+0 guess 2072+2 0.000000
    "#]]
    .assert_eq(&rows(&stage.chat).await);
}

/// A summary does not bring a refused picture back, though what was said last stands behind it word for word.
#[tokio::test(start_paused = true)]
async fn a_summary_does_not_bring_a_refused_picture_back() {
    let stage = Stage::new(fussy(answers), agent()).await;
    show(&stage, "bad.png").await;
    stage.chat.compact().await.unwrap();
    assert_eq!(stage.ended().await, TurnEnd::Done);
    stage.run("And now?").await;
    expect![[r#"
        user "Summary of the conversation so far, in place of it:\n\nIn shor… 62 bytes"
        user "(The newest message before this point, word for word:)"
        user "(A file that cannot be shown here: bad.png, image/png, 7 byt… 64 bytes"
        user "And now?"
    "#]]
    .assert_eq(&shown(stage.understudy.requests().last().unwrap()));
    assert_eq!(stage.understudy.requests().iter().filter(|request| is_bad(request)).count(), 1);
}

/// Pictures from a tool are left out likewise, in the middle of a turn; and in another process.
#[tokio::test(start_paused = true)]
async fn a_refused_picture_of_a_tool_does_not_end_the_turn() {
    let shot = || Media { media_type: "image/png".into(), bytes: b"bad.png"[..].into() };
    let look = move |_: ToolContext, _: Value| {
        let media = vec![shot()];
        async move { Ok::<_, ToolError>(ToolOutput { media, .."looked".into() }) }
    };
    let agent = agent().tool(tool("look", "Looks.", look)).unwrap();
    let model = || {
        fussy(|request| match request.entries.len() {
            1 => script([call("look", json!({})), stop(Stop::ToolUse)]),
            _ => answers(request),
        })
    };
    let stage = Stage::new(model(), agent.clone()).await;
    stage.run("Look.").await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    let stage = stage.moved(model(), agent).await;
    stage.run("And?").await;
    assert_eq!(stage.ended().await, TurnEnd::Done);
    expect![[r#"
        user "Look."
        model call_1 look({})
        tool call_1 look "looked\n(A file that cannot be shown here: image/png, 7 bytes… 62 bytes"
        model "I see."
        user "And?"
    "#]]
    .assert_eq(&shown(&stage.understudy.requests()[0]));
}

/// A request that is refused without pictures too was not refused for them: the turn fails, and later requests have them.
#[tokio::test(start_paused = true)]
async fn a_refusal_without_pictures_too_does_not_blame_them() {
    let refused = || script([refuse(400)]);
    let stage = Stage::new(Understudy::new([refused(), refused(), says("A crab.")]), agent()).await;
    show(&stage, "crab.png").await;
    assert!(matches!(stage.ended().await, TurnEnd::Failed(_)));
    stage.run("What is it?").await;
    assert_eq!((stage.ended().await, stage.understudy.scripts_left()), (TurnEnd::Done, 0));
    expect![[r#"
        user [crab.png]
        user "What is it?"
    "#]]
    .assert_eq(&shown(stage.understudy.requests().last().unwrap()));
}

/// A summary is made without what is refused, too.
#[tokio::test(start_paused = true)]
async fn a_summary_is_written_without_what_is_refused() {
    let scripts = [says("A crab."), script([refuse(400)]), says("They showed a crab.")];
    let stage = Stage::new(Understudy::new(scripts), agent()).await;
    show(&stage, "crab.png").await;
    stage.chat.compact().await.unwrap();
    assert_eq!((stage.ended().await, stage.understudy.scripts_left()), (TurnEnd::Done, 0));
    let asked: Vec<bool> = stage.understudy.requests().iter().map(|request| request.entries.have_media()).collect();
    assert_eq!(asked, [true, true, false]);
}
