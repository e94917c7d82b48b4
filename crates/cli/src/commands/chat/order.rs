//! Orders of the user, carried out one after the other.
//!
//! Orders are carried out in the order in which they were given, while the screen is updated. While the
//! daemon is away they wait, each with its idempotency key, and are sent when it is back. The text of a
//! refused order returns to the input line, so that it need not be typed again.

use everturn_server::wire::{Answer, ChangedFile, Chat, Create, NewPart, Patch, When};
use tokio::sync::mpsc;

use super::session::Begin;
use super::{attach, facts};
use crate::client::{Client, ClientError};
use crate::render::grouped;
use crate::render::usage as cost;

/// Limit of waiting orders.
const ORDERS_MAX: usize = 64;

/// One request of the user to the daemon.
#[derive(Debug)]
pub enum Order {
    /// Create a chat and send its first message.
    Begin {
        begin: Begin,
        text: String,
        files: Vec<NewPart>,
    },
    /// Send a message.
    Send {
        chat: String,
        text: String,
        files: Vec<NewPart>,
        when: When,
    },
    /// Replace a message.
    Edit {
        chat: String,
        message: u64,
        text: String,
    },
    /// Allow or deny a call.
    Answer {
        chat: String,
        answer: Answer,
    },
    /// Set the chat's title.
    Title {
        chat: String,
        title: String,
    },
    /// Summarise the chat.
    Compact {
        chat: String,
    },
    /// Create a copy of the chat.
    Fork {
        chat: String,
        at: u64,
    },
    /// Send a queued message next, or remove it from the queue.
    Promote {
        chat: String,
        id: u64,
    },
    Unqueue {
        chat: String,
        id: u64,
    },
    /// Show cost, or models; with the chat's own model, if it has one.
    Cost {
        chat: String,
    },
    Models {
        own: Option<String>,
    },
    /// Use this model, or the agent's.
    Choose {
        chat: String,
        model: Option<String>,
    },
    /// Record the chat's provider traffic, or stop that.
    Debug {
        chat: String,
        debug: bool,
    },
    /// Archive the chat, or take it out of the archive.
    Archive {
        chat: String,
        archived: bool,
    },
    /// Delete the chat.
    Delete {
        chat: String,
    },
    /// List the names of the models.
    Names,
    /// Show what one call, or the newest turn, changed in files.
    Diff {
        chat: String,
        call: Option<String>,
    },
    /// Undo that.
    Undo {
        chat: String,
        call: Option<String>,
    },
    /// List the grants of the chat.
    Grants {
        chat: String,
    },
    /// List the background jobs of the chat.
    Jobs {
        chat: String,
    },
    /// End one of them.
    StopJob {
        chat: String,
        number: u32,
    },
    /// Revoke the grant that was given with this call.
    Revoke {
        chat: String,
        call: String,
    },
    /// List the agents, or the MCP servers.
    Agents,
    Mcp,
}

/// The outcome of an order.
#[derive(Debug)]
pub enum Outcome {
    Done,
    /// Lines to show.
    Told(Vec<String>),
    /// The names of the models.
    Names(Vec<String>),
    /// Changes of files.
    Changes(Vec<ChangedFile>),
    /// A new chat was opened.
    Opened(Box<Chat>),
    /// A copy of the chat, up to this message, was opened.
    Forked {
        copy: Box<Chat>,
        of: String,
        at: u64,
    },
    /// The chat was deleted.
    Deleted,
    /// The daemon cannot be reached. The order waits, and another outcome follows.
    Waits(ClientError),
    /// The order was refused; its text comes back.
    Failed {
        error: ClientError,
        unsaid: Option<String>,
    },
}

