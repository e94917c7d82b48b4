//! Chats in SQLite. The first process ends in the middle of an answer; the second one continues it.

use std::path::Path;
use std::sync::Arc;

use everturn::core::message::Stop;
use everturn::core::view::View;
use everturn::stores::Sqlite;
use everturn::stores::sqlite::SqliteOptions;
use everturn::{Agent, Engine};
use everturn_understudy::{Script, Understudy, hang, script, stop, text};

/// An engine on a directory, with a model that plays this script.
fn engine(dir: &Path, plays: Script) -> Result<Engine, Box<dyn std::error::Error>> {
    let store = Sqlite::open(dir, &SqliteOptions::default())?;
    let agent = Agent::new("understudy/any".parse()?);
    let model = Understudy::new([plays]);
    Ok(Engine::builder().store(Arc::new(store)).provider(model).agent("guide", agent).start())
}

/// Runs it.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let first = engine(dir.path(), script([text("Kelp is a large "), hang()]))?;
    let chat = first.create("guide").await?;
    let id = chat.id();
    chat.send("What is kelp?").await?;
    let mut events = chat.events(None);
    let mut view = View::default();
    while view.draft.is_none() {
        view.fold(&events.next().await?)?; // The words are stored before they are seen here.
    }
    drop((events, chat));
    first.shutdown().await; // A kill would do as well.
    drop(first);

    let second = engine(dir.path(), script([text("brown alga."), stop(Stop::End)]))?;
    assert_eq!(second.resume().await?, 1, "one chat has work to do");
    let chat = second.chat(id);
    chat.rest().await?;
    assert_eq!(chat.newest_reply().await?.as_deref(), Some("Kelp is a large brown alga."));
    second.shutdown().await;
    Ok(())
}
