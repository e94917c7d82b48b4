//! The configuration of a server, as people write it.
//!
//! The common fields are those of other clients, so an entry can be copied: `command`, `args`, `env` and `cwd`, or `url` and
//! `headers`. An unknown key is an error, and so is a variable that is not set: a server that starts with half of its
//! configuration fails later and in another place.

mod expand;
pub mod import;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use everturn::core::chat::Effect;
use everturn::providers::endpoint;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

pub use expand::BadVariable;
use expand::expand;

/// Longest name of a server: with it and the prefix a tool's name has to fit into 64 characters.
const NAME_CHARS_MAX: usize = 20;
const START_SECONDS: u64 = 30;
const SILENCE_SECONDS: u64 = 5 * 60;
const IDLE_MINUTES: u64 = 10;
/// Headers that the protocol sets itself.
const RESERVED_HEADERS: [&str; 6] =
    ["accept", "content-type", "last-event-id", "mcp-protocol-version", "mcp-session-id", "mcp-method"];

/// A server's entry in a configuration file.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let entry: everturn_mcp::ServerEntry = serde_json::from_str(
///     r#"{ "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "${SITE}"] }"#,
/// )?;
/// let server = entry.check("files", |name| (name == "SITE").then(|| "/srv/site".into()), "/etc/everturn".as_ref())?;
/// assert_eq!(server.what(), "npx -y @modelcontextprotocol/server-filesystem /srv/site");
/// # Ok(())
/// # }
/// ```
#[derive(Deserialize, Clone, Default, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ServerEntry {
    /// `stdio` or `http`; may be left out.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The program of a local server.
    pub command: Option<String>,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables of its environment, besides a few harmless ones.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The directory it starts in.
    pub cwd: Option<PathBuf>,
    /// The address of a remote server.
    pub url: Option<String>,
    /// Headers of each request to it.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Whether hints of the server about its tools are believed.
    #[serde(default)]
    pub trust: bool,
    /// The tools to offer; all if left out.
    pub only: Option<Vec<String>>,
    /// Exceptions for single tools, by the server's names.
    #[serde(default)]
    pub tools: BTreeMap<String, ToolEntry>,
    /// Whether its tools are offered however many there are.
    #[serde(default)]
    pub always: bool,
    /// Whether calls may run beside each other.
    #[serde(default)]
    pub parallel: bool,
    /// How long a start may take.
    pub start_seconds: Option<u64>,
    /// How long a call may take; the agent's `tool_seconds_max` if left out.
    pub call_seconds: Option<u64>,
    /// How long a call may go on without a result or a sign of progress.
    pub silence_seconds: Option<u64>,
    /// After how long without a call the server is stopped.
    pub idle_minutes: Option<u64>,
    /// The protocol's version; found out if left out.
    pub protocol: Option<Protocol>,
    /// For whom one process or connection, and one login, is: `owner` if left out.
    pub scope: Option<ServerScope>,
    /// How this program is known where people log in at a remote server; found out if left out.
    pub oauth: Option<OauthEntry>,
}

/// For whom one process or connection of a server is.
#[derive(Deserialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ServerScope {
    /// All chats of an owner.
    #[default]
    Owner,
    /// One chat: for servers that remember what was done, such as browsers.
    Chat,
    /// All chats of all owners.
    Daemon,
}

/// How this program is known where people log in.
#[derive(Deserialize, Clone, Default, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct OauthEntry {
    /// The name that it was registered under, if it was registered by hand.
    pub client_id: Option<String>,
    /// The secret that belongs to it.
    pub client_secret: Option<String>,
    /// The address of a document that describes it.
    pub client_metadata_url: Option<String>,
    /// Scopes to ask for instead of those that the server names.
    pub scopes: Option<Vec<String>>,
    /// The port of this machine that the browser is sent to after a login; any free one if left out.
    pub redirect_port: Option<u16>,
}

