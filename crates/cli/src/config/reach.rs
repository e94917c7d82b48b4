//! Listen addresses, TLS and proxies: the server refuses to send tokens unencrypted to other machines.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use everturn::core::ids::Timestamp;
use everturn_server::{ListenAddress, ListenerConfig, Network, Site, Tls};
use reqwest::Url;

use super::{Config, Sourced};
use crate::clock;

/// Advice for an address that other machines can reach.
const ADVICE: &str =
    "give it TLS with --tls-cert and --tls-key, or name the proxy in front that does TLS with --proxy ADDRESS";

/// Configuration of access from other machines.
#[derive(Debug)]
pub struct Exposure {
    pub expose: Sourced<bool>,
    pub tls_cert: Sourced<Option<PathBuf>>,
    pub tls_key: Sourced<Option<PathBuf>>,
    pub proxies: Sourced<Vec<Network>>,
    /// Sites whose pages may use the API (CORS).
    pub origins: Sourced<Vec<Site>>,
}

impl Config {
    /// The addresses to listen on; an error if one is not safe.
    pub fn entrances(&self) -> anyhow::Result<Vec<ListenerConfig>> {
        let Exposure { expose, tls_cert, tls_key, proxies, .. } = &self.exposure;
        let at = self.listen.value.clone();
        let files = match (&tls_cert.value, &tls_key.value) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => bail!("the TLS certificate has no key: add --tls-key"),
            (None, Some(_)) => bail!("the TLS key has no certificate: add --tls-cert"),
        };
        match &at {
            ListenAddress::Unix(_) if files.is_some() => {
                bail!("a Unix socket needs no TLS: remove --tls-cert and --tls-key, or listen on an address")
            }
            ListenAddress::Unix(_) => {}
            ListenAddress::Tcp(address) if address.ip().is_loopback() => {}
            ListenAddress::Tcp(address) if !expose.value => {
                bail!("{address} can be reached from other machines: if that is intended, add --expose, and {ADVICE}")
            }
            ListenAddress::Tcp(address) if files.is_none() && proxies.value.is_empty() => {
                bail!("{address} can be reached from other machines, and tokens would travel unencrypted: {ADVICE}")
            }
            ListenAddress::Tcp(_) => {}
        }
        let tls = files.map(|(certificate, key)| Tls::read(certificate, key)).transpose()?.map(Arc::new);
        let entrance = ListenerConfig { at, tls };
        Ok(match entrance.is_local() {
            true => vec![entrance],
            // Commands on this machine do not use TLS and are not the proxy: they get a loopback port.
            false => vec![entrance, loopback()],
        })
    }
}

impl Exposure {
    /// Warnings about settings that are allowed but probably not intended.
    pub fn warnings(&self, entrances: &[ListenerConfig]) -> Vec<String> {
        let tls = entrances.iter().filter_map(|entrance| entrance.tls.as_ref());
        let mut warnings: Vec<_> = tls.flat_map(|tls| tls.warnings(Timestamp(clock::now()))).collect();
        for proxy in self.proxies.value.iter().filter(|proxy| proxy.is_everything()) {
            warnings.push(format!(
                "--proxy {proxy} trusts every address: anybody may come unencrypted, and claim any address in \
                 X-Forwarded-For; name the address of the proxy"
            ));
        }
        warnings
    }
}

/// Parses a host name as it appears in the `Host` header.
pub fn host(text: &str) -> Result<String, String> {
    let wrong = |right: &str| format!("`{text}` is not a host name: write {right}, without scheme and path");
    if let Some(named) = Url::parse(text).ok().filter(|_| text.contains("://")).as_ref().and_then(authority) {
        return Err(wrong(&named));
    }
    let is_host = Url::parse(&format!("http://{text}")).ok().as_ref().and_then(authority).is_some_and(|host| {
        // URLs omit port 80, a header may have it.
        text.eq_ignore_ascii_case(&host) || text.eq_ignore_ascii_case(&format!("{host}:80"))
    });
    if is_host { Ok(text.into()) } else { Err(wrong("it as chat.example.com or chat.example.com:8443")) }
}

/// Validates host names from a variable or the file.
pub fn hosts(told: Sourced<Vec<String>>) -> anyhow::Result<Sourced<Vec<String>>> {
    for name in &told.value {
        host(name).map_err(|error| anyhow::anyhow!("{}: {error}", told.origin))?;
    }
    Ok(told)
}

