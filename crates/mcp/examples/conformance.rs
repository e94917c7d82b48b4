//! The client that the MCP conformance suite tests, for `cargo xtask interop`: connects to the address in its last argument, logs
//! in there if it has to, calls each tool once, and ends. The suite says in variables what it tests.

use std::path::Path;

use everturn::core::ids::{CallUid, ChatId, StepId};
use everturn::core::prompt::ToolSpec;
use everturn::{QuestionAnswer, SharedTool, ToolContext, ToolReturn};
use everturn_mcp::{
    LoginFlow, LoginOptions, Logins, McpOptions, McpServers, OauthEntry, Protocol, ServerEntry, ServerScope,
    ServerState, StartFailureKind, ToolDefinition,
};
use serde_json::{Value, json};

type Failed = Box<dyn std::error::Error>;

/// The name of the server.
const SERVER: &str = "tested";
/// How often it logs in: again when the server wants more than it was given.
const LOGINS_MAX: usize = 2;
/// How often a server may ask about one call.
const QUESTIONS_MAX: usize = 4;
/// Where the suite's document about a client is said to be.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

fn main() -> Result<(), Failed> {
    everturn_tools::init();
    let url = std::env::args().next_back().ok_or("the last argument is the server's address")?;
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Value = serde_json::from_str(&context).unwrap_or_default(); // Most scenarios have none.
    let text = |name: &str| context[name].as_str().map(str::to_owned);
    let version = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").unwrap_or_default();
    let oauth = OauthEntry {
        client_id: text("client_id"),
        client_secret: text("client_secret"),
        client_metadata_url: Some(DOCUMENT.into()),
        ..OauthEntry::default()
    };
    let entry = ServerEntry {
        url: Some(url),
        trust: true,
        scope: Some(ServerScope::Daemon),
        // Servers of the suite before 2026 answer any question, also what they do not know.
        protocol: (version == "2025-11-25").then_some(Protocol::Initialize),
        oauth: Some(oauth),
        ..ServerEntry::default()
    };
    let config = entry.check(SERVER, |_| None, "/".as_ref())?;
    let directory = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let servers = McpServers::new([config], McpOptions::new(directory.path()));
        for _ in 0..LOGINS_MAX {
            match servers.learn(SERVER).await {
                Err(failure) if failure.kind == StartFailureKind::NeedsLogin => {
                    log_in(&servers, directory.path()).await?;
                    servers.learn(SERVER).await?;
                }
                learned => drop(learned?),
            }
            let tools = servers.tools([SERVER])?;
            let known = servers.status(SERVER)?.known.map(|known| known.tools).unwrap_or_default();
            for tool in &tools {
                for input in inputs(&tool.spec(), &known, &context["toolCalls"]) {
                    call(tool, input).await?;
                }
            }
            if servers.status(SERVER)?.state != ServerState::NeedsLogin {
                return Ok(());
            }
        }
        Err("the server wants another login again and again".into())
    })
}

/// Calls a tool, and answers what its server asks.
async fn call(tool: &SharedTool, input: Value) -> Result<(), Failed> {
    let mut context = ToolContext::new(ChatId::from_u128(1), CallUid { step: StepId(1), ordinal: 0 });
    for _ in 0..QUESTIONS_MAX {
        match tool.run(context.clone(), input.clone()).await {
            Ok(ToolReturn::Asks(asks)) => {
                let answer = QuestionAnswer::Output(filled(&asks.question["schema"]).to_string());
                context.answered = Some((asks.handle, answer));
            }
            answer => {
                eprintln!("{}: {answer:?}", tool.spec().name);
                return Ok(());
            }
        }
    }
    Err("the server asks again and again".into())
}

/// The inputs that the suite wants a tool to be called with, or one that fits its schema.
fn inputs(spec: &ToolSpec, known: &[ToolDefinition], wanted: &Value) -> Vec<Value> {
    let calls = wanted.as_array().into_iter().flatten();
    let is_this = |call: &&Value| call["name"].as_str().is_some_and(|name| spec.name.ends_with(name));
    let told: Vec<Value> = calls.filter(is_this).map(|call| call["arguments"].clone()).collect();
    if !told.is_empty() {
        return told;
    }
    let mut input = filled(&spec.input_schema);
    if spec.input_schema["properties"].get("schema").is_some() {
        // One tool repeats the schema of another, which must have come through whole.
        let other = known.iter().find(|other| !spec.name.ends_with(&other.name));
        input["schema"] = other.map_or(Value::Null, |other| other.input.clone());
    }
    vec![input]
}

/// Logs in as a person does who agrees to everything.
async fn log_in(servers: &McpServers, directory: &Path) -> Result<(), Failed> {
    let redirect = "http://127.0.0.1:47120/callback".to_owned();
    let options = LoginOptions { redirect, ..LoginOptions::default() };
    let flow = LoginFlow::begin(servers.config(SERVER)?, &options).await?;
    let browser = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
    let answer = browser.get(flow.address.clone()).send().await?;
    let back = answer.headers().get("location").ok_or("the authorization server sent the browser nowhere")?;
    Ok(flow.finish(back.to_str()?, &Logins::new(directory)).await?)
}

/// An object that fits a schema of the suite.
fn filled(schema: &Value) -> Value {
    let fields = schema["properties"].as_object().into_iter().flatten();
    let filled = fields.map(|(name, about)| {
        let value = match about["type"].as_str() {
            Some("number" | "integer") => json!(2),
            Some("boolean") => json!(true),
            Some("array") => json!([]),
            Some("object") => json!({}),
            _ => json!("kelp"),
        };
        (name.clone(), value)
    });
    Value::Object(filled.collect())
}