/// An exception for one tool.
#[derive(Deserialize, Debug, Clone, Default, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ToolEntry {
    /// What running it twice does: `read`, `idempotent` or `once`.
    pub effect: Option<EffectWord>,
    /// Whether a person decides on each call: `allow` or `ask`.
    pub permission: Option<Permission>,
    /// Whether it is left out.
    #[serde(default)]
    pub off: bool,
}

/// What running a tool twice does.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum EffectWord {
    /// Nothing: it only reads.
    Read,
    /// No more than running it once.
    Idempotent,
    /// A second effect.
    Once,
}

impl From<EffectWord> for Effect {
    fn from(word: EffectWord) -> Self {
        match word {
            EffectWord::Read => Self::Read,
            EffectWord::Idempotent => Self::Idempotent,
            EffectWord::Once => Self::Once,
        }
    }
}

/// Whether a person decides on each call.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// Calls run.
    Allow,
    /// Calls wait until a person allows them.
    Ask,
}

/// The generations of the protocol.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// 2025-11-25 and before: a session begins with `initialize`.
    #[serde(rename = "2025-11-25")]
    Initialize,
    /// 2026-07-28: no sessions; each request says what the client can.
    #[serde(rename = "2026-07-28")]
    Discover,
}

impl Protocol {
    /// Its newest version.
    #[must_use]
    pub const fn version(self) -> &'static str {
        match self {
            Self::Initialize => "2025-11-25",
            Self::Discover => "2026-07-28",
        }
    }
}

/// Why an entry cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the MCP server `{server}`: {why}")]
pub struct BadServer {
    /// The server.
    pub server: String,
    /// The reason, with advice.
    pub why: String,
}

/// A server that can be started or connected to.
#[derive(Clone, PartialEq)]
pub struct ServerConfig {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) trust: Trust,
    pub(crate) only: Option<Vec<String>>,
    pub(crate) tools: BTreeMap<String, ToolEntry>,
    pub(crate) offering: Offering,
    pub(crate) side: Side,
    pub(crate) start_max: Duration,
    pub(crate) call_max: Option<Duration>,
    pub(crate) silence_max: Duration,
    pub(crate) idle_max: Duration,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) scope: ServerScope,
    pub(crate) oauth: OauthClient,
}

/// How this program is known where people log in, with variables filled in.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct OauthClient {
    pub(crate) id: Option<String>,
    pub(crate) secret: Option<String>,
    pub(crate) document: Option<String>,
    pub(crate) scope: Option<String>,
    pub(crate) redirect_port: Option<u16>,
    /// Hosts to which secrets may travel unencrypted, with commas between. This machine always may.
    pub(crate) plain_hosts: String,
}

/// Where a server is.
#[derive(Clone, PartialEq)]
pub(crate) enum Place {
    /// A program on this machine.
    Command { argv: Vec<String>, environment: BTreeMap<String, String>, directory: Option<PathBuf> },
    /// An address.
    Http { url: Url, headers: HeaderMap },
}

/// Whether hints of a server are believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    Trusted,
    NotTrusted,
}

/// Whether the model is offered each tool of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offering {
    /// Always.
    Always,
    /// If the servers of an agent have few enough; else they are searched for.
    IfFew,
}

/// Whether calls run beside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Calls that change something run one after the other.
    Serial,
    /// All calls run in parallel.
    Parallel,
}

