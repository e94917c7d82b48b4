//! The providers and models of a server.
//!
//! Keys come from the environment, and each is sent to its own provider alone. Without any key the understudy stands in,
//! so that a first chat needs no configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use everturn::Builder;
use everturn::core::ids::ModelId;
use everturn::core::limits::Limits;
use everturn::core::prompt::{Target, WireFormat};
use everturn::providers::anthropic::Anthropic;
use everturn::providers::catalogue::{Catalogue, PriceCard};
use everturn::providers::endpoint::{Auth, BadEndpoint, Endpoint};
use everturn::providers::gemini::{Gemini, GoogleRetention};
use everturn::providers::http::Http;
use everturn::providers::openai::{OLLAMA, OPENROUTER};
use everturn::providers::openai_chat::OpenAiChat;
use everturn::providers::openai_responses::OpenAiResponses;
use everturn_understudy::{Manner, Understudy};

use crate::setup::offer::ModelOffer;

/// A provider's name, the variables that may hold its key, and its default model.
type Usual = (&'static str, &'static [&'static str], &'static str);

/// The providers that need a key.
const KEYS: [Usual; 4] = [
    ("anthropic", &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"], "anthropic/claude-sonnet-4-5"),
    ("openai", &["OPENAI_API_KEY"], "openai/gpt-5-mini"),
    ("google", &["GEMINI_API_KEY", "GOOGLE_API_KEY"], "google/gemini-2.5-flash"),
    ("openrouter", &["OPENROUTER_API_KEY"], "openrouter/openrouter/auto"),
];

/// The variables that enable Ollama, which needs no key.
const OLLAMA_AT: [&str; 3] = ["OLLAMA_HOST", "OLLAMA_BASE_URL", "OLLAMA_API_KEY"];
/// Ollama's default port.
const OLLAMA_PORT: u16 = 11434;

/// The understudy's models, the default first.
const UNDERSTUDY: [&str; 3] = ["understudy/persona", "understudy/numbered", "understudy/drill"];

/// A provider from the configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedProvider {
    /// The provider's wire format.
    pub wire: WireFormat,
    /// The base URL.
    pub url: String,
    /// The variable with the key; no key is sent if left out.
    pub key_env: Option<String>,
}

/// Configuration of providers beside the built-in ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderSetup {
    /// Providers from the configuration file, by name.
    pub named: BTreeMap<String, NamedProvider>,
    /// Providers whose generations run in the background.
    pub kept: BTreeSet<String>,
    /// Configured prices, by the prefix of the model's name. They override the catalogue.
    pub prices: BTreeMap<ModelId, PriceCard>,
}

/// The engine's providers, and the models that they offer.
pub struct ConnectedProviders {
    /// The engine with its providers.
    pub builder: Builder,
    /// The default model.
    pub model: ModelId,
    /// The models offered by default: those known of providers with a key, or the understudy's.
    pub models: Vec<ModelOffer>,
    /// The providers that need a key and have none.
    pub without_key: Vec<String>,
    /// The stand-in, which shares its streams with the engine's.
    pub stand_in: Understudy,
}

