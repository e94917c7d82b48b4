//! A tool that the provider runs: offered by its definition, without any code here, and seen in the reply.

use everturn::core::delta::{CallBegan, Delta, ProvidedDelta};
use everturn::core::message::{Body, Meta, Part, RunBy, Stop};
use everturn::{Agent, Engine};
use everturn_understudy::{Cue, Understudy, script, stop, text};
use serde_json::json;

/// Runs it.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // As the provider documents it; this one is Anthropic's. With `anthropic/…` as the model, that is all there is to do.
    let search = json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 5});
    let agent = Agent::new("understudy/any".parse()?).hosted("web_search", search)?;
    let engine = Engine::builder().provider(searching_model()).agent("guide", agent).start();
    let chat = engine.create("guide").await?;
    chat.send("What is kelp?").await?;
    chat.rest().await?;
    for message in chat.transcript().await? {
        let Body::Reply(reply) = &message.body else { continue };
        for part in &reply.parts {
            match part {
                Part::Call(call) => println!("the provider ran {} with {}", call.tool, call.input),
                Part::Provided(provided) => println!("and found {}", provided.output),
                Part::Text(text) => println!("{}", text.text),
                _ => {}
            }
        }
    }
    Ok(())
}

/// A scripted model stands in for a real one, and for its provider's search.
fn searching_model() -> Understudy {
    let (tool, provider_id) = ("web_search".to_string(), "srvtoolu_1".into());
    let call = CallBegan { slot: 0, provider_id, tool: tool.clone(), run_by: RunBy::Provider, meta: Meta::new() };
    let output = json!([{"title": "Kelp", "url": "https://example.com/kelp"}]);
    let found = ProvidedDelta { slot: Some(0), tool, output, meta: Meta::new() };
    let searches = Cue::Say(vec![
        Delta::CallBegan(Box::new(call)),
        Delta::CallInput { slot: 0, json: json!({"query": "kelp"}).to_string() },
        Delta::CallEnded { slot: 0 },
        Delta::Provided(Box::new(found)),
    ]);
    Understudy::new([script([searches, text("Kelp is a large brown alga."), stop(Stop::End)])])
}
