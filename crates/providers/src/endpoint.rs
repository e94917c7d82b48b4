//! Where a provider is, and with which key.
//!
//! A key is a secret with one destination. So the two are kept together: every address a request goes to is made here, of
//! the configured base and a path, and nothing else can be asked with the key. It is read once from the environment, is
//! never printed, and is taken out of whatever a provider echoes.

use std::fmt;
use std::net::IpAddr;

use everturn_core::error::{ErrorKind, ProviderError};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue};
use secrecy::{ExposeSecret as _, SecretString};

use crate::provider::ApiAddress;

#[cfg(test)]
mod tests;

/// What is usual for a provider.
#[derive(Debug, Clone, Copy)]
pub struct Usual {
    /// Where it is.
    pub base_url: &'static str,
    /// The variables that may say otherwise, the first that is set wins.
    pub base_url_env: &'static [&'static str],
    /// The variables a key may be in, and how it is sent; the first that is set wins.
    pub key_env: &'static [(&'static str, Auth)],
    /// Whether it answers without.
    pub needs_key: NeedsKey,
}

/// How a key is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// `Authorization: Bearer …`
    Bearer,
    /// In a header of its own, by its lower-case name.
    Header(&'static str),
}

/// Whether a provider answers without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedsKey {
    /// It does not.
    Yes,
    /// It may, as servers at home do.
    Perhaps,
}

/// A provider's address, with the key that goes there and nowhere else.
#[derive(Clone)]
pub struct Endpoint {
    provider: String,
    base: Url,
    key: Option<Key>,
    key_variable: Option<String>,
    base_variable: Option<String>,
    /// Whether a key may go there unencrypted.
    may_be_plain: bool,
    needs_key: NeedsKey,
    headers: HeaderMap,
}

#[derive(Clone)]
struct Key {
    secret: SecretString,
    auth: Auth,
}

/// A configuration that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEndpoint {
    /// No address, or none of HTTP.
    #[error("the base URL of {0} is not an http or https address")]
    BaseUrl(String),
    /// An address with a secret in it, which would be shown wherever the address is.
    #[error("the base URL of {0} has a name or a password in it: put the key into a variable")]
    Secret(String),
    /// A header that HTTP cannot carry.
    #[error("the header {0} of {1} has a name or a value that HTTP cannot carry")]
    Header(String, String),
    /// A key that HTTP cannot carry.
    #[error("the key of {0} has characters that HTTP cannot carry")]
    Key(String),
    /// A key that everybody on the way could read.
    #[error(
        "{variable} is http and not on this machine, so the key of {provider} would travel unencrypted: use https, or list {host} in EVERTURN_PLAIN_HOSTS if the way there is to be trusted"
    )]
    Plain {
        /// The provider of the key.
        provider: String,
        /// What says where to: a variable, if one does.
        variable: String,
        /// Where it would go.
        host: String,
    },
}

/// The variable that lists hosts, with commas between, to which a key may travel unencrypted. This machine always may.
pub const PLAIN_HOSTS: &str = "EVERTURN_PLAIN_HOSTS";

/// Whether a secret may travel to an address: encrypted, within this machine, or to one of the hosts that are `trusted`,
/// with commas between.
#[must_use]
pub fn may_carry_secrets(url: &Url, trusted: &str) -> bool {
    url.scheme() != "http" || is_near(url) || is_listed(url, trusted)
}