impl ServerEntry {
    /// Checks the entry and fills in its variables. A relative `cwd` or `command` with a slash begins at `beside`.
    ///
    /// # Errors
    /// The entry cannot be used, for the reason given.
    pub fn check(
        self,
        name: &str,
        variable: impl Fn(&str) -> Option<String>,
        beside: &Path,
    ) -> Result<ServerConfig, BadServer> {
        let bad = |why: String| BadServer { server: name.into(), why };
        check_name(name).map_err(bad)?;
        let place = self.place(&variable, beside).map_err(bad)?;
        let seconds = |told: Option<u64>, usual: u64, key: &str| match told.unwrap_or(usual) {
            0 => Err(bad(format!("`{key}` is 0; it must be 1 or more"))),
            seconds => Ok(Duration::from_secs(seconds)),
        };
        let oauth = self.oauth_client(&variable).map_err(bad)?;
        let call_max = self.call_seconds.map(|told| seconds(Some(told), told, "call_seconds")).transpose()?;
        Ok(ServerConfig {
            name: name.into(),
            place,
            trust: if self.trust { Trust::Trusted } else { Trust::NotTrusted },
            offering: if self.always { Offering::Always } else { Offering::IfFew },
            side: if self.parallel { Side::Parallel } else { Side::Serial },
            start_max: seconds(self.start_seconds, START_SECONDS, "start_seconds")?,
            call_max,
            silence_max: seconds(self.silence_seconds, SILENCE_SECONDS, "silence_seconds")?,
            idle_max: seconds(self.idle_minutes, IDLE_MINUTES, "idle_minutes")? * 60,
            protocol: self.protocol,
            scope: self.scope.unwrap_or_default(),
            oauth,
            only: self.only,
            tools: self.tools,
        })
    }

    fn oauth_client(&self, variable: &impl Fn(&str) -> Option<String>) -> Result<OauthClient, String> {
        let plain_hosts = variable(endpoint::PLAIN_HOSTS).unwrap_or_default();
        let Some(entry) = &self.oauth else { return Ok(OauthClient { plain_hosts, ..OauthClient::default() }) };
        if self.url.is_none() {
            return Err("`oauth` is for servers with a `url`; a `command` has `env`".into());
        }
        let told = |value: &Option<String>| value.as_ref().map(|value| filled(value, "oauth", variable)).transpose();
        let id = told(&entry.client_id)?;
        if id.is_none() && entry.client_secret.is_some() {
            return Err("`oauth` has a `client_secret` without a `client_id`".into());
        }
        Ok(OauthClient {
            id,
            secret: told(&entry.client_secret)?,
            document: told(&entry.client_metadata_url)?,
            scope: entry.scopes.as_ref().map(|scopes| scopes.join(" ")),
            redirect_port: entry.redirect_port,
            plain_hosts,
        })
    }

    fn place(&self, variable: &impl Fn(&str) -> Option<String>, beside: &Path) -> Result<Place, String> {
        let kind = self.kind.as_deref();
        match (&self.command, &self.url) {
            (Some(_), Some(_)) => Err("it has both `command` and `url`: keep one".into()),
            (None, None) => Err("it has neither `command` (a local server) nor `url` (a remote one)".into()),
            (Some(command), None) => {
                if !matches!(kind, None | Some("stdio" | "local")) {
                    return Err(format!("`type` is {:?}, but a `command` is spoken to over stdio", kind.unwrap_or("")));
                }
                if !self.headers.is_empty() {
                    return Err("`headers` are for servers with a `url`; a `command` has `env`".into());
                }
                self.command(command, variable, beside)
            }
            (None, Some(url)) => {
                match kind {
                    None | Some("http" | "streamable-http" | "streamableHttp" | "remote") => {}
                    Some("sse") => {
                        return Err("`type` is \"sse\", which is out of use: ask for the server's address for \
                                    streamable HTTP, and set `type` to \"http\""
                            .into());
                    }
                    Some(other) => return Err(format!("`type` is {other:?}, but a `url` is spoken to over http")),
                }
                if !self.args.is_empty() || !self.env.is_empty() || self.cwd.is_some() {
                    return Err(
                        "`args`, `env` and `cwd` are for servers with a `command`; a `url` has `headers`".into()
                    );
                }
                self.http(url, variable)
            }
        }
    }

