//! Which models a server can ask.
//!
//! Keys come from the environment, and each goes to its own provider alone. Without any, the understudy stands in, so
//! that a first chat needs nothing.

use std::sync::Arc;

use everturn::Builder;
use everturn::core::ids::ModelId;
use everturn::core::limits::Limits;
use everturn::providers::anthropic::Anthropic;
use everturn::providers::catalogue::Catalogue;
use everturn::providers::endpoint::BadEndpoint;
use everturn::providers::gemini::Gemini;
use everturn::providers::http::Http;
use everturn::providers::openai_responses::OpenAiResponses;
use everturn_understudy::{Manner, Understudy};

use crate::offer::Offered;

/// The variables that hold a provider's key, by its name, and the model that is asked if nobody names one.
const KEYS: [(&str, &[&str], &str); 3] = [
    ("anthropic", &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"], "anthropic/claude-sonnet-4-5"),
    ("openai", &["OPENAI_API_KEY"], "openai/gpt-5-mini"),
    ("google", &["GEMINI_API_KEY", "GOOGLE_API_KEY"], "google/gemini-2.5-flash"),
];

/// The stand-in's models, the usual one first.
const UNDERSTUDY: [&str; 3] = ["understudy/persona", "understudy/numbered", "understudy/drill"];

/// What came of looking for keys.
pub struct Brought {
    /// The engine with its providers.
    pub builder: Builder,
    /// The model to ask if nobody names one.
    pub model: ModelId,
    /// The models to choose from if nobody says which: those known of providers that have a key, or the stand-in's.
    pub models: Vec<Offered>,
    /// The providers that have a key.
    pub with_key: Vec<&'static str>,
}

/// Adds every provider, with the keys that the environment has. `variable` looks one up.
///
/// # Errors
/// A key or an address in the environment cannot be used.
pub fn bring(
    builder: Builder,
    limits: &Limits,
    variable: impl Fn(&str) -> Option<String> + Copy,
) -> Result<Brought, BadEndpoint> {
    let (http, catalogue) = (Http::new(limits), Arc::new(Catalogue::embedded()));
    let builder = builder
        .provider(Understudy::company(Manner::default()))
        .provider(Anthropic::usual(http.clone(), catalogue.clone(), variable)?)
        .provider(OpenAiResponses::usual(http.clone(), catalogue.clone(), variable)?)
        .provider(Gemini::usual(http, variable)?);
    let is_set = |name: &&str| variable(name).is_some_and(|value| !value.trim().is_empty());
    let known = KEYS.iter().filter(|(_, variables, _)| variables.iter().any(is_set));
    let (with_key, models): (Vec<_>, Vec<_>) = known.map(|(provider, _, model)| (*provider, *model)).unzip();
    let model = named(models.first().copied().unwrap_or(UNDERSTUDY[0]));
    let models = match &with_key[..] {
        [] => UNDERSTUDY.map(|model| Offered::Model(named(model))).into(),
        providers => providers.iter().flat_map(|provider| known_of(provider, &catalogue)).collect(),
    };
    Ok(Brought { builder, model, models, with_key })
}

/// What the catalogue lists of a provider.
fn known_of(provider: &str, catalogue: &Catalogue) -> Vec<Offered> {
    let families = catalogue.families(provider);
    families.map(|family| Offered::Family(named(&format!("{provider}/{family}")))).collect()
}

fn named(model: &str) -> ModelId {
    model.parse().expect("a name of ours is provider and model")
}

#[cfg(test)]
mod tests {
    use everturn::Engine;

    use super::*;

    /// Whichever key is set, the model that is asked by default has a provider.
    #[tokio::test]
    async fn every_usual_model_has_a_provider() {
        let _ = rustls::crypto::ring::default_provider().install_default(); // Another test may have been first.
        for (provider, variables, model) in KEYS {
            for set in variables {
                let variable = |name: &str| (name == *set).then(|| "a-key".to_owned());
                let Brought { builder, model: asked, models, with_key } =
                    bring(Engine::builder(), &Limits::default(), variable).unwrap();
                assert_eq!((asked.to_string(), with_key), (model.to_owned(), vec![provider]), "{set}");
                assert!(models.iter().any(|offered| offered.has(&asked)), "{asked} cannot be chosen");
                let engine = builder.start();
                assert!(engine.facts(&asked).is_some(), "nobody provides {asked}");
                assert!(models.iter().filter_map(Offered::named).all(|model| engine.facts(model).is_some()));
            }
        }
    }
}
