//! One method per request of the HTTP API.

use everturn_server::wire::{
    Accepted, Account, AgentsList, Answer, Answers, ChangedFiles, Chat, Chats, Create, Edit, GrantsList, JobInfo,
    JobsList, LoginCode, McpServerList, Messages, Models, NewCode, NewPart, NewToken, Nothing, OpenAsks, Patch, Secret,
    Send, Session, TokenInfo, TokensList, UndoCalls, Usage, When,
};
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Client, ClientError, RepeatableRequest, new_key};

impl Client {
    /// Creates a chat.
    pub async fn create(&self, new: &Create) -> Result<Chat, ClientError> {
        self.command(Method::POST, "/v1/chats".into(), new).await
    }

    /// A page of chats, the most recently used first. `query` is the query string.
    pub async fn list(&self, query: &str) -> Result<Chats, ClientError> {
        self.get(&format!("/v1/chats?{query}")).await
    }

    /// A chat, without its messages.
    pub async fn chat(&self, chat: &str) -> Result<Chat, ClientError> {
        self.get(&format!("/v1/chats/{chat}")).await
    }

    /// Changes a chat's title, archive state and settings.
    pub async fn patch(&self, chat: &str, patch: &Patch) -> Result<Chat, ClientError> {
        self.command(Method::PATCH, format!("/v1/chats/{chat}"), patch).await
    }

    /// A page of messages, oldest first.
    pub async fn messages(&self, chat: &str, before: Option<u64>) -> Result<Messages, ClientError> {
        let before = before.map(|before| format!("?before={before}")).unwrap_or_default();
        self.get(&format!("/v1/chats/{chat}/messages{before}")).await
    }

    /// Sends a message. It is stored when this returns.
    pub async fn send(&self, chat: &str, text: &str, when: When) -> Result<Accepted, ClientError> {
        let send = Send { text: Some(text.into()), when: Some(when), ..Send::default() };
        self.command(Method::POST, format!("/v1/chats/{chat}/messages"), &send).await
    }

    /// Sends a message with files.
    pub async fn send_with(
        &self,
        chat: &str,
        text: &str,
        parts: Vec<NewPart>,
        when: When,
    ) -> Result<Accepted, ClientError> {
        let send = Send { text: Some(text.into()), parts, when: Some(when) };
        self.command(Method::POST, format!("/v1/chats/{chat}/messages"), &send).await
    }

    /// Deletes a chat with everything in it.
    pub async fn delete(&self, chat: &str) -> Result<(), ClientError> {
        let key = self.name.clone().map_or_else(new_key, Ok)?;
        let path = format!("/v1/chats/{chat}");
        self.ask_bytes(&RepeatableRequest { method: Method::DELETE, path, key: Some(key), body: None }).await.map(drop)
    }

    /// Interrupts the turn. Everything that was shown is stored when this returns.
    pub async fn interrupt(&self, chat: &str) -> Result<Chat, ClientError> {
        self.command(Method::POST, format!("/v1/chats/{chat}/interrupt"), &Nothing {}).await
    }

    /// Answers calls that wait.
    pub async fn answer(&self, chat: &str, answers: Vec<Answer>) -> Result<Accepted, ClientError> {
        self.command(Method::POST, format!("/v1/chats/{chat}/answers"), &Answers { answers }).await
    }

    /// Summarises a chat.
    pub async fn compact(&self, chat: &str) -> Result<Accepted, ClientError> {
        self.command(Method::POST, format!("/v1/chats/{chat}/compact"), &Nothing {}).await
    }

    /// Replaces a user message, and everything after it.
    pub async fn edit(&self, chat: &str, message: u64, text: &str) -> Result<Accepted, ClientError> {
        let edit = Edit { text: Some(text.into()), ..Edit::default() };
        self.command(Method::PUT, format!("/v1/chats/{chat}/messages/{message}"), &edit).await
    }

    /// Removes a queued message.
    pub async fn unqueue(&self, chat: &str, id: u64) -> Result<Accepted, ClientError> {
        self.command(Method::DELETE, format!("/v1/chats/{chat}/queue/{id}"), &Nothing {}).await
    }

    /// Moves a queued message to the front.
    pub async fn promote(&self, chat: &str, id: u64) -> Result<Accepted, ClientError> {
        self.command(Method::POST, format!("/v1/chats/{chat}/queue/{id}/promote"), &Nothing {}).await
    }

    /// Makes a code that opens one session of the web page.
    pub async fn login_code(&self, new: &NewCode) -> Result<LoginCode, ClientError> {
        self.command(Method::POST, "/v1/codes".into(), new).await
    }

