//! What the stream of all chats tells.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::chat::{Chats, Heading};
use super::event::Event;
use super::fold::{BadFold, Follower};

/// An event of one chat among many. The rest is what the chat's own stream would tell.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Told {
    /// Whose.
    pub chat: String,
    /// Where this chat can be resumed from, if it can be here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// A chat of the list was made, or looks different now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Listed {
    /// Which.
    pub chat: String,
    /// What the list says about it.
    pub heading: Heading,
}

/// An event of a stream, by its lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Lines {
    /// What has happened.
    pub event: String,
    /// One line of JSON, of the shape that belongs to the event.
    #[schema(content_media_type = "application/json")]
    pub data: String,
    /// Where to resume from, if that can be done behind this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

#[derive(Deserialize)]
struct Whose {
    chat: String,
    cursor: Option<String>,
}

/// Events that make no sense.
#[derive(Debug, thiserror::Error)]
pub enum BadEvent {
    /// The data is not what the name promises.
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
    /// Somebody who follows these chats.
    pub fn new(chats: impl IntoIterator<Item = String>) -> Self {
        Self { chats: chats.into_iter().map(|chat| (chat, Follower::default())).collect(), ..Self::default() }
    }

    /// Takes in an event. One of a later version is left aside.
    ///
    /// # Errors
    /// It makes no sense.
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

    /// The connection was cut: what to give as `chats` to resume. What came without an end is forgotten.
    pub fn cut(&mut self) -> String {
        let each = self.chats.iter_mut().map(|(chat, follower)| match follower.cut() {
            Some(cursor) => format!("{chat}@{cursor}"),
            None => chat.clone(),
        });
        each.collect::<Vec<_>>().join(",")
    }

    /// The chats that are followed, as far as they are known.
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
