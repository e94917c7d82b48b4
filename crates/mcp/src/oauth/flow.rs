//! One login of a person: an address for the browser, and what comes back from it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Url;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::LoginError;
use super::logins::{Login, Logins, SecretPlace, tokens};
use super::metadata::{Discovered, ServerMetadata, discover};
use super::request::{AuthorizationClient, answer, checked};
use crate::config::{OauthClient, Place, ServerConfig};
use crate::entropy;

/// The name that authorization servers show people.
const CLIENT_NAME: &str = "Everturn";

/// How a person logs in.
#[derive(Debug, Clone, Default)]
pub struct LoginOptions {
    /// Whose chats use the login; those of everybody if the server's `scope` is `"daemon"`.
    pub owner: String,
    /// Where the browser is sent after the login, such as `http://127.0.0.1:7000/callback`.
    pub redirect: String,
    /// Scopes to ask for instead of those that the server names.
    pub scope: Option<String>,
}

/// A login that has begun.
pub struct LoginFlow {
    server: String,
    /// The address to open in a browser.
    pub address: Url,
    client: AuthorizationClient,
    login: Login,
    metadata: ServerMetadata,
    redirect: String,
    verifier: String,
    state: String,
}

/// Secrets are left out.
impl fmt::Debug for LoginFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginFlow").field("server", &self.server).finish_non_exhaustive()
    }
}

impl LoginFlow {
    /// Finds the authorization server, and registers this program there if that is needed.
    ///
    /// # Errors
    /// The server needs no login, or its authorization server cannot be used.
    pub async fn begin(config: &ServerConfig, options: &LoginOptions) -> Result<Self, LoginError> {
        let Place::Http { url, headers } = &config.place else {
            let why = "a server with a `command` needs no login: give it what it needs in `env`";
            return Err(LoginError::NotNeeded(why.into()));
        };
        if headers.contains_key("authorization") {
            let why = "its entry has a header `Authorization`, which is used instead of a login";
            return Err(LoginError::NotNeeded(why.into()));
        }
        let client = AuthorizationClient::new();
        let plain_hosts = &config.oauth.plain_hosts;
        checked(url.clone(), plain_hosts)?;
        let Discovered { server: metadata, resource, scope } = discover(&client, url, plain_hosts).await?;
        let scope = options.scope.clone().or_else(|| config.oauth.scope.clone()).or(scope);
        let scope = with_offline_access(scope, &metadata);
        let (client_id, client_secret, secret_place) =
            client_of(&client, config, &metadata, options, scope.as_deref()).await?;
        let login = Login {
            owner: config.login_owner(&options.owner).to_owned(),
            url: url.to_string(),
            issuer: metadata.issuer.clone(),
            resource,
            token_endpoint: metadata.token_endpoint.to_string(),
            client_id,
            client_secret,
            secret_place,
            scope,
            tokens: None,
        };
        let (verifier, state) = (entropy::secret()?, entropy::secret()?);
        let redirect = options.redirect.clone();
        let address = address(&metadata, &login, &redirect, &verifier, &state);
        Ok(Self { server: config.name.clone(), address, client, login, metadata, redirect, verifier, state })
    }

    /// Finishes the login with what came back: the address that the browser was sent to, or its query, or the code alone.
    /// Stores the tokens.
    ///
    /// # Errors
    /// It does not belong to this login, the person or the authorization server refused, or the tokens cannot be stored.
    pub async fn finish(self, came_back: &str, logins: &Logins) -> Result<(), LoginError> {
        let code = self.code(came_back.trim())?;
        let form = [
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", &self.redirect),
            ("code_verifier", &self.verifier),
            ("resource", &self.login.resource),
        ];
        let (tokens, scope) = tokens(&self.client, &self.login, &form).await?;
        let scope = scope.or_else(|| self.login.scope.clone());
        logins.write(&self.server, &Login { tokens: Some(tokens), scope, ..self.login })?;
        Ok(())
    }

    /// The code in what came back, after everything else in it was checked.
    fn code(&self, came_back: &str) -> Result<String, LoginError> {
        let query = match (came_back.split_once('?'), came_back.contains('=')) {
            (Some((_, query)), _) => query,
            (None, true) => came_back,
            // A person copied the code alone. The verifier ties it to this login.
            (None, false) if !came_back.is_empty() => return Ok(came_back.into()),
            (None, false) => return Err(LoginError::Callback("nothing came back".into())),
        };
        let parsed = Url::parse(&format!("x:?{query}")).map_err(|error| LoginError::Callback(error.to_string()))?;
        let field = |name: &str| parsed.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        if field("state").as_deref() != Some(&self.state) {
            let why = "what came back belongs to another login (its `state` differs): log in again";
            return Err(LoginError::Callback(why.into()));
        }
        match field("iss") {
            Some(issuer) if issuer != self.metadata.issuer => {
                let why = format!("what came back is from another authorization server ({issuer:?}): log in again");
                return Err(LoginError::Callback(why));
            }
            None if self.metadata.authorization_response_iss_parameter_supported => {
                let why = "what came back does not say which authorization server it is from: log in again";
                return Err(LoginError::Callback(why.into()));
            }
            Some(_) | None => {}
        }
        if let Some(error) = field("error") {
            let more = field("error_description").map_or_else(String::new, |more| format!(": {more}"));
            return Err(LoginError::Refused(format!("{error}{more}")));
        }
        field("code").ok_or_else(|| LoginError::Callback("no code came back: log in again".into()))
    }
}

