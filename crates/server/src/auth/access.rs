//! The caller of a request, and what its token allows.
//!
//! Routes say what they need in their arguments: [`Authorized`] a scope, or [`OwnedChat`] a chat under a scope. There is no other
//! way to either, so a route that compiles has checked.

use std::marker::PhantomData;
use std::ops::Deref;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use everturn::core::ids::{CallUid, ChatId};
use everturn::stores::{Scope, Token, TokenKind};

use crate::api::problem::{Problem, ProblemKind};
use crate::api::request::KEY;
use crate::api::wire;
use crate::app::{OpenedChat, SharedApp};

/// The owner of a valid token. Only the guard creates one.
#[derive(Debug, Clone)]
pub struct Caller(Token);

impl Caller {
    /// The caller with this token, which was found valid.
    pub(crate) const fn bearing(token: Token) -> Self {
        Self(token)
    }

    /// The owner in whose name the caller acts.
    pub fn owner(&self) -> &str {
        &self.0.owner
    }

    /// The caller's token.
    pub const fn token(&self) -> &Token {
        &self.0
    }

    /// Whether the token has one of these scopes.
    pub fn has(&self, scopes: &[Scope]) -> bool {
        scopes.iter().any(|scope| self.0.scopes.has(*scope))
    }

    /// A problem if the caller is a session of the web page: a script in the page must not make what outlives the page.
    pub fn is_token(&self) -> Result<(), Problem> {
        match self.0.kind {
            TokenKind::Bearer => Ok(()),
            TokenKind::Session { .. } | TokenKind::Code { .. } => Err(Problem::new(
                ProblemKind::Scope,
                "A session of the web page makes no tokens and no codes; use a token.",
            )),
        }
    }

    /// A problem unless the token has one of these scopes.
    pub fn needs(&self, scopes: &[Scope]) -> Result<(), Problem> {
        if self.has(scopes) {
            return Ok(());
        }
        let names: Vec<String> = scopes.iter().map(|scope| format!("`{}`", scope.name())).collect();
        Err(Problem::new(ProblemKind::Scope, format!("The token lacks the scope {}.", names.join(" or "))))
    }
}

/// A scope as a type.
pub trait RequiredScope: Send + Sync + 'static {
    /// The scopes, of which one is enough.
    const SCOPES: &[Scope];
}

/// [`Scope::Read`].
pub struct Reading;
/// [`Scope::Chat`].
pub struct Chatting;
/// [`Scope::Chat`] or [`Scope::Approve`]: the kind of the answer decides which.
pub struct Answering;
/// [`Scope::Approve`].
pub struct Approving;
/// [`Scope::Admin`].
pub struct Managing;
/// [`Scope::Metrics`], or [`Scope::Admin`], which includes it.
pub struct Measuring;
/// Any scope.
pub struct Knowing;

impl RequiredScope for Reading {
    const SCOPES: &[Scope] = &[Scope::Read];
}

impl RequiredScope for Chatting {
    const SCOPES: &[Scope] = &[Scope::Chat];
}

impl RequiredScope for Answering {
    const SCOPES: &[Scope] = &[Scope::Chat, Scope::Approve];
}

impl RequiredScope for Approving {
    const SCOPES: &[Scope] = &[Scope::Approve];
}

impl RequiredScope for Managing {
    const SCOPES: &[Scope] = &[Scope::Admin];
}

impl RequiredScope for Knowing {
    const SCOPES: &[Scope] = &Scope::ALL;
}

impl RequiredScope for Measuring {
    const SCOPES: &[Scope] = &[Scope::Metrics, Scope::Admin];
}

/// A caller whose token has the scope `S`.
pub struct Authorized<S> {
    caller: Caller,
    _scope: PhantomData<S>,
}

impl<S> Deref for Authorized<S> {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl<S: RequiredScope> FromRequestParts<SharedApp> for Authorized<S> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &SharedApp) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Caller>().cloned();
        let caller = caller.ok_or_else(|| Problem::new(ProblemKind::Unauthorized, "Send a token."))?;
        caller.needs(S::SCOPES)?;
        Ok(Self { caller, _scope: PhantomData })
    }
}

