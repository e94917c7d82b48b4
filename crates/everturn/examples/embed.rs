//! Everturn in ten lines: an agent with a tool, one turn, and what came of it.

use everturn::{Agent, Engine, tool};
use everturn_understudy::{Understudy, call, script, stop, text};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Weather {
    /// Where, for example "Oslo".
    city: String,
}

/// Runs it.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    use everturn::core::message::Stop;
    // A scripted model stands in for a real one.
    let model = Understudy::new([
        script([text("Let me look. "), call("weather", json!({"city": "Oslo"})), stop(Stop::ToolUse)]),
        script([text("It is sunny in Oslo."), stop(Stop::End)]),
    ]);
    let weather = tool("weather", "Tells the weather of a city.", |_, input: Weather| async move {
        Ok(format!("sunny in {}", input.city))
    });
    let agent = Agent::new("understudy/any".parse()?).tool(weather)?;
    let engine = Engine::builder().provider(model).agent("guide", agent).start();
    let chat = engine.create("guide").await?;
    chat.send("What is the weather in Oslo?").await?;
    chat.rest().await?;
    println!("{}", chat.newest_reply().await?.unwrap_or_default());
    Ok(())
}