    fn command(
        &self,
        command: &str,
        variable: &impl Fn(&str) -> Option<String>,
        beside: &Path,
    ) -> Result<Place, String> {
        let mut argv = vec![filled(command, "command", variable)?];
        if argv[0].trim().is_empty() {
            return Err("`command` is empty".into());
        }
        if argv[0].contains('/') {
            argv[0] = beside.join(&argv[0]).to_string_lossy().into_owned();
        }
        for arg in &self.args {
            argv.push(filled(arg, "args", variable)?);
        }
        let mut environment = BTreeMap::new();
        for (name, value) in &self.env {
            environment.insert(name.clone(), filled(value, "env", variable)?);
        }
        let directory = self.cwd.as_ref().map(|cwd| beside.join(cwd));
        if let Some(directory) = directory.as_ref().filter(|directory| !directory.is_dir()) {
            return Err(format!("`cwd` is {}, which is not a directory", directory.display()));
        }
        Ok(Place::Command { argv, environment, directory })
    }

    fn http(&self, url: &str, variable: &impl Fn(&str) -> Option<String>) -> Result<Place, String> {
        let url: Url = filled(url, "url", variable)?.parse().map_err(|error| format!("`url` is not a URL: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("`url` begins with {}:, but only http: and https: can be used", url.scheme()));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            if RESERVED_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
                return Err(format!("the header `{name}` is set by the protocol: leave it out"));
            }
            let field = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("`{name}` is not a header"))?;
            let value = filled(value, "headers", variable)?;
            let mut value = HeaderValue::from_str(&value)
                .map_err(|_| format!("the value of the header `{name}` has characters that HTTP cannot carry"))?;
            value.set_sensitive(true);
            headers.insert(field, value);
        }
        let trusted = variable(endpoint::PLAIN_HOSTS).unwrap_or_default();
        if !headers.is_empty() && !endpoint::may_carry_secrets(&url, &trusted) {
            let host = endpoint::host(&url);
            return Err(format!(
                "http://{host} is not on this machine, so its headers would travel unencrypted: use https, or list \
                 {host} in {} if the way there is to be trusted",
                endpoint::PLAIN_HOSTS
            ));
        }
        Ok(Place::Http { url, headers })
    }
}

fn filled(text: &str, key: &str, variable: &impl Fn(&str) -> Option<String>) -> Result<String, String> {
    expand(text, variable).map_err(|bad| format!("`{key}`: {bad}"))
}

fn check_name(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(fits) {
        return Err(format!("a name has 1 to {NAME_CHARS_MAX} characters of a-z, 0-9 and -"));
    }
    Ok(())
}

impl ServerConfig {
    /// The server's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The command or the address, for people. Without variables, headers and the address's query, which may be secret.
    #[must_use]
    pub fn what(&self) -> String {
        match &self.place {
            Place::Command { argv, .. } => argv.join(" "),
            Place::Http { url, .. } => {
                let mut shown = url.clone();
                shown.set_query(None);
                let _ = shown.set_username("");
                let _ = shown.set_password(None);
                shown.to_string()
            }
        }
    }

    /// The port that the browser is to be sent to after a login, if one is configured.
    #[must_use]
    pub const fn redirect_port(&self) -> Option<u16> {
        self.oauth.redirect_port
    }

    /// The owner that a login is stored for. Empty if all owners share it.
    pub(crate) fn login_owner<'a>(&self, owner: &'a str) -> &'a str {
        match self.scope {
            ServerScope::Owner | ServerScope::Chat => owner,
            ServerScope::Daemon => "",
        }
    }

    /// Whether a tool of the server is offered.
    pub(crate) fn offers(&self, tool: &str) -> bool {
        let is_listed = self.only.as_ref().is_none_or(|only| only.iter().any(|name| name == tool));
        is_listed && !self.tools.get(tool).is_some_and(|entry| entry.off)
    }
}

/// Values of `env` and `headers` are left out.
impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig").field("name", &self.name).field("what", &self.what()).finish_non_exhaustive()
    }
}

/// Secrets are left out.
impl fmt::Debug for OauthEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OauthEntry").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

/// Values of `env` and `headers` are left out.
impl fmt::Debug for ServerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let env: Vec<_> = self.env.keys().collect();
        let headers: Vec<_> = self.headers.keys().collect();
        let mut shown = f.debug_struct("ServerEntry");
        shown.field("command", &self.command).field("args", &self.args).field("url", &self.url);
        shown.field("env", &env).field("headers", &headers).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
