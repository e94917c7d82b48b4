//! Logging in to the web page, and its sessions.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use everturn::core::ids::Timestamp;
use everturn::stores::{Scope, Scopes, StoreError, Token, TokenHash, TokenKind};

use super::drill;
use super::events::FOLLOWED_LEN_MAX;
use crate::api::problem::{Problem, ProblemKind};
use crate::api::request::{BODY_BYTES_MAX, FILES_BYTES_MAX, Json};
use crate::api::wire;
use crate::app::{App, SharedApp};
use crate::auth::access::{Authorized, Caller, Knowing, Managing, PathId};
use crate::auth::audit;
use crate::auth::guard::LoginPeer;
use crate::auth::session::{CookieName, code_hash, session_hash};
use crate::entropy;

/// How long a code is valid.
pub const CODE_TIME: Duration = Duration::from_secs(60);
/// How long a session lasts.
const SESSION_TIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long a session lasts that may approve calls or manage tokens.
const STRONG_SESSION_TIME: Duration = Duration::from_secs(12 * 60 * 60);
/// Open codes of one token.
const CODES_MAX: usize = 8;
/// Open sessions of one token.
const SESSIONS_MAX: usize = 64;
/// How long sessions and codes that are over are remembered.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

/// Makes a code that opens one session of the web page, within a minute.
#[utoipa::path(post, path = "/v1/codes", operation_id = "createLoginCode", tag = "sessions", request_body = wire::NewCode, security(("token" = [])), responses(
    (status = 201, description = "The code", body = wire::LoginCode),
    (status = 422, description = "The token lacks one of the scopes", body = wire::ProblemBody),
))]
pub async fn code(
    caller: Authorized<Knowing>,
    State(app): State<SharedApp>,
    Json(new): Json<wire::NewCode>,
) -> Result<(StatusCode, Answer<wire::LoginCode>), Problem> {
    caller.is_token()?;
    let scopes = match new.scopes {
        Some(scopes) => scopes.into_iter().map(Scope::from).collect(),
        None => caller.token().scopes,
    };
    let code = make_code(&app, caller.token(), scopes, CODE_TIME).await?;
    Ok((StatusCode::CREATED, Answer(code)))
}

/// A code for a session with these scopes. The caller has checked that it may act for the parent.
pub async fn make_code(app: &App, parent: &Token, scopes: Scopes, time: Duration) -> Result<wire::LoginCode, Problem> {
    if scopes.iter().next().is_none() || scopes.iter().any(|scope| !parent.scopes.has(scope)) {
        return Err(Problem::new(ProblemKind::Invalid, "A session needs a scope, and only scopes that the token has."));
    }
    let now = app.now();
    app.tokens.forget(Timestamp(now.0 - REMEMBERED.as_millis() as i64)).await?;
    let open = of_parent(app, &parent.hash).await?;
    if open.iter().filter(|token| matches!(token.kind, TokenKind::Code { .. })).count() >= CODES_MAX {
        return Err(Problem::new(ProblemKind::TooMany, "Too many codes are open; wait a minute, or use one.").after(60));
    }
    let code = entropy::code().map_err(|_| no_randomness())?;
    let ends = now + time;
    let token = Token {
        hash: code_hash(&code),
        name: parent.name.clone(),
        owner: parent.owner.clone(),
        scopes,
        made: now,
        expires: Some(parent.expires.map_or(ends, |parent| parent.min(ends))),
        revoked: None,
        kind: TokenKind::Code { parent: parent.hash },
    };
    app.tokens.put(&token).await?;
    audit::token("code_made", parent, &token);
    let path = format!("/#code={code}");
    Ok(wire::LoginCode { code, ends: ends.0, path })
}

/// The valid sessions and codes of a token.
async fn of_parent(app: &App, parent: &TokenHash) -> Result<Vec<Token>, StoreError> {
    let now = app.now();
    let mut tokens = app.tokens.list().await?;
    tokens.retain(|token| token.kind.parent() == Some(parent) && token.is_good(now));
    Ok(tokens)
}

