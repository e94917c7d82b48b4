use everturn::Engine;

use super::*;

fn brought(company: &ProviderSetup, set: &[(&str, &str)]) -> Result<ConnectedProviders, BadProvider> {
    let _ = rustls::crypto::ring::default_provider().install_default(); // Another test may have been first.
    let variable = |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    connect_providers(Engine::builder(), &Limits::default(), company, variable)
}

fn with(name: &str, wire: WireFormat, url: &str, key_env: Option<&str>) -> ProviderSetup {
    let named = NamedProvider { wire, url: url.into(), key_env: key_env.map(Into::into) };
    ProviderSetup { named: BTreeMap::from([(name.into(), named)]), ..ProviderSetup::default() }
}

/// Whichever key is set, the default model has a provider, and is offered.
#[tokio::test]
async fn every_usual_model_has_a_provider() {
    for (provider, variables, model) in KEYS {
        for set in variables {
            let ConnectedProviders { builder, model: asked, models, without_key, .. } =
                brought(&ProviderSetup::default(), &[(set, "a-key")]).unwrap();
            assert_eq!(asked.to_string(), model, "{set}");
            assert_eq!((without_key.contains(&provider.to_owned()), without_key.len()), (false, KEYS.len() - 1));
            assert!(models.iter().any(|offered| offered.has(&asked)), "{asked} cannot be chosen");
            let engine = builder.start();
            assert!(engine.facts(&asked).is_some(), "no provider for {asked}");
            assert!(models.iter().filter_map(ModelOffer::named).all(|model| engine.facts(model).is_some()));
        }
    }
}

/// A configured provider may have a key only over TLS or on this machine.
#[tokio::test]
async fn a_named_provider_keeps_its_key() {
    let key = ("LAB_KEY", "a-secret-of-the-lab");
    let lab = |url: &str| with("lab", WireFormat::OpenAiChat, url, Some("LAB_KEY"));
    for (url, variables, said) in [
        ("https://lab.example/v1", vec![key], None),
        ("http://127.0.0.1:8000/v1", vec![key], None),
        ("http://lab.example/v1", vec![key], Some("would travel unencrypted")),
        ("http://lab.example/v1", vec![key, ("EVERTURN_PLAIN_HOSTS", "lab.example")], None),
        ("http://lab.example/v1", vec![], None),
        ("https://me:pw@lab.example/v1", vec![], Some("a name or a password")),
        ("lab.example", vec![], Some("not an http or https address")),
    ] {
        match (brought(&lab(url), &variables), said) {
            (Ok(brought), None) => {
                let is_idle = !variables.contains(&key);
                assert_eq!(brought.without_key.contains(&"lab".to_owned()), is_idle, "{url}");
                let model = "lab/any/model".parse().unwrap();
                assert_eq!(brought.models.iter().any(|offered| offered.has(&model)), !is_idle);
                assert!(brought.builder.start().facts(&model).is_some());
            }
            (Err(error), Some(said)) => {
                let error = error.to_string();
                assert!(error.contains(said) && !error.contains("a-secret") && !error.contains("pw"), "{error}");
            }
            (Ok(_), Some(_)) => panic!("{url} is taken"),
            (Err(error), None) => panic!("{url}: {error}"),
        }
    }
}

/// Every wire format can be configured under another name; built-in and invalid names are refused.
#[tokio::test]
async fn named_providers_have_names_of_their_own() {
    for wire in [WireFormat::Anthropic, WireFormat::OpenAiResponses, WireFormat::OpenAiChat, WireFormat::Gemini] {
        let ConnectedProviders { builder, .. } = brought(&with("lab", wire, "https://lab.example", None), &[]).unwrap();
        let facts = builder.start().facts(&"lab/x".parse().unwrap()).unwrap();
        assert_eq!(facts.target.wire, wire);
    }
    for name in ["openai", "understudy", "ollama", "openrouter", "", "a/b", "a:b", "a b"] {
        assert!(brought(&with(name, WireFormat::OpenAiChat, "https://lab.example", None), &[]).is_err(), "{name}");
    }
}