    /// The token in use: its owner and scopes.
    pub async fn session(&self) -> Result<Session, ClientError> {
        self.get("/v1/session").await
    }

    /// The usage of a chat, with every provider call.
    pub async fn usage(&self, chat: &str) -> Result<Usage, ClientError> {
        self.get(&format!("/v1/chats/{chat}/usage?each=true")).await
    }

    /// The owner's budget, and its usage today and this month.
    pub async fn account(&self) -> Result<Account, ClientError> {
        self.get("/v1/usage").await
    }

    /// The models of the server.
    pub async fn models(&self) -> Result<Models, ClientError> {
        self.get("/v1/models").await
    }

    /// All MCP servers of the daemon.
    pub async fn mcp_servers(&self) -> Result<McpServerList, ClientError> {
        self.get("/v1/mcp").await
    }

    /// The files that calls of a chat changed.
    pub async fn changes(&self, chat: &str) -> Result<ChangedFiles, ClientError> {
        self.get(&format!("/v1/chats/{chat}/changes")).await
    }

    /// Undoes what these calls changed in files.
    pub async fn undo(&self, chat: &str, calls: Vec<String>) -> Result<ChangedFiles, ClientError> {
        self.command(Method::POST, format!("/v1/chats/{chat}/undo"), &UndoCalls { calls }).await
    }

    /// The background jobs of a chat.
    pub async fn jobs(&self, chat: &str) -> Result<JobsList, ClientError> {
        self.get(&format!("/v1/chats/{chat}/jobs")).await
    }

    /// Ends a background job.
    pub async fn stop_job(&self, chat: &str, number: u32) -> Result<JobInfo, ClientError> {
        self.command(Method::POST, format!("/v1/chats/{chat}/jobs/{number}/stop"), &Nothing {}).await
    }

    /// Calls that wait for a person, over all chats: the first 200 chats that have some.
    pub async fn asks(&self) -> Result<OpenAsks, ClientError> {
        self.get("/v1/asks?limit=200").await
    }

    /// The grants of a chat.
    pub async fn grants(&self, chat: &str) -> Result<GrantsList, ClientError> {
        self.get(&format!("/v1/chats/{chat}/grants")).await
    }

    /// Revokes a grant.
    pub async fn revoke_grant(&self, chat: &str, call: &str) -> Result<Accepted, ClientError> {
        self.command(Method::DELETE, format!("/v1/chats/{chat}/grants/{call}"), &Nothing {}).await
    }

    /// The agents of the server.
    pub async fn agents(&self) -> Result<AgentsList, ClientError> {
        self.get("/v1/agents").await
    }

    /// All tokens, without their secrets.
    pub async fn tokens(&self) -> Result<TokensList, ClientError> {
        self.get("/v1/tokens").await
    }

    /// Creates a token. Not retried once it may have been created: its secret is shown only once.
    pub async fn make_token(&self, new: &NewToken) -> Result<Secret, ClientError> {
        let body = Some(serde_json::to_vec(new).map_err(ClientError::Malformed)?);
        self.ask(RepeatableRequest { method: Method::POST, path: "/v1/tokens".into(), key: None, body }).await
    }

    /// Revokes a token.
    pub async fn revoke_token(&self, id: &str) -> Result<TokenInfo, ClientError> {
        self.command(Method::DELETE, format!("/v1/tokens/{id}"), &Nothing {}).await
    }

    /// Copies a chat up to a message.
    pub async fn fork(&self, chat: &str, at: u64) -> Result<Chat, ClientError> {
        self.post(&format!("/v1/chats/{chat}/fork"), &serde_json::json!({ "at": at })).await
    }

    /// GET with a JSON answer.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.ask(RepeatableRequest { method: Method::GET, path: path.into(), key: None, body: None }).await
    }

    /// GET with the answer's bytes.
    pub async fn get_bytes(&self, path: &str) -> Result<Vec<u8>, ClientError> {
        self.ask_bytes(&RepeatableRequest { method: Method::GET, path: path.into(), key: None, body: None }).await
    }

    /// POST with a JSON body.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, ClientError> {
        self.command(Method::POST, path.into(), body).await
    }

    /// A request with an effect, with one idempotency key for all tries.
    async fn command<T: DeserializeOwned>(
        &self,
        method: Method,
        path: String,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        // A DELETE has no body: the path names the object.
        let body = (method != Method::DELETE).then(|| serde_json::to_vec(body)).transpose();
        let body = body.map_err(ClientError::Malformed)?;
        let key = self.name.clone().map_or_else(new_key, Ok)?;
        self.ask(RepeatableRequest { method, path, key: Some(key), body }).await
    }
}
