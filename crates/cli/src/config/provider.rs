//! Providers in the configuration file.

use std::collections::{BTreeMap, BTreeSet};

use everturn::core::ids::ModelId;
use everturn::core::prompt::WireFormat;
use everturn_server::{NamedProvider, ProviderSetup};
use serde::Deserialize;

use super::Config;

/// Providers by name.
pub type Providers = BTreeMap<String, Provider>;

/// A provider's entry: a wire format and a URL.
#[derive(Deserialize, Debug, Clone, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    pub wire: WireWord,
    pub url: String,
    /// The environment variable with the key. Keys themselves do not belong in a file.
    pub key_env: Option<String>,
}

/// A wire format by its name.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum WireWord {
    Chat,
    Responses,
    Anthropic,
    Gemini,
}

impl WireWord {
    /// The name in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    const fn wire(self) -> WireFormat {
        match self {
            Self::Chat => WireFormat::OpenAiChat,
            Self::Responses => WireFormat::OpenAiResponses,
            Self::Anthropic => WireFormat::Anthropic,
            Self::Gemini => WireFormat::Gemini,
        }
    }
}

impl Config {
    /// The providers besides the built-in ones, and those with background generations.
    pub fn company(&self) -> ProviderSetup {
        let named = |(name, provider): (&String, &Provider)| {
            let Provider { wire, url, key_env } = provider.clone();
            (name.clone(), NamedProvider { wire: wire.wire(), url, key_env })
        };
        let prices = self.prices.iter().map(|(model, price)| (model.clone(), (*price).into())).collect();
        ProviderSetup { named: self.providers.iter().map(named).collect(), kept: self.kept(), prices }
    }

    /// Providers of agents that request background generations.
    fn kept(&self) -> BTreeSet<String> {
        let provider = |model: &String| model.parse::<ModelId>().ok().map(|model| model.provider().to_owned());
        let profiles = self.agents.values().filter(|profile| profile.background == Some(true));
        let mut kept: BTreeSet<String> = profiles
            .flat_map(|profile| profile.fallbacks.iter().chain([&profile.model]))
            .filter_map(provider)
            .collect();
        if self.usual.background == Some(true) {
            // Without a configured model, the API keys choose the provider, which may be Google.
            kept.insert(self.model.value.as_ref().map_or("google", ModelId::provider).to_owned());
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::super::Flags;
    use super::super::tests::read;
    use super::*;

    #[test]
    fn providers_of_the_file_are_registered() {
        let text = "[providers.lab]\nwire = \"chat\"\nurl = \"https://lab.example/v1\"\nkey_env = \"LAB_KEY\"\n\
            [agents.a]\nmodel = \"lab/x\"\nfallbacks = [\"google/y\"]\nbackground = true\n[agents.b]\nmodel = \"openai/z\"";
        let company = read(Flags::default(), &[], text).unwrap().company();
        let (wire, url) = (WireFormat::OpenAiChat, "https://lab.example/v1".to_owned());
        let lab = NamedProvider { wire, url, key_env: Some("LAB_KEY".into()) };
        assert_eq!(company.named, BTreeMap::from([("lab".to_owned(), lab)]));
        assert_eq!(company.kept, ["google", "lab"].map(ToOwned::to_owned).into());
        for (text, kept) in [
            ("background = true", vec!["google"]),
            ("background = true\nmodel = \"lab/x\"", vec!["lab"]),
            ("background = false\nmodel = \"lab/x\"", vec![]),
        ] {
            let company = read(Flags::default(), &[], text).unwrap().company();
            assert_eq!(company.kept, kept.into_iter().map(ToOwned::to_owned).collect(), "{text}");
        }
    }

    #[test]
    fn an_invalid_provider_is_refused() {
        for (text, said) in [
            ("[providers.a]\nwire = \"chat\"", "missing field `url`"),
            ("[providers.a]\nwire = \"telex\"\nurl = \"x\"", "`chat`, `responses`, `anthropic`, `gemini`"),
            ("[providers.a]\nwire = \"chat\"\nurl = \"x\"\nkey = \"sk-1\"", "unknown field `key`"),
            ("[providers.a]\nwire = \"chat\"\nulr = \"x\"", "did you mean `url`?"),
        ] {
            let error = format!("{:#}", read(Flags::default(), &[], text).unwrap_err());
            assert!(error.contains(said), "{error}");
        }
    }
}
