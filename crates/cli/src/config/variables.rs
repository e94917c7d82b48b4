//! Environment variables that begin with `EVERTURN_`.
//!
//! A misspelt variable would be ignored silently. So `serve` refuses unknown ones with this prefix.

use anyhow::bail;

use super::Config;
use super::hint::nearest;

const OURS: &str = "EVERTURN_";

/// All variables that are read anywhere, without the prefix.
const KNOWN: [&str; 31] = [
    "CHATS_MAX",
    "CONFIG",
    "CONNECT_SECONDS_MAX",
    "DATA",
    "DATABASE_CONNECTIONS",
    "DRAIN_SECONDS",
    "DURABILITY",
    "EXPOSE",
    "HOSTS",
    "LISTEN",
    "LOG",
    "LOG_FORMAT",
    "MODEL",
    "MODELS",
    "ORIGINS",
    "PLAIN_HOSTS",
    "PROXIES",
    "RECORD",
    "REQUESTS_MAX",
    "RUNNING_MAX",
    "SANDBOX",
    "STREAMS_MAX",
    "STREAM_SECONDS_MAX",
    "SYSTEM",
    "TLS_CERT",
    "TLS_KEY",
    "TOKEN",
    "URL",
    "WORKSPACE",
    // Only in test builds.
    "FAILPOINT",
    "SABOTAGE",
];

/// Prefix of variables for tests.
const OF_TESTS: &str = "TEST_";

/// The names of all variables that are set and not blank.
pub fn variables_set() -> impl Iterator<Item = String> + Clone {
    let set = std::env::vars_os().filter(|(_, value)| !value.to_string_lossy().trim().is_empty());
    set.map(|(name, _)| name.to_string_lossy().into_owned()).collect::<Vec<_>>().into_iter()
}

impl Config {
    /// Refuses unknown variables with our prefix. `set` are the names of all variables that are set.
    pub fn refuse_unknown(&self, set: impl Iterator<Item = String> + Clone) -> anyhow::Result<()> {
        let is_cluster = set.clone().any(|name| name == "KUBERNETES_SERVICE_HOST");
        let is_key = |name: &str| self.providers.values().any(|provider| provider.key_env.as_deref() == Some(name));
        for name in set {
            let Some(rest) = name.strip_prefix(OURS) else { continue };
            let is_known = KNOWN.contains(&rest) || rest.starts_with(OF_TESTS) || is_key(&name);
            if is_known || (is_cluster && is_of_service(rest)) {
                continue;
            }
            match nearest(rest, KNOWN.into_iter()) {
                Some(known) => bail!("unknown environment variable `{name}`: did you mean `{OURS}{known}`?"),
                None => bail!("unknown environment variable `{name}`; docs/configuration.md lists the known ones"),
            }
        }
        Ok(())
    }
}

/// Whether Kubernetes sets this variable for a service whose name begins with `everturn`.
fn is_of_service(rest: &str) -> bool {
    let rest = format!("_{rest}");
    ["_SERVICE_HOST", "_PORT"].iter().any(|end| rest.ends_with(end))
        || ["_SERVICE_PORT_", "_PORT_"].iter().any(|part| rest.contains(part))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::super::Flags;
    use super::super::tests::read;
    use super::*;

    fn refused(names: &[&str]) -> Option<String> {
        let config = read(
            Flags::default(),
            &[],
            "[providers.lab]\nwire = \"chat\"\nurl = \"http://a\"\nkey_env = \"EVERTURN_LAB\"",
        );
        let names = names.iter().map(|name| (*name).to_owned());
        config.unwrap().refuse_unknown(names).err().map(|error| error.to_string())
    }

    #[test]
    fn an_unknown_variable_is_refused_with_a_suggestion() {
        for (name, said) in [
            ("EVERTURN_MODLE", "did you mean `EVERTURN_MODEL`?"),
            ("EVERTURN_STREAM_MAX", "did you mean `EVERTURN_STREAMS_MAX`?"),
            ("EVERTURN_COLOUR", "EVERTURN_COLOUR"),
            ("EVERTURN_PORT", "EVERTURN_PORT"),
        ] {
            let error = refused(&["PATH", name]).unwrap();
            assert!(error.contains(said), "{error}");
        }
        assert!(!refused(&["EVERTURN_COLOUR"]).unwrap().contains("did you mean"));
        let others = ["EVERTURN", "OTEL_SERVICE_NAME", "everturn_model", "EVERTURN_LAB", "EVERTURN_TEST_POSTGRES"];
        assert_eq!(refused(&others), None);
    }

    /// For a service called `everturn`, as in our manifest, Kubernetes sets a dozen of these.
    #[test]
    fn variables_of_kubernetes_are_ignored() {
        let set = [
            "KUBERNETES_SERVICE_HOST",
            "EVERTURN_SERVICE_HOST",
            "EVERTURN_SERVICE_PORT",
            "EVERTURN_SERVICE_PORT_HTTP",
            "EVERTURN_PORT",
            "EVERTURN_PORT_4140_TCP",
            "EVERTURN_PORT_4140_TCP_PROTO",
            "EVERTURN_DATABASE_SERVICE_HOST",
            "EVERTURN_DATABASE_PORT_5432_TCP_ADDR",
        ];
        assert_eq!(refused(&set), None);
        assert!(refused(&set[1..]).is_some(), "outside Kubernetes they are unknown");
        assert!(refused(&["KUBERNETES_SERVICE_HOST", "EVERTURN_MODLE"]).is_some());
    }

    /// Every variable that the configuration reads or its page documents is known.
    #[test]
    fn every_variable_that_is_read_or_documented_is_known() {
        let asked = RefCell::new(Vec::new());
        let home = |name: &str| {
            asked.borrow_mut().push(name.to_owned());
            (name == "HOME").then(|| "/nowhere".to_owned())
        };
        Config::read(&Flags::default(), home).unwrap();
        let page = include_str!("../../../../docs/configuration.md");
        let word = |at: usize| page[at..].split(|c: char| !c.is_ascii_uppercase() && c != '_').next().unwrap();
        let named = page.match_indices(OURS).map(|(at, _)| word(at).to_owned()).filter(|name| name != OURS);
        let all: Vec<String> = asked.take().into_iter().chain(named).filter(|name| name.starts_with(OURS)).collect();
        assert!(all.len() > 30, "{all:?}");
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(refused(&all), None);
    }
}
