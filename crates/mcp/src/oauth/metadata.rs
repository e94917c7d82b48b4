//! Finding the authorization server of a server, and what it can do.
//!
//! The server refuses a request without a token and says where it describes itself (RFC 9728); that names the authorization
//! server, which describes itself too (RFC 8414 or OpenID Connect). Both descriptions must be about who gave them.

use reqwest::header::WWW_AUTHENTICATE;
use reqwest::{StatusCode, Url};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::LoginError;
use super::request::{AuthorizationClient, answer, checked, send};
use crate::config::Protocol;
use crate::transport::http::SESSION_HEADER;

/// What a server says that wants a token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// Where it describes itself.
    pub(crate) resource_metadata: Option<String>,
    /// The scopes that are needed.
    pub(crate) scope: Option<String>,
    /// Why a token was refused.
    pub(crate) error: Option<String>,
}

impl Challenge {
    /// The parameters of a `WWW-Authenticate: Bearer` header.
    pub(crate) fn parse(header: &str) -> Option<Self> {
        let (scheme, mut rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut challenge = Self::default();
        while let Some((name, after)) = rest.split_once('=') {
            let name = name.trim_matches(|c: char| c == ',' || c.is_whitespace()).to_ascii_lowercase();
            let (value, more) = value(after.trim_start());
            rest = more;
            match name.as_str() {
                "resource_metadata" => challenge.resource_metadata = Some(value),
                "scope" => challenge.scope = Some(value),
                "error" => challenge.error = Some(value),
                _ => {}
            }
        }
        Some(challenge)
    }
}

/// A value at the beginning of a text, with or without quotes, and what comes after it.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(',').unwrap_or(text.len());
        return (text[..end].trim().into(), &text[end..]);
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            _ => value.push(c),
        }
    }
    (value, "")
}

/// How a server describes itself.
#[derive(Debug, Deserialize)]
struct ResourceMetadata {
    resource: Option<String>,
    #[serde(default)]
    authorization_servers: Vec<String>,
    scopes_supported: Option<Vec<String>>,
}

/// How an authorization server describes itself.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ServerMetadata {
    pub(crate) issuer: String,
    #[serde(deserialize_with = "address")]
    pub(crate) authorization_endpoint: Url,
    #[serde(deserialize_with = "address")]
    pub(crate) token_endpoint: Url,
    /// Checked when it is used.
    pub(crate) registration_endpoint: Option<String>,
    #[serde(default)]
    pub(crate) code_challenge_methods_supported: Vec<String>,
    pub(crate) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub(crate) scopes_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) client_id_metadata_document_supported: bool,
    #[serde(default)]
    pub(crate) authorization_response_iss_parameter_supported: bool,
}

fn address<'de, D: Deserializer<'de>>(from: D) -> Result<Url, D::Error> {
    String::deserialize(from)?.parse().map_err(D::Error::custom)
}

/// What a login needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Discovered {
    pub(crate) server: ServerMetadata,
    /// What tokens are for.
    pub(crate) resource: String,
    /// The scopes to ask for; those that the authorization server gives by itself if none are said.
    pub(crate) scope: Option<String>,
}

/// Finds the authorization server of a server.
pub(crate) async fn discover(
    client: &AuthorizationClient,
    url: &Url,
    plain_hosts: &str,
) -> Result<Discovered, LoginError> {
    let challenge = challenge(client, url).await?;
    let about = resource_metadata(client, url, &challenge, plain_hosts).await?;
    let (issuer, resource, supported) = match about {
        Some(about) => {
            let issuer = about.authorization_servers.first().ok_or_else(|| {
                LoginError::Discovery("the server names no authorization server: set `headers` instead".into())
            })?;
            let issuer = issuer.parse().map_err(|error| LoginError::Discovery(format!("{issuer:?}: {error}")))?;
            (issuer, resource_of(url, about.resource.as_deref())?, about.scopes_supported)
        }
        // Servers before 2025-06-18 are their own authorization servers.
        None => (origin(url), canonical(url), None),
    };
    let server = server_metadata(client, &checked(issuer, plain_hosts)?, plain_hosts).await?;
    let scope = challenge.scope.or_else(|| supported.map(|scopes| scopes.join(" ")));
    Ok(Discovered { server, resource, scope: scope.filter(|scope| !scope.is_empty()) })
}

/// What the server says to a request without a token. Some servers answer the first requests of a client without one.
async fn challenge(client: &AuthorizationClient, url: &Url) -> Result<Challenge, LoginError> {
    let mut session = None;
    let mut told = 0;
    for (id, (method, version, params)) in (1..).zip(probes()) {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let request = client.post(url).header("accept", "application/json, text/event-stream");
        let request = request.header("content-type", "application/json").header("mcp-protocol-version", version);
        let mut request = request.header("mcp-method", method).body(message.to_string());
        if let Some(session) = session.take() {
            request = request.header(SESSION_HEADER, session);
        }
        let response = send(request).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            let headers = response.headers().get_all(WWW_AUTHENTICATE);
            let mut challenges = headers.iter().filter_map(|header| Challenge::parse(header.to_str().ok()?));
            return Ok(challenges.next().unwrap_or_default());
        }
        session = response.headers().get(SESSION_HEADER).cloned();
        told = response.status().as_u16();
    }
    Err(LoginError::NotNeeded(format!("the server asked for no login: it answered HTTP {told}")))
}