/// A provider that cannot be configured.
#[derive(Debug, thiserror::Error)]
pub enum BadProvider {
    /// A built-in provider has the name.
    #[error("the provider `{0}` is built in, and configured with variables such as OPENAI_BASE_URL: use another name")]
    Taken(String),
    /// The name cannot be part of a model's name.
    #[error("`{0}` cannot be the name of a provider: use letters, digits, `-`, `_` and `.`")]
    Name(String),
    /// A price names a model of no configured provider.
    #[error("`prices` has {0}, but there is no such provider: the providers are {1}")]
    Priced(ModelId, String),
    /// The URL or the key cannot be used.
    #[error(transparent)]
    Endpoint(#[from] BadEndpoint),
}

/// The default model, with the variable of the key that selects it; without any key, the understudy's.
pub fn default_model(variable: impl Fn(&str) -> Option<String>) -> (ModelId, Option<&'static str>) {
    let is_set = |name: &&&str| variable(name).is_some_and(|value| !value.trim().is_empty());
    let keyed = KEYS.iter().find_map(|(_, variables, model)| Some((model, variables.iter().find(is_set)?)));
    keyed.map_or_else(|| (model_of(UNDERSTUDY[0]), None), |(model, name)| (model_of(model), Some(*name)))
}

/// Adds every provider, with the keys from the environment. `variable` looks up an environment variable.
///
/// # Errors
/// A key, a URL or a name cannot be used.
pub fn connect_providers(
    mut builder: Builder,
    limits: &Limits,
    company: &ProviderSetup,
    variable: impl Fn(&str) -> Option<String> + Copy,
) -> Result<ConnectedProviders, BadProvider> {
    let (http, catalogue) = (Http::new(limits), Arc::new(company.catalogue()?));
    let at_home = |name: &str| match name {
        "OLLAMA_BASE_URL" => variable(name).or_else(|| Some(ollama_at(&variable("OLLAMA_HOST")?))),
        name => variable(name),
    };
    let ollama = OpenAiChat::compatible("ollama", &OLLAMA, http.clone(), catalogue.clone(), at_home)?;
    let openrouter = OpenAiChat::compatible("openrouter", &OPENROUTER, http.clone(), catalogue.clone(), variable)?;
    let stand_in = Understudy::company(Manner::default());
    builder = builder
        .provider(stand_in.clone())
        .provider(Anthropic::usual(http.clone(), catalogue.clone(), variable)?)
        .provider(OpenAiResponses::usual(http.clone(), catalogue.clone(), variable)?)
        .provider(company.gemini(Gemini::usual(http.clone(), variable)?, "google", &catalogue))
        .provider(openrouter)
        .provider(ollama);
    for (name, named) in &company.named {
        builder = named.join(builder, name, company, http.clone(), catalogue.clone(), variable)?;
    }
    Ok(company.survey(builder, stand_in, &Catalogue::embedded(), variable)) // Prices do not change which models are offered.
}

impl ProviderSetup {
    fn is_kept(&self, provider: &str) -> GoogleRetention {
        if self.kept.contains(provider) { GoogleRetention::Background } else { GoogleRetention::No }
    }

    fn gemini(&self, gemini: Gemini, name: &str, catalogue: &Catalogue) -> Gemini {
        gemini.with_kept(self.is_kept(name)).with_catalogue(catalogue.clone())
    }

    /// The catalogue with the configured prices.
    fn catalogue(&self) -> Result<Catalogue, BadProvider> {
        let usual = KEYS.iter().map(|(provider, ..)| *provider).chain(["ollama"]);
        let known: Vec<&str> = usual.chain(self.named.keys().map(String::as_str)).collect();
        match self.prices.keys().find(|model| !known.contains(&model.provider())) {
            Some(model) => Err(BadProvider::Priced(model.clone(), known.join(", "))),
            None => Ok(self.priced()),
        }
    }

    fn priced(&self) -> Catalogue {
        let tell = |catalogue: Catalogue, (model, price): (&ModelId, &PriceCard)| catalogue.priced(model, *price);
        self.prices.iter().fold(Catalogue::embedded(), tell) // Short prefixes come first, so that long ones override them.
    }

    /// Whether the price of a model is known. The understudy costs nothing.
    #[must_use]
    pub fn is_priced(&self, model: &ModelId) -> bool {
        let catalogue = self.priced();
        let has_price = |provider: &str| catalogue.card(provider, model.name()).price.is_some();
        let is_gemini = self.named.get(model.provider()).is_some_and(|named| named.wire == WireFormat::Gemini);
        model.provider() == "understudy" || has_price(model.provider()) || is_gemini && has_price("google")
    }

    /// What a model accepts, by its provider. `None` for the understudy, which accepts everything, and for models without
    /// a provider.
    #[must_use]
    pub fn target(&self, model: &ModelId) -> Option<Target> {
        let provider = model.provider();
        let wire = match (provider, self.named.get(provider)) {
            (_, Some(named)) => named.wire,
            ("anthropic", None) => WireFormat::Anthropic,
            ("openai", None) => WireFormat::OpenAiResponses,
            ("google", None) => WireFormat::Gemini,
            ("openrouter" | "ollama", None) => WireFormat::OpenAiChat,
            _ => return None,
        };
        let shelf = if wire == WireFormat::Gemini { "google" } else { provider };
        Some(Catalogue::embedded().card(shelf, model.name()).facts(provider, wire).target)
    }

