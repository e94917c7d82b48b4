//! Sessions of the web page as the API shows them.

use everturn::stores::Token;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ScopeName;

/// A code to make, which opens one session of the web page.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewCode {
    /// What the session may do: some of the token's scopes; all of them if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<ScopeName>>,
}

/// A code that opens one session of the web page, once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoginCode {
    /// The code.
    pub code: String,
    /// Until when it can be used.
    pub ends: i64,
    /// Where the page takes it, below the server's address. The code is in the fragment, which no request contains.
    pub path: String,
}

/// A login at the web page: a code, or a token that is not kept.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// A code of `POST /v1/codes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// A token, instead of a code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// An open session, with its half that the page keeps. The other half is in the cookie of the response.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoggedIn {
    /// The page key, for the header `x-everturn-key` of every request.
    pub key: String,
    /// The session.
    #[serde(flatten)]
    pub session: Session,
}

/// The caller, and what the server allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// The id of the session or token, which gives no access.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The owner in whose name it acts.
    pub owner: String,
    /// What it may do.
    pub scopes: Vec<ScopeName>,
    /// When it ends; absent if never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<i64>,
    /// The server's version.
    pub version: String,
    /// A hash of the page's document; absent if the server has no page. Another one means that a newer page is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// The agent of chats that name none.
    pub agent: String,
    /// Whether the stand-in plays the model of that agent.
    pub stand_in: bool,
    /// What `POST /v1/drill` breaks for show; nothing in a server that does real work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drills: Vec<DrillKind>,
    /// The limits of requests.
    pub bounds: RequestBounds,
}

/// Something to break in front of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DrillKind {
    /// The streams of the stand-in model.
    Cut,
    /// The server's process, as a power cut would. Another one takes its place.
    Kill,
}

/// What to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrillOrder {
    /// What.
    pub what: DrillKind,
}

/// What was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Drilled {
    /// Streams of the stand-in that were cut.
    pub streams: u64,
}

/// The limits of requests, in bytes unless the name says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestBounds {
    /// A body with messages or answers.
    pub files_bytes_max: u64,
    /// Any other body.
    pub body_bytes_max: u64,
    /// Chats in one stream.
    pub followed_chats_max: u64,
    /// Streams of a session at once.
    pub streams_max: u64,
}

/// A session of the web page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionInfo {
    /// The id, which gives no access.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The owner in whose name it acts.
    pub owner: String,
    /// What it may do.
    pub scopes: Vec<ScopeName>,
    /// When it was opened.
    pub made: i64,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<i64>,
    /// Whether it is the session of this request.
    pub current: bool,
}

/// The open sessions of the web page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionsList {
    /// Oldest first.
    pub sessions: Vec<SessionInfo>,
}

impl SessionInfo {
    pub(crate) fn new(token: &Token, current: bool) -> Self {
        Self {
            id: token.hash.id(),
            name: token.name.clone(),
            owner: token.owner.clone(),
            scopes: token.scopes.iter().map(ScopeName::from).collect(),
            made: token.made.0,
            ends: token.expires.map(|at| at.0),
            current,
        }
    }
}
