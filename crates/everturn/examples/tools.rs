//! Two tools: one that may run twice and reports its progress, and one that must not run twice.

use std::time::Duration;

use everturn::core::chat::Effect;
use everturn::core::message::Stop;
use everturn::{Agent, Engine, Policy, ToolContext, tool};
use everturn_understudy::{Understudy, call, script, stop, text};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Search {
    /// Words to look for.
    words: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order {
    /// What to order.
    item: String,
}

/// Runs it.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // After a crash in the middle, this one runs again.
    let search = tool("search", "Searches the catalogue.", |context: ToolContext, input: Search| async move {
        context.show(format!("searching for {}", input.words)); // Clients see it; the model does not.
        Ok(json!([{"item": "dried kelp", "price": 4}]))
    })
    .with(Policy { effect: Effect::Read, time_max: Some(Duration::from_secs(5)), ..Policy::default() });
    // This one does not: its result would say that the outcome is unknown. `call` is the same after a crash, so it is a
    // good idempotency key for the shop.
    let order = tool("order", "Orders an item.", |context: ToolContext, input: Order| async move {
        if input.item.is_empty() {
            return Err("name an item".into()); // The model reads this, and may try again.
        }
        Ok(format!("ordered {} under the key {}/{}", input.item, context.chat, context.call))
    })
    .with(Policy { effect: Effect::Once, ..Policy::default() });

    let model = Understudy::new([
        script([call("search", json!({"words": "kelp"})), stop(Stop::ToolUse)]),
        script([call("order", json!({"item": "dried kelp"})), stop(Stop::ToolUse)]),
        script([text("I ordered dried kelp."), stop(Stop::End)]),
    ]);
    let agent = Agent::new("understudy/any".parse()?).tool(search)?.tool(order)?;
    let engine = Engine::builder().provider(model).agent("shop", agent).start();
    let chat = engine.create("shop").await?;
    chat.send("Order some kelp.").await?;
    chat.rest().await?;
    assert_eq!(chat.newest_reply().await?.as_deref(), Some("I ordered dried kelp."));
    Ok(())
}