/// A login that goes on without a person asks for that, where it has to be asked for.
fn with_offline_access(scope: Option<String>, metadata: &ServerMetadata) -> Option<String> {
    const OFFLINE: &str = "offline_access";
    let may = metadata.scopes_supported.iter().flatten().any(|scope| scope == OFFLINE);
    match scope {
        Some(scope) if may && !scope.split(' ').any(|one| one == OFFLINE) => Some(format!("{scope} {OFFLINE}")),
        scope => scope,
    }
}

/// What this program is to the authorization server: what the operator says, else what it is registered as now.
async fn client_of(
    client: &AuthorizationClient,
    config: &ServerConfig,
    metadata: &ServerMetadata,
    options: &LoginOptions,
    scope: Option<&str>,
) -> Result<(String, Option<String>, SecretPlace), LoginError> {
    let methods = metadata.token_endpoint_auth_methods_supported.as_deref();
    let takes = |method: &str| methods.is_none_or(|methods| methods.iter().any(|known| known == method));
    let place = if takes("client_secret_basic") { SecretPlace::Header } else { SecretPlace::Body };
    let OauthClient { id, secret, document, .. } = &config.oauth;
    if let Some(id) = id {
        return Ok((id.clone(), secret.clone(), place));
    }
    if let Some(document) = document.as_ref().filter(|_| metadata.client_id_metadata_document_supported) {
        return Ok((document.clone(), None, place));
    }
    let Some(endpoint) = &metadata.registration_endpoint else {
        let why = format!(
            "the authorization server {} registers no programs by itself: register one there with the redirect \
             address {}, and set `oauth = {{ client_id = \"…\" }}` in the server's entry",
            metadata.issuer, options.redirect
        );
        return Err(LoginError::Discovery(why));
    };
    let endpoint = endpoint.parse().map_err(|error| LoginError::Discovery(format!("{endpoint:?}: {error}")))?;
    let endpoint = checked(endpoint, &config.oauth.plain_hosts)?;
    let method = match place {
        _ if takes("none") => "none",
        SecretPlace::Header => "client_secret_basic",
        SecretPlace::Body => "client_secret_post",
    };
    let mut about = json!({
        "client_name": CLIENT_NAME,
        "redirect_uris": [options.redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": "native",
    });
    if let Some(scope) = scope {
        about["scope"] = scope.into();
    }
    let request = client.post(&endpoint).header("content-type", "application/json").body(about.to_string());
    let found = answer(request).await?;
    if !found.status.is_success() {
        return Err(LoginError::Refused(format!("this program could not be registered: {}", found.told())));
    }
    let given: Value = found.json().unwrap_or_default();
    let field = |name: &str| given[name].as_str().map(str::to_owned);
    let id =
        field("client_id").ok_or_else(|| LoginError::Refused("it registered this program without a name".into()))?;
    let place = match field("token_endpoint_auth_method").as_deref().unwrap_or(method) {
        "none" => return Ok((id, None, place)),
        "client_secret_post" => SecretPlace::Body,
        _ => SecretPlace::Header,
    };
    Ok((id, field("client_secret"), place))
}

/// The address for the browser.
fn address(metadata: &ServerMetadata, login: &Login, redirect: &str, verifier: &str, state: &str) -> Url {
    let mut address = metadata.authorization_endpoint.clone();
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
    let mut query = address.query_pairs_mut();
    query.append_pair("response_type", "code");
    query.append_pair("client_id", &login.client_id);
    query.append_pair("redirect_uri", redirect);
    query.append_pair("code_challenge", &challenge);
    query.append_pair("code_challenge_method", "S256");
    query.append_pair("state", state);
    query.append_pair("resource", &login.resource);
    if let Some(scope) = &login.scope {
        query.append_pair("scope", scope);
    }
    if login.scope.as_ref().is_some_and(|scope| scope.split(' ').any(|one| one == "offline_access")) {
        query.append_pair("prompt", "consent");
    }
    drop(query);
    address
}
