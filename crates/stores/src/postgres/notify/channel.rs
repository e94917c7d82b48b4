//! Hints between processes: `LISTEN` on one connection, `NOTIFY` in batches.
//!
//! A commit that notifies holds a lock of the whole database until it is on disk, so commits would wait for each other.
//! Hints may be lost, so they go in a transaction of their own that waits for no disk, all that have come together at
//! once.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everturn_core::ids::ChatId;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_postgres::AsyncMessage;
use tokio_postgres::types::Type;

use crate::entropy;
use crate::postgres::connection::pool::{ConnectionPool, TxMode};
use crate::postgres::connection::retry::DbFault;
use crate::postgres::leases::session;
use crate::postgres::leases::worker::WorkerState;
use crate::postgres::notify::hints::HintQueue;
use crate::postgres::setup::address::DbAddress;
use crate::store::Hint;

const CHANNEL: &str = "everturn";
/// Notifies all processes that chats have become free.
pub(crate) const LOOK: &str = "NOTIFY everturn, 'm'";
/// Shortest interval between notifications about drafts.
const DRAFTS_EVERY: Duration = Duration::from_millis(25);
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);
const LISTENING_MAX: Duration = Duration::from_secs(10);
/// Bytes per notification. The database allows less than 8,000.
const PAYLOAD_BYTES_MAX: usize = 7_000;

/// Sends notifications.
#[derive(Default)]
pub(crate) struct Notifier {
    told: Mutex<PendingHints>,
    bell: Notify,
}

#[derive(Default)]
struct PendingHints {
    news: HashSet<ChatId>,
    inboxes: HashSet<ChatId>,
    is_urgent: bool,
}

/// How soon a notification is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Now.
    Now,
    /// With the next batch: more of them are coming.
    Soon,
}

impl Notifier {
    pub(crate) fn tell(&self, hints: impl IntoIterator<Item = Hint>, urgency: Urgency) {
        let mut pending = self.pending();
        for hint in hints {
            match hint {
                Hint::News(chat) => pending.news.insert(chat),
                Hint::Inbox(chat) => pending.inboxes.insert(chat),
                Hint::Missed | Hint::Look | Hint::Late | Hint::Lost => continue,
            };
        }
        pending.is_urgent |= urgency == Urgency::Now;
        drop(pending);
        self.bell.notify_one();
    }

    fn pending(&self) -> MutexGuard<'_, PendingHints> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends notifications for ever. Failed ones are dropped: they are hints.
    pub(crate) async fn run(self: Arc<Self>, sender: i64, pool: Arc<ConnectionPool>) {
        let mut last = Instant::now();
        loop {
            self.bell.notified().await;
            while !self.pending().is_urgent && Instant::now() < last + DRAFTS_EVERY {
                tokio::select! {
                    () = self.bell.notified() => {}
                    () = sleep_until(last + DRAFTS_EVERY) => {}
                }
            }
            let pending = std::mem::take(&mut *self.pending());
            let mut payloads = payloads('i', sender, &pending.inboxes);
            payloads.extend(self::payloads('n', sender, &pending.news));
            if payloads.is_empty() {
                continue;
            }
            last = Instant::now();
            if let Err(fault) = say(&pool, payloads).await {
                tracing::debug!(?fault, "NOTIFY failed: other processes find the change at their next poll");
            }
        }
    }
}

/// Many chats in a few texts: each text costs every process that listens about as much as a row.
fn payloads(kind: char, sender: i64, chats: &HashSet<ChatId>) -> Vec<String> {
    let mut payloads: Vec<String> = Vec::new();
    for chat in chats {
        match payloads.last_mut().filter(|payload| payload.len() < PAYLOAD_BYTES_MAX) {
            Some(payload) => write!(payload, " {chat}").expect("memory takes everything"),
            None => payloads.push(format!("{kind} {sender} {chat}")),
        }
    }
    payloads
}

