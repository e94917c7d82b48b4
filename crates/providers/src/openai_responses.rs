//! OpenAI Responses, and compatible servers.
//!
//! The wire format is a list of items, each with an id, and most of them end with a repetition of what was
//! streamed. The provider can store a response, so that the next request builds upon it, or a generation,
//! which goes on when its stream is lost and is resumed after the number of the last event. Both are options;
//! without them nothing is stored, and everything a later request needs is in the transcript, sealed
//! reasoning included.

mod classify;
mod decode;
mod request;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use everturn_core::delta::GenerationHandle;
use everturn_core::error::{Cause, ErrorKind, ProviderError};
use everturn_core::limits::Thinking;
use everturn_core::prompt::{Request, WireFormat};
use reqwest::Method;
use serde_json::{Map, Value};

pub use decode::{ResponseRetention, Responses};

use crate::catalogue::{Card, Catalogue};
use crate::endpoint::{BadEndpoint, Endpoint};
use crate::http::{Http, HttpCall};
use crate::openai;
use crate::provider::{ApiAddress, FrameStream, ModelFacts, Provider};

/// The conversation of a request in this wire format, for export to a file.
#[must_use]
pub fn written(request: &Request) -> Value {
    request::body(request, &Card::default(), &Options::default())["input"].take()
}

const PATH: &str = "/responses";

/// A provider that speaks OpenAI Responses.
#[derive(Debug, Clone)]
pub struct OpenAiResponses {
    endpoint: Endpoint,
    http: Http,
    catalogue: Arc<Catalogue>,
    options: Options,
}

#[derive(Debug, Clone, Default)]
struct Options {
    store: bool,
    extra: Map<String, Value>,
}

impl OpenAiResponses {
    /// The provider behind this endpoint. It is asked to keep nothing.
    #[must_use]
    pub fn new(endpoint: Endpoint, http: Http, catalogue: Arc<Catalogue>) -> Self {
        Self { endpoint, http, catalogue, options: Options::default() }
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

    /// This provider with every response stored. A request can then build upon the last one instead of
    /// repeating the conversation.
    #[must_use]
    pub fn keeping(mut self) -> Self {
        self.options.store = true;
        self
    }

    /// This provider with extra parameters for every request, such as `service_tier`. Sampling parameters are
    /// not sent to reasoning models, parameters of the request itself take precedence, and null removes a
    /// parameter.
    #[must_use]
    pub fn with_extra(mut self, extra: Map<String, Value>) -> Self {
        self.options.extra = extra;
        self
    }

    fn thinks(&self, model: &str) -> Thinking {
        self.facts(model).thinks
    }

    /// A generation's name, as a part of an address. It came from the provider and may be anything.
    fn id<'h>(&self, handle: &'h GenerationHandle) -> Result<&'h str, ProviderError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        Some(handle.id.as_str()).filter(|id| !id.is_empty() && id.chars().all(plain)).ok_or_else(|| self.gone())
    }

    fn gone(&self) -> ProviderError {
        let error = ProviderError::new(self.name(), ErrorKind::Truncated).with_cause(Cause::ErrorFinish);
        error.with_detail("the handle of the generation is none of this provider's")
    }
}

#[async_trait]
impl Provider for OpenAiResponses {
    fn name(&self) -> &str {
        self.endpoint.provider()
    }

    fn server(&self) -> Option<ApiAddress> {
        Some(self.endpoint.server())
    }

    fn facts(&self, model: &str) -> ModelFacts {
        self.catalogue.card(self.name(), model).facts(self.name(), WireFormat::OpenAiResponses)
    }

    async fn open(&self, request: Request) -> Result<FrameStream, ProviderError> {
        let model = request.model.name();
        let card = self.catalogue.card(self.name(), model);
        let keeps = request::keeps(&request, &self.options);
        let body = request::body(&request, &card, &self.options);
        let call = HttpCall::post(PATH, body).thinking(self.thinks(model));
        self.http.stream(&self.endpoint, call, Responses::new(self.name(), keeps)).await
    }

    async fn reattach(&self, model: &str, handle: &GenerationHandle) -> Result<FrameStream, ProviderError> {
        let cursor: u64 = handle.cursor.parse().map_err(|_| self.gone())?;
        let thinks = self.thinks(model);
        let seals = if thinks == Thinking::Yes { "&include[]=reasoning.encrypted_content" } else { "" };
        let path = format!("{PATH}/{}?stream=true&starting_after={cursor}{seals}", self.id(handle)?);
        let decoder = Responses::resumed(self.name(), &handle.id, cursor);
        let call = HttpCall::get(path).thinking(thinks);
        self.http.stream(&self.endpoint, call, decoder).await.map_err(classify::not_resumed)
    }

    async fn cancel(&self, handle: &GenerationHandle) -> Result<(), ProviderError> {
        let path = format!("{PATH}/{}/cancel", self.id(handle)?);
        let call = HttpCall { method: Method::POST, ..HttpCall::get(path) };
        self.http.fetch(&self.endpoint, call).await.map(drop)
    }
}