/// The requests that a server may want a login for, with the version of the protocol that each is of.
fn probes() -> [(&'static str, &'static str, Value); 3] {
    let about = json!({"name": "everturn", "version": env!("CARGO_PKG_VERSION")});
    let (old, new) = (Protocol::Initialize.version(), Protocol::Discover.version());
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": new,
        "io.modelcontextprotocol/clientInfo": about,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    [
        ("server/discover", new, json!({ "_meta": meta })),
        ("initialize", old, json!({"protocolVersion": old, "capabilities": {}, "clientInfo": about})),
        ("tools/list", old, json!({})),
    ]
}

async fn resource_metadata(
    client: &AuthorizationClient,
    url: &Url,
    challenge: &Challenge,
    plain_hosts: &str,
) -> Result<Option<ResourceMetadata>, LoginError> {
    let mut places = Vec::new();
    match &challenge.resource_metadata {
        Some(told) => places.push(told.parse().map_err(|error| LoginError::Discovery(format!("{told:?}: {error}")))?),
        None => {
            let path = url.path().trim_end_matches('/');
            places.push(at(url, &format!("/.well-known/oauth-protected-resource{path}")));
            places.push(at(url, "/.well-known/oauth-protected-resource"));
        }
    }
    for place in places {
        let found = answer(client.get(&checked(place, plain_hosts)?)).await?;
        if found.status.is_success()
            && let Some(about) = found.json()
        {
            return Ok(Some(about));
        }
    }
    Ok(None)
}

async fn server_metadata(
    client: &AuthorizationClient,
    issuer: &Url,
    plain_hosts: &str,
) -> Result<ServerMetadata, LoginError> {
    let path = issuer.path().trim_end_matches('/');
    let mut places = vec![
        at(issuer, &format!("/.well-known/oauth-authorization-server{path}")),
        at(issuer, &format!("/.well-known/openid-configuration{path}")),
    ];
    if !path.is_empty() {
        places.push(at(issuer, &format!("{path}/.well-known/openid-configuration")));
    }
    for place in places {
        let found = answer(client.get(&place)).await?;
        if let Some(about) = found.json::<ServerMetadata>().filter(|_| found.status.is_success()) {
            return fitting(about, issuer, plain_hosts);
        }
    }
    Err(LoginError::Discovery(format!("the authorization server {issuer} does not describe itself")))
}

/// A description that is about the server it came from, and that a login can be made with.
fn fitting(about: ServerMetadata, issuer: &Url, plain_hosts: &str) -> Result<ServerMetadata, LoginError> {
    let same = |one: &str, other: &str| one.trim_end_matches('/') == other.trim_end_matches('/');
    if !same(&about.issuer, issuer.as_str()) {
        let claimed = &about.issuer;
        return Err(LoginError::Discovery(format!("the authorization server {issuer} says that it is {claimed:?}")));
    }
    if !about.code_challenge_methods_supported.iter().any(|method| method == "S256") {
        let why = format!("the authorization server {issuer} does not protect codes with PKCE (S256)");
        return Err(LoginError::Discovery(why));
    }
    checked(about.authorization_endpoint.clone(), plain_hosts)?;
    checked(about.token_endpoint.clone(), plain_hosts)?;
    Ok(about)
}

/// What tokens are for: what the server says, if it may say that.
fn resource_of(url: &Url, told: Option<&str>) -> Result<String, LoginError> {
    let Some(told) = told else { return Ok(canonical(url)) };
    let parsed: Result<Url, _> = told.parse();
    let covers = parsed.as_ref().is_ok_and(|resource| {
        let path = resource.path().trim_end_matches('/');
        let rest = url.path().strip_prefix(path);
        resource.origin() == url.origin() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    if covers { Ok(told.into()) } else { Err(LoginError::Discovery(format!("the server says that it is {told:?}"))) }
}

/// The address without what does not name the server.
fn canonical(url: &Url) -> String {
    let mut named = url.clone();
    named.set_query(None);
    named.set_fragment(None);
    let text = named.to_string();
    if named.path() == "/" { text.trim_end_matches('/').into() } else { text }
}

fn origin(url: &Url) -> Url {
    at(url, "/")
}

fn at(url: &Url, path: &str) -> Url {
    let mut place = url.clone();
    place.set_path(path);
    place.set_query(None);
    place.set_fragment(None);
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let header =
            r#"Bearer realm="a, \"b\"", resource_metadata="https://a/x=1", scope="files:read files:write", error=x"#;
        let challenge = Challenge::parse(header).unwrap();
        assert_eq!(challenge.resource_metadata.as_deref(), Some("https://a/x=1"));
        assert_eq!(challenge.scope.as_deref(), Some("files:read files:write"));
        assert_eq!(challenge.error.as_deref(), Some("x"));
        assert_eq!(Challenge::parse("bearer"), Some(Challenge::default()));
        assert_eq!(Challenge::parse("Basic realm=x"), None);
    }

    #[test]
    fn a_server_may_not_ask_for_tokens_of_another() {
        let url: Url = "https://a.example/team/mcp?x=1".parse().unwrap();
        for good in ["https://a.example/team/mcp", "https://a.example", "https://a.example/team/"] {
            assert_eq!(resource_of(&url, Some(good)), Ok(good.to_owned()));
        }
        for bad in ["https://b.example/team/mcp", "https://a.example/te", "http://a.example/team/mcp", "x"] {
            assert!(resource_of(&url, Some(bad)).is_err(), "{bad}");
        }
        assert_eq!(resource_of(&url, None), Ok("https://a.example/team/mcp".into()));
    }
}
