//! Lists of chats.

use everturn_core::chat::Chat;
use everturn_core::command::InboxCommand;
use everturn_core::ids::{ChatId, InboxSeq, Timestamp, Version};
use everturn_core::parent::ParentCall;
use everturn_core::status::Status;

/// List entry of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// Id of the chat.
    pub id: ChatId,
    /// Name of its agent.
    pub agent: String,
    /// Owner of the chat.
    pub owner: String,
    /// The chat that a call of it created this one for, if it is a sub-agent's.
    pub parent: Option<ChatId>,
    /// Title.
    pub title: String,
    /// Status, with the commands that were accepted and not applied yet: see [`Standing`](everturn_core::view::Standing).
    pub status: Status,
    /// Whether it is archived.
    pub archived: bool,
    /// Whether no list shows it.
    pub internal: bool,
    /// Number of its commits.
    pub version: Version,
    /// Newest command that was accepted. With the version it says what this heading takes into account.
    pub received: InboxSeq,
    /// Time of the newest message, or of the creation.
    pub touched: Timestamp,
}

impl Heading {
    /// List entry of `chat` with the `pending` commands, which its driver has not applied yet.
    #[must_use]
    pub fn of<'a>(chat: &Chat, mut pending: impl Iterator<Item = &'a InboxCommand> + Clone) -> Self {
        let received = pending.clone().last().map_or(chat.obeyed, |newest| newest.seq);
        Self {
            id: chat.id,
            agent: chat.agent.clone(),
            owner: chat.owner.clone(),
            parent: chat.parent.as_deref().map(ParentCall::parent),
            title: chat.title.clone(),
            status: chat.status.shown(pending.any(|inbound| inbound.command.begins_a_turn())),
            received,
            archived: chat.archived,
            internal: chat.internal,
            version: chat.version,
            touched: chat.touched,
        }
    }

    /// Position in the list, for the page after this entry.
    #[must_use]
    pub const fn place(&self) -> (Timestamp, ChatId) {
        (self.touched, self.id)
    }
}

/// Conditions on chats. All must hold; without any, every chat matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatQuery {
    /// This chat alone.
    pub only: Option<ChatId>,
    /// Owner.
    pub owner: Option<String>,
    /// Status, without the commands that were accepted and not applied yet.
    pub status: Option<Status>,
    /// Archived, or not.
    pub archived: Option<bool>,
    /// Chats of sub-agents.
    pub sub_agents: SubAgentChats,
    /// Internal, or not. Lists for people ask for those that are not.
    pub internal: Option<bool>,
    /// Text in the title, in upper or lower case; an empty text matches every title. Or all words of the text, as whole
    /// words, in one message of the user or the model.
    pub text: String,
    /// After this position of the list.
    pub after: Option<(Timestamp, ChatId)>,
    /// Number of entries at most.
    pub len: usize,
}

/// Whether chats of sub-agents match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SubAgentChats {
    /// Like all others.
    #[default]
    Listed,
    /// None of them.
    LeftOut,
    /// Only those that calls of this chat created.
    Of(ChatId),
}

impl SubAgentChats {
    fn fits(self, parent: Option<ChatId>) -> bool {
        match self {
            Self::Listed => true,
            Self::LeftOut => parent.is_none(),
            Self::Of(wanted) => parent == Some(wanted),
        }
    }
}

impl Default for ChatQuery {
    fn default() -> Self {
        Self {
            only: None,
            owner: None,
            status: None,
            archived: None,
            sub_agents: SubAgentChats::Listed,
            internal: None,
            text: String::new(),
            after: None,
            len: 50,
        }
    }
}

impl ChatQuery {
    /// Whether a chat matches, without regard to the text.
    pub(crate) fn fits(&self, chat: &Chat) -> bool {
        self.only.is_none_or(|only| only == chat.id)
            && self.owner.as_ref().is_none_or(|owner| *owner == chat.owner)
            && self.status.is_none_or(|status| status == chat.status)
            && self.internal.is_none_or(|internal| internal == chat.internal)
            && self.archived.is_none_or(|archived| archived == chat.archived)
            && self.sub_agents.fits(chat.parent.as_deref().map(ParentCall::parent))
            && self.after.is_none_or(|place| (chat.touched, chat.id) < place)
    }

    /// Whether the title contains the text.
    pub(crate) fn is_in_title(&self, chat: &Chat) -> bool {
        searchable(&chat.title).contains(&searchable(&self.text))
    }
}

/// A title or a search text in the form in which the two are compared. Equal in every store, whatever its collation.
#[must_use]
pub fn searchable(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect() // Letter by letter: `str` knows a final sigma, which no search does.
}
