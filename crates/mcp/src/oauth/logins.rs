//! The tokens of logins, one file per server and owner.
//!
//! A refresh token may be used once, so two processes must not renew a login at the same time: the one that holds the
//! file's lock renews it, and the other finds the new tokens.

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::LoginError;
use super::request::{AuthorizationClient, answer};
use super::shape;
use crate::clock::milliseconds;
use crate::names::hex;

/// Tokens are renewed so long before they expire.
const EARLY_MILLISECONDS: u64 = 30_000;
/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// The logins of all servers.
#[derive(Debug, Clone)]
pub struct Logins {
    directory: PathBuf,
}

/// How a login is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginStatus {
    /// Whose it is; empty if it is everybody's.
    pub owner: String,
    /// The authorization server.
    pub issuer: String,
    /// Whether it can be used, or renewed.
    pub is_usable: bool,
}

/// One login.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) owner: String,
    /// The server's address. The tokens are sent to no other.
    pub(crate) url: String,
    pub(crate) issuer: String,
    pub(crate) resource: String,
    pub(crate) token_endpoint: String,
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<String>,
    pub(crate) secret_place: SecretPlace,
    pub(crate) scope: Option<String>,
    /// None if they were refused: the registration is kept.
    pub(crate) tokens: Option<Tokens>,
}

/// Where the secret of a program is sent to an authorization server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum SecretPlace {
    /// In a header.
    #[default]
    Header,
    /// In the body.
    Body,
}

/// The tokens of a login.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) access: String,
    pub(crate) refresh: Option<String>,
    pub(crate) expires_milliseconds: Option<u64>,
}

/// Secrets are left out.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("owner", &self.owner).field("url", &self.url).finish_non_exhaustive()
    }
}

/// What an authorization server gives.
#[derive(Deserialize)]
pub(crate) struct TokenAnswer {
    access_token: String,
    refresh_token: Option<String>,
    expires_in: Option<u64>,
    scope: Option<String>,
    token_type: Option<String>,
}

impl TokenAnswer {
    /// The tokens, and the scopes if they are others than were asked for.
    pub(crate) fn tokens(self) -> Result<(Tokens, Option<String>), LoginError> {
        let is_bearer = self.token_type.as_deref().is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
        let is_plain = !self.access_token.is_empty() && self.access_token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_bearer || !is_plain {
            return Err(LoginError::Refused("it gave a token that cannot be used".into()));
        }
        let expires = self.expires_in.map(|seconds| milliseconds().saturating_add(seconds.saturating_mul(1_000)));
        let tokens = Tokens { access: self.access_token, refresh: self.refresh_token, expires_milliseconds: expires };
        Ok((tokens, self.scope))
    }
}

impl Logins {
    /// The logins in a directory, which need not exist: that of [`McpOptions`](crate::McpOptions).
    pub fn new(directory: impl AsRef<Path>) -> Self {
        Self { directory: directory.as_ref().join("logins") }
    }

    /// The logins at a server.
    #[must_use]
    pub fn at(&self, server: &str) -> Vec<LoginStatus> {
        let entries = fs::read_dir(self.directory.join(server)).into_iter().flatten().flatten();
        let logins = entries.filter_map(|entry| read(&entry.path()));
        let mut found: Vec<_> = logins
            .map(|Login { owner, issuer, tokens, .. }| LoginStatus { owner, issuer, is_usable: tokens.is_some() })
            .collect();
        found.sort_by(|one, other| one.owner.cmp(&other.owner));
        found
    }

    /// When a login at a server was made, renewed or removed last.
    pub(crate) fn changed(&self, server: &str) -> Option<SystemTime> {
        let directory = self.directory.join(server);
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        let files = entries.filter(|entry| entry.path().extension().is_some_and(|kind| kind == "json"));
        files.filter_map(|entry| entry.metadata().ok()?.modified().ok()).max()
    }