async fn say(pool: &ConnectionPool, payloads: Vec<String>) -> Result<(), DbFault> {
    let conn = pool.conn().await?;
    let notify = format!("SELECT pg_notify('{CHANNEL}', payload) FROM unnest($1) AS payload");
    let params: [crate::postgres::connection::pool::Param<'_>; 1] = [(&payloads, Type::TEXT_ARRAY)];
    tokio::try_join!(conn.begin(TxMode::WriteLater), conn.query(&notify, &params), conn.commit())?;
    Ok(())
}

/// Listens for ever, on a connection of its own that also holds the lock of this process. Returns if the address is a
/// pooler that shares sessions: a shared session receives for whichever client has it.
pub(crate) async fn listen(address: DbAddress, sender: i64, hints: Arc<HintQueue>, state: Arc<WorkerState>) {
    loop {
        match session::is_shared(&address).await {
            Ok(false) => break,
            Ok(true) => {
                tracing::warn!(
                    "the database is reached through a pooler that shares sessions, so this server cannot listen for others: \
                     watchers of a chat that another server drives see replies up to 5 s late, and the chats of a server that \
                     was killed wait 15 s; to avoid both, set DATABASE_LISTEN_URL to the address of the database itself"
                );
                return;
            }
            Err(fault) => tracing::debug!(?fault, "not listening to other processes"),
        }
        sleep(RECONNECT_PAUSE).await;
    }
    loop {
        if let Err(error) = listen_once(&address, sender, &hints, &state).await {
            tracing::debug!(%error, "not listening to other processes");
        }
        state.session_lock.send_replace(None);
        sleep(RECONNECT_PAUSE).await;
    }
}

async fn listen_once(
    address: &DbAddress,
    sender: i64,
    hints: &Arc<HintQueue>,
    state: &WorkerState,
) -> Result<(), tokio_postgres::Error> {
    let (client, mut connection) = address.connect().await?;
    let heard = hints.clone();
    let hear = async move {
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(said) = message? {
                parse(said.payload(), sender).into_iter().for_each(|hint| heard.put(hint));
            }
        }
        Ok(())
    };
    let ask = async {
        let lock = entropy::number() as i64;
        let listen = format!("LISTEN {CHANNEL}; {}", session::take(lock));
        let Ok(asked) = tokio::time::timeout(LISTENING_MAX, client.batch_execute(&listen)).await else { return Ok(()) };
        asked?;
        state.session_lock.send_replace(Some(lock));
        hints.put(Hint::Missed); // Earlier notifications were not received.
        std::future::pending().await
    };
    tokio::select! {
        ended = hear => ended,
        failed = ask => failed,
    }
}

/// Hints in a payload, unless this process sent it.
fn parse(payload: &str, own: i64) -> Vec<Hint> {
    if payload == "m" {
        return vec![Hint::Missed];
    }
    let mut words = payload.split(' ');
    let (kind, sender) = (words.next(), words.next());
    let hint = match kind {
        _ if sender.is_none_or(|sender| sender.parse() == Ok(own)) => return Vec::new(),
        Some("n") => Hint::News,
        Some("i") => Hint::Inbox,
        _ => return Vec::new(), // From a newer release.
    };
    words.filter_map(|chat| chat.parse().ok()).map(hint).collect()
}

#[cfg(test)]
mod tests {
    use everturn_core::ids::Timestamp;

    use super::*;

    #[test]
    fn any_number_of_chats_is_told_in_few_texts_and_heard_by_others() {
        let chats: HashSet<ChatId> = (0..1_000).map(|n| ChatId::new(Timestamp(1), n)).collect();
        let payloads = payloads('n', 7, &chats);
        assert!(payloads.len() < 10 && payloads.iter().all(|payload| payload.len() < 8_000), "{}", payloads.len());
        let heard = payloads.iter().flat_map(|payload| parse(payload, 8));
        assert_eq!(heard.collect::<HashSet<_>>(), chats.into_iter().map(Hint::News).collect());
        assert!(payloads.iter().all(|payload| parse(payload, 7).is_empty()), "who said it knows");
    }

    #[test]
    fn unknown_payloads_are_ignored() {
        for payload in ["", "n", "x 1 2", "n 1 what", "i 1"] {
            assert_eq!(parse(payload, 8), [], "{payload}");
        }
        assert_eq!(parse("m", 8), [Hint::Missed]);
    }
}
