//! Google's Gemini.
//!
//! Its usual wire format is `streamGenerateContent`: answers are lost with their connection. Where the
//! program allows it, background requests go to the Interactions API instead, and can be re-attached there.

use async_trait::async_trait;
use everturn_core::delta::GenerationHandle;
use everturn_core::error::{Cause, ErrorKind, ProviderError, Retry};
use everturn_core::prompt::{Request, WireFormat};
use everturn_core::recovery::Reattach;
use reqwest::Method;

use crate::catalogue::{Card, Catalogue};
use crate::endpoint::{Auth, BadEndpoint, Endpoint, NeedsKey, Usual};
use crate::http::{Http, HttpCall};
use crate::provider::{ApiAddress, FrameStream, ModelFacts, Provider};

mod classify;
mod decode;
mod family;
mod grounding;
mod interactions;
mod request;
#[cfg(test)]
mod tests;
mod usage;

pub use decode::GenerateContent;
pub use interactions::Interaction;

use family::GeminiFamily;
use interactions::InteractionCursor;

/// The name this provider usually has.
pub const NAME: &str = "google";

/// Where Gemini is, and where its key is.
pub const USUAL: Usual = Usual {
    base_url: "https://generativelanguage.googleapis.com/v1beta",
    base_url_env: &["GOOGLE_GEMINI_BASE_URL"],
    key_env: &[("GEMINI_API_KEY", KEY_HEADER), ("GOOGLE_API_KEY", KEY_HEADER)],
    needs_key: NeedsKey::Yes,
};

/// The version of the API that is asked where the base URL names none.
const VERSION: &str = "v1beta";

const KEY_HEADER: Auth = Auth::Header("x-goog-api-key");

/// Gemini.
#[derive(Debug, Clone)]
pub struct Gemini {
    endpoint: Endpoint,
    http: Http,
    catalogue: Catalogue,
    kept: GoogleRetention,
}

/// Whether Google may keep conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GoogleRetention {
    /// No: nothing outlives its stream.
    #[default]
    No,
    /// Those that are asked for in the background, as interactions.
    Background,
}

impl Gemini {
    /// Gemini at its usual place, with the key from the environment.
    ///
    /// # Errors
    /// The environment holds an address or a key that cannot be used.
    pub fn usual(http: Http, variable: impl Fn(&str) -> Option<String>) -> Result<Self, BadEndpoint> {
        Ok(Self::new(Endpoint::usual(NAME, &USUAL, variable)?, http))
    }

    /// Gemini at another place, under the endpoint's name.
    #[must_use]
    pub fn new(endpoint: Endpoint, http: Http) -> Self {
        let endpoint = endpoint.with_version(VERSION);
        Self { endpoint, http, catalogue: Catalogue::embedded(), kept: GoogleRetention::No }
    }

    /// This provider with another model catalogue.
    #[must_use]
    pub fn with_catalogue(self, catalogue: Catalogue) -> Self {
        Self { catalogue, ..self }
    }

    /// This provider with permission to keep conversations at Google, or without.
    #[must_use]
    pub fn with_kept(self, kept: GoogleRetention) -> Self {
        Self { kept, ..self }
    }

    /// What the catalogue says, under this provider's name or under the usual one.
    fn card(&self, model: &str) -> Card {
        let usual = self.catalogue.card(NAME, model);
        match self.name() {
            NAME => usual,
            name => usual.over(self.catalogue.card(name, model)),
        }
    }

    fn family(&self, model: &str) -> GeminiFamily {
        GeminiFamily::of(model, self.card(model).effort.as_deref())
    }
}

#[async_trait]
impl Provider for Gemini {
    fn name(&self) -> &str {
        self.endpoint.provider()
    }

    fn server(&self) -> Option<ApiAddress> {
        Some(self.endpoint.server())
    }

    fn facts(&self, model: &str) -> ModelFacts {
        let card = self.card(model);
        let thinks = card.thinks.unwrap_or_else(|| self.family(model).thinks());
        let mut facts = Card { thinks: Some(thinks), ..card.clone() }.facts(self.name(), WireFormat::Gemini);
        let kept = self.kept == GoogleRetention::Background && card.background != Some(false);
        facts.target.background = kept;
        facts.can.reattach = if kept { Reattach::Yes } else { Reattach::No };
        if card.replays.is_none() && !kept {
            facts.target.replays = request::REPLAYED.map(str::to_owned).into();
        }
        facts
    }

    async fn open(&self, request: Request) -> Result<FrameStream, ProviderError> {
        let model = request.model.name();
        let (family, thinks) = (self.family(model), self.facts(model).thinks);
        if request.background && self.kept == GoogleRetention::Background {
            let call = HttpCall::post(interactions::PATH, interactions::body(&request, family)).thinking(thinks);
            return self.http.stream(&self.endpoint, call, Interaction::new(self.name())).await;
        }
        let call = HttpCall::post(request::path(model), request::body(&request, family)).thinking(thinks);
        self.http.stream(&self.endpoint, call, GenerateContent::new(self.name())).await
    }

    async fn reattach(&self, model: &str, handle: &GenerationHandle) -> Result<FrameStream, ProviderError> {
        let cursor = InteractionCursor::of_text(&handle.cursor);
        let path = interactions::path(&handle.id, &cursor).ok_or_else(|| self.gone("no id of an interaction"))?;
        let call = HttpCall::get(path).thinking(self.facts(model).thinks);
        let decode = Interaction::after(self.name(), handle.id.clone(), cursor);
        let opened = self.http.stream(&self.endpoint, call, decode).await;
        opened.map_err(|error| match error.status {
            Some(400 | 404 | 410) => ProviderError { status: error.status, ..self.gone(&error.detail) },
            _ => error,
        })
    }

    async fn cancel(&self, handle: &GenerationHandle) -> Result<(), ProviderError> {
        let path = interactions::cancel_path(&handle.id).ok_or_else(|| self.gone("no id of an interaction"))?;
        let call = HttpCall { method: Method::POST, ..HttpCall::get(path) };
        self.http.fetch(&self.endpoint, call).await.map(drop)
    }
}

impl Gemini {
    /// The generation cannot be found again; the answer can still be asked for anew.
    fn gone(&self, detail: &str) -> ProviderError {
        let error = ProviderError::new(self.name(), ErrorKind::Truncated).with_retry(Retry::Backoff);
        error.with_cause(Cause::ErrorFinish).with_detail(detail)
    }
}
