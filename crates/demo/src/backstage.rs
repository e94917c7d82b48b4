//! The demo's daemon: the real one, with tools whose effects can be counted and limits that fit into a
//! minute.
//!
//! It is started with `serve --demo-tools FILE`; nothing else about the server differs. The agent of the
//! understudy itself has tools that wait instead: for a client, for an approval, and for ever, so that a chat
//! can be seen in every status.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everturn::core::chat::Effect;
use everturn::core::limits::Limits;
use everturn::core::prompt::ToolSpec;
use everturn::providers::anthropic::Anthropic;
use everturn::providers::catalogue::Catalogue;
use everturn::providers::gemini::{Gemini, GoogleRetention};
use everturn::providers::http::Http;
use everturn::providers::openai::OPENAI;
use everturn::providers::openai_chat::OpenAiChat;
use everturn::providers::openai_responses::OpenAiResponses;
use everturn::{Agent, Approval, Background, Builder, Policy, Tool, ToolContext, ToolError, ToolReturn};
use serde_json::{Value, json};

use super::ledger::{Line, What};

/// Facts about the understudy's models: prices of real models, and background generations.
const MODELS: &str = "
[anthropic.models.drill]
price = { input = 3_000_000, output = 15_000_000 }
prefill = true
[openai.models.drill]
price = { input = 1_250_000, output = 10_000_000 }
background = true
reattach = true
[chat.models.drill]
price = { input = 1_250_000, output = 10_000_000 }
[google.models.drill]
price = { input = 300_000, output = 2_500_000 }
";

/// Time for a tool to stop after an interrupt.
const LINGER: Duration = Duration::from_secs(5);
/// How long a tool takes before its effect, and again after it.
const HALF: Duration = Duration::from_millis(180);

/// The default limits, with a short timeout for silent streams.
fn limits() -> Limits {
    let mut limits =
        Limits { open_max: Duration::from_secs(4), silence_max: Duration::from_millis(600), ..Limits::default() };
    limits.retry.delay_base = Duration::from_millis(120);
    limits.retry.delay_max = Duration::from_secs(1);
    limits
}

/// The engine with providers of four wires, which the environment points at the understudy.
pub fn provide(builder: Builder, variable: impl Fn(&str) -> Option<String> + Copy) -> anyhow::Result<Builder> {
    let (http, catalogue) = (Http::new(&limits()), Catalogue::embedded().with(MODELS)?);
    let shared = Arc::new(catalogue.clone());
    let anthropic = Anthropic::usual(http.clone(), shared.clone(), variable)?;
    let responses = OpenAiResponses::usual(http.clone(), shared.clone(), variable)?;
    let chat = OpenAiChat::compatible("chat", &OPENAI, http.clone(), shared, variable)?;
    let gemini = Gemini::usual(http, variable)?.with_catalogue(catalogue).with_kept(GoogleRetention::Background);
    #[cfg(feature = "sabotage")]
    let (anthropic, responses, chat, gemini) = {
        use super::sabotage::Lossy;
        (Lossy::new(anthropic), Lossy::new(responses), Lossy::new(chat), Lossy::new(gemini))
    };
    Ok(builder.provider(anthropic).provider(responses).provider(chat).provider(gemini))
}

/// An agent with the tools and the bounds of the demo.
pub fn equip(agent: Agent, side_file: &Path) -> anyhow::Result<Agent> {
    let mut agent = agent.limits(limits());
    if agent.models.iter().any(|model| model.name().starts_with("drill-kept-")) {
        agent.background = Background::On;
    }
    if agent.models.iter().any(|model| model.provider() == "understudy") {
        return waiting(agent);
    }
    for (name, about, effect) in [
        ("note", "Writes a line down. Doing it twice would write it twice.", Effect::Once),
        ("tally", "Sets a mark. Doing it twice changes nothing.", Effect::Idempotent),
        ("look", "Looks something up.", Effect::Read),
    ] {
        agent = agent.tool(Counted { name, about, effect, side_file: side_file.into() })?;
    }
    Ok(agent)
}

