//! Feeds: which of an owner's chats have changed.
//!
//! A client that shows a list of chats needs to hear of every commit to any of them, and of no other owner's. Like every
//! wake-up this is a hint that carries nothing: the client reads the store.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everturn_core::ids::ChatId;
use everturn_stores::{Store, StoreError, StoreExt as _};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::watch::poll::Polling;

/// Hints that wait for one listener. A listener that falls behind gets [`Changed::Anything`].
const WAITING_LEN_MAX: usize = 256;
/// Owners that are remembered for chats of other processes.
const OWNERS_LEN_MAX: usize = 16_384;
/// Owners that are looked up at once.
const LOOKING_LEN_MAX: usize = 64;

/// What has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// A chat was created, has changed, or is gone.
    Chat(ChatId),
    /// Hints were lost: read everything.
    Anything,
}

/// The hints for one owner.
pub struct Feed {
    hints: broadcast::Receiver<Changed>,
    /// When to read although no hint came, if other processes use the store too.
    poll: Polling,
    is_shared: Arc<AtomicBool>,
}

impl Feed {
    /// The next hint; waits for one. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Changed {
        loop {
            tokio::select! {
                biased;
                hint = self.hints.recv() => return match hint {
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

/// The feeds of all owners.
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

    /// The feed of an owner.
    pub(crate) fn listen(&self, owner: &str) -> Feed {
        let mut inner = self.inner();
        inner.feeds.retain(|_, feed| feed.receiver_count() > 0);
        let feed = inner.feeds.entry(owner.into()).or_insert_with(|| broadcast::Sender::new(WAITING_LEN_MAX));
        Feed { hints: feed.subscribe(), poll: Polling::of(owner.as_bytes()), is_shared: self.is_shared.clone() }
    }

    /// Other processes use the store too, and their hints may be lost: from now on feeds also poll.
    pub(crate) fn are_shared(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    /// A chat of this owner has changed.
    pub(crate) fn tell(&self, owner: &str, chat: ChatId) {
        self.inner().tell(owner, Changed::Chat(chat));
    }

    /// Sends a hint to the feeds of every owner.
    pub(crate) fn tell_all(&self, changed: Changed) {
        self.inner().feeds.values().for_each(|feed| drop(feed.send(changed))); // The last listener may be gone.
    }

    /// Another process has changed a chat. Its owner may have to be looked up first.
    pub(crate) fn heard(self: &Arc<Self>, store: &Arc<dyn Store>, chat: ChatId) {
        let mut inner = self.inner();
        if inner.feeds.is_empty() {
            return;
        }
        if let Some(owner) = inner.owners.get(&chat).cloned() {
            return inner.tell(&owner, Changed::Chat(chat));
        }
        if inner.looking.len() >= LOOKING_LEN_MAX || !inner.looking.insert(chat) {
            return; // The next poll finds it.
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
            drop(feed.send(changed)); // The last listener may be gone.
        }
    }
}
