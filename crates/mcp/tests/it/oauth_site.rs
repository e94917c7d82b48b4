//! A server that wants a login, and its authorization server, over real HTTP.
//!
//! Both are as strict as the protocol lets them be: a code works once, with the verifier, the address and the program that it
//! was given for; a refresh token works once; a token works for this server only.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

type Fields = HashMap<String, String>;

/// A server, its authorization server, and what both know.
#[derive(Default)]
pub struct OauthSite {
    pub origin: String,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    clients: HashMap<String, String>,
    codes: HashMap<String, Fields>,
    access: HashSet<String>,
    refresh: HashSet<String>,
    given: usize,
    renewals: usize,
    calls: usize,
    expires_in: Option<u64>,
    /// The status that requests for tokens are answered with instead.
    fails: Option<u16>,
    /// Every token that was sent to the server.
    sent: Vec<String>,
}

impl OauthSite {
    /// Starts both.
    pub async fn start() -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let site = Arc::new(Self { origin, ..Self::default() });
        let router = Router::new()
            .route("/.well-known/oauth-protected-resource/mcp", get(resource))
            .route("/.well-known/oauth-authorization-server/issuer", get(metadata))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/mcp", post(mcp))
            .with_state(site.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        site
    }

    pub fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    pub fn issuer(&self) -> String {
        format!("{}/issuer", self.origin)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap()
    }

    /// Tokens expire so many seconds after they are given.
    pub fn expire_in(&self, seconds: u64) {
        self.known().expires_in = Some(seconds);
    }

    /// No access token works any more.
    pub fn revoke_access(&self) {
        self.known().access.clear();
    }

    /// Nothing that was given works any more.
    pub fn revoke_all(&self) {
        self.revoke_access();
        self.known().refresh.clear();
    }

    /// The authorization server answers with this status, or works again.
    pub fn fail_with(&self, status: Option<u16>) {
        self.known().fails = status;
    }

    pub fn renewals(&self) -> usize {
        self.known().renewals
    }

    pub fn calls(&self) -> usize {
        self.known().calls
    }

    pub fn registrations(&self) -> usize {
        self.known().clients.len()
    }

    /// Tokens that were sent to the server.
    pub fn sent(&self) -> Vec<String> {
        self.known().sent.clone()
    }
}

async fn resource(State(site): State<Arc<OauthSite>>) -> Response {
    let about = json!({"resource": site.url(), "authorization_servers": [site.issuer()],
        "scopes_supported": ["read", "write"]});
    axum::Json(about).into_response()
}

async fn metadata(State(site): State<Arc<OauthSite>>) -> Response {
    let at = |path: &str| format!("{}{path}", site.origin);
    let about = json!({"issuer": site.issuer(), "authorization_endpoint": at("/authorize"),
        "token_endpoint": at("/token"), "registration_endpoint": at("/register"),
        "code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": ["none"],
        "authorization_response_iss_parameter_supported": true});
    axum::Json(about).into_response()
}

async fn register(State(site): State<Arc<OauthSite>>, body: Bytes) -> Response {
    let about: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(about["grant_types"], json!(["authorization_code", "refresh_token"]));
    let mut known = site.known();
    let client = format!("client-{}", known.clients.len());
    known.clients.insert(client.clone(), about["redirect_uris"][0].as_str().unwrap().to_owned());
    let registered = json!({"client_id": client, "token_endpoint_auth_method": "none"});
    (StatusCode::CREATED, axum::Json(registered)).into_response()
}

/// The page on which a person agrees; this person always does.
async fn authorize(State(site): State<Arc<OauthSite>>, Query(asked): Query<Fields>) -> Response {
    let mut known = site.known();
    let redirect = known.clients.get(&asked["client_id"]).cloned().unwrap();
    assert_eq!((&redirect, asked["response_type"].as_str()), (&asked["redirect_uri"], "code"));
    assert_eq!((asked["code_challenge_method"].as_str(), &asked["resource"]), ("S256", &site.url()));
    let code = format!("code-{}", known.codes.len());
    let (state, issuer) = (&asked["state"], site.issuer().replace(':', "%3A").replace('/', "%2F"));
    let back = format!("{redirect}?code={code}&state={state}&iss={issuer}");
    known.codes.insert(code, asked);
    (StatusCode::FOUND, [(header::LOCATION, back)]).into_response()
}

async fn token(State(site): State<Arc<OauthSite>>, body: String) -> Response {
    let form: Fields = reqwest::Url::parse(&format!("x:?{body}")).unwrap().query_pairs().into_owned().collect();
    let refused = || (StatusCode::BAD_REQUEST, axum::Json(json!({"error": "invalid_grant"}))).into_response();
    let mut known = site.known();
    if let Some(status) = known.fails {
        return StatusCode::from_u16(status).unwrap().into_response();
    }
    if form["resource"] != site.url() {
        return refused();
    }
    match form["grant_type"].as_str() {
        "authorization_code" => {
            let Some(asked) = known.codes.remove(&form["code"]) else { return refused() };
            let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"]));
            let same = |name: &str| asked[name] == form[name];
            if challenge != asked["code_challenge"] || !same("client_id") || !same("redirect_uri") {
                return refused();
            }
        }
        "refresh_token" => {
            known.renewals += 1;
            if !known.refresh.remove(&form["refresh_token"]) {
                return refused();
            }
        }
        other => panic!("{other}"),
    }
    known.given += 1;
    let (access, refresh) = (format!("secret-access-{}", known.given), format!("secret-refresh-{}", known.given));
    known.access.insert(access.clone());
    known.refresh.insert(refresh.clone());
    let mut given = json!({"access_token": access, "refresh_token": refresh, "token_type": "Bearer"});
    if let Some(seconds) = known.expires_in {
        given["expires_in"] = seconds.into();
    }
    axum::Json(given).into_response()
}

async fn mcp(State(site): State<Arc<OauthSite>>, headers: HeaderMap, body: Bytes) -> Response {
    let token = headers.get(header::AUTHORIZATION).and_then(|told| told.to_str().ok()?.strip_prefix("Bearer "));
    let mut known = site.known();
    known.sent.extend(token.map(str::to_owned));
    if !token.is_some_and(|token| known.access.contains(token)) {
        let place = format!("{}/.well-known/oauth-protected-resource/mcp", site.origin);
        let challenge = format!("Bearer resource_metadata=\"{place}\", scope=\"read\"");
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    }
    let message: Value = serde_json::from_slice(&body).unwrap();
    let Some(id) = message.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "locked", "version": "1"}}),
        "tools/list" => {
            json!({"tools": [{"name": "echo", "description": "Echoes.", "inputSchema": {"type": "object"}}]})
        }
        "tools/call" => {
            known.calls += 1;
            json!({"content": [{"type": "text", "text": message["params"]["arguments"].to_string()}]})
        }
        _ => {
            let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}});
            return axum::Json(error).into_response();
        }
    };
    axum::Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response()
}
