//! Listing, creating and revoking access tokens.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use everturn::stores::{Scope, StoreError, Token, TokenHash, TokenKind};

use crate::api::problem::{Problem, ProblemKind};
use crate::api::request::{IdempotencyKey, Json};
use crate::api::wire;
use crate::app::SharedApp;
use crate::auth::access::{Authorized, BearerSecret, Managing, PathId};
use crate::auth::audit;
use crate::entropy;

/// The longest name of a token or an owner.
const NAME_LEN_MAX: usize = 100;

/// All tokens, without their secrets.
#[utoipa::path(get, path = "/v1/tokens", operation_id = "listTokens", tag = "tokens", security(("token" = [])), responses(
    (status = 200, description = "The tokens", body = wire::TokensList),
))]
pub async fn list(_: Authorized<Managing>, State(app): State<SharedApp>) -> Result<Answer<wire::TokensList>, Problem> {
    let tokens = app.tokens.list().await?;
    let own = tokens.iter().filter(|token| token.kind == TokenKind::Bearer);
    Ok(Answer(wire::TokensList { tokens: own.map(wire::TokenInfo::from).collect() }))
}

/// Creates a token. Its secret is shown only in this response, and again to a repeat with the same token and
/// `Idempotency-Key` within a week.
#[utoipa::path(post, path = "/v1/tokens", operation_id = "createToken", tag = "tokens", request_body = wire::NewToken, security(("token" = [])),
    params(("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 201, description = "The token", body = wire::Secret),
    (status = 409, description = "The key was used for another request", body = wire::ProblemBody),
    (status = 422, description = "The request is not valid", body = wire::ProblemBody),
))]
pub async fn make(
    caller: Authorized<Managing>,
    BearerSecret(shown): BearerSecret,
    State(app): State<SharedApp>,
    key: IdempotencyKey,
    Json(new): Json<wire::NewToken>,
) -> Result<(StatusCode, Answer<wire::Secret>), Problem> {
    // The new secret is derived from the caller's token, so that token is part of the request that the key belongs to.
    let what = format!("make token {} {}", caller.token().hash.id(), wire::text(&new));
    let wire::NewToken { name, owner, scopes, seconds } = new;
    let owner = owner.unwrap_or_else(|| caller.owner().into());
    let is_name =
        |text: &str| !text.trim().is_empty() && text.len() <= NAME_LEN_MAX && !text.contains(char::is_control);
    if !is_name(&name) || !is_name(&owner) || scopes.is_empty() {
        let detail = format!("A token needs a scope, and a name and an owner of 1 to {NAME_LEN_MAX} bytes.");
        return Err(Problem::new(ProblemKind::Invalid, detail));
    }
    let secret = match &key.0 {
        Some(key) => entropy::derived(&shown, &app.asked(&caller, key, &what).await?.salt),
        None => entropy::secret().map_err(|_| {
            Problem::new(ProblemKind::Internal, "No token can be created: the system's random number generator failed.")
        })?,
    };
    let token = Token {
        hash: TokenHash::of(&secret),
        name,
        owner,
        scopes: scopes.into_iter().map(Scope::from).collect(),
        made: app.now(),
        expires: seconds.map(|seconds| app.now() + Duration::from_secs(seconds)),
        revoked: None,
        kind: TokenKind::Bearer,
    };
    let made = match app.tokens.find(&token.hash).await? {
        Some(made) => made, // Created by an earlier request.
        None => {
            let (here, by, kept) = (app.clone(), caller.token().clone(), token);
            let put = app.run_to_completion(async move {
                here.tokens.put(&kept).await?;
                let made = here.tokens.find(&kept.hash).await?.unwrap_or_else(|| kept.clone());
                if made == kept {
                    audit::token("token_made", &by, &kept);
                } // Else a concurrent request with the same key was faster.
                Ok::<_, StoreError>(made)
            });
            put.await?
        }
    };
    Ok((StatusCode::CREATED, Answer(wire::Secret { token: secret, info: (&made).into() })))
}

/// Revokes a token. Its open streams end within seconds. Revoking it again changes nothing.
#[utoipa::path(delete, path = "/v1/tokens/{id}", operation_id = "revokeToken", tag = "tokens", security(("token" = [])),
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header)), responses(
    (status = 200, description = "The token is revoked", body = wire::TokenInfo),
    (status = 404, description = "There is no such token", body = wire::ProblemBody),
    (status = 409, description = "The key was used for another request", body = wire::ProblemBody),
))]
pub async fn revoke(
    caller: Authorized<Managing>,
    PathId(id): PathId,
    State(app): State<SharedApp>,
    key: IdempotencyKey,
) -> Result<Answer<wire::TokenInfo>, Problem> {
    let tokens = app.tokens.list().await?;
    let is_it = |token: &&Token| token.kind == TokenKind::Bearer && token.hash.id() == id;
    let token = tokens.iter().find(is_it).ok_or_else(Problem::not_found)?;
    if let Some(key) = &key.0 {
        app.asked(&caller, key, &format!("revoke token {id}")).await?;
    }
    if token.revoked.is_none() {
        let (here, by, token) = (app.clone(), caller.token().clone(), token.clone());
        let revoked = app.run_to_completion(async move {
            here.tokens.revoke(&token.hash, here.now()).await?;
            audit::token("token_revoked", &by, &token);
            Ok::<_, StoreError>(())
        });
        revoked.await?;
    }
    let revoked = app.tokens.find(&token.hash).await?.ok_or_else(Problem::not_found)?;
    Ok(Answer((&revoked).into()))
}
