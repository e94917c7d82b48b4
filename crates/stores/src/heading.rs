//! Lists of chats.

use everturn_core::chat::Chat;
use everturn_core::command::InboxCommand;
use everturn_core::ids::{ChatId, InboxSeq, Timestamp, Version};
use everturn_core::status::Status;

/// What a list says about a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// Its name.
    pub id: ChatId,
    /// The agent it talks to.
    pub agent: String,
    /// Whose it is.
    pub owner: String,
    /// What people call it.
    pub title: String,
    /// Where it stands, with what was accepted and not obeyed yet: see [`Standing`](everturn_core::view::Standing).
    pub status: Status,
    /// Whether it is put away.
    pub archived: bool,
    /// How many commits it has seen.
    pub version: Version,
    /// The newest command that was accepted: with the version, what a heading takes into account.
    pub received: InboxSeq,
    /// When something was said last, or when it was made.
    pub touched: Timestamp,
}

impl Heading {
    /// What a list says about `chat` behind the `pending` commands, which its driver has not obeyed yet.
    #[must_use]
    pub fn of<'a>(chat: &Chat, mut pending: impl Iterator<Item = &'a InboxCommand> + Clone) -> Self {
        let received = pending.clone().last().map_or(chat.obeyed, |newest| newest.seq);
        Self {
            id: chat.id,
            agent: chat.agent.clone(),
            owner: chat.owner.clone(),
            title: chat.title.clone(),
            status: chat.status.shown(pending.any(|inbound| inbound.command.begins_a_turn())),
            received,
            archived: chat.archived,
            version: chat.version,
            touched: chat.touched,
        }
    }

    /// Where a list goes on that ends with this one.
    #[must_use]
    pub const fn place(&self) -> (Timestamp, ChatId) {
        (self.touched, self.id)
    }
}

/// Which chats are wanted. All conditions must hold; without any, every chat fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatQuery {
    /// This chat alone.
    pub only: Option<ChatId>,
    /// Of this owner.
    pub owner: Option<String>,
    /// Put away, or not.
    pub archived: Option<bool>,
    /// With this in their title, in upper or lower case; empty is in every title. Or with all words of this, whole, in
    /// one message that a person or the model said.
    pub text: String,
    /// Behind this place of the list.
    pub after: Option<(Timestamp, ChatId)>,
    /// So many.
    pub len: usize,
}

impl Default for ChatQuery {
    fn default() -> Self {
        Self { only: None, owner: None, archived: None, text: String::new(), after: None, len: 50 }
    }
}

impl ChatQuery {
    /// Whether a chat is wanted, as far as it alone can tell.
    pub(crate) fn fits(&self, chat: &Chat) -> bool {
        self.only.is_none_or(|only| only == chat.id)
            && self.owner.as_ref().is_none_or(|owner| *owner == chat.owner)
            && self.archived.is_none_or(|archived| archived == chat.archived)
            && self.after.is_none_or(|place| (chat.touched, chat.id) < place)
    }

    /// Whether its title has what is looked for.
    pub(crate) fn is_in_title(&self, chat: &Chat) -> bool {
        searchable(&chat.title).contains(&searchable(&self.text))
    }
}

/// A title, or what is looked for in it, as the two are compared. The same in every store, whatever its collation.
#[must_use]
pub fn searchable(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect() // Letter by letter: `str` knows a final sigma, which no search does.
}