fn no_randomness() -> Problem {
    Problem::new(ProblemKind::Internal, "The system's random number generator failed.")
}

/// Opens a session of the web page, with a code or a token. Needs no token itself. The response sets the cookie; the page
/// key is shown only once.
#[utoipa::path(post, path = "/v1/session", operation_id = "openSession", tag = "sessions", request_body = wire::Login, responses(
    (status = 201, description = "The session is open", body = wire::LoggedIn),
    (status = 401, description = "The code or token is not valid", body = wire::ProblemBody),
    (status = 422, description = "There is neither a code nor a token, or both", body = wire::ProblemBody),
))]
pub async fn open(
    State(app): State<SharedApp>,
    Extension(peer): Extension<LoginPeer>,
    headers: HeaderMap,
    Json(login): Json<wire::Login>,
) -> Result<Response, Problem> {
    let (cookie, key) =
        entropy::half().and_then(|cookie| Ok((cookie, entropy::half()?))).map_err(|_| no_randomness())?;
    let hash = session_hash(&cookie, &key);
    let session = match (login.code, login.token) {
        (Some(code), None) => with_code(&app, &code, hash).await?,
        (None, Some(token)) => with_token(&app, &token, hash).await?,
        _ => return Err(Problem::new(ProblemKind::Invalid, "Send either `code` or `token`.")),
    };
    let Some(session) = session else {
        peer.failed(&app)?;
        let detail = "The code or token is not valid: a code works once, for a short time. Make another one with `everturn open`.";
        return Err(Problem::new(ProblemKind::Unauthorized, detail));
    };
    audit::token("session_made", &session, &session);
    let seconds = session.expires.map_or(0, |ends| (ends.0 - app.now().0) / 1000);
    let cookie = CookieName::of(&headers).set(&cookie, seconds);
    let body = wire::LoggedIn { key, session: about(&app, &Caller::bearing(session)) };
    Ok((StatusCode::CREATED, [(header::SET_COOKIE, cookie)], Answer(body)).into_response())
}

async fn with_code(app: &App, code: &str, hash: TokenHash) -> Result<Option<Token>, Problem> {
    let code = code_hash(code);
    let Some(found) = app.token(&code).await? else { return Ok(None) };
    let TokenKind::Code { parent } = found.kind else { return Ok(None) };
    let Some(parent) = app.token(&parent).await? else { return Ok(None) };
    let session = session(app, &parent, found.scopes, hash).await?;
    Ok(app.tokens.exchange(&code, &session).await?.then_some(session))
}

async fn with_token(app: &App, secret: &str, hash: TokenHash) -> Result<Option<Token>, Problem> {
    let parent = app.token(&TokenHash::of(secret)).await?;
    let Some(parent) = parent.filter(|parent| parent.kind == TokenKind::Bearer) else { return Ok(None) };
    let session = session(app, &parent, parent.scopes, hash).await?;
    app.tokens.put(&session).await?;
    Ok(Some(session))
}

/// A new session, not stored yet.
async fn session(app: &App, parent: &Token, scopes: Scopes, hash: TokenHash) -> Result<Token, Problem> {
    let open = of_parent(app, &parent.hash).await?;
    if open.iter().filter(|token| matches!(token.kind, TokenKind::Session { .. })).count() >= SESSIONS_MAX {
        let detail = format!("The token has {SESSIONS_MAX} open sessions; end one, or revoke the token.");
        return Err(Problem::new(ProblemKind::TooMany, detail));
    }
    let is_strong = scopes.has(Scope::Approve) || scopes.has(Scope::Admin);
    let ends = app.now() + if is_strong { STRONG_SESSION_TIME } else { SESSION_TIME };
    Ok(Token {
        hash,
        name: parent.name.clone(),
        owner: parent.owner.clone(),
        scopes,
        made: app.now(),
        expires: Some(parent.expires.map_or(ends, |parent| parent.min(ends))),
        revoked: None,
        kind: TokenKind::Session { parent: parent.hash },
    })
}

