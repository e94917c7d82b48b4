//! Which chats there are.

use std::process::ExitCode;

use crate::clock;
use crate::daemon::{Otherwise, Own, Which};
use crate::output::{self, println};
use crate::render::ago;
use crate::terminal::visible;

/// What a newcomer can try.
pub const EXAMPLES: &str = "Examples:
  everturn chats
  everturn chats kelp --limit 5
  everturn chats --json | jq -r 'select(.status == \"failed\").id'
  everturn chats --all --url https://chat.example.com --token-file ./token";

/// How much of a title is shown, in one line.
const TITLE_CHARS_MAX: usize = 200;

/// Which chats to list.
#[derive(clap::Args)]
pub struct Chats {
    /// With this in their title, or with all words of this in one message that a person or the model said.
    text: Option<String>,
    /// Those that are put away, too.
    #[arg(long)]
    all: bool,
    /// At most so many.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
    /// Print each chat as one line of JSON, as `GET /v1/chats` shows it.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

impl Chats {
    /// Lists them, those first in which something was said last.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let house = self.which.open(&Own::default(), Otherwise::Answer).await?;
        let mut query = format!("limit={}", self.limit);
        if !self.all {
            query.push_str("&archived=false");
        }
        if let Some(text) = &self.text {
            query.push_str(&format!("&text={}", encoded(text)));
        }
        let listed = house.client.list(&query).await;
        house.leave().await;
        for chat in listed?.chats {
            if self.json {
                output::json(&chat)?;
                continue;
            }
            let status = serde_json::to_value(chat.status)?;
            let status = status.as_str().unwrap_or_default();
            let title = if chat.title.is_empty() {
                "(nothing was said)".into()
            } else {
                visible::line(&chat.title, TITLE_CHARS_MAX)
            };
            println!("{}  {:<12}  {:<12}  {title}", chat.id, ago(clock::now() - chat.touched), status);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Text as it may stand in a query.
fn encoded(text: &str) -> String {
    let byte =
        |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(byte).collect()
}
