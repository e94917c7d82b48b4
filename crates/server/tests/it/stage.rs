//! A server on a free port, with the understudy behind it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use everturn::core::ids::{ChatId, Timestamp};
use everturn::core::prompt::ToolSpec;
use everturn::stores::{Memory, Scope, Store, Token, TokenHash, TokenKind, Tokens};
use everturn::{Agent, Approval, Engine, Metrics, Policy, tool};
use everturn_server::{
    GATEWAY_AGENT, ListenAddress, ListenerConfig, ModelOffer, PageFile, Reach, Server, ServerLimits, ServerParts, Site,
    wire,
};
use everturn_understudy::{Manner, Understudy};
use prometheus_client::registry::Registry;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::reader::Reader;
use crate::sluggish::Sluggish;

/// The token that tests use by default; its owner is `me`.
pub const TOKEN: &str = "evt_of-whoever-the-tests-are-in-most-cases";

/// A page of two files.
pub const PAGE: [PageFile; 2] = [page_file("/index.html", false), page_file("/assets/page-4XKQ2JZP.js", true)];

const fn page_file(path: &'static str, is_hashed: bool) -> PageFile {
    PageFile { path, is_hashed, hash: "0123456789abcdef", plain: b"plain", gzip: b"gzip", brotli: b"br" }
}

/// A server, and a client of it.
pub struct Stage {
    pub server: Server,
    pub engine: Engine,
    pub memory: Arc<Memory>,
    pub client: Client,
    pub base: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Launch {
    #[expect(dead_code, reason = "only its schema is asked for")]
    target: String,
}

/// Configuration of a test server: agents (the first is the default), models to choose, and allowed origins.
struct Cast {
    agents: Vec<(&'static str, Agent)>,
    models: Vec<ModelOffer>,
    origins: Vec<Site>,
    /// The provider, if it is not the company.
    provider: Option<Understudy>,
}

impl Cast {
    fn usual() -> Self {
        let agents = vec![
            ("default", agent("persona")),
            ("numbered", agent("numbered")),
            ("asks", asking()),
            ("launches", launching(Approval::Needed)),
            ("launches-freely", launching(Approval::NotNeeded)),
            ("fails", failing()),
            (GATEWAY_AGENT, Agent { models: vec![], ..agent("persona") }),
        ];
        let models = vec![ModelOffer::Family("understudy/extra".parse().unwrap())];
        Self { agents, models, origins: vec![], provider: None }
    }
}

impl Stage {
    /// A server whose agents answer at once: `default`, `numbered` (t1 t2 t3 …), `asks` (runs a tool of its client),
    /// `launches` (needs an approval) and `fails` (has no model).
    pub async fn new() -> Self {
        Self::with(ServerLimits::default(), Duration::ZERO).await
    }

    /// [`Stage::new`] with other limits, and a pause between words.
    pub async fn with(limits: ServerLimits, pace: Duration) -> Self {
        let limits = ServerLimits { grace_max: Duration::ZERO, ..limits }; // Shutdown waits for no abandoned request.
        let memory = Arc::new(Memory::new());
        Self::on(memory.clone(), memory, limits, pace).await
    }

    /// [`Stage::with`] on another store. Tokens are stored in memory.
    pub async fn on(store: Arc<dyn Store>, memory: Arc<Memory>, limits: ServerLimits, pace: Duration) -> Self {
        let tokens = memory.clone();
        Self::play(store, tokens, memory, limits, pace, Cast::usual()).await
    }

    /// The usual server on a store that waits or fails on demand.
    pub async fn sluggish(limits: ServerLimits) -> (Self, Arc<Sluggish>) {
        let store = Arc::new(Sluggish::default());
        let limits = ServerLimits { grace_max: Duration::ZERO, ..limits };
        let (memory, cast) = (store.memory.clone(), Cast::usual());
        (Self::play(store.store(), store.clone(), memory, limits, Duration::ZERO, cast).await, store)
    }

    /// The usual server before a provider that plays scripts.
    pub async fn playing(provider: &Understudy) -> Self {
        Self::playing_on(Arc::new(Memory::new()), ServerLimits::default(), provider).await
    }

    /// [`Stage::playing`] on this store, with these limits.
    pub async fn playing_on(memory: Arc<Memory>, limits: ServerLimits, provider: &Understudy) -> Self {
        let limits = ServerLimits { grace_max: Duration::ZERO, ..limits };
        let cast = Cast { provider: Some(provider.clone()), ..Cast::usual() };
        Self::play(memory.clone(), memory.clone(), memory, limits, Duration::ZERO, cast).await
    }

    /// The usual server, with this allowed origin.
    pub async fn befriending(site: &str) -> Self {
        let (memory, cast) = (Arc::new(Memory::new()), Cast { origins: vec![site.parse().unwrap()], ..Cast::usual() });
        Self::play(memory.clone(), memory.clone(), memory, ServerLimits::default(), Duration::ZERO, cast).await
    }

    /// A new server on the same store, configured with the agent `heir` only, and no model to choose.
    pub async fn reconfigured(self) -> Self {
        self.server.stop().await;
        let agents = vec![("heir", agent("persona"))];
        let cast = Cast { agents, models: vec![], origins: vec![], provider: None };
        let limits = ServerLimits { grace_max: Duration::ZERO, ..ServerLimits::default() };
        let (store, tokens) = (self.memory.clone(), self.memory.clone());
        Self::play(store, tokens, self.memory, limits, Duration::ZERO, cast).await
    }