fn authority(url: &Url) -> Option<String> {
    let host = url.host_str().filter(|host| !host.is_empty())?;
    Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

/// A free port that only this machine can reach.
pub fn loopback() -> ListenerConfig {
    ListenerConfig::plain(ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))))
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use super::super::{Flags, Origin};
    use super::*;

    fn flags(listen: &str, expose: bool, proxies: &[&str]) -> Flags {
        let proxy = proxies.iter().map(|proxy| proxy.parse().unwrap()).collect();
        Flags { listen: Some(listen.parse().unwrap()), expose, proxy, ..Flags::default() }
    }

    /// Loopback and sockets are always allowed; any other address needs `--expose`, and TLS here or at a
    /// proxy.
    #[test]
    fn other_machines_need_expose_and_encryption() {
        let none: &[&str] = &[];
        for (listen, expose, proxies, said) in [
            ("127.0.0.1:0", false, none, None),
            ("127.8.8.8:0", false, none, None),
            ("[::1]:0", false, none, None),
            ("unix:/tmp/a", false, none, None),
            ("0.0.0.0:0", false, none, Some("--expose")),
            ("0.0.0.0:0", false, &["10.0.0.1"], Some("--expose")),
            ("[::]:0", true, none, Some("--tls-cert")),
            ("0.0.0.0:0", true, none, Some("--proxy")),
            ("192.168.1.7:0", true, none, Some("--proxy")),
            ("[::ffff:127.0.0.1]:0", false, none, Some("--expose")),
            ("192.168.1.7:0", true, &["10.0.0.0/8"], None),
        ] {
            let entrances = read(flags(listen, expose, proxies), &[], "").unwrap().entrances();
            match (entrances, said) {
                (Ok(_), None) => {}
                (Err(error), Some(said)) => assert!(error.to_string().contains(said), "{listen}: {error}"),
                (Ok(_), Some(_)) => panic!("{listen} is taken"),
                (Err(error), None) => panic!("{listen}: {error}"),
            }
        }
        let half = Flags { tls_cert: Some("/c".into()), ..Flags::default() };
        assert!(read(half, &[], "").unwrap().entrances().unwrap_err().to_string().contains("--tls-key"));
        let both =
            Flags { tls_cert: Some("/c".into()), tls_key: Some("/k".into()), ..flags("unix:/tmp/a", false, &[]) };
        assert!(read(both, &[], "").unwrap().entrances().unwrap_err().to_string().contains("no TLS"));
    }

    /// Commands on this machine can connect without a certificate.
    #[test]
    fn local_commands_can_always_connect() {
        for (listen, count) in [("127.0.0.1:0", 1), ("unix:/tmp/a", 1), ("0.0.0.0:0", 1), ("10.1.2.3:0", 2)] {
            let config = read(flags(listen, true, &["10.0.0.1"]), &[], "").unwrap();
            assert_eq!(config.entrances().unwrap().len(), count, "{listen}");
        }
    }

    /// A URL in place of a host name is refused with the host name to write.
    #[test]
    fn a_host_is_a_name_and_nothing_else() {
        for good in ["chat.example.com", "Chat.Example.com", "chat.example.com:8443", "a:80", "10.1.2.3", "[::1]:4140"]
        {
            assert_eq!(host(good).as_deref(), Ok(good));
        }
        for (bad, right) in [
            ("https://chat.example.com/", "write chat.example.com,"),
            ("http://chat.example.com:8443/x", "write chat.example.com:8443,"),
            ("chat.example.com/", "chat.example.com:8443"),
            ("chat example", "chat.example.com"),
            ("*.example.com:x", "chat.example.com"),
            ("me@chat.example.com", "chat.example.com"),
            ("", "chat.example.com"),
        ] {
            let error = host(bad).unwrap_err();
            assert!(error.contains("is not a host name") && error.contains(right), "{bad}: {error}");
        }
        let told = read(Flags::default(), &[("EVERTURN_HOSTS", "https://a.example")], "").unwrap_err().to_string();
        assert!(told.contains("EVERTURN_HOSTS") && told.contains("write a.example,"), "{told}");
    }

    #[test]
    fn lists_come_from_flags_variables_and_the_file() {
        let text = "proxies = [\"10.0.0.0/8\"]\nhosts = [\"a\"]\nexpose = true\norigins = [\"https://a.example\"]";
        let config = read(Flags::default(), &[("EVERTURN_HOSTS", "b, c:1,")], text).unwrap();
        assert_eq!(
            (config.hosts.value, config.hosts.origin),
            (vec!["b".into(), "c:1".into()], Origin::Variable("EVERTURN_HOSTS"))
        );
        let Exposure { proxies, expose, origins, .. } = config.exposure;
        assert_eq!(origins.value, ["https://a.example".parse().unwrap()]);
        assert!(expose.value && proxies.value == ["10.0.0.0/8".parse().unwrap()]);
        assert!(matches!(proxies.origin, Origin::File(_)));
        assert!(read(Flags::default(), &[("EVERTURN_PROXIES", "proxy.corp")], "").is_err());
        let any = read(Flags::default(), &[("EVERTURN_ORIGINS", "*")], "").unwrap_err();
        assert!(format!("{any:#}").contains("https://app.example.com"), "{any:#}");
    }
}
