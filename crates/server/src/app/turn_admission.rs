//! Turns that are about to begin. Counting them keeps the limit of running chats exact for concurrent requests.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everturn::core::ids::ChatId;

/// The chats that are about to begin a turn, by owner.
#[derive(Debug, Default)]
pub struct TurnAdmission(Arc<Mutex<TurnQueue>>);

#[derive(Debug, Default)]
struct TurnQueue {
    /// Per chat its position in the line, and the number of requests that would begin its turn.
    by_owner: HashMap<String, HashMap<ChatId, (u64, usize)>>,
    next: u64,
}

/// A position in the line; given back when dropped.
pub struct TurnTicket {
    line: Arc<Mutex<TurnQueue>>,
    owner: String,
    chat: ChatId,
}

impl TurnAdmission {
    /// Puts a chat in line; further requests for the same chat share its position.
    pub fn enter(&self, owner: &str, chat: ChatId) -> TurnTicket {
        let mut line = lock(&self.0);
        line.next += 1;
        let place = line.next;
        line.by_owner.entry(owner.into()).or_default().entry(chat).or_insert((place, 0)).1 += 1;
        TurnTicket { line: self.0.clone(), owner: owner.into(), chat }
    }
}

impl TurnTicket {
    /// The chats before this one in line, and itself.
    pub fn line(&self) -> BTreeSet<ChatId> {
        let line = lock(&self.line);
        let Some(chats) = line.by_owner.get(&self.owner) else { return BTreeSet::new() };
        let own = chats.get(&self.chat).map_or(u64::MAX, |(place, _)| *place);
        chats.iter().filter(|(_, (place, _))| *place <= own).map(|(chat, _)| *chat).collect()
    }
}

impl Drop for TurnTicket {
    fn drop(&mut self) {
        let mut line = lock(&self.line);
        let Some(chats) = line.by_owner.get_mut(&self.owner) else { return };
        if let Some((_, count)) = chats.get_mut(&self.chat) {
            *count -= 1;
            if *count == 0 {
                chats.remove(&self.chat);
            }
        }
        if chats.is_empty() {
            line.by_owner.remove(&self.owner);
        }
    }
}

fn lock(line: &Mutex<TurnQueue>) -> MutexGuard<'_, TurnQueue> {
    line.lock().unwrap_or_else(PoisonError::into_inner) // Valid after a panic: every statement leaves the counts consistent.
}
