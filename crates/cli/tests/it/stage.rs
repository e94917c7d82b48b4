//! A server in this process whose model plays a script.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use everturn::core::ids::Timestamp;
use everturn::core::message::Stop;
use everturn::stores::{Memory, Scope, Token, TokenHash, TokenKind, Tokens as _};
use everturn::{Agent, Approval, Engine, Policy, ToolContext, tool};
use everturn_server::{Server, ServerLimits, ServerParts};
use everturn_understudy::{Script, Understudy, call, reasoning, script, stop, text};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::sync::Notify;

/// What opens it.
pub const TOKEN: &str = "evt_of-whoever-the-tests-are-in-most-cases";

/// A server that plays a script.
pub struct Stage {
    pub server: Server,
    pub base: String,
    /// Ends the tool `build`.
    pub built: Arc<Notify>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Launch {
    #[expect(dead_code, reason = "only its schema is asked for")]
    target: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Build {
    #[expect(dead_code, reason = "only its schema is asked for")]
    command: String,
}

impl Stage {
    /// The model calls `launch`, which needs an approval, and then ends with a text.
    pub async fn launching() -> Self {
        let target = format!("\u{1b}[2Jmoon\u{202e}{}", "x".repeat(2_000));
        Self::playing([
            script([call("launch", json!({ "target": target })), stop(Stop::ToolUse)]),
            script([text("Well then."), stop(Stop::End)]),
        ])
        .await
    }

    /// The model calls `build`, which shows how far it is until the test ends it.
    pub async fn building() -> Self {
        let build = || script([call("build", json!({"command": "make all"})), stop(Stop::ToolUse)]);
        let word = || script([text("Built."), stop(Stop::End)]);
        Self::playing([build(), word(), build(), word()]).await
    }

    /// Two calls of `launch`, with different targets.
    pub async fn launching_twice() -> Self {
        let launch = |target| script([call("launch", json!({ "target": target })), stop(Stop::ToolUse)]);
        let word = || script([text("Well then."), stop(Stop::End)]);
        Self::playing([launch("moon"), word(), launch("mars"), word()]).await
    }

    /// The model thinks, and launches something.
    pub async fn thinking() -> Self {
        let thought = reasoning("Where to? The moon is near.");
        Self::playing([
            script([thought, call("launch", json!({ "target": "moon" })), stop(Stop::ToolUse)]),
            script([text("Well then."), stop(Stop::End)]),
        ])
        .await
    }

    /// The model says as much as it may.
    pub async fn too_long() -> Self {
        Self::playing([script([text("As long as"), stop(Stop::Length)])]).await
    }

    /// The first answer reaches the output limit; the next one is complete.
    pub async fn too_long_then_well() -> Self {
        let long = script([text("As long as"), stop(Stop::Length)]);
        Self::playing([long, script([text("Well then."), stop(Stop::End)])]).await
    }

    /// The model says what a terminal would obey.
    pub async fn hostile() -> Self {
        let said =
            "\u{1b}[2J\u{1b}[H\n\u{1b}]0;title\u{7}\n`\u{9b}31m` \u{202e}abc **\u{1b}[31mred**\n&#27;[31mred\u{200b}\n";
        Self::playing([script([text(said), stop(Stop::End)])]).await
    }

    async fn playing<const N: usize>(scripts: [Script; N]) -> Self {
        let memory = Arc::new(Memory::new());
        let launch = tool("launch", "Launches.", |_, _: Launch| async move { Ok("launched".to_string()) });
        let launch = launch.with(Policy { approval: Approval::Needed, ..Policy::default() });
        let built = Arc::new(Notify::new());
        let ends = built.clone();
        let build = tool("build", "Builds.", move |context: ToolContext, _: Build| {
            let ends = ends.clone();
            async move {
                context.show("compiling\n 1 of 2\n");
                ends.notified().await;
                Ok("built".to_string())
            }
        });
        let agent = Agent::new("understudy/any".parse().unwrap()).tool(launch).unwrap().tool(build).unwrap();
        let engine =
            Engine::builder().store(memory.clone()).provider(Understudy::new(scripts)).agent("default", agent).start();
        let token = Token {
            hash: TokenHash::of(TOKEN),
            name: "test".into(),
            owner: "me".into(),
            scopes: Scope::ALL.iter().copied().collect(),
            made: Timestamp(0),
            expires: None,
            revoked: None,
            kind: TokenKind::Bearer,
        };
        memory.put(&token).await.unwrap();
        let parts = ServerParts {
            engine,
            store: memory.clone(),
            tokens: memory,
            registry: Registry::default(),
            agent: "default".into(),
            models: vec![],
            mcp: Arc::new(Vec::new),
            limits: ServerLimits::default(),
            workspaces: BTreeMap::new(),
            workspace_service: None,
            page: &[],
            drill: None,
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = Server::start(parts, address, &[]).await.unwrap();
        let base = format!("http://{}", server.address());
        Self { server, base, built }
    }
}