/// A chat in the path, for its owner with this scope.
pub struct OwnedChat<S> {
    /// The request's caller.
    pub caller: Authorized<S>,
    chat: OpenedChat,
}

impl<S> OwnedChat<S> {
    /// The chat alone.
    pub fn into_chat(self) -> OpenedChat {
        self.chat
    }
}

impl<S> Deref for OwnedChat<S> {
    type Target = OpenedChat;

    fn deref(&self) -> &OpenedChat {
        &self.chat
    }
}

impl<S: RequiredScope> FromRequestParts<SharedApp> for OwnedChat<S> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, Problem> {
        let caller = Authorized::<S>::from_request_parts(parts, app).await?;
        let id = param(parts, app, "id").await?.parse().map_err(|_| Problem::not_found())?;
        let chat = app.open(&caller, id).await?;
        Ok(Self { caller, chat })
    }
}

/// A chat in the path that may be deleted by now: a request with an idempotency key may be a repeat from before. Without
/// a key it is like [`OwnedChat`].
pub struct MaybeDeletedChat<S> {
    /// The request's caller.
    pub caller: Authorized<S>,
    /// The id in the path.
    pub id: ChatId,
    /// The chat, if it exists and is the caller's.
    pub chat: Option<OpenedChat>,
}

impl<S: RequiredScope> FromRequestParts<SharedApp> for MaybeDeletedChat<S> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, Problem> {
        let caller = Authorized::<S>::from_request_parts(parts, app).await?;
        let id = param(parts, app, "id").await?.parse().map_err(|_| Problem::not_found())?;
        let chat = match app.open(&caller, id).await {
            Ok(chat) => Some(chat),
            Err(problem) if problem.kind() == ProblemKind::NotFound && parts.headers.contains_key(KEY) => None,
            Err(problem) => return Err(problem),
        };
        Ok(Self { caller, id, chat })
    }
}

/// The secret of the caller's token. Only for deriving a new token from it.
pub struct BearerSecret(pub String);

impl FromRequestParts<SharedApp> for BearerSecret {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &SharedApp) -> Result<Self, Problem> {
        if let Some(caller) = parts.extensions.get::<Caller>() {
            caller.is_token()?;
        }
        let shown = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let secret = shown.and_then(|value| value.split_once(' ')).map(|(_, secret)| secret.trim().to_owned());
        secret.map(Self).ok_or_else(|| Problem::new(ProblemKind::Unauthorized, "Send a token."))
    }
}

/// The number at the end of a path, after the chat's id.
pub struct PathNumber(pub u64);

impl FromRequestParts<SharedApp> for PathNumber {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, Problem> {
        let number = param(parts, app, "number").await?;
        // Only in the form that we write: "+1" and "01" do not name anything.
        let parsed = number.parse().ok().filter(|parsed: &u64| parsed.to_string() == number);
        parsed.map(Self).ok_or_else(Problem::not_found)
    }
}

/// The second number of a path, after [`PathNumber`].
pub struct PathIndex(pub usize);

impl FromRequestParts<SharedApp> for PathIndex {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, Problem> {
        let place = param(parts, app, "place").await?;
        place.parse().map(Self).map_err(|_| Problem::not_found())
    }
}

/// The call at the end of a path, after the chat's id.
pub struct PathCall(pub CallUid);

impl FromRequestParts<SharedApp> for PathCall {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, Problem> {
        let call = param(parts, app, "call").await?;
        // Only in the form that we write.
        let parsed = wire::call_uid(&call).filter(|parsed| parsed.to_string() == call);
        parsed.map(Self).ok_or_else(Problem::not_found)
    }
}

/// The id at the end of a path that names no chat.
pub struct PathId(pub String);

impl FromRequestParts<SharedApp> for PathId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &SharedApp) -> Result<Self, Problem> {
        param(parts, app, "id").await.map(Self)
    }
}

async fn param(parts: &mut Parts, app: &SharedApp, name: &str) -> Result<String, Problem> {
    let params = RawPathParams::from_request_parts(parts, app).await.map_err(|_| Problem::not_found())?;
    let found = params.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned());
    found.ok_or_else(Problem::not_found)
}
