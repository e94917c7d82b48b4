//! The stored shape of a login.

use serde::{Deserialize, Serialize};

use super::logins::{Login, SecretPlace, Tokens};

/// Version of the shape.
const VERSION: u32 = 1;

/// The file of one login. It holds secrets: only its user may read it.
#[derive(Serialize, Deserialize)]
struct StoredLogin {
    version: u32,
    owner: String,
    url: String,
    issuer: String,
    resource: String,
    token_endpoint: String,
    client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    client_secret_in_body: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    access_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_milliseconds: Option<u64>,
}

/// The bytes of a login's file.
pub(crate) fn written(login: &Login) -> serde_json::Result<Vec<u8>> {
    let tokens = login.tokens.clone();
    serde_json::to_vec(&StoredLogin {
        version: VERSION,
        owner: login.owner.clone(),
        url: login.url.clone(),
        issuer: login.issuer.clone(),
        resource: login.resource.clone(),
        token_endpoint: login.token_endpoint.clone(),
        client_id: login.client_id.clone(),
        client_secret: login.client_secret.clone(),
        client_secret_in_body: login.secret_place == SecretPlace::Body,
        scope: login.scope.clone(),
        access_token: tokens.as_ref().map(|tokens| tokens.access.clone()),
        refresh_token: tokens.as_ref().and_then(|tokens| tokens.refresh.clone()),
        expires_milliseconds: tokens.and_then(|tokens| tokens.expires_milliseconds),
    })
}

/// The login in a file; `None` if it was not written by this version or an earlier one.
pub(crate) fn read(bytes: &[u8]) -> Option<Login> {
    let stored: StoredLogin = serde_json::from_slice(bytes).ok()?;
    if stored.version != VERSION {
        return None;
    }
    let tokens = stored.access_token.map(|access| Tokens {
        access,
        refresh: stored.refresh_token,
        expires_milliseconds: stored.expires_milliseconds,
    });
    Some(Login {
        owner: stored.owner,
        url: stored.url,
        issuer: stored.issuer,
        resource: stored.resource,
        token_endpoint: stored.token_endpoint,
        client_id: stored.client_id,
        client_secret: stored.client_secret,
        secret_place: if stored.client_secret_in_body { SecretPlace::Body } else { SecretPlace::Header },
        scope: stored.scope,
        tokens,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version 1 is read for ever.
    #[test]
    fn the_first_version_is_read() {
        let file = r#"{"version":1,"owner":"local","url":"https://a/mcp","issuer":"https://b","resource":"https://a/mcp",
            "token_endpoint":"https://b/token","client_id":"c","scope":"x","access_token":"at","refresh_token":"rt",
            "expires_milliseconds":7}"#;
        let login = read(file.as_bytes()).unwrap();
        assert_eq!((login.client_id.as_str(), login.client_secret.as_deref()), ("c", None));
        let tokens = login.tokens.clone().unwrap();
        assert_eq!((tokens.access.as_str(), tokens.refresh.as_deref()), ("at", Some("rt")));
        assert_eq!(read(&written(&login).unwrap()), Some(login));
        assert_eq!(read(&file.replace("\"version\":1", "\"version\":2").into_bytes()), None);
    }
}