/// Whether an address is on this machine.
#[must_use]
pub fn is_near(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// The host of an address, and the port if it is not the usual one.
#[must_use]
pub fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Whether the host of an address is among these, with commas between.
fn is_listed(url: &Url, hosts: &str) -> bool {
    hosts.split(',').any(|listed| listed.trim().eq_ignore_ascii_case(&host(url)))
}

impl Endpoint {
    /// The usual endpoint of a provider, as the environment says. `variable` looks one up; blank counts as not set.
    ///
    /// # Errors
    /// The environment holds an address or a key that cannot be used.
    pub fn usual(
        provider: &str,
        usual: &Usual,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, BadEndpoint> {
        let set = |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let base = usual.base_url_env.iter().find_map(|name| Some((*name, set(name)?)));
        let mut endpoint = Self::at(provider, base.as_ref().map_or(usual.base_url, |(_, base)| base))?;
        endpoint.may_be_plain = is_listed(&endpoint.base, &set(PLAIN_HOSTS).unwrap_or_default());
        endpoint.base_variable = base.map(|(name, _)| name.to_owned());
        endpoint.needs_key = usual.needs_key;
        endpoint.key_variable = usual.key_env.first().map(|(name, _)| (*name).to_owned());
        let key = usual.key_env.iter().find_map(|&(name, auth)| Some((name, auth, set(name)?)));
        match key {
            Some((name, auth, key)) => {
                endpoint.key_variable = Some(name.to_owned());
                endpoint.with_key(SecretString::from(key), auth)
            }
            None => Ok(endpoint),
        }
    }

    /// A configured endpoint, with its key in this variable; without a variable, no key is sent. `variable`
    /// looks one up; blank counts as not set.
    ///
    /// # Errors
    /// The base is not an address, or has a secret of its own in it; or the key cannot be used there.
    pub fn named(
        provider: &str,
        base_url: &str,
        key: Option<(&str, Auth)>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, BadEndpoint> {
        let set = |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let mut endpoint = Self::at(provider, base_url)?;
        if !endpoint.base.username().is_empty() || endpoint.base.password().is_some() {
            return Err(BadEndpoint::Secret(provider.to_owned()));
        }
        endpoint.may_be_plain = is_listed(&endpoint.base, &set(PLAIN_HOSTS).unwrap_or_default());
        endpoint.base_variable = Some(format!("the address of the provider {provider}"));
        let Some((name, auth)) = key else { return Ok(endpoint) };
        endpoint.needs_key = NeedsKey::Yes;
        endpoint.key_variable = Some(name.to_owned());
        match set(name) {
            Some(key) => endpoint.with_key(SecretString::from(key), auth),
            None => Ok(endpoint),
        }
    }

    /// An endpoint without a key.
    ///
    /// # Errors
    /// The base is not an address.
    pub fn at(provider: &str, base_url: &str) -> Result<Self, BadEndpoint> {
        let bad = || BadEndpoint::BaseUrl(provider.to_owned());
        let mut base = Url::parse(base_url.trim()).map_err(|_| bad())?;
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(bad());
        }
        base.set_fragment(None);
        Ok(Self {
            provider: provider.to_owned(),
            base,
            key: None,
            key_variable: None,
            base_variable: None,
            may_be_plain: false,
            needs_key: NeedsKey::Perhaps,
            headers: HeaderMap::new(),
        })
    }

    /// This endpoint with a version at the end of its base: the one it has, else this one. Google's own
    /// programs take the address of the host; both are in use.
    #[must_use]
    pub(crate) fn with_version(mut self, version: &str) -> Self {
        let mut segments = self.base.path().rsplit('/').filter(|segment| !segment.is_empty());
        let has_version = segments.next().is_some_and(is_version);
        // Below this, Vertex AI has no further version.
        if !has_version && !segments.any(|segment| segment == "publishers") {
            self.base.set_path(&format!("{}/{version}", self.base.path().trim_end_matches('/')));
        }
        self
    }

    /// This endpoint without this version at the end of its base, for a wire format that has it in its paths.
    #[must_use]
    pub(crate) fn without_version(mut self, version: &str) -> Self {
        let path = self.base.path().trim_end_matches('/');
        if let Some(path) = path.strip_suffix(version).filter(|path| path.ends_with('/')).map(str::to_owned) {
            self.base.set_path(&path);
        }
        self
    }

    /// This endpoint with unencrypted keys allowed, for a trusted network.
    #[must_use]
    pub fn plain(self) -> Self {
        Self { may_be_plain: true, ..self }
    }

    /// This endpoint with this key.
    ///
    /// # Errors
    /// HTTP cannot carry it, or it would be sent unencrypted.
    pub fn with_key(mut self, secret: SecretString, auth: Auth) -> Result<Self, BadEndpoint> {
        if !self.may_be_plain && !may_carry_secrets(&self.base, "") {
            let (provider, host) = (self.provider.clone(), self.host());
            let variable = self.base_variable.unwrap_or_else(|| "the base URL".into());
            return Err(BadEndpoint::Plain { provider, variable, host });
        }
        let key = Key { secret, auth };
        key.header().map_err(|_| BadEndpoint::Key(self.provider.clone()))?;
        self.key = Some(key);
        Ok(self)
    }

    /// This endpoint with another variable's name, which errors tell people to check.
    #[must_use]
    pub fn with_key_variable(self, name: impl Into<String>) -> Self {
        Self { key_variable: Some(name.into()), ..self }
    }

    /// This endpoint with one more header. Its value counts as a secret, too.
    ///
    /// # Errors
    /// HTTP cannot carry it.
    pub fn with_header(mut self, name: &str, value: &str) -> Result<Self, BadEndpoint> {
        let bad = || BadEndpoint::Header(name.to_owned(), self.provider.clone());
        let field = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        self.headers.insert(field, value);
        Ok(self)
    }

    /// Its host and port.
    #[must_use]
    pub fn server(&self) -> ApiAddress {
        let address = self.base.host_str().unwrap_or_default().to_owned();
        ApiAddress { address, port: self.base.port_or_known_default().unwrap_or_default() }
    }

    /// The provider's name, in `provider/model` and in errors.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// The host, and the port if it is not the usual one.
    pub(crate) fn host(&self) -> String {
        host(&self.base)
    }

    /// The base, as an address.
    pub(crate) fn base(&self) -> &str {
        self.base.as_str()
    }

    /// The variable that says where the base is, or what else does.
    pub(crate) fn base_variable(&self) -> Option<&str> {
        self.base_variable.as_deref()
    }

    /// Whether what is sent there is not encrypted.
    pub(crate) fn is_plain(&self) -> bool {
        self.base.scheme() == "http"
    }

    /// The variable the key was, or would be, read from.
    #[must_use]
    pub fn key_variable(&self) -> Option<&str> {
        self.key_variable.as_deref()
    }

    /// The address of `path` (which may have a query) below the base. It is always on the configured host.
    pub(crate) fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        url.set_path(&format!("{}/{}", self.base.path().trim_end_matches('/'), path.trim_start_matches('/')));
        match (self.base.query(), query) {
            (Some(base), Some(query)) => url.set_query(Some(&format!("{base}&{query}"))),
            (None, Some(query)) => url.set_query(Some(query)),
            (_, None) => {}
        }
        url
    }

    /// The headers every request to this endpoint has: the key's, and the configured ones, which win.
    pub(crate) fn headers(&self) -> Result<HeaderMap, ProviderError> {
        let mut headers = HeaderMap::new();
        match (&self.key, self.needs_key) {
            (Some(key), _) => {
                let (name, value) = key.header().map_err(|_| self.missing_key())?;
                headers.insert(name, value);
            }
            (None, NeedsKey::Yes) if !self.brings_key() => return Err(self.missing_key()),
            (None, NeedsKey::Yes | NeedsKey::Perhaps) => {}
        }
        headers.extend(self.headers.clone());
        Ok(headers)
    }

    /// A configured header, for an adapter that has something to add to it.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether a configured header is one that keys are sent in.
    fn brings_key(&self) -> bool {
        ["authorization", "x-api-key", "api-key", "x-goog-api-key"].iter().any(|name| self.headers.contains_key(*name))
    }

    fn missing_key(&self) -> ProviderError {
        let error = ProviderError::new(&*self.provider, ErrorKind::MissingKey);
        error.with_subject(self.key_variable.as_deref().unwrap_or_default())
    }

    /// A text from outside without the key and the configured headers' values in it.
    pub(crate) fn veil(&self, text: &[u8]) -> Vec<u8> {
        let secrets = self.key.iter().map(|key| key.secret.expose_secret().as_bytes());
        let secrets = secrets.chain(self.headers.values().map(HeaderValue::as_bytes));
        let mut veiled = text.to_vec();
        for secret in secrets.filter(|secret| secret.len() >= SECRET_LEN_MIN) {
            veiled = replace(&veiled, secret, b"[key]");
        }
        veiled
    }

    /// Removes the key from a text.
    pub(crate) fn veil_text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.veil(text.as_bytes())).into_owned()
    }

    /// The error without the key in its detail and request id.
    pub(crate) fn veiled(&self, mut error: ProviderError) -> ProviderError {
        error.request_id = error.request_id.map(|id| self.veil_text(&id));
        error.detail = self.veil_text(&error.detail);
        error
    }
}

