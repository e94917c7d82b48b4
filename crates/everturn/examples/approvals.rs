//! A tool that a client runs, and a tool that a person has to approve.

use everturn::core::command::{AnswerContent, CallAnswer};
use everturn::core::message::{Output, Stop};
use everturn::core::prompt::ToolSpec;
use everturn::{Agent, Approval, Engine, Policy, Rest, tool};
use everturn_understudy::{Understudy, call, script, stop, text};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Deploy {
    to: String,
}

/// Runs it.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let deploy =
        tool("deploy", "Deploys the site.", |_, input: Deploy| async move { Ok(format!("live on {}", input.to)) })
            .with(Policy { approval: Approval::Needed, ..Policy::default() });
    let mut agent = Agent::new("understudy/any".parse()?).tool(deploy)?;
    // No code here: a turn that calls it waits for the client's result.
    agent.toolbox.add_client(ToolSpec::new("map", "Shows a map.", json!({"type": "object"})))?;
    let model = Understudy::new([
        script([call("map", json!({})), call("deploy", json!({"to": "production"})), stop(Stop::ToolUse)]),
        script([text("Shown and deployed."), stop(Stop::End)]),
    ]);
    let engine = Engine::builder().provider(model).agent("guide", agent).start();
    let chat = engine.create("guide").await?;
    chat.send("Show me the map, and deploy.").await?;

    // The turn rests, in this process or any other, until the answers come.
    let Rest::Awaiting(asks) = chat.rest().await? else { return Err("nothing was asked".into()) };
    let answers = asks.iter().map(|ask| {
        let what = match ask.tool.as_str() {
            "map" => AnswerContent::Output(Output::text("shown")),
            // The hash stands for what the person saw: another input is not approved by it.
            _ => AnswerContent::Approve { input_hash: ask.input_hash },
        };
        CallAnswer { call: ask.uid, what }
    });
    chat.answer(answers).await?;
    chat.rest().await?;
    assert_eq!(chat.newest_reply().await?.as_deref(), Some("Shown and deployed."));
    Ok(())
}