    async fn play(
        store: Arc<dyn Store>,
        tokens: Arc<dyn Tokens>,
        memory: Arc<Memory>,
        limits: ServerLimits,
        pace: Duration,
        cast: Cast,
    ) -> Self {
        let Cast { agents, models, origins, provider } = cast;
        let _ = rustls::crypto::ring::default_provider().install_default(); // Another test may have been first.
        let mut registry = Registry::default();
        let builder = Engine::builder()
            .store(store.clone())
            .metrics(Metrics::register(&mut registry))
            .provider(provider.unwrap_or_else(|| Understudy::company(Manner { pace, seed: 7 })));
        let agent = agents[0].0.into();
        let engine = agents.into_iter().fold(builder, |builder, (name, agent)| builder.agent(name, agent)).start();
        let parts = ServerParts {
            engine: engine.clone(),
            store,
            tokens,
            registry,
            agent,
            models,
            mcp: Arc::new(Vec::new),
            limits,
            workspaces: BTreeMap::new(),
            workspace_service: None,
            page: &PAGE,
            drill: None,
        };
        let entrance = ListenerConfig::plain(ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))));
        let reach = Reach { hosts: vec!["everturn.test".into()], origins, ..Reach::default() };
        let server = Server::open(parts, &[entrance], reach).await.unwrap();
        let base = format!("http://{}", server.address());
        let stage = Self { server, engine, memory, client: Client::new(), base };
        stage.grant(TOKEN, "me", &Scope::ALL).await;
        stage
    }

    /// Stores a token.
    pub async fn grant(&self, secret: &str, owner: &str, scopes: &[Scope]) {
        self.grant_until(secret, owner, scopes, None).await;
    }

    /// Stores a token with an expiry.
    pub async fn grant_until(&self, secret: &str, owner: &str, scopes: &[Scope], expires: Option<Timestamp>) {
        let token = Token {
            hash: TokenHash::of(secret),
            name: "test".into(),
            owner: owner.into(),
            scopes: scopes.iter().copied().collect(),
            made: Timestamp(0),
            expires,
            revoked: None,
            kind: TokenKind::Bearer,
        };
        self.memory.put(&token).await.unwrap();
    }

    /// A request with the usual token.
    pub fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base)).bearer_auth(TOKEN)
    }

    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        answer(self.ask(Method::GET, path).send().await.unwrap()).await
    }

    pub async fn send(&self, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
        answer(self.ask(method, path).json(&body).send().await.unwrap()).await
    }

    pub async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.send(Method::POST, path, body).await
    }

    /// A new chat, by its path.
    pub async fn chat(&self, agent: &str) -> String {
        let (status, chat) = self.post("/v1/chats", json!({"agent": agent})).await;
        assert_eq!(status, StatusCode::CREATED, "{chat}");
        format!("/v1/chats/{}", chat["id"].as_str().unwrap())
    }

    /// Sends a message to a chat.
    pub async fn say(&self, chat: &str, text: &str) -> u64 {
        let (status, accepted) = self.post(&format!("{chat}/messages"), json!({"text": text})).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{accepted}");
        accepted["id"].as_u64().unwrap()
    }

    /// Sends messages to a new chat, waits for each answer, and returns the chat's path.
    pub async fn talk(&self, agent: &str, texts: &[&str]) -> String {
        let chat = self.chat(agent).await;
        let mut reader = self.watch(&chat).await;
        for (i, text) in texts.iter().enumerate() {
            self.say(&chat, text).await;
            reader.until(|view| view.messages.len() > 2 * i + 1).await;
            reader.until_rest().await;
        }
        chat
    }

    /// A reader of the chat's stream.
    pub async fn watch(&self, chat: &str) -> Reader {
        Reader::open(self.ask(Method::GET, &format!("{chat}/stream"))).await
    }

    /// The chat as the server sees it, in the shapes of its clients.
    pub async fn view(&self, chat: &str) -> wire::View {
        let id: ChatId = chat.rsplit('/').next().unwrap().parse().unwrap();
        (&self.engine.chat(id).view().await.unwrap()).into()
    }

    /// The reader's view once it has reached the server's current version. A finished turn is not enough: a late
    /// command may be applied after it.
    pub async fn caught_up(&self, reader: &mut Reader, chat: &str) -> wire::View {
        let version = |view: &wire::View| view.status.as_ref().map(|status| status.version);
        let now = version(&self.view(chat).await);
        reader.until(|view| version(view) >= now).await
    }
}

pub async fn answer(response: Response) -> (StatusCode, Value) {
    let (status, text) = (response.status(), response.text().await.unwrap());
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// The last word of a problem's type.
pub fn kind(problem: &Value) -> &str {
    problem["type"].as_str().and_then(|kind| kind.strip_prefix("urn:everturn:problem:")).unwrap_or("no problem")
}

fn agent(model: &str) -> Agent {
    Agent::new(format!("understudy/{model}").parse().unwrap())
}

fn asking() -> Agent {
    let mut agent = agent("persona");
    let schema = json!({"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]});
    agent.toolbox.add_client(ToolSpec::new("map", "Shows a map.", schema)).unwrap();
    agent
}

fn launching(approval: Approval) -> Agent {
    let launch = tool("launch", "Launches.", |_, _: Launch| async move { Ok("launched".to_string()) });
    agent("persona").tool(launch.with(Policy { approval, ..Policy::default() })).unwrap()
}

fn failing() -> Agent {
    let mut agent = agent("persona");
    agent.models.clear();
    agent
}
