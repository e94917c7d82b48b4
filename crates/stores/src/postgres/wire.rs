//! How processes tell each other what they did: `LISTEN` on one connection, `NOTIFY` in batches of its own.
//!
//! A commit that notifies holds a lock of the whole database until it is on disk, so commits would wait for each other.
//! Hints may be lost, so they go in a transaction of their own that waits for no disk, all that have come together at
//! once.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everturn_core::ids::ChatId;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_postgres::AsyncMessage;
use tokio_postgres::types::Type;

use super::address::Address;
use super::fault::Fault;
use super::hints::Hints;
use super::link::{Link, Mode};
use crate::store::Hint;

const CHANNEL: &str = "everturn";
/// Tells everybody that chats have become free.
pub(super) const LOOK: &str = "NOTIFY everturn, 'm'";
/// How often drafts are told of at most.
const DRAFTS_EVERY: Duration = Duration::from_millis(25);
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);
const LISTENING_MAX: Duration = Duration::from_secs(10);

/// What is still to be told.
#[derive(Default)]
pub(super) struct Teller {
    told: Mutex<Untold>,
    bell: Notify,
}

#[derive(Default)]
struct Untold {
    payloads: BTreeSet<String>,
    is_urgent: bool,
}

/// How soon others want to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Haste {
    /// Now.
    Now,
    /// Soon is enough: more of the same is on its way.
    Soon,
}

impl Teller {
    pub(super) fn tell(&self, sender: i64, hint: Hint, haste: Haste) {
        let payload = match hint {
            Hint::News(chat) => format!("n {chat} {sender}"),
            Hint::Inbox(chat) => format!("i {chat} {sender}"),
            Hint::Missed | Hint::Lost => return,
        };
        let mut untold = self.untold();
        untold.payloads.insert(payload);
        untold.is_urgent |= haste == Haste::Now;
        drop(untold);
        self.bell.notify_one();
    }

    fn untold(&self) -> MutexGuard<'_, Untold> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells for ever. What cannot be told is dropped: it was a hint.
    pub(super) async fn run(self: Arc<Self>, link: Arc<Link>) {
        let mut last = Instant::now();
        loop {
            self.bell.notified().await;
            while !self.untold().is_urgent && Instant::now() < last + DRAFTS_EVERY {
                tokio::select! {
                    () = self.bell.notified() => {}
                    () = sleep_until(last + DRAFTS_EVERY) => {}
                }
            }
            let untold = std::mem::take(&mut *self.untold());
            if untold.payloads.is_empty() {
                continue;
            }
            last = Instant::now();
            if let Err(fault) = say(&link, untold.payloads.into_iter().collect()).await {
                tracing::debug!(?fault, "other processes were not told");
            }
        }
    }
}

async fn say(link: &Link, payloads: Vec<String>) -> Result<(), Fault> {
    let conn = link.conn().await?;
    let notify = format!("SELECT pg_notify('{CHANNEL}', payload) FROM unnest($1) AS payload");
    let params: [super::link::Param<'_>; 1] = [(&payloads, Type::TEXT_ARRAY)];
    tokio::try_join!(conn.begin(Mode::WriteLater), conn.query(&notify, &params), conn.commit())?;
    Ok(())
}

/// Listens for ever, on a connection of its own.
pub(super) async fn listen(address: Address, sender: i64, hints: Arc<Hints>) {
    loop {
        if let Err(error) = listen_once(&address, sender, &hints).await {
            tracing::debug!(%error, "not listening to other processes");
        }
        sleep(RECONNECT_PAUSE).await;
    }
}

async fn listen_once(address: &Address, sender: i64, hints: &Arc<Hints>) -> Result<(), tokio_postgres::Error> {
    let (client, mut connection) = address.connect().await?;
    let heard = hints.clone();
    let hear = async move {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(said) = message?
                && let Some(hint) = parse(said.payload(), sender)
            {
                heard.put(hint);
            }
        }
        Ok(())
    };
    let ask = async {
        let asked = tokio::time::timeout(LISTENING_MAX, client.batch_execute(&format!("LISTEN {CHANNEL}"))).await;
        let Ok(asked) = asked else { return Ok(()) };
        asked?;
        hints.put(Hint::Missed); // Whatever was told before nobody heard.
        std::future::pending().await
    };
    tokio::select! {
        ended = hear => ended,
        failed = ask => failed,
    }
}

/// What was said, unless by ourselves.
fn parse(payload: &str, own: i64) -> Option<Hint> {
    if payload == "m" {
        return Some(Hint::Missed);
    }
    let mut words = payload.split(' ');
    let (kind, chat, sender) = (words.next()?, words.next()?, words.next()?);
    let chat: ChatId = chat.parse().ok()?;
    match kind {
        _ if sender.parse() == Ok(own) => None,
        "n" => Some(Hint::News(chat)),
        "i" => Some(Hint::Inbox(chat)),
        _ => None, // Of a newer program.
    }
}
