//! A client that shows a growing answer, goes away, and continues from its cursor.

use everturn::core::message::{Part, Stop};
use everturn::core::view::View;
use everturn::{Agent, Engine};
use everturn_understudy::{Understudy, script, stop, text, wait_ms};

/// The text of the answer that is arriving.
fn draft(view: &View) -> String {
    let parts = view.draft.iter().flat_map(|draft| draft.parts().iter());
    parts.filter_map(|part| if let Part::Text(text) = part { Some(text.text.as_str()) } else { None }).collect()
}

/// Runs it.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Understudy::new([script([text("One, "), wait_ms(50), text("two."), stop(Stop::End)])]);
    let engine = Engine::builder().provider(model).agent("guide", Agent::new("understudy/any".parse()?)).start();
    let chat = engine.create("guide").await?;
    chat.send("Count to two.").await?;

    let mut view = View::default();
    let mut events = chat.events(None);
    while draft(&view) != "One, " {
        view.fold(&events.next().await?)?;
    }
    // A cursor stands behind whole catch-ups only: read on until there is one, then it can be kept anywhere.
    while events.cursor().is_none() {
        view.fold(&events.next().await?)?;
    }
    let cursor = events.cursor();
    drop(events);

    chat.rest().await?; // Nothing waits for a reader.
    let mut events = chat.events(cursor);
    while view.messages.len() < 2 {
        view.fold(&events.next().await?)?; // Each event once, in order: a gap would be an error.
    }
    assert_eq!(view.messages, chat.transcript().await?);
    Ok(())
}
