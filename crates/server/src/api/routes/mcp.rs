//! Showing MCP servers.

use axum::Json as Answer;
use axum::extract::State;

use crate::api::wire;
use crate::app::SharedApp;
use crate::auth::access::{Authorized, Managing};

/// All MCP servers of this process with their tools, and how they are.
#[utoipa::path(get, path = "/v1/mcp", operation_id = "listMcpServers", tag = "mcp", security(("token" = [])), responses(
    (status = 200, description = "The servers", body = wire::McpServerList),
))]
pub async fn list(_: Authorized<Managing>, State(app): State<SharedApp>) -> Answer<wire::McpServerList> {
    Answer(wire::McpServerList { servers: (app.mcp)() })
}
