//! Several providers: one that is written here, one that stands in when it fails.

use everturn::core::delta::Delta;
use everturn::core::error::{ErrorKind, ProviderError};
use everturn::core::limits::Thinking;
use everturn::core::message::Stop;
use everturn::core::prompt::{Request, Target, WireFormat};
use everturn::core::recovery::Capabilities;
use everturn::providers::{Frame, FrameStream, ModelFacts, Provider};
use everturn::{Agent, Engine, async_trait};
use everturn_understudy::{Understudy, script, stop, text};
use futures_util::{StreamExt as _, stream};

/// A provider of two models: `echo/loud` answers, `echo/mute` says that its account is used up.
struct Echo;

#[async_trait]
impl Provider for Echo {
    fn name(&self) -> &str {
        "echo"
    }

    fn facts(&self, _model: &str) -> ModelFacts {
        ModelFacts {
            target: Target::new(WireFormat::OpenAiChat, "echo"), // Prompts are prepared for this wire.
            can: Capabilities::default(),
            thinks: Thinking::No,
            context_limit: Some(8_000),
            output_max: 1_000,
            price: None,
        }
    }

    async fn open(&self, request: Request) -> Result<FrameStream, ProviderError> {
        if request.model.name() == "mute" {
            return Err(ProviderError::new(self.name(), ErrorKind::UsageLimit).with_detail("the account is used up"));
        }
        let deltas = ["Hello", " from here."].map(|text| Ok(Frame::Delta(Delta::Text(text.into()))));
        Ok(stream::iter(deltas).chain(stream::iter([Ok(Frame::Stop(Stop::End))])).boxed())
    }
}

/// Runs it.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let other = Understudy::new([script([text("Hello from there."), stop(Stop::End)])]);
    let loud = Agent::new("echo/loud".parse()?);
    let mute = Agent::new("echo/mute".parse()?).or("understudy/any".parse()?); // Asked when that one cannot.
    let engine = Engine::builder().provider(Echo).provider(other).agent("loud", loud).agent("mute", mute).start();
    for (agent, said) in [("loud", "Hello from here."), ("mute", "Hello from there.")] {
        let chat = engine.create(agent).await?;
        chat.send("Hello?").await?;
        chat.rest().await?;
        assert_eq!(chat.newest_reply().await?.as_deref(), Some(said));
    }
    Ok(())
}
