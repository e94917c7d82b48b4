//! Metrics of the engine, in Prometheus' text format.

use everturn::core::message::Stop;
use everturn::prometheus_client::encoding::text::encode;
use everturn::prometheus_client::registry::Registry;
use everturn::{Agent, Engine, Metrics};
use everturn_understudy::{Understudy, script, stop, text};

/// Runs it.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let model = Understudy::new([script([text("Hello."), stop(Stop::End)])]);
    let agent = Agent::new("understudy/any".parse()?);
    let engine = Engine::builder().metrics(metrics).provider(model).agent("guide", agent).start();
    let chat = engine.create("guide").await?;
    chat.send("Hi!").await?;
    chat.rest().await?;
    let mut text = String::new();
    encode(&mut text, &registry)?; // What a route `/metrics` answers.
    assert!(text.contains("everturn_steps_total{"), "{text}");
    Ok(())
}
