//! Error responses.
//!
//! Clients decide on the type and people read the detail, so types are few and never change. No detail reveals anything
//! of another owner: a chat of another owner is answered like one that does not exist.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use everturn::CreateError;
use everturn::core::command::Refusal;
use everturn::stores::{MakeError, StoreError, SubmitError};

use crate::api::wire;

/// The media type of problems.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Why a request failed.
#[derive(Debug)]
pub struct Problem {
    kind: ProblemKind,
    detail: String,
    chat: Option<Box<wire::Chat>>,
    /// Seconds for Retry-After, instead of the kind's default.
    after: Option<u16>,
    /// The field of the request that is wrong, where a front's protocol has a place for it.
    field: Option<String>,
}

/// What a problem says, as an extension of its response: fronts write it in the form of their protocol.
#[derive(Debug, Clone)]
pub(crate) struct ToldProblem {
    /// The kind of the problem.
    pub kind: ProblemKind,
    /// What happened this time.
    pub detail: String,
    /// The field of the request that is wrong.
    pub field: Option<String>,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $status:ident $slug:literal $title:literal;)+) => {
        /// The kinds of problem. Their names are part of the protocol.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ProblemKind { $($(#[$doc])* $kind),+ }

        impl ProblemKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// The HTTP status.
            #[must_use]
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$kind => StatusCode::$status),+ }
            }

            /// The last word of the problem's type.
            #[must_use]
            pub const fn slug(self) -> &'static str {
                match self { $(Self::$kind => $slug),+ }
            }

            const fn title(self) -> &'static str {
                match self { $(Self::$kind => $title),+ }
            }
        }
    };
}

kinds! {
    /// There is no token, or it is not valid.
    Unauthorized UNAUTHORIZED "unauthorized" "A valid token is needed";
    /// The token lacks a scope.
    Scope FORBIDDEN "scope" "The token lacks a scope for this";
    /// A browser sends the request for a page of another site.
    Origin FORBIDDEN "origin" "Requests from other sites are refused";
    /// The request is for another host.
    Host MISDIRECTED_REQUEST "host" "The host name is not configured";
    /// The path names nothing, or something of another owner.
    NotFound NOT_FOUND "not-found" "Not found";
    /// The path does not have the method.
    Method METHOD_NOT_ALLOWED "method" "The method is not allowed for this path";
    /// The body did not arrive in time.
    Slow REQUEST_TIMEOUT "slow" "The request did not arrive in time";
    /// The chat's status does not allow the request.
    Status CONFLICT "status" "The chat's status does not allow this now";
    /// The chat is archived.
    Archived CONFLICT "archived" "The chat is archived";
    /// The idempotency key was used for another request.
    KeyReused CONFLICT "key-reused" "The Idempotency-Key was used for another request";
    /// The message cannot be edited.
    NotEditable CONFLICT "not-editable" "The message cannot be edited";
    /// A fork cannot end there.
    NotForkable CONFLICT "not-forkable" "The chat cannot be forked there";
    /// The changes of files cannot be undone.
    NotUndoable CONFLICT "not-undoable" "The changes cannot be undone";
    /// The chat's agent is not in the configuration.
    NoAgent CONFLICT "no-agent" "The chat's agent is not configured";
    /// The call waits for no answer, or has another input.
    NotAsked CONFLICT "not-asked" "The call does not wait for this answer";
    /// The request is larger than the limit.
    TooLong PAYLOAD_TOO_LARGE "too-long" "The request is too long";
    /// The body is not JSON.
    MediaType UNSUPPORTED_MEDIA_TYPE "media-type" "Only application/json is accepted";
    /// A field of the request is wrong.
    Invalid UNPROCESSABLE_ENTITY "invalid" "The request is not valid";
    /// The chat's queue is at its limit.
    QueueFull TOO_MANY_REQUESTS "queue-full" "The queue is full";
    /// Too many running chats, streams or failed logins.
    TooMany TOO_MANY_REQUESTS "too-many" "Too many at once";
    /// The store or a resource is not available at the moment.
    Unavailable SERVICE_UNAVAILABLE "unavailable" "Not available at the moment";
    /// The stored chat fails its integrity check.
    Damaged INTERNAL_SERVER_ERROR "damaged" "The chat is damaged";
    /// A fault of the server.
    Internal INTERNAL_SERVER_ERROR "internal" "Internal error";
}

impl ProblemKind {
    /// Seconds to wait before a retry, where a retry helps.
    const fn retry_after(self) -> Option<u16> {
        match self {
            Self::QueueFull | Self::Unavailable => Some(1),
            Self::TooMany => Some(10),
            _ => None,
        }
    }
}

