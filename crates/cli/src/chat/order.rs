//! What a person wants done, one after the other.
//!
//! Orders are carried out in the order in which they were given, while the screen goes on. What could not be said comes
//! back, so that nobody has to type it again.

use everturn_server::wire::{Answer, Chat, Create, Patch, Usage, When};
use tokio::sync::mpsc;

use super::look::{duration, grouped};
use super::session::Begin;
use crate::client::{Client, ClientError};

/// The most orders that wait.
const ORDERS_MAX: usize = 64;

/// Something to do.
#[derive(Debug)]
pub enum Order {
    /// Begin a chat like this, and say this.
    Begin {
        begin: Begin,
        text: String,
    },
    /// Say this.
    Send {
        chat: String,
        text: String,
        when: When,
    },
    /// Say this instead of that message.
    Edit {
        chat: String,
        message: u64,
        text: String,
    },
    /// Allow or deny.
    Answer {
        chat: String,
        answer: Answer,
    },
    /// Call it this.
    Title {
        chat: String,
        title: String,
    },
    /// Summarise it.
    Compact {
        chat: String,
    },
    /// Begin another chat that begins like this one.
    Fork {
        chat: String,
        at: u64,
    },
    /// Let a message wait no longer, or not at all.
    Promote {
        chat: String,
        id: u64,
    },
    Unqueue {
        chat: String,
        id: u64,
    },
    /// Tell of money, or of models; with the chat's own, if it has one.
    Cost {
        chat: String,
    },
    Models {
        own: Option<String>,
    },
    /// Ask this model, or the agent's.
    Choose {
        chat: String,
        model: Option<String>,
    },
    /// Find out what models are called.
    Names,
}

/// What came of an order.
#[derive(Debug)]
pub enum Outcome {
    Done,
    /// Something to read.
    Told(Vec<String>),
    /// What models are called.
    Names(Vec<String>),
    /// Another chat is open.
    Opened(Box<Chat>),
    /// It was not done; what was to be said comes back.
    Failed {
        error: ClientError,
        unsaid: Option<String>,
    },
}

/// Starts to carry out orders.
pub fn carry_out(client: Client) -> (mpsc::Sender<Order>, mpsc::Receiver<Outcome>) {
    let (orders, mut taken) = mpsc::channel(ORDERS_MAX);
    let (done, outcomes) = mpsc::channel(ORDERS_MAX);
    tokio::spawn(async move {
        while let Some(order) = taken.recv().await {
            let unsaid = match &order {
                Order::Begin { text, .. } | Order::Send { text, .. } | Order::Edit { text, .. } => Some(text.clone()),
                _ => None,
            };
            let outcome = obey(&client, order).await.unwrap_or_else(|error| Outcome::Failed { error, unsaid });
            if done.send(outcome).await.is_err() {
                return;
            }
        }
    });
    (orders, outcomes)
}

async fn obey(client: &Client, order: Order) -> Result<Outcome, ClientError> {
    match order {
        Order::Begin { begin: Begin { agent, model }, text } => {
            let chat = client.create(&Create { agent, model, title: None }).await?;
            client.send(&chat.id, &text, When::Queue).await?;
            return Ok(Outcome::Opened(Box::new(chat)));
        }
        Order::Fork { chat, at } => return Ok(Outcome::Opened(Box::new(client.fork(&chat, at).await?))),
        Order::Cost { chat } => return Ok(Outcome::Told(cost(&client.usage(&chat).await?))),
        Order::Models { own } => return models(client, own).await,
        Order::Names => {
            let names = client.models().await?.models.into_iter().map(|model| model.id);
            return Ok(Outcome::Names(names.collect()));
        }
        Order::Choose { chat, model } => {
            let chosen = client.patch(&chat, &Patch { model: Some(model), ..Patch::default() }).await?;
            let model = chosen.standing.model.unwrap_or_else(|| format!("the model of the agent {}", chosen.agent));
            return Ok(Outcome::Told(vec![format!("From its next turn on this chat asks {model}.")]));
        }
        Order::Send { chat, text, when } => client.send(&chat, &text, when).await.map(drop)?,
        Order::Edit { chat, message, text } => client.edit(&chat, message, &text).await.map(drop)?,
        Order::Answer { chat, answer } => client.answer(&chat, vec![answer]).await.map(drop)?,
        Order::Compact { chat } => client.compact(&chat).await.map(drop)?,
        Order::Promote { chat, id } => client.promote(&chat, id).await.map(drop)?,
        Order::Unqueue { chat, id } => client.unqueue(&chat, id).await.map(drop)?,
        Order::Title { chat, title } => {
            let titled = client.patch(&chat, &Patch { title: Some(title), ..Patch::default() }).await?;
            return Ok(Outcome::Told(vec![format!("It is called: {}", titled.standing.title)]));
        }
    }
    Ok(Outcome::Done)
}

async fn models(client: &Client, own: Option<String>) -> Result<Outcome, ClientError> {
    let mut lines: Vec<String> = Vec::new();
    for model in client.models().await?.models {
        let limit = model.context_limit.map(|limit| format!(", {} tokens", grouped(limit))).unwrap_or_default();
        let agents = if model.agents.is_empty() { String::new() } else { format!(": {}", model.agents.join(", ")) };
        lines.push(format!("{}{limit}{agents}", model.id));
    }
    lines.extend(own.map(|model| format!("This chat asks {model}.")));
    lines
        .push("/model NAME has this chat ask another from its next turn on, /model agent the one of its agent.".into());
    Ok(Outcome::Told(lines))
}

/// What a chat has used, for people.
fn cost(usage: &Usage) -> Vec<String> {
    let money = |micros: u64| format!("{}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100);
    let tokens = |tokens: &everturn_server::wire::Tokens| {
        format!("{} in, {} out, {} cached", grouped(tokens.input), grouped(tokens.output), grouped(tokens.cache_read))
    };
    let calls =
        if usage.attempts == 1 { "1 provider call".into() } else { format!("{} provider calls", usage.attempts) };
    let mut lines = vec![format!("{calls}; tokens: {}", tokens(&usage.known))];
    if usage.estimated != everturn_server::wire::Tokens::default() {
        lines.push(format!("not reported, so estimated: {}", tokens(&usage.estimated)));
    }
    lines.push(format!(
        "cost: {} known, {} estimated",
        money(usage.cost.known_micros),
        money(usage.cost.estimated_micros)
    ));
    let odd = usage.each.iter().filter(|attempt| attempt.outcome != "answered").collect::<Vec<_>>();
    lines.extend(odd.iter().rev().take(5).map(|attempt| {
        format!(
            "step {} attempt {}: {} after {}",
            attempt.step,
            attempt.number,
            attempt.outcome,
            duration(attempt.took_ms as i64)
        )
    }));
    lines
}