    /// Forgets the login of an owner at a server, and says whether there was one.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(&self, server: &str, owner: &str) -> io::Result<bool> {
        match fs::remove_file(self.path(server, owner)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The login of an owner at a server, if it is one at this address.
    pub(crate) fn read(&self, server: &str, owner: &str, url: &Url) -> Option<Login> {
        read(&self.path(server, owner)).filter(|login| login.url == url.as_str())
    }

    /// Any login at a server that can be used: to read its list of tools.
    pub(crate) fn any(&self, server: &str, url: &Url) -> Option<Login> {
        let entries = fs::read_dir(self.directory.join(server)).into_iter().flatten().flatten();
        let mut logins: Vec<_> = entries.filter_map(|entry| read(&entry.path())).collect();
        logins.retain(|login| login.tokens.is_some() && login.url == url.as_str());
        logins.sort_by(|one, other| one.owner.cmp(&other.owner));
        logins.into_iter().next()
    }

    /// Stores a login.
    pub(crate) fn write(&self, server: &str, login: &Login) -> io::Result<()> {
        let path = self.path(server, &login.owner);
        let directory = path.parent().unwrap_or(&self.directory);
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?; // With mode 0600.
        file.write_all(&shape::written(login)?)?;
        file.as_file().sync_all()?;
        file.persist(&path)?;
        File::open(directory)?.sync_all()
    }

    /// The login with tokens that can be used now. Those that expire soon are renewed, and so are those with this access
    /// token, which the server has refused.
    pub(crate) async fn current(
        &self,
        server: &str,
        login: Login,
        refused: Option<&str>,
        client: &AuthorizationClient,
    ) -> Result<Login, LoginError> {
        if !wants_renewal(&login, refused) {
            return Ok(login);
        }
        let lock = self.path(server, &login.owner).with_extension("lock");
        let lock = tokio::task::spawn_blocking(move || {
            let file = File::options().create(true).truncate(false).write(true).open(lock)?;
            file.lock()?;
            Ok::<_, io::Error>(file)
        });
        let _lock = lock.await.map_err(io::Error::other)??; // Until this returns.
        let newest = read(&self.path(server, &login.owner)).filter(|newest| newest.url == login.url);
        let Some(newest) = newest else { return Err(LoginError::Refused("the login was removed".into())) };
        if !wants_renewal(&newest, refused) {
            return Ok(newest); // Another process was faster.
        }
        let renewed = match renew(&newest, client).await {
            Ok(renewed) => renewed,
            Err(LoginError::Refused(why)) => {
                self.write(server, &Login { tokens: None, ..newest })?;
                return Err(LoginError::Refused(why));
            }
            Err(error) => return Err(error),
        };
        self.write(server, &renewed)?;
        tracing::info!(server, "renewed a login at an MCP server");
        Ok(renewed)
    }

    fn path(&self, server: &str, owner: &str) -> PathBuf {
        let name = hex(&Sha256::digest(owner));
        self.directory.join(server).join(format!("{}.json", &name[..16]))
    }
}

fn read(path: &Path) -> Option<Login> {
    if path.extension().is_none_or(|kind| kind != "json") || fs::metadata(path).ok()?.len() > FILE_BYTES_MAX {
        return None;
    }
    shape::read(&fs::read(path).ok()?)
}

fn wants_renewal(login: &Login, refused: Option<&str>) -> bool {
    let Some(tokens) = &login.tokens else { return true };
    let is_old = tokens.expires_milliseconds.is_some_and(|at| at <= milliseconds().saturating_add(EARLY_MILLISECONDS));
    (is_old && tokens.refresh.is_some()) || refused == Some(tokens.access.as_str())
}

async fn renew(login: &Login, client: &AuthorizationClient) -> Result<Login, LoginError> {
    let refresh = login.tokens.as_ref().and_then(|tokens| tokens.refresh.clone());
    let refresh = refresh.ok_or_else(|| LoginError::Refused("the login has expired and cannot be renewed".into()))?;
    let mut form = vec![("grant_type", "refresh_token"), ("refresh_token", &refresh), ("resource", &login.resource)];
    if let Some(scope) = &login.scope {
        form.push(("scope", scope));
    }
    let (mut tokens, scope) = tokens(client, login, &form).await?;
    tokens.refresh = tokens.refresh.or_else(|| Some(refresh.clone()));
    Ok(Login { tokens: Some(tokens), scope: scope.or_else(|| login.scope.clone()), ..login.clone() })
}

/// Asks the authorization server for tokens.
pub(crate) async fn tokens(
    client: &AuthorizationClient,
    login: &Login,
    form: &[(&str, &str)],
) -> Result<(Tokens, Option<String>), LoginError> {
    let endpoint: Url = login.token_endpoint.parse().map_err(|error| LoginError::Discovery(format!("{error}")))?;
    let mut fields = no_address();
    fields.query_pairs_mut().extend_pairs(form);
    let mut request = client.post(&endpoint).header("content-type", "application/x-www-form-urlencoded");
    match (&login.client_secret, login.secret_place) {
        (Some(secret), SecretPlace::Header) => {
            let both = format!("{}:{}", encoded(&login.client_id), encoded(secret));
            request = request.header("authorization", format!("Basic {}", STANDARD.encode(both)));
        }
        (Some(secret), SecretPlace::Body) => {
            let mut query = fields.query_pairs_mut();
            query.append_pair("client_id", &login.client_id).append_pair("client_secret", secret);
        }
        (None, _) => drop(fields.query_pairs_mut().append_pair("client_id", &login.client_id)),
    }
    let found = answer(request.body(fields.query().unwrap_or_default().to_owned())).await?;
    match found.status {
        status if status.is_success() => {
            let answer: Option<TokenAnswer> = found.json();
            answer.ok_or_else(|| LoginError::Refused("it gave no token".into()))?.tokens()
        }
        status if status.is_server_error() || status.as_u16() == 429 => {
            Err(LoginError::Unreachable(format!("the authorization server failed: {}", found.told())))
        }
        _ => Err(LoginError::Refused(found.told())),
    }
}

/// An address without anything, whose query forms are made with.
fn no_address() -> Url {
    Url::parse("x:").expect("a constant address is one")
}

/// A text as forms have it.
fn encoded(text: &str) -> String {
    let mut one = no_address();
    one.query_pairs_mut().append_pair("", text);
    one.query().unwrap_or_default().trim_start_matches('=').to_owned()
}
