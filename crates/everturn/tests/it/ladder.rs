//! Broken streams, and what becomes of them.

use everturn::core::error::{Cause, Kind};
use everturn::core::message::Stop;
use everturn_understudy::{fail, script, stop, text};
use expect_test::expect;

use crate::stage::stage;

/// AW11: text, then a reset: it goes on from there, nothing is taken back, and the answer is both halves.
#[tokio::test(start_paused = true)]
async fn text_goes_on_where_it_was_cut() {
    let stage = stage([
        script([text("The quick brown fox "), fail(Kind::Timeout, Cause::Reset)]),
        script([text("brown fox jumps over the dog."), stop(Stop::End)]),
    ])
    .await;
    expect![[r#"
        t=000.0 message 1 user "go"
        t=000.0 running
        t=000.0 delta 1 attempt 1 First understudy/one
        t=000.0 delta 2 Text("The quick brown fox ")
        t=000.0 running retry Timeout until 0.9
        t=000.9 delta 3 attempt 2 Continue understudy/one
        t=000.9 delta 4 Seam(Seam { at: 20, dropped: 10, inserted: 0 })
        t=000.9 delta 5 Text("jumps over the dog.")
        t=000.9 message 2 reply ["The quick brown fox jumps over the dog."] End
        t=000.9 running
        t=000.9 idle Done
    "#]]
    .assert_eq(&stage.run("go").await);
    assert_eq!(stage.replies().await, "The quick brown fox jumps over the dog.");
}