/// Gemini generations run in the background only for providers configured so.
#[tokio::test]
async fn background_generations_are_used_where_configured() {
    for kept in [vec![], vec!["google"], vec!["lab"], vec!["google", "lab"]] {
        let lab = with("lab", WireFormat::Gemini, "https://lab.example", None);
        let company = ProviderSetup { kept: kept.iter().map(|name| (*name).to_owned()).collect(), ..lab };
        let engine = brought(&company, &[]).unwrap().builder.start();
        for provider in ["google", "lab"] {
            let facts = engine.facts(&format!("{provider}/gemini-2.5-flash").parse().unwrap()).unwrap();
            assert_eq!(facts.target.background, kept.contains(&provider), "{provider}: {kept:?}");
        }
    }
}

#[tokio::test]
async fn ollama_is_offered_where_a_variable_says_so() {
    let any = "ollama/anything".parse().unwrap();
    for (set, is_offered) in [(None, false), (Some(("OLLAMA_HOST", "0.0.0.0")), true)] {
        let ConnectedProviders { builder, models, .. } = brought(&ProviderSetup::default(), set.as_slice()).unwrap();
        assert_eq!(models.iter().any(|offered| offered.has(&any)), is_offered);
        assert!(builder.start().facts(&any).is_some());
    }
    for (host, url) in [
        ("127.0.0.1:11434", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080/v1"),
        (":8080", "http://127.0.0.1:8080/v1"),
        ("gpu.corp", "http://gpu.corp:11434/v1"),
        ("https://gpu.corp", "https://gpu.corp/v1"),
        ("https://gpu.corp:8443/ollama/", "https://gpu.corp:8443/ollama/v1"),
        ("::1", "http://[::1]:11434/v1"),
        ("[::]:8080", "http://127.0.0.1:8080/v1"),
    ] {
        assert_eq!(ollama_at(host), url, "{host}");
    }
}

/// A configured price applies on every wire format, keeps everything else that is known of the model, and does not change
/// which models are offered.
#[tokio::test]
async fn a_configured_price_applies() {
    let price = PriceCard { input: 1_000_000, output: 3_000_000, cache_read: None, cache_write: None, above: None };
    let told = ["lab/qwen", "openrouter/a", "ollama/q", "google/gemini-2.5-flash-x", "anthropic/claude-sonnet-4-5-x"];
    for wire in [WireFormat::Anthropic, WireFormat::OpenAiResponses, WireFormat::OpenAiChat, WireFormat::Gemini] {
        let prices = told.iter().map(|model| (model.parse().unwrap(), price)).collect();
        let set = KEYS.map(|(_, variables, _)| (variables[0], "a-key"));
        let company = ProviderSetup { prices, ..with("lab", wire, "https://lab.example", None) };
        let unpriced = ProviderSetup { prices: BTreeMap::new(), ..company.clone() };
        let (ConnectedProviders { builder, models, .. }, before) =
            (brought(&company, &set).unwrap(), brought(&unpriced, &set).unwrap());
        assert_eq!(models, before.models);
        let (engine, before) = (builder.start(), before.builder.start());
        for model in told {
            let model: ModelId = format!("{model}-3").parse().unwrap();
            let (facts, usual) = (engine.facts(&model).unwrap(), before.facts(&model).unwrap());
            assert_eq!(facts.price, Some(price.into()), "{model}");
            assert_eq!(facts.context_limit, usual.context_limit, "{model}");
            assert_eq!(
                (company.is_priced(&model), unpriced.is_priced(&model)),
                (true, usual.price.is_some()),
                "{model}"
            );
        }
        for other in ["lab/other", "openrouter/b", "openai/gpt-5-mini", "lab/gemini-2.5-flash", "openai/unheard-of"] {
            let model: ModelId = other.parse().unwrap();
            assert_eq!(engine.facts(&model).unwrap().price, before.facts(&model).unwrap().price, "{other}");
            assert_eq!(company.is_priced(&model), engine.facts(&model).unwrap().price.is_some(), "{other} {wire:?}");
        }
    }
    let company =
        ProviderSetup { prices: BTreeMap::from([("lap/x".parse().unwrap(), price)]), ..ProviderSetup::default() };
    let Err(error) = brought(&company, &[]) else { panic!("no provider has that name") };
    assert!(error.to_string().contains("`prices` has lap/x, but there is no such provider"), "{error}");
}
