use super::*;

const KEY: &str = "sk-ant-very-secret-0123456789";
const USUAL: Usual = Usual {
    base_url: "https://api.example.com",
    base_url_env: &["EXAMPLE_BASE_URL"],
    key_env: &[("EXAMPLE_API_KEY", Auth::Header("x-api-key")), ("EXAMPLE_TOKEN", Auth::Bearer)],
    needs_key: NeedsKey::Yes,
};

fn usual(variables: &[(&str, &str)]) -> Result<Endpoint, BadEndpoint> {
    let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    Endpoint::usual("example", &USUAL, find)
}

/// The usual variables are read, the first that is set wins, and blank ones are not set.
#[test]
fn the_environment_is_read() {
    let endpoint = usual(&[("EXAMPLE_API_KEY", " k1 \n"), ("EXAMPLE_TOKEN", "k2")]).unwrap();
    assert_eq!(endpoint.headers().unwrap()["x-api-key"], "k1");
    assert_eq!(endpoint.key_variable(), Some("EXAMPLE_API_KEY"));
    assert_eq!(endpoint.url("/v1/x").as_str(), "https://api.example.com/v1/x");

    let endpoint =
        usual(&[("EXAMPLE_API_KEY", "  "), ("EXAMPLE_TOKEN", "k2"), ("EXAMPLE_BASE_URL", "http://[::1]:1/p/")]);
    let endpoint = endpoint.unwrap();
    assert_eq!(endpoint.headers().unwrap()["authorization"], "Bearer k2");
    assert_eq!(endpoint.key_variable(), Some("EXAMPLE_TOKEN"));
    assert_eq!(endpoint.url("v1/x?a=b").as_str(), "http://[::1]:1/p/v1/x?a=b");
}

/// Bases are given with a version and without, and mean the same.
#[test]
fn a_base_has_one_version() {
    let with = |base: &str| Endpoint::at("google", base).unwrap().with_version("v1beta").url("models/m").to_string();
    for base in ["https://g.example", "https://g.example/", "https://g.example/v1beta", "https://g.example/v1beta/"] {
        assert_eq!(with(base), "https://g.example/v1beta/models/m", "{base}");
    }
    assert_eq!(with("https://g.example/v1"), "https://g.example/v1/models/m");
    assert_eq!(with("https://gw.example/v1/me/gemini?a=b"), "https://gw.example/v1/me/gemini/v1beta/models/m?a=b");
    assert_eq!(with("https://v.example/v1/publishers/google"), "https://v.example/v1/publishers/google/models/m");
    let without = |base: &str| Endpoint::at("anthropic", base).unwrap().without_version("v1").url("/v1/m").to_string();
    for base in ["https://a.example", "https://a.example/v1", "https://a.example/v1/"] {
        assert_eq!(without(base), "https://a.example/v1/m", "{base}");
    }
    assert_eq!(without("https://gw.example/v1/me/env1"), "https://gw.example/v1/me/env1/v1/m");
}

/// A missing key is told with the variable that would have had it, when one is needed and nothing else brings it.
#[test]
fn a_missing_key_names_its_variable() {
    let error = usual(&[]).unwrap().headers().unwrap_err();
    assert_eq!((error.kind, error.subject.as_deref()), (ErrorKind::MissingKey, Some("EXAMPLE_API_KEY")));
    assert!(error.to_string().contains("EXAMPLE_API_KEY"));
    let own = usual(&[]).unwrap().with_header("Authorization", "Basic abc").unwrap();
    assert_eq!(own.headers().unwrap()["authorization"], "Basic abc");
    assert!(Endpoint::at("home", "http://localhost:11434").unwrap().headers().unwrap().is_empty());
}

/// A key has one destination: no path leads away from the configured host.
#[test]
fn no_path_leaves_the_host() {
    let endpoint = usual(&[("EXAMPLE_API_KEY", KEY)]).unwrap();
    for path in
        ["//evil.example/x", "https://evil.example/x", "@evil.example/", "../..", "\\\\evil.example", "?x=1", ""]
    {
        let url = endpoint.url(path);
        assert_eq!((url.scheme(), url.host_str()), ("https", Some("api.example.com")), "{path}");
    }
    let azure = Endpoint::at("azure", "https://a.example/openai?api-version=1").unwrap();
    assert_eq!(azure.url("/chat?x=2").as_str(), "https://a.example/openai/chat?api-version=1&x=2");
}