impl Order {
    /// The typed text, of orders that send one.
    pub fn words(&self) -> Option<&str> {
        match self {
            Self::Begin { text, .. } | Self::Send { text, .. } | Self::Edit { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Whether the order only asks for information, which is of use only at once.
    const fn is_question(&self) -> bool {
        matches!(
            self,
            Self::Cost { .. }
                | Self::Models { .. }
                | Self::Names
                | Self::Diff { .. }
                | Self::Grants { .. }
                | Self::Jobs { .. }
                | Self::Agents
                | Self::Mcp
        )
    }
}

/// Starts the task that carries out orders.
pub fn carry_out(client: Client) -> (mpsc::Sender<Order>, mpsc::Receiver<Outcome>) {
    let (orders, mut taken) = mpsc::channel(ORDERS_MAX);
    let (done, outcomes) = mpsc::channel(ORDERS_MAX);
    tokio::spawn(async move {
        while let Some(order) = taken.recv().await {
            let outcome = persist(&client, &order, &done)
                .await
                .unwrap_or_else(|error| Outcome::Failed { error, unsaid: order.words().map(ToOwned::to_owned) });
            if done.send(outcome).await.is_err() {
                return;
            }
        }
    });
    (orders, outcomes)
}

/// Carries out an order, and retries for as long as the daemon is away.
async fn persist(client: &Client, order: &Order, told: &mpsc::Sender<Outcome>) -> Result<Outcome, ClientError> {
    let client = client.named()?; // One idempotency key for all tries.
    let mut is_told = false;
    loop {
        match obey(&client, order).await {
            Err(error) if error.is_passing() && !order.is_question() => {
                if !std::mem::replace(&mut is_told, true) {
                    // A session that is gone needs no outcome.
                    let _ = told.send(Outcome::Waits(error)).await;
                }
            }
            done => return done,
        }
    }
}

async fn obey(client: &Client, order: &Order) -> Result<Outcome, ClientError> {
    match order {
        Order::Begin { begin: Begin { agent, model, debug }, text, files } => {
            let new = Create { agent: agent.clone(), model: model.clone(), debug: *debug, ..Create::default() };
            let chat = client.create(&new).await?;
            let (text, files) = attach::merged(text, files);
            // The idempotency key of the creation can be used again: this is another kind of request.
            client.send_with(&chat.id, &text, files, When::Queue).await?;
            return Ok(Outcome::Opened(Box::new(chat)));
        }
        Order::Fork { chat, at } => {
            let copy = Box::new(client.fork(chat, *at).await?);
            return Ok(Outcome::Forked { copy, of: chat.clone(), at: *at });
        }
        Order::Cost { chat } => {
            let (usage, account) = (client.usage(chat).await?, client.account().await?);
            return Ok(Outcome::Told(cost::told(&usage, &account)));
        }
        Order::Models { own } => return models(client, own.as_deref()).await,
        Order::Names => {
            let names = client.models().await?.models.into_iter().map(|model| model.id);
            return Ok(Outcome::Names(names.collect()));
        }
        Order::Diff { chat, call } => {
            return Ok(Outcome::Changes(facts::held(client, chat, call.as_deref()).await?));
        }
        Order::Undo { chat, call } => return facts::undo(client, chat, call.as_deref()).await.map(Outcome::Told),
        Order::Jobs { chat } => return facts::jobs(client, chat).await.map(Outcome::Told),
        Order::StopJob { chat, number } => return facts::stop_job(client, chat, *number).await.map(Outcome::Told),
        Order::Grants { chat } => return facts::grants(client, chat).await.map(Outcome::Told),
        Order::Revoke { chat, call } => {
            client.revoke_grant(chat, call).await?;
            return Ok(Outcome::Told(vec![format!("{call} is revoked: the next call like it asks again.")]));
        }
        Order::Agents => return facts::agents(client).await.map(Outcome::Told),
        Order::Mcp => return facts::mcp(client).await.map(Outcome::Told),
        Order::Choose { chat, model } => {
            let chosen = client.patch(chat, &Patch { model: Some(model.clone()), ..Patch::default() }).await?;
            let model = chosen.standing.model.unwrap_or_else(|| format!("the model of the agent {}", chosen.agent));
            return Ok(Outcome::Told(vec![format!("This chat uses {model} from its next turn on.")]));
        }
        Order::Debug { chat, debug } => {
            let chat = client.patch(chat, &Patch { debug: Some(*debug), ..Patch::default() }).await?;
            return Ok(Outcome::Told(vec![recorded(chat.standing.debug).into()]));
        }
        Order::Archive { chat, archived } => {
            client.patch(chat, &Patch { archived: Some(*archived), ..Patch::default() }).await?;
            return Ok(Outcome::Told(vec![put_away(*archived).into()]));
        }
        Order::Delete { chat } => {
            client.delete(chat).await?;
            return Ok(Outcome::Deleted);
        }
        Order::Send { chat, text, files, when } => {
            let (text, files) = attach::merged(text, files);
            client.send_with(chat, &text, files, *when).await.map(drop)?;
        }
        Order::Edit { chat, message, text } => client.edit(chat, *message, text).await.map(drop)?,
        Order::Answer { chat, answer } => client.answer(chat, vec![answer.clone()]).await.map(drop)?,
        Order::Compact { chat } => client.compact(chat).await.map(drop)?,
        Order::Promote { chat, id } => client.promote(chat, *id).await.map(drop)?,
        Order::Unqueue { chat, id } => client.unqueue(chat, *id).await.map(drop)?,
        Order::Title { chat, title } => {
            let titled = client.patch(chat, &Patch { title: Some(title.clone()), ..Patch::default() }).await?;
            return Ok(Outcome::Told(vec![format!("The title is now: {}", titled.standing.title)]));
        }
    }
    Ok(Outcome::Done)
}

/// The answer to `/archive`.
const fn put_away(archived: bool) -> &'static str {
    match archived {
        true => "Archived: lists leave it out, and it takes no messages. /archive off takes it out of the archive.",
        false => "It is in the lists again.",
    }
}

/// The answer to `/debug`.
pub const fn recorded(debug: bool) -> &'static str {
    match debug {
        true => "Requests to providers for this chat are recorded on the daemon's machine; /debug off ends it.",
        false => "Recording of this chat has ended.",
    }
}

async fn models(client: &Client, own: Option<&str>) -> Result<Outcome, ClientError> {
    let mut lines: Vec<String> = Vec::new();
    for model in client.models().await?.models {
        let limit = model.context_limit.map(|limit| format!(", {} tokens", grouped(limit))).unwrap_or_default();
        let agents = if model.agents.is_empty() { String::new() } else { format!(": {}", model.agents.join(", ")) };
        lines.push(format!("{}{limit}{agents}", model.id));
    }
    lines.extend(own.map(|model| format!("This chat uses {model}.")));
    lines
        .push("/model NAME changes the model from the next turn on; /model agent returns to the agent's model.".into());
    Ok(Outcome::Told(lines))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use everturn::core::ids::ChatId;
    use everturn::core::view::Standing;

    use super::*;
    use crate::client::canned::{answer, daemon, key, problem};

    fn send(text: &str) -> Order {
        Order::Send { chat: "c".into(), text: text.into(), files: Vec::new(), when: When::Queue }
    }

    fn accepted() -> String {
        answer("202 Accepted", "application/json", r#"{"chat":"c","id":7}"#)
    }

    /// Messages typed while the daemon is away are sent later, in order, each with one idempotency key.
    #[tokio::test]
    async fn orders_outlast_a_daemon_that_is_away() {
        let away = || problem(503, "unavailable");
        let (client, served) = daemon(vec![away(), String::new(), away(), accepted(), accepted()]).await;
        let (orders, mut outcomes) = carry_out(client.hasty());
        for text in ["one", "two"] {
            orders.send(send(text)).await.unwrap();
        }
        assert!(matches!(outcomes.recv().await, Some(Outcome::Waits(_))), "the wait is reported once");
        for _ in 0..2 {
            let outcome = outcomes.recv().await;
            assert!(matches!(outcome, Some(Outcome::Done)), "{outcome:?}");
        }
        let asked = served.await.unwrap();
        assert!(asked[..4].iter().all(|request| request.contains("one") && key(request) == key(&asked[0])));
        assert!(asked[4].contains("two") && key(&asked[4]) != key(&asked[0]));
    }

    /// After a lost answer, the retry neither creates the chat nor sends the message a second time.
    #[tokio::test]
    async fn a_chat_is_begun_once() {
        let standing =
            (&Standing::of(&everturn::core::chat::Chat::new(ChatId::from_u128(7), "it", "me"), [].iter())).into();
        let made = Chat {
            parent: None,
            id: "c".into(),
            agent: "it".into(),
            instructions: String::new(),
            tools: Vec::new(),
            metadata: BTreeMap::new(),
            standing,
        };
        let made = answer("201 Created", "application/json", &serde_json::to_string(&made).unwrap());
        let (client, served) = daemon(vec![String::new(), made.clone(), String::new(), made, accepted()]).await;
        let (orders, mut outcomes) = carry_out(client.hasty());
        orders.send(Order::Begin { begin: Begin::default(), text: "one".into(), files: Vec::new() }).await.unwrap();
        assert!(matches!(outcomes.recv().await, Some(Outcome::Waits(_))));
        let outcome = outcomes.recv().await;
        assert!(matches!(outcome, Some(Outcome::Opened(_))), "{outcome:?}");
        let asked = served.await.unwrap();
        assert!(asked.iter().all(|request| key(request) == key(&asked[0])), "{asked:?}");
    }

    /// A refused message returns its text, and a question is answered at once.
    #[tokio::test]
    async fn a_refused_message_returns_its_text() {
        let answers = vec![problem(409, "status"), problem(503, "unavailable")];
        let (client, _served) = daemon(answers).await;
        let (orders, mut outcomes) = carry_out(client.hasty());
        orders.send(send("one")).await.unwrap();
        orders.send(Order::Cost { chat: "c".into() }).await.unwrap();
        for expected in [Some("one"), None] {
            let Some(Outcome::Failed { unsaid, .. }) = outcomes.recv().await else { panic!("no failure was reported") };
            assert_eq!(unsaid.as_deref(), expected);
        }
    }
}
