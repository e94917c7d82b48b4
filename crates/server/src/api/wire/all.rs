//! Events of the stream over many chats.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::chat::{Chats, Heading};
use super::event::Event;
use super::fold::{BadFold, Follower};

/// An event of one chat among many. The other fields are those of the event in the chat's own stream.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Told {
    /// The chat.
    pub chat: String,
    /// The cursor to resume this chat from, if it can be resumed here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// A new or changed chat of the list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Listed {
    /// The chat.
    pub chat: String,
    /// Its entry in the list.
    pub heading: Heading,
}

/// The lines of a server-sent event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Lines {
    /// The event's name.
    pub event: String,
    /// One line of JSON, of the event's shape.
    #[schema(content_media_type = "application/json")]
    pub data: String,
    /// The cursor to resume from, if a client can resume after this event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

#[derive(Deserialize)]
struct Whose {
    chat: String,
    cursor: Option<String>,
}

/// Events that are not valid.
#[derive(Debug, thiserror::Error)]
pub enum BadEvent {
    /// The data does not have the shape of the event.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Events do not fit together.
    #[error(transparent)]
    Fold(#[from] BadFold),
}

/// A client of the stream of all chats that may be cut at any byte.
#[derive(Debug, Clone, Default)]
pub struct Followers {
    chats: BTreeMap<String, Follower>,
    list: BTreeMap<String, Heading>,
}

impl Followers {
    /// A client that follows these chats.
    pub fn new(chats: impl IntoIterator<Item = String>) -> Self {
        Self { chats: chats.into_iter().map(|chat| (chat, Follower::default())).collect(), ..Self::default() }
    }

    /// Folds an event. An unknown one, of a later version, is ignored.
    ///
    /// # Errors
    /// The event is not valid.
    pub fn take(&mut self, name: &str, data: &str) -> Result<(), BadEvent> {
        match name {
            "list" => {
                let page: Chats = serde_json::from_str(data)?;
                self.list = page.chats.into_iter().map(|heading| (heading.id.clone(), heading)).collect();
            }
            "heading" => {
                let Listed { chat, heading } = serde_json::from_str(data)?;
                self.list.insert(chat, heading);
            }
            "gone" => {
                let Whose { chat, .. } = serde_json::from_str(data)?;
                self.list.remove(&chat);
                self.chats.remove(&chat);
            }
            _ => {
                let Whose { chat, cursor } = serde_json::from_str(data)?;
                let event = Event::parse(name, data)?;
                if let (Some(follower), Some(event)) = (self.chats.get_mut(&chat), event) {
                    follower.take(event, cursor.as_deref())?;
                }
            }
        }
        Ok(())
    }

    /// Handles a cut connection: drops events of an incomplete catch-up, and returns the `chats` parameter to resume with.
    pub fn cut(&mut self) -> String {
        let each = self.chats.iter_mut().map(|(chat, follower)| match follower.cut() {
            Some(cursor) => format!("{chat}@{cursor}"),
            None => chat.clone(),
        });
        each.collect::<Vec<_>>().join(",")
    }

    /// The followed chats.
    #[must_use]
    pub const fn chats(&self) -> &BTreeMap<String, Follower> {
        &self.chats
    }

    /// The list: its newest page, and what has changed since.
    #[must_use]
    pub const fn list(&self) -> &BTreeMap<String, Heading> {
        &self.list
    }
}
