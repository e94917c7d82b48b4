//! The server, from the command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use everturn::core::ids::ModelId;
use everturn::core::limits::Limits;
use everturn::stores::sqlite::Options;
use everturn::stores::{Sqlite, Store, Tokens};
use everturn::{Agent, Engine, Metrics};
use everturn_server::{Bounds, Brought, DataDir, Parts, Server, bring};
use prometheus_client::registry::Registry;
use tokio::signal::unix::{SignalKind, signal};

/// What a newcomer can try.
pub const EXAMPLES: &str = "Examples:
  everturn serve
  everturn serve --model anthropic/claude-sonnet-4-5
  everturn serve --listen 127.0.0.1:8080 --data ./data";

/// The agent of chats that name none.
const AGENT: &str = "default";

/// How the server is started.
#[derive(clap::Args)]
pub struct Serve {
    /// The address to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4140", env = "EVERTURN_LISTEN")]
    listen: SocketAddr,
    /// Listen on an address that other machines can reach. There is no TLS: put a proxy that has it in front.
    #[arg(long)]
    expose: bool,
    /// A further name and port that requests may use, such as chat.example.com; may be given several times.
    #[arg(long, value_name = "HOST")]
    host: Vec<String>,
    /// Where everything is kept; `everturn` in the XDG data directory if left out.
    #[arg(long, value_name = "DIRECTORY", env = "EVERTURN_DATA")]
    data: Option<PathBuf>,
    /// The model to ask, as provider/model; chosen by the keys in the environment if left out.
    #[arg(long, value_name = "MODEL", env = "EVERTURN_MODEL")]
    model: Option<ModelId>,
    /// Instructions for the model.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
}

/// Everything that is kept, wherever that is.
struct Kept {
    store: Arc<dyn Store>,
    tokens: Arc<dyn Tokens>,
    /// What the banner says of it.
    what: &'static str,
}

/// Opens the store. The only place that knows which one it is.
async fn open(data: &DataDir) -> anyhow::Result<Kept> {
    let dir = data.path().to_owned();
    let opened = tokio::task::spawn_blocking(move || Sqlite::open(&dir, &Options::default()));
    let sqlite = Arc::new(opened.await??);
    Ok(Kept { store: sqlite.clone(), tokens: sqlite, what: "SQLite" })
}

impl Serve {
    /// Serves until Ctrl-C or SIGTERM.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        if !self.listen.ip().is_loopback() && !self.expose {
            bail!("{} can be reached from other machines; add --expose if that is meant", self.listen);
        }
        log();
        let variable = |name: &str| std::env::var(name).ok();
        let path = self.data.clone().map_or_else(|| DataDir::usual(variable), Ok)?;
        let data = DataDir::open(&path)?;
        let Kept { store, tokens, what } = open(&data).await?;
        let mut registry = Registry::default();
        let builder = Engine::builder().store(store.clone()).metrics(Metrics::register(&mut registry));
        let Brought { builder, model, with_key } = bring(builder, &Limits::default(), variable)?;
        let model = self.model.clone().unwrap_or(model);
        let mut agent = Agent::new(model.clone());
        agent.system.extend(self.system.clone());
        let engine = builder.agent(AGENT, agent).start();
        if engine.facts(&model).is_none() {
            bail!("nobody here provides {model}: the providers are anthropic, gemini, openai and understudy");
        }
        data.first_token(&*tokens, engine.now()).await?;
        let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let parts = Parts { engine, store, tokens, registry, agent: AGENT.into(), bounds: Bounds::default() };
        let server = Server::start(parts, self.listen, &self.host).await.context("try another --listen")?;
        self.banner(&server, &data, &model, &with_key, what);
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        eprintln!("Ending: turns under way are handed over.");
        server.stop().await;
        Ok(ExitCode::SUCCESS)
    }

    fn banner(&self, server: &Server, data: &DataDir, model: &ModelId, with_key: &[&str], store: &str) {
        println!("Everturn listens on http://{}", server.address());
        println!("  data   {}", data.path().display());
        println!("  store  {store}");
        println!("  token  in {}", data.token_file().display());
        match (model.provider(), with_key) {
            ("understudy", []) => println!("  model  {model}: no key is set, so the understudy stands in for a model"),
            ("understudy", _) => println!("  model  {model}: the understudy stands in for a model"),
            (provider, keys) if !keys.contains(&provider) => {
                println!("  model  {model}: but no key for {provider} is set")
            }
            _ => println!("  model  {model}"),
        }
        if server.resumed() > 0 {
            println!("  chats  {} taken up where they were", server.resumed());
        }
        if self.expose {
            println!("  Other machines can reach this address, and there is no TLS: put a proxy that has it in front.");
        }
        println!("Ctrl-C ends it.");
    }
}

/// Logs go to standard error, as EVERTURN_LOG says.
fn log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("EVERTURN_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
