//! A hook tells the model something before a step. It becomes a message of the transcript, once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everturn::core::chat::Chat;
use everturn::core::message::{Body, Stop};
use everturn::{Agent, Engine, Hook, async_trait};
use everturn_understudy::{Understudy, script, stop, text};

/// Says once that the shop closes soon.
#[derive(Default)]
struct ClosingTime {
    is_said: AtomicBool,
}

#[async_trait]
impl Hook for ClosingTime {
    async fn before_step(&self, _chat: &Chat) -> Option<String> {
        let is_said = self.is_said.swap(true, Ordering::Relaxed);
        (!is_said).then(|| "The shop closes in ten minutes.".to_owned())
    }
}

/// Runs it.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Understudy::new([script([text("Then be quick."), stop(Stop::End)])]);
    let mut agent = Agent::new("understudy/any".parse()?);
    agent.hook = Some(Arc::new(ClosingTime::default()));
    let engine = Engine::builder().provider(model).agent("shop", agent).start();
    let chat = engine.create("shop").await?;
    chat.send("I would like to look around.").await?;
    chat.rest().await?;
    let transcript = chat.transcript().await?;
    assert!(transcript.iter().any(|message| matches!(message.body, Body::Context(_))));
    assert_eq!(chat.newest_reply().await?.as_deref(), Some("Then be quick."));
    Ok(())
}
