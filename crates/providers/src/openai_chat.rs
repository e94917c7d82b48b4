//! OpenAI Chat Completions, and compatible servers.
//!
//! The most common wire format: OpenAI, gateways, and local servers. It streams one message in chunks and
//! ends with a finish reason. Nothing is stored at the provider, nothing can be resumed, and reasoning has no
//! seal, so it is shown and never sent back.

mod classify;
mod decode;
mod request;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use everturn_core::error::ProviderError;
use everturn_core::prompt::{Request, Target, WireFormat};
use everturn_core::recovery::Reattach;
use serde_json::{Map, Value};

pub use decode::Completions;

use crate::catalogue::{Card, Catalogue};
use crate::endpoint::{BadEndpoint, Endpoint, Usual};
use crate::http::{Http, HttpCall};
use crate::openai;
use crate::provider::{ApiAddress, FrameStream, ModelFacts, Provider};

/// The conversation of a request in this wire format, for export to a file.
#[must_use]
pub fn written(request: &Request) -> Value {
    request::body(request, &Card::default(), &Map::new())["messages"].take()
}

const PATH: &str = "/chat/completions";

/// A provider that speaks OpenAI Chat Completions.
#[derive(Debug, Clone)]
pub struct OpenAiChat {
    endpoint: Endpoint,
    http: Http,
    catalogue: Arc<Catalogue>,
    extra: Map<String, Value>,
}

impl OpenAiChat {
    /// The provider behind this endpoint.
    #[must_use]
    pub fn new(endpoint: Endpoint, http: Http, catalogue: Arc<Catalogue>) -> Self {
        Self { endpoint, http, catalogue, extra: Map::new() }
    }

    /// OpenAI itself, as the environment says. `variable` looks one up.
    ///
    /// # Errors
    /// The environment holds an address or a key that cannot be used.
    pub fn usual(
        http: Http,
        catalogue: Arc<Catalogue>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, BadEndpoint> {
        Ok(Self::new(openai::endpoint(variable)?, http, catalogue))
    }

    /// A compatible server, such as [`openai::OLLAMA`], under this name.
    ///
    /// # Errors
    /// The environment holds an address or a key that cannot be used.
    pub fn compatible(
        provider: &str,
        usual: &Usual,
        http: Http,
        catalogue: Arc<Catalogue>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, BadEndpoint> {
        Ok(Self::new(Endpoint::usual(provider, usual, variable)?, http, catalogue))
    }

    /// This provider with extra parameters for every request, such as `temperature`. Sampling parameters are
    /// not sent to reasoning models, parameters of the request itself take precedence, and null removes a
    /// parameter.
    #[must_use]
    pub fn with_extra(mut self, extra: Map<String, Value>) -> Self {
        self.extra = extra;
        self
    }

    fn card(&self, model: &str) -> Card {
        Card { wire: None, ..self.catalogue.card(self.name(), model) }
    }
}

#[async_trait]
impl Provider for OpenAiChat {
    fn name(&self) -> &str {
        self.endpoint.provider()
    }

    fn server(&self) -> Option<ApiAddress> {
        Some(self.endpoint.server())
    }

    fn facts(&self, model: &str) -> ModelFacts {
        let mut facts = self.card(model).facts(self.name(), WireFormat::OpenAiChat);
        // A model of the catalogue may be able to do more, behind another wire.
        let usual = Target::new(WireFormat::OpenAiChat, self.name());
        let Target { background, reasoning, replays, result_media, .. } = usual;
        facts.target = Target { background, reasoning, replays, result_media, ..facts.target };
        facts.can.reattach = Reattach::No;
        facts
    }

    async fn open(&self, request: Request) -> Result<FrameStream, ProviderError> {
        let model = request.model.name();
        let body = request::body(&request, &self.card(model), &self.extra);
        let call = HttpCall::post(PATH, body).thinking(self.facts(model).thinks);
        self.http.stream(&self.endpoint, call, Completions::new(self.name())).await
    }
}