/// Whether a segment of a path is a version: `v1`, `v1beta`, `v2alpha1`.
fn is_version(segment: &str) -> bool {
    let rest = segment.strip_prefix('v').unwrap_or_default();
    rest.starts_with(|first: char| first.is_ascii_digit()) && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// What is shorter is no secret, and would tear holes into ordinary words.
const SECRET_LEN_MIN: usize = 8;

fn replace(text: &[u8], what: &[u8], with: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::with_capacity(text.len());
    let mut from = 0;
    for at in memchr::memmem::find_iter(text, what) {
        replaced.extend_from_slice(&text[from..at]);
        replaced.extend_from_slice(with);
        from = at + what.len();
    }
    replaced.extend_from_slice(&text[from..]);
    replaced
}

impl Key {
    fn header(&self) -> Result<(HeaderName, HeaderValue), InvalidHeaderValue> {
        let secret = self.secret.expose_secret();
        let (name, value) = match self.auth {
            Auth::Bearer => (AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {secret}"))),
            Auth::Header(name) => (HeaderName::from_static(name), HeaderValue::from_str(secret)),
        };
        let mut value = value?;
        value.set_sensitive(true);
        Ok((name, value))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("provider", &self.provider)
            .field("host", &self.base.host_str().unwrap_or_default())
            .field("key_variable", &self.key_variable)
            .field("has_key", &self.key.is_some())
            .finish_non_exhaustive()
    }
}
