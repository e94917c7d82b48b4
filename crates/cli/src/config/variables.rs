//! The variables of ours.
//!
//! A misspelt one would be silently left aside, as the system knows no names. So whoever serves looks at all that begin like
//! ours.

use anyhow::bail;

use super::Config;
use super::hint::nearest;

const OURS: &str = "EVERTURN_";

/// What is read anywhere, without how it begins.
const KNOWN: [&str; 29] = [
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
    "STREAMS_MAX",
    "STREAM_SECONDS_MAX",
    "SYSTEM",
    "TLS_CERT",
    "TLS_KEY",
    "TOKEN",
    "URL",
    // Of builds that no release is.
    "FAILPOINT",
    "SABOTAGE",
];

/// How those begin that tests are told by.
const OF_TESTS: &str = "TEST_";

/// The names of all that are set, and not to nothing.
pub fn variables_set() -> impl Iterator<Item = String> + Clone {
    let set = std::env::vars_os().filter(|(_, value)| !value.to_string_lossy().trim().is_empty());
    set.map(|(name, _)| name.to_string_lossy().into_owned()).collect::<Vec<_>>().into_iter()
}

impl Config {
    /// Refuses variables that begin like ours and that nobody reads. `set` are the names of all that are set.
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
                Some(known) => bail!("nobody reads the variable `{name}`: did you mean `{OURS}{known}`?"),
                None => bail!("nobody reads the variable `{name}`; docs/configuration.md lists those that are read"),
            }
        }
        Ok(())
    }
}

/// Whether Kubernetes sets this for a service that is called like us, or begins so.
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
    fn a_variable_that_nobody_reads_is_refused_with_what_may_be_meant() {
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

    /// Whoever calls its service `everturn`, as our manifest does, is set a dozen of these.
    #[test]
    fn what_kubernetes_sets_is_left_aside() {
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
        assert!(refused(&set[1..]).is_some(), "elsewhere nobody sets them");
        assert!(refused(&["KUBERNETES_SERVICE_HOST", "EVERTURN_MODLE"]).is_some());
    }

    /// What the configuration asks for, and what its page names, is known.
    #[test]
    fn what_is_read_or_documented_is_known() {
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
