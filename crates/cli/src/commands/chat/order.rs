//! What a person wants done, one after the other.
//!
//! Orders are carried out in the order in which they were given, while the screen goes on. While the daemon is away they
//! are kept, each under its name, and go out when it is back; what is refused comes back, so that nobody has to type it
//! again.

use everturn_server::wire::{Answer, Chat, Create, NewPart, Patch, When};
use tokio::sync::mpsc;

use super::attach;
use super::session::Begin;
use crate::client::{Client, ClientError};
use crate::render::grouped;
use crate::render::usage as cost;

/// The most orders that wait.
const ORDERS_MAX: usize = 64;

/// Something to do.
#[derive(Debug)]
pub enum Order {
    /// Begin a chat like this, and say this.
    Begin {
        begin: Begin,
        text: String,
        files: Vec<NewPart>,
    },
    /// Say this.
    Send {
        chat: String,
        text: String,
        files: Vec<NewPart>,
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
    /// Have it recorded, or not.
    Debug {
        chat: String,
        debug: bool,
    },
    /// Put it away, or take it out again.
    Archive {
        chat: String,
        archived: bool,
    },
    /// Delete it.
    Delete {
        chat: String,
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
    /// A copy of this chat, up to this message, is open.
    Forked {
        copy: Box<Chat>,
        of: String,
        at: u64,
    },
    /// The chat is gone.
    Deleted,
    /// The daemon is away. It is kept, and this is not all that comes of it.
    Waits(ClientError),
    /// It was not done; what was to be said comes back.
    Failed {
        error: ClientError,
        unsaid: Option<String>,
    },
}

impl Order {
    /// What was typed to be said.
    pub fn words(&self) -> Option<&str> {
        match self {
            Self::Begin { text, .. } | Self::Send { text, .. } | Self::Edit { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Whether somebody only wants to know something, now.
    const fn is_question(&self) -> bool {
        matches!(self, Self::Cost { .. } | Self::Models { .. } | Self::Names)
    }
}

/// Starts to carry out orders.
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

/// Has an order done, also if the daemon is away for long.
async fn persist(client: &Client, order: &Order, told: &mpsc::Sender<Outcome>) -> Result<Outcome, ClientError> {
    let client = client.named()?; // What may have been heard is not said a second time.
    let mut is_told = false;
    loop {
        match obey(&client, order).await {
            Err(error) if error.is_passing() && !order.is_question() => {
                if !std::mem::replace(&mut is_told, true) {
                    let _ = told.send(Outcome::Waits(error)).await; // Whoever is not there any more need not know.
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
            client.send_with(&chat.id, &text, files, When::Queue).await?; // Under the same name: it is another kind of thing.
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
        Order::Choose { chat, model } => {
            let chosen = client.patch(chat, &Patch { model: Some(model.clone()), ..Patch::default() }).await?;
            let model = chosen.standing.model.unwrap_or_else(|| format!("the model of the agent {}", chosen.agent));
            return Ok(Outcome::Told(vec![format!("From its next turn on this chat asks {model}.")]));
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
            return Ok(Outcome::Told(vec![format!("It is called: {}", titled.standing.title)]));
        }
    }
    Ok(Outcome::Done)
}

/// What is said of a chat that was put away, or taken out.
const fn put_away(archived: bool) -> &'static str {
    match archived {
        true => "Archived: lists leave it out, and nothing more can be said in it. /archive off takes it out again.",
        false => "It is in the lists again.",
    }
}

/// What is said of whether a chat is recorded.
pub const fn recorded(debug: bool) -> &'static str {
    match debug {
        true => "What is exchanged with providers for this chat is recorded where the daemon is; /debug off ends it.",
        false => "No more is recorded of this chat than of others.",
    }
}

async fn models(client: &Client, own: Option<&str>) -> Result<Outcome, ClientError> {
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

    /// What was typed while nobody was there is said later, in the order in which it was typed, each once under its name.
    #[tokio::test]
    async fn orders_outlast_a_daemon_that_is_away() {
        let away = || problem(503, "unavailable");
        let (client, served) = daemon(vec![away(), String::new(), away(), accepted(), accepted()]).await;
        let (orders, mut outcomes) = carry_out(client.hasty());
        for text in ["one", "two"] {
            orders.send(send(text)).await.unwrap();
        }
        assert!(matches!(outcomes.recv().await, Some(Outcome::Waits(_))), "it is told once");
        for _ in 0..2 {
            let outcome = outcomes.recv().await;
            assert!(matches!(outcome, Some(Outcome::Done)), "{outcome:?}");
        }
        let asked = served.await.unwrap();
        assert!(asked[..4].iter().all(|request| request.contains("one") && key(request) == key(&asked[0])));
        assert!(asked[4].contains("two") && key(&asked[4]) != key(&asked[0]));
    }

    /// A chat that may have been begun is not begun again, and what is said in it is not said again.
    #[tokio::test]
    async fn a_chat_is_begun_once() {
        let standing =
            (&Standing::of(&everturn::core::chat::Chat::new(ChatId::from_u128(7), "it", "me"), [].iter())).into();
        let made = Chat {
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

    /// What is refused comes back, and whoever asks something is not kept waiting.
    #[tokio::test]
    async fn what_is_refused_comes_back() {
        let answers = vec![problem(409, "status"), problem(503, "unavailable")];
        let (client, _served) = daemon(answers).await;
        let (orders, mut outcomes) = carry_out(client.hasty());
        orders.send(send("one")).await.unwrap();
        orders.send(Order::Cost { chat: "c".into() }).await.unwrap();
        for expected in [Some("one"), None] {
            let Some(Outcome::Failed { unsaid, .. }) = outcomes.recv().await else { panic!("it is not told") };
            assert_eq!(unsaid.as_deref(), expected);
        }
    }
}
