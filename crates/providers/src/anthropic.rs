//! Anthropic Messages, and compatible servers.
//!
//! The wire is a list of blocks, each begun, filled and ended, between the start and the stop of a message.
//! It cannot be resumed and has no idempotency key, so the recovery ladder handles a broken stream. Above all
//! it demands its own blocks back unchanged: signed thinking to the byte, searches with their results, in
//! their places.

mod classify;
mod decode;
mod request;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use everturn_core::error::ProviderError;
use everturn_core::prompt::{Request, WireFormat};
use reqwest::header::HeaderValue;
use serde_json::Value;

pub use decode::Messages;

use crate::catalogue::{Card, Catalogue};
use crate::endpoint::{Auth, BadEndpoint, Endpoint, NeedsKey, Usual};
use crate::http::{Http, HttpCall};
use crate::provider::{ApiAddress, FrameStream, ModelFacts, Provider};

/// The conversation of a request in this wire format, for export to a file.
#[must_use]
pub fn written(request: &Request) -> Value {
    request::body(request, &Card::default()).body["messages"].take()
}

/// What is usual for Anthropic.
pub const USUAL: Usual = Usual {
    base_url: "https://api.anthropic.com",
    base_url_env: &["ANTHROPIC_BASE_URL"],
    key_env: &[("ANTHROPIC_API_KEY", Auth::Header("x-api-key")), ("ANTHROPIC_AUTH_TOKEN", Auth::Bearer)],
    needs_key: NeedsKey::Yes,
};

const PATH: &str = "/v1/messages";
const VERSION: &str = "2023-06-01";

/// A provider that speaks Anthropic Messages.
#[derive(Debug, Clone)]
pub struct Anthropic {
    endpoint: Endpoint,
    http: Http,
    catalogue: Arc<Catalogue>,
}

impl Anthropic {
    /// The provider behind this endpoint.
    #[must_use]
    pub fn new(endpoint: Endpoint, http: Http, catalogue: Arc<Catalogue>) -> Self {
        let endpoint = endpoint.without_version("v1"); // Anthropic's own programs take the host alone; others do not.
        Self { endpoint, http, catalogue }
    }

    /// Anthropic itself, as the environment says. `variable` looks one up.
    ///
    /// # Errors
    /// The environment holds an address or a key that cannot be used.
    pub fn usual(
        http: Http,
        catalogue: Arc<Catalogue>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, BadEndpoint> {
        Ok(Self::new(Endpoint::usual("anthropic", &USUAL, variable)?, http, catalogue))
    }

    /// The betas a request needs, besides those that are configured.
    fn betas(&self, needed: Option<&'static str>) -> Option<HeaderValue> {
        let betas: Vec<&str> = self.endpoint.header("anthropic-beta").into_iter().chain(needed).collect();
        (!betas.is_empty()).then(|| HeaderValue::from_str(&betas.join(",")).ok()).flatten()
    }
}

#[async_trait]
impl Provider for Anthropic {
    fn name(&self) -> &str {
        self.endpoint.provider()
    }

    fn server(&self) -> Option<ApiAddress> {
        Some(self.endpoint.server())
    }

    fn facts(&self, model: &str) -> ModelFacts {
        self.catalogue.card(self.name(), model).facts(self.name(), WireFormat::Anthropic)
    }

    async fn open(&self, request: Request) -> Result<FrameStream, ProviderError> {
        let card = self.catalogue.card(self.name(), request.model.name());
        let thinks = card.facts(self.name(), WireFormat::Anthropic).thinks;
        let sent = request::body(&request, &card);
        let version = self.endpoint.header("anthropic-version").and_then(|version| HeaderValue::from_str(version).ok());
        let version = version.unwrap_or(HeaderValue::from_static(VERSION));
        let mut call = HttpCall::post(PATH, sent.body).thinking(thinks).with_header("anthropic-version", version);
        if let Some(betas) = self.betas(sent.beta) {
            call = call.with_header("anthropic-beta", betas);
        }
        self.http.stream(&self.endpoint, call, Messages::new(self.name())).await
    }
}
