//! A server in this process whose model plays a script.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use everturn::core::ids::Timestamp;
use everturn::core::message::Stop;
use everturn::stores::{Memory, Scope, Token, TokenHash, Tokens as _};
use everturn::{Agent, Approval, Engine, Policy, tool};
use everturn_server::{Bounds, Parts, Server};
use everturn_understudy::{Script, Understudy, call, script, stop, text};
use prometheus_client::registry::Registry;
use serde_json::json;

/// What opens it.
pub const TOKEN: &str = "evt_of-whoever-the-tests-are-in-most-cases";

/// A server that plays a script.
pub struct Stage {
    pub server: Server,
    pub base: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Launch {
    #[expect(dead_code, reason = "only its schema is asked for")]
    target: String,
}

impl Stage {
    /// The model wants to launch something, which somebody has to allow, and has a last word.
    pub async fn launching() -> Self {
        let target = format!("\u{1b}[2Jmoon\u{202e}{}", "x".repeat(2_000));
        Self::playing([
            script([call("launch", json!({ "target": target })), stop(Stop::ToolUse)]),
            script([text("Well then."), stop(Stop::End)]),
        ])
        .await
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
        let agent = Agent::new("understudy/any".parse().unwrap()).tool(launch).unwrap();
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
        };
        memory.put(&token).await.unwrap();
        let parts = Parts {
            engine,
            store: memory.clone(),
            tokens: memory,
            registry: Registry::default(),
            agent: "default".into(),
            bounds: Bounds::default(),
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = Server::start(parts, address, &[]).await.unwrap();
        let base = format!("http://{}", server.address());
        Self { server, base }
    }
}
