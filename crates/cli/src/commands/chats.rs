//! `everturn chats`: list or search chats.

use std::process::ExitCode;

use crate::clock;
use crate::daemon::{ChatArgs, DaemonArgs, IfNoDaemon};
use crate::find_chat::find;
use crate::output::{self, println};
use crate::render::ago;
use crate::terminal::visible;

/// Examples below the help text.
pub const EXAMPLES: &str = "Examples:
  everturn chats
  everturn chats kelp --limit 5
  everturn chats --of 9n2x4c
  everturn chats --json | jq -r 'select(.status == \"failed\").id'
  everturn chats --all --url https://chat.example.com --token-file ./token";

/// Characters of a title that are shown.
const TITLE_CHARS_MAX: usize = 200;

/// Arguments of `everturn chats`.
#[derive(clap::Args)]
pub struct Chats {
    /// Only chats with this text in the title, or with all its words in one message of the user or the model.
    text: Option<String>,
    /// Include archived chats.
    #[arg(long)]
    all: bool,
    /// Only chats of sub-agents that this chat asked: its id, or a unique beginning or end of it.
    #[arg(long, value_name = "CHAT")]
    of: Option<String>,
    /// Include chats of sub-agents.
    #[arg(long, conflicts_with = "of")]
    sub_agents: bool,
    /// List at most this many.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
    /// Print each chat as one line of JSON, as `GET /v1/chats` shows it.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

impl Chats {
    /// Lists the chats, the most recently used first.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let connection = self.daemon.open(&ChatArgs::default(), IfNoDaemon::Answer).await?;
        let mut query = format!("limit={}", self.limit);
        if !self.all {
            query.push_str("&archived=false");
        }
        if let Some(text) = &self.text {
            query.push_str(&format!("&text={}", encoded(text)));
        }
        if self.sub_agents {
            query.push_str("&sub_agents=true");
        }
        let listed = match &self.of {
            Some(chat) => match find(&connection.client, chat).await {
                Ok(chat) => connection.client.list(&format!("{query}&parent={}", chat.id)).await,
                Err(error) => {
                    connection.leave().await;
                    return Err(error);
                }
            },
            None => connection.client.list(&query).await,
        };
        connection.leave().await;
        for chat in listed?.chats {
            if self.json {
                output::json(&chat)?;
                continue;
            }
            let status = serde_json::to_value(chat.status)?;
            let status = status.as_str().unwrap_or_default();
            let title = if chat.title.is_empty() {
                "(no message yet)".into()
            } else {
                visible::line(&chat.title, TITLE_CHARS_MAX)
            };
            println!("{}  {:<12}  {:<12}  {title}", chat.id, ago(clock::now() - chat.touched), status);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The text percent-encoded for a query.
fn encoded(text: &str) -> String {
    let byte =
        |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(byte).collect()
}
