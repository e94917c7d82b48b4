//! The first turns with a server whose tools are not known yet.
//!
//! A server that was just configured has to start once before it can be offered. A turn that begins meanwhile waits a
//! moment, and then goes on without it. The model is told, so that it does not claim that there is no such tool.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use everturn::Hook;
use everturn::core::chat::Chat;
use everturn::core::ids::ChatId;
use tokio::time::{Instant, timeout_at};

use crate::server::Server;

/// How long a step waits for first contacts.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Chats and servers that are remembered as told.
const TOLD_MAX: usize = 10_000;

/// See [`McpServers::hook`](crate::McpServers::hook).
pub struct McpHook {
    servers: Vec<Arc<Server>>,
    told: Mutex<HashSet<(ChatId, String)>>,
}

impl McpHook {
    pub(crate) fn new(servers: Vec<Arc<Server>>) -> Self {
        Self { servers, told: Mutex::default() }
    }

    /// Remembers that a chat was told of a server, and says whether it is the first time.
    fn tell(&self, chat: ChatId, server: &str) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= TOLD_MAX {
            told.clear();
        }
        told.insert((chat, server.into()))
    }
}

#[async_trait]
impl Hook for McpHook {
    async fn before_step(&self, chat: &Chat) -> Option<String> {
        let until = Instant::now() + WAIT_MAX;
        let mut missing = Vec::new();
        for server in self.servers.iter().filter(|server| server.known().is_none()) {
            server.retry_after_login();
            let _ = timeout_at(until, server.met()).await;
            let name = &server.config.name;
            if server.known().is_none() && self.tell(chat.id, name) {
                let why = server.findings().failure.map_or("it has not started yet".into(), |failure| failure.reason);
                missing.push(format!("The tools of the MCP server `{name}` are not available now: {why}."));
            }
        }
        (!missing.is_empty()).then(|| missing.join("\n"))
    }
}
