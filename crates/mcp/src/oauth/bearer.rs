//! The token that requests to a server carry.

use reqwest::Url;

use super::LoginError;
use super::logins::{Login, Logins};
use super::request::AuthorizationClient;

/// The login that the requests of one connection use. It is read when it is needed: a person may log in meanwhile.
#[derive(Debug, Clone)]
pub(crate) struct Bearer {
    logins: Logins,
    server: String,
    url: Url,
    whose: Whose,
    client: AuthorizationClient,
}

/// Whose login is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The login of an owner.
    Owner(String),
    /// Any: to read the list of tools.
    Any,
}

impl Bearer {
    pub(crate) fn new(logins: Logins, server: &str, url: &Url, whose: Whose) -> Self {
        Self { logins, server: server.into(), url: url.clone(), whose, client: AuthorizationClient::new() }
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The token to send, renewed if it expires soon or is the one that was refused. `None` without a login.
    pub(crate) async fn token(&self, refused: Option<&str>) -> Result<Option<String>, LoginError> {
        let Some(login) = self.login() else { return Ok(None) };
        let login = self.logins.current(&self.server, login, refused, &self.client).await?;
        Ok(login.tokens.map(|tokens| tokens.access))
    }

    fn login(&self) -> Option<Login> {
        let login = match &self.whose {
            Whose::Owner(owner) => self.logins.read(&self.server, owner, &self.url),
            Whose::Any => self.logins.any(&self.server, &self.url),
        };
        login.filter(|login| login.tokens.is_some())
    }
}