/// What is no address, no header and no key is refused when it is configured, not when it is used.
#[test]
fn nonsense_is_refused() {
    for url in ["", "api.example.com", "ftp://a.example", "file:///etc", "https://"] {
        assert!(matches!(Endpoint::at("x", url), Err(BadEndpoint::BaseUrl(_))), "{url}");
    }
    let endpoint = Endpoint::at("x", "https://a.example").unwrap();
    assert!(endpoint.clone().with_header("a b", "c").is_err());
    assert!(endpoint.clone().with_header("a", "c\nd").is_err());
    let refused = endpoint.with_key(SecretString::from("a\nb".to_owned()), Auth::Bearer).unwrap_err();
    assert!(!refused.to_string().contains("a\nb"));
}

/// S16: a key travels encrypted, or within this machine, or where the operator has said that it may.
#[test]
fn a_key_does_not_travel_unencrypted() {
    let at = |base: &str, more: &[(&str, &str)]| {
        usual(&[&[("EXAMPLE_API_KEY", KEY), ("EXAMPLE_BASE_URL", base)], more].concat())
    };
    for near in ["http://localhost:1", "http://127.0.0.1", "http://127.9.9.9:8080/v1", "http://[::1]:1"] {
        assert!(at(near, &[]).is_ok(), "{near}");
    }
    let hosts = ["proxy.corp", "proxy.corp:8080", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1"];
    for host in hosts.into_iter().chain(["[::ffff:127.0.0.1]", "0.0.0.0", "localhost@evil.example"]) {
        let (base, listed) = (format!("http://{host}/v1"), host.rsplit('@').next().unwrap());
        let error = at(&base, &[]).unwrap_err();
        assert!(matches!(&error, BadEndpoint::Plain { variable, .. } if variable == "EXAMPLE_BASE_URL"), "{error}");
        assert!(!error.to_string().contains(KEY) && error.to_string().contains(PLAIN_HOSTS), "{error}");
        assert!(at(&base, &[(PLAIN_HOSTS, "other.corp,another")]).is_err(), "{host}");
        assert!(at(&format!("https://{host}/v1"), &[]).is_ok(), "{host}");
        if !listed.contains("::") {
            assert!(at(&base, &[(PLAIN_HOSTS, &format!("other.corp, {}", listed.to_uppercase()))]).is_ok(), "{host}");
        }
    }
    assert!(usual(&[("EXAMPLE_BASE_URL", "http://proxy.corp")]).is_ok(), "without a key there is nothing to lose");
    let own = Endpoint::at("own", "http://proxy.corp").unwrap();
    assert!(own.clone().with_key(SecretString::from(KEY.to_owned()), Auth::Bearer).is_err());
    assert!(own.plain().with_key(SecretString::from(KEY.to_owned()), Auth::Bearer).is_ok());
}

/// A key is in no debug output, not as part of anything, and the configured headers are not either.
#[test]
fn a_key_is_never_printed() {
    let endpoint = usual(&[("EXAMPLE_API_KEY", KEY), ("EXAMPLE_BASE_URL", "https://me:pw@api.example.com")]).unwrap();
    let endpoint = endpoint.with_header("x-team", "team-secret").unwrap();
    for printed in [format!("{endpoint:?}"), format!("{:?}", endpoint.headers().unwrap())] {
        assert!(!printed.contains(KEY) && !printed.contains("team-secret") && !printed.contains("pw"), "{printed}");
    }
}

/// P4, P10: a key that a provider echoes is taken out before anybody keeps it.
#[test]
fn an_echoed_key_is_veiled() {
    let endpoint = usual(&[("EXAMPLE_API_KEY", KEY)]).unwrap().with_header("x-team", "team-secret").unwrap();
    let echoed = format!("bad key {KEY} ({KEY}) of team-secret");
    assert_eq!(endpoint.veil(echoed.as_bytes()), b"bad key [key] ([key]) of [key]");
    let error = ProviderError::new("example", ErrorKind::Generic).with_detail("your key is team-secret, no?");
    assert_eq!(endpoint.veiled(error).detail, "your key is [key], no?");
}
