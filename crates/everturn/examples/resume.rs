//! Chats in SQLite. The first engine ends in the middle of an answer; the second one continues it.

use std::sync::Arc;

use everturn::core::message::Stop;
use everturn::core::view::View;
use everturn::stores::Sqlite;
use everturn::stores::sqlite::SqliteOptions;
use everturn::{Agent, Engine};
use everturn_understudy::{Script, Understudy, hang, script, stop, text};

/// An engine on a store, with a model that plays this script.
fn engine(store: &Arc<Sqlite>, plays: Script) -> Result<Engine, Box<dyn std::error::Error>> {
    let agent = Agent::new("understudy/any".parse()?);
    Ok(Engine::builder().store(store.clone()).provider(Understudy::new([plays])).agent("guide", agent).start())
}

/// Runs it.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    // One process holds a directory. After a kill the next one opens it in the same way.
    let store = Arc::new(Sqlite::open(dir.path(), &SqliteOptions::default())?);
    let first = engine(&store, script([text("Kelp is a large "), hang()]))?;
    let chat = first.create("guide").await?;
    chat.send("What is kelp?").await?;
    let mut events = chat.events(None);
    let mut view = View::default();
    while view.draft.as_ref().is_none_or(|draft| draft.parts().is_empty()) {
        view.fold(&events.next().await?)?; // The words are stored before they are seen here.
    }
    first.shutdown().await;

    let second = engine(&store, script([text("brown alga."), stop(Stop::End)]))?;
    assert_eq!(second.resume().await?, 1, "one chat has work to do");
    let chat = second.chat(chat.id());
    chat.rest().await?;
    assert_eq!(chat.newest_reply().await?.as_deref(), Some("Kelp is a large brown alga."));
    Ok(())
}
