//! Which of an owner's chats have changed.
//!
//! Whoever shows a list of chats wants to hear of every commit to any of them, and of none to anybody else's. Like every
//! wake-up this is a hint that carries nothing: whoever hears it reads the store.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everturn_core::ids::ChatId;
use everturn_stores::{Store, StoreError, StoreExt as _};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::watch::poll::Poll;

/// How many hints wait for one listener. One that falls behind is told to look at everything.
const WAITING_LEN_MAX: usize = 256;
/// How many owners are remembered of chats that other processes drive.
const OWNERS_LEN_MAX: usize = 16_384;
/// How many owners are asked for at once.
const LOOKING_LEN_MAX: usize = 64;

/// What to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// A chat that was made, has changed, or is gone.
    Chat(ChatId),
    /// Nobody knows.
    Anything,
}

/// The hints for one owner.
pub struct Feed {
    told: broadcast::Receiver<Changed>,
    /// When to look although nobody said so, if others use the store too.
    poll: Poll,
    is_shared: Arc<AtomicBool>,
}

impl Feed {
    /// The next hint; waits for one. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Changed {
        loop {
            tokio::select! {
                biased;
                told = self.told.recv() => return match told {
                    Ok(changed) => changed,
                    Err(RecvError::Lagged(_)) => Changed::Anything,
                    Err(RecvError::Closed) => std::future::pending().await, // The engine is gone: nothing changes.
                },
                () = self.poll.due() => if self.is_shared.load(Ordering::Relaxed) {
                    return Changed::Anything;
                },
            }
        }
    }
}

/// Everybody who listens.
#[derive(Default)]
pub(crate) struct Feeds {
    inner: Mutex<Inner>,
    is_shared: Arc<AtomicBool>,
}

#[derive(Default)]
struct Inner {
    feeds: HashMap<String, broadcast::Sender<Changed>>,
    owners: HashMap<ChatId, String>,
    looking: HashSet<ChatId>,
}

impl Feeds {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens for an owner.
    pub(crate) fn listen(&self, owner: &str) -> Feed {
        let mut inner = self.inner();
        inner.feeds.retain(|_, feed| feed.receiver_count() > 0);
        let feed = inner.feeds.entry(owner.into()).or_insert_with(|| broadcast::Sender::new(WAITING_LEN_MAX));
        Feed { told: feed.subscribe(), poll: Poll::of(owner.as_bytes()), is_shared: self.is_shared.clone() }
    }

    /// Others use the store too, and what they did may go unheard: from now on listeners look now and then.
    pub(crate) fn are_shared(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    /// A chat of this owner's has changed.
    pub(crate) fn tell(&self, owner: &str, chat: ChatId) {
        self.inner().tell(owner, Changed::Chat(chat));
    }

    /// Nobody knows what has changed.
    pub(crate) fn tell_all(&self, changed: Changed) {
        self.inner().feeds.values().for_each(|feed| drop(feed.send(changed))); // Nobody may be listening any more.
    }

    /// Another process has changed a chat. Whose it is may have to be found out, in whatever time that takes.
    pub(crate) fn heard(self: &Arc<Self>, store: &Arc<dyn Store>, chat: ChatId) {
        let mut inner = self.inner();
        if inner.feeds.is_empty() {
            return;
        }
        if let Some(owner) = inner.owners.get(&chat).cloned() {
            return inner.tell(&owner, Changed::Chat(chat));
        }
        if inner.looking.len() >= LOOKING_LEN_MAX || !inner.looking.insert(chat) {
            return; // A look at everything comes now and then.
        }
        let (feeds, store) = (self.clone(), store.clone());
        tokio::spawn(async move {
            let heading = store.heading(chat).await;
            let mut inner = feeds.inner();
            inner.looking.remove(&chat);
            match heading {
                Ok(heading) => {
                    inner.tell(&heading.owner, Changed::Chat(chat));
                    if inner.owners.len() >= OWNERS_LEN_MAX {
                        inner.owners.clear();
                    }
                    inner.owners.insert(chat, heading.owner);
                }
                Err(StoreError::NoSuchChat) => {
                    drop(inner);
                    feeds.tell_all(Changed::Chat(chat));
                }
                Err(_) => {} // It is a hint.
            }
        });
    }
}

impl Inner {
    fn tell(&self, owner: &str, changed: Changed) {
        if let Some(feed) = self.feeds.get(owner) {
            drop(feed.send(changed)); // Nobody may be listening any more.
        }
    }
}