    /// Finds the providers that have a key, and the models that they offer.
    fn survey(
        &self,
        builder: Builder,
        stand_in: Understudy,
        catalogue: &Catalogue,
        variable: impl Fn(&str) -> Option<String>,
    ) -> ConnectedProviders {
        let is_set = |name: &str| variable(name).is_some_and(|value| !value.trim().is_empty());
        let (with, without): (Vec<&Usual>, Vec<&Usual>) =
            KEYS.iter().partition(|(_, variables, _)| variables.iter().any(|name| is_set(name)));
        let needs = |named: &NamedProvider| named.key_env.as_deref().is_some_and(|name| !is_set(name));
        let (idle, named): (Vec<(&String, &NamedProvider)>, Vec<_>) =
            self.named.iter().partition(|(_, named)| needs(named));
        let mut models: Vec<ModelOffer> =
            with.iter().flat_map(|(provider, ..)| known_of(provider, catalogue)).collect();
        models.extend(named.iter().map(|(name, _)| ModelOffer::All((*name).clone())));
        if OLLAMA_AT.iter().any(|name| is_set(name)) {
            models.push(ModelOffer::All("ollama".into()));
        }
        if models.is_empty() {
            models = UNDERSTUDY.map(|model| ModelOffer::Model(model_of(model))).into();
            // Each of them can fail on demand: the faults are part of the model's name.
            models.extend(UNDERSTUDY.map(|model| ModelOffer::Family(model_of(&format!("{model}-faults:")))));
        }
        let (model, _) = default_model(&variable);
        let without = without.iter().map(|(provider, ..)| (*provider).to_owned());
        let without_key = without.chain(idle.iter().map(|(name, _)| (*name).clone())).collect();
        ConnectedProviders { builder, model, models, without_key, stand_in }
    }
}

impl NamedProvider {
    /// Adds a provider under this name.
    fn join(
        &self,
        builder: Builder,
        name: &str,
        company: &ProviderSetup,
        http: Http,
        catalogue: Arc<Catalogue>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Builder, BadProvider> {
        if ["understudy", "ollama"].contains(&name) || KEYS.iter().any(|(usual, ..)| *usual == name) {
            return Err(BadProvider::Taken(name.into()));
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if name.is_empty() || !name.bytes().all(is_plain) {
            return Err(BadProvider::Name(name.into()));
        }
        let auth = match self.wire {
            WireFormat::Anthropic => Auth::Header("x-api-key"),
            WireFormat::Gemini => Auth::Header("x-goog-api-key"),
            WireFormat::OpenAiChat | WireFormat::OpenAiResponses => Auth::Bearer,
        };
        let key = self.key_env.as_deref().map(|variable| (variable, auth));
        let endpoint = Endpoint::named(name, &self.url, key, variable)?;
        Ok(match self.wire {
            WireFormat::Anthropic => builder.provider(Anthropic::new(endpoint, http, catalogue)),
            WireFormat::OpenAiResponses => builder.provider(OpenAiResponses::new(endpoint, http, catalogue)),
            WireFormat::OpenAiChat => builder.provider(OpenAiChat::new(endpoint, http, catalogue)),
            WireFormat::Gemini => builder.provider(company.gemini(Gemini::new(endpoint, http), name, &catalogue)),
        })
    }
}

/// The URL of Ollama from a host, a port, both, or a URL. A host that means all addresses becomes loopback.
fn ollama_at(host: &str) -> String {
    let host = host.trim();
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let (place, path) = rest.split_once('/').map_or((rest, ""), |(place, path)| (place, path.trim_end_matches('/')));
    let has_port =
        place.rsplit_once(':').is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    let is_bare = place.parse::<std::net::Ipv6Addr>().is_ok();
    let (name, port) = match place.rsplit_once(':') {
        Some((name, port)) if has_port && !is_bare => (name, format!(":{port}")),
        _ if host.contains("://") => (place, String::new()),
        _ => (place, format!(":{OLLAMA_PORT}")),
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let name = match bare.parse::<IpAddr>() {
        Ok(address) if address.is_unspecified() => "127.0.0.1".into(),
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        _ if name.is_empty() => "127.0.0.1".into(),
        _ => name.to_owned(),
    };
    let path = if path.is_empty() { "v1".into() } else { format!("{path}/v1") };
    format!("{scheme}://{name}{port}/{path}")
}

/// The models that the catalogue lists for a provider; all of the provider's, if it lists none.
fn known_of(provider: &str, catalogue: &Catalogue) -> Vec<ModelOffer> {
    let families = catalogue.families(provider);
    let known: Vec<ModelOffer> =
        families.map(|family| ModelOffer::Family(model_of(&format!("{provider}/{family}")))).collect();
    if known.is_empty() { vec![ModelOffer::All(provider.into())] } else { known }
}

fn model_of(name: &str) -> ModelId {
    name.parse().expect("a name of ours is provider and model")
}

#[cfg(test)]
mod tests;