/// The caller: its owner and scopes, and what the server allows.
#[utoipa::path(get, path = "/v1/session", operation_id = "getSession", tag = "sessions", security(("token" = [])), responses(
    (status = 200, description = "The caller", body = wire::Session),
))]
pub async fn get(caller: Authorized<Knowing>, State(app): State<SharedApp>) -> Answer<wire::Session> {
    Answer(about(&app, &caller))
}

fn about(app: &App, caller: &Caller) -> wire::Session {
    let token = caller.token();
    wire::Session {
        id: token.hash.id(),
        name: token.name.clone(),
        owner: token.owner.clone(),
        scopes: token.scopes.iter().map(wire::ScopeName::from).collect(),
        ends: token.expires.map(|at| at.0),
        version: env!("CARGO_PKG_VERSION").into(),
        page: app.page.iter().find(|file| file.path == "/index.html").map(|file| file.hash.into()),
        agent: app.agent.clone(),
        stand_in: app.has_stand_in(),
        drills: drill::offered(app),
        bounds: wire::RequestBounds {
            files_bytes_max: FILES_BYTES_MAX as u64,
            body_bytes_max: BODY_BYTES_MAX as u64,
            followed_chats_max: FOLLOWED_LEN_MAX as u64,
            streams_max: app.limits.streams_max as u64,
        },
    }
}

/// Ends the session of this request, and its cookie.
#[utoipa::path(delete, path = "/v1/session", operation_id = "closeSession", tag = "sessions", security(("token" = [])), responses(
    (status = 204, description = "The session is over"),
    (status = 422, description = "The request has a token, and no session", body = wire::ProblemBody),
))]
pub async fn close(
    caller: Authorized<Knowing>,
    State(app): State<SharedApp>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if !matches!(caller.token().kind, TokenKind::Session { .. }) {
        return Err(Problem::new(ProblemKind::Invalid, "The request has a token, and no session to end."));
    }
    end(&app, &caller, caller.token().clone()).await?;
    let cookie = CookieName::of(&headers).set("", 0);
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

/// The open sessions of the web page, of every owner.
#[utoipa::path(get, path = "/v1/sessions", operation_id = "listSessions", tag = "sessions", security(("token" = [])), responses(
    (status = 200, description = "The sessions", body = wire::SessionsList),
))]
pub async fn list(
    caller: Authorized<Managing>,
    State(app): State<SharedApp>,
) -> Result<Answer<wire::SessionsList>, Problem> {
    let mut sessions = Vec::new();
    for token in app.tokens.list().await? {
        if matches!(token.kind, TokenKind::Session { .. }) && app.token(&token.hash).await?.is_some() {
            sessions.push(wire::SessionInfo::new(&token, token.hash == caller.token().hash));
        }
    }
    Ok(Answer(wire::SessionsList { sessions }))
}

/// Ends a session. Its open streams end within seconds. Ending it again changes nothing.
#[utoipa::path(delete, path = "/v1/sessions/{id}", operation_id = "endSession", tag = "sessions", security(("token" = [])),
    params(("id" = String, Path)), responses(
    (status = 204, description = "The session is over"),
    (status = 404, description = "There is no such session", body = wire::ProblemBody),
))]
pub async fn revoke(
    caller: Authorized<Managing>,
    PathId(id): PathId,
    State(app): State<SharedApp>,
) -> Result<StatusCode, Problem> {
    let tokens = app.tokens.list().await?;
    let is_it = |token: &&Token| matches!(token.kind, TokenKind::Session { .. }) && token.hash.id() == id;
    let token = tokens.iter().find(is_it).ok_or_else(Problem::not_found)?;
    end(&app, &caller, token.clone()).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn end(app: &SharedApp, caller: &Caller, session: Token) -> Result<(), StoreError> {
    if session.revoked.is_some() {
        return Ok(());
    }
    let (here, by) = (app.clone(), caller.token().clone());
    app.run_to_completion(async move {
        here.tokens.revoke(&session.hash, here.now()).await?;
        audit::token("session_ended", &by, &session);
        Ok(())
    })
    .await
}