impl Problem {
    /// A problem with what happened this time.
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), chat: None, after: None, field: None }
    }

    /// The problem for everything that is missing or belongs to another owner.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(ProblemKind::NotFound, "It does not exist, or it belongs to another owner.")
    }

    /// Adds the chat as it is now.
    #[must_use]
    pub fn with_chat(self, chat: wire::Chat) -> Self {
        Self { chat: Some(Box::new(chat)), ..self }
    }

    /// Removes the chat, for a token without the scope to read it.
    #[must_use]
    pub fn without_chat(self) -> Self {
        Self { chat: None, ..self }
    }

    /// Sets Retry-After to this many seconds.
    #[must_use]
    pub const fn after(mut self, seconds: u16) -> Self {
        self.after = Some(seconds);
        self
    }

    /// Names the field of the request that is wrong.
    #[must_use]
    pub(crate) fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// The kind of the problem.
    #[must_use]
    pub const fn kind(&self) -> ProblemKind {
        self.kind
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { kind, detail, chat, after, field } = self;
        let told = ToldProblem { kind, detail: detail.clone(), field };
        let body = wire::ProblemBody {
            kind: format!("urn:everturn:problem:{}", kind.slug()),
            title: kind.title().into(),
            status: kind.status().as_u16(),
            detail,
            chat,
        };
        let mut response = (kind.status(), axum::Json(body)).into_response();
        response.extensions_mut().insert(told);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(seconds) = after.or(kind.retry_after()) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if kind == ProblemKind::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NoSuchChat => Self::not_found(),
            StoreError::Unavailable(why) => {
                tracing::warn!(why, "store unavailable; answered 503");
                Self::new(ProblemKind::Unavailable, "The store is not available at the moment; try again.")
            }
            StoreError::Damaged(why) => {
                tracing::error!(why, "stored chat is damaged; restore a backup");
                let detail = format!(
                    "The undamaged part can be read, but the chat accepts no changes; restore a backup ({why})."
                );
                Self::new(ProblemKind::Damaged, detail)
            }
            StoreError::Unreadable(why) => {
                tracing::error!(why, "stored data cannot be read; answered 500");
                Self::new(ProblemKind::Internal, "The stored data cannot be read; see the server's log.")
            }
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal {
            Refusal::Status(..) => ProblemKind::Status,
            Refusal::Archived => ProblemKind::Archived,
            Refusal::QueueFull => ProblemKind::QueueFull,
            Refusal::NotQueued | Refusal::NotGranted => ProblemKind::NotFound,
            Refusal::NotEditable => ProblemKind::NotEditable,
            Refusal::TooLong(_) => ProblemKind::TooLong,
            Refusal::NotAsked(_) | Refusal::InputChanged(_) => ProblemKind::NotAsked,
            Refusal::Empty | Refusal::WrongAnswer(_) | Refusal::AnsweredTwice(_) | Refusal::NotGrantable(_) => {
                ProblemKind::Invalid
            }
        };
        Self::new(kind, refusal.to_string())
    }
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Refused(refusal) => refusal.into(),
            SubmitError::Conflict => {
                Self::new(ProblemKind::KeyReused, "This key was used for another request before; use a new one.")
            }
            SubmitError::NoAgent(_) => Self::new(ProblemKind::NoAgent, error.to_string()),
            SubmitError::NothingToCompact => Self::new(ProblemKind::Status, error.to_string()),
            SubmitError::Store(error) => error.into(),
        }
    }
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::NoSuchAgent(_)
            | CreateError::Settings(_)
            | CreateError::Setup(_)
            | CreateError::Transcript(_) => Self::new(ProblemKind::Invalid, error.to_string()),
            CreateError::Store(error) | CreateError::Make(MakeError::Store(error)) => error.into(),
            CreateError::Make(MakeError::Conflict) => SubmitError::Conflict.into(),
            CreateError::Make(error @ (MakeError::NoSuchMessage(_) | MakeError::Open(_))) => {
                Self::new(ProblemKind::NotForkable, error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documented problem types and statuses are those of the code. Clients decide on them, so none is renamed.
    #[test]
    fn types_are_those_of_the_page() {
        let page = include_str!("../../../../docs/http-api.md");
        let (_, table) = page.split_once("| `type`, after `urn:everturn:problem:` | status |").unwrap();
        let rows = table.lines().skip(2).map_while(|row| row.strip_prefix("| ")?.split_once(" | "));
        let told = rows.flat_map(|(slugs, status)| {
            let status: u16 = status[..3].parse().unwrap();
            slugs.split(", ").map(move |slug| (slug.trim_matches('`').to_owned(), status, has_wait(status)))
        });
        let mut told: Vec<_> = told.collect();
        let wait = |kind: &ProblemKind| kind.retry_after().is_some();
        let mut ours: Vec<_> =
            ProblemKind::ALL.iter().map(|kind| (kind.slug().to_owned(), kind.status().as_u16(), wait(kind))).collect();
        told.sort();
        ours.sort();
        assert_eq!(told, ours);
    }

    /// Statuses for which the page documents a Retry-After.
    const fn has_wait(status: u16) -> bool {
        matches!(status, 429 | 503)
    }
}