/// An agent whose tools wait.
fn waiting(agent: Agent) -> anyhow::Result<Agent> {
    let limits = Limits { kill_grace_max: LINGER, interrupt_max: 2 * LINGER, ..limits() };
    let agent = agent.limits(limits).tool(Waits { name: "launch", approval: Approval::Needed })?;
    let mut agent = agent.tool(Waits { name: "linger", approval: Approval::default() })?;
    let schema = json!({"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]});
    agent.toolbox.add_client(ToolSpec::new("map", "Shows a map.", schema))?;
    Ok(agent)
}

/// A tool that waits for an approval, or for ever, and ignores cancellation.
struct Waits {
    name: &'static str,
    approval: Approval,
}

#[async_trait]
impl Tool for Waits {
    fn spec(&self) -> ToolSpec {
        let schema = json!({"type": "object", "properties": {"target": {"type": "string"}}, "required": ["target"]});
        ToolSpec::new(self.name, "Waits.", schema)
    }

    fn policy(&self) -> Policy {
        Policy { approval: self.approval, ..Policy::default() }
    }

    async fn run(&self, _: ToolContext, _: Value) -> Result<ToolReturn, ToolError> {
        match self.approval {
            Approval::Needed | Approval::EachTime => Ok("launched".into()),
            Approval::NotNeeded => std::future::pending().await,
        }
    }
}

/// A tool that leaves a line in the side file when it starts, and another when it takes effect.
struct Counted {
    name: &'static str,
    about: &'static str,
    effect: Effect,
    side_file: PathBuf,
}

impl Counted {
    async fn write(&self, context: &ToolContext, number: u64, what: What) -> Result<(), ToolError> {
        let (chat, call, tool) = (context.chat.to_string(), context.call.to_string(), self.name.to_string());
        let line = Line { chat, call, tool, number, what };
        let file = self.side_file.clone();
        let written = tokio::task::spawn_blocking(move || append(&file, &line)).await;
        match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("the side file cannot be written: {error}").into()),
            Err(_) => Err("the side file was not written".into()),
        }
    }
}

/// One line, in one write, on the disk before this returns.
fn append(file: &Path, line: &Line) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    file.write_all(format!("{}\n", serde_json::to_string(line)?).as_bytes())?;
    file.sync_data()
}

#[async_trait]
impl Tool for Counted {
    fn spec(&self) -> ToolSpec {
        let properties = json!({"number": {"type": "integer"}, "line": {"type": "string"}});
        let schema = json!({"type": "object", "properties": properties, "required": ["number", "line"]});
        ToolSpec::new(self.name, self.about, schema)
    }

    fn policy(&self) -> Policy {
        Policy { effect: self.effect, ..Policy::default() }
    }

    async fn run(&self, context: ToolContext, input: Value) -> Result<ToolReturn, ToolError> {
        let number = input["number"].as_u64().unwrap_or_default();
        #[cfg(feature = "sabotage")]
        if super::sabotage::is("no-tool") {
            return Ok(format!("{} {number}: done", self.name).into());
        }
        self.write(&context, number, What::Start).await?;
        if context.cancel.run_until_cancelled(tokio::time::sleep(HALF)).await.is_none() {
            return Err("stopped before it did anything".into());
        }
        self.write(&context, number, What::Effect).await?;
        #[cfg(feature = "sabotage")]
        if super::sabotage::runs_twice(self.name) {
            self.write(&context, number, What::Start).await?;
            self.write(&context, number, What::Effect).await?;
        }
        // The effect has happened, so a cancellation changes nothing.
        context.cancel.run_until_cancelled(tokio::time::sleep(HALF)).await;
        Ok(format!("{} {number}: done", self.name).into())
    }
}
