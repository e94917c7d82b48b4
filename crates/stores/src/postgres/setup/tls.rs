//! TLS options of a database URL.
//!
//! `sslmode` and `sslrootcert` have the meaning they have for libpq: without them a connection is encrypted if the server
//! supports it, and the certificate is not verified. Use `verify-full` across a network.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres::config::SslMode;

use crate::store::StoreError;

/// What a URL says about encryption.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TlsOptions {
    mode: Option<TlsMode>,
    roots: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TlsMode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl TlsMode {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "disable" => Self::Disable,
            "allow" | "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => return None,
        })
    }

    const fn encryption(self) -> SslMode {
        match self {
            Self::Disable => SslMode::Disable,
            Self::Prefer => SslMode::Prefer,
            Self::Require | Self::VerifyCa | Self::VerifyFull => SslMode::Require,
        }
    }
}

impl TlsOptions {
    /// Takes out of a URL what the driver does not know.
    pub(crate) fn split(url: &str) -> Result<(String, Self), StoreError> {
        let Some((base, query)) = url.split_once('?').filter(|(base, _)| base.contains("://")) else {
            return Ok((url.into(), Self { mode: None, roots: None }));
        };
        let (mut rest, mut word, mut path) = (Vec::new(), None, None);
        for pair in query.split('&') {
            match pair.split_once('=') {
                Some(("sslmode", said)) => {
                    let known = "disable, allow, prefer, require, verify-ca and verify-full";
                    word = Some(TlsMode::parse(said).ok_or_else(|| unusable(&format!("sslmode knows {known}")))?);
                }
                Some(("sslrootcert", said)) => {
                    let said = percent_encoding::percent_decode_str(said).decode_utf8();
                    path = Some(said.map_err(|_| unusable("the path in sslrootcert is not UTF-8"))?);
                }
                _ => rest.push(pair),
            }
        }
        let tls = Self::of(word, path.as_deref())?;
        let url = if rest.is_empty() { base.into() } else { format!("{base}?{}", rest.join("&")) };
        Ok((url, tls))
    }

    /// Meaning of the two options together, in any order.
    fn of(word: Option<TlsMode>, path: Option<&str>) -> Result<Self, StoreError> {
        let mode = match (word, path) {
            (Some(TlsMode::VerifyCa), None) => return Err(unusable("sslmode=verify-ca needs an sslrootcert")),
            (None | Some(TlsMode::VerifyFull), Some("system")) => Some(TlsMode::VerifyFull),
            (_, Some("system")) => return Err(unusable("sslrootcert=system needs sslmode=verify-full")),
            (None | Some(TlsMode::Prefer | TlsMode::Require), Some(_)) => Some(TlsMode::VerifyCa),
            (word, _) => word,
        };
        Ok(Self { mode, roots: path.filter(|path| *path != "system").map(PathBuf::from) })
    }

    /// Whether a connection has to be encrypted; `None` leaves it to the driver.
    pub(crate) fn encryption(&self) -> Option<SslMode> {
        self.mode.map(TlsMode::encryption)
    }

    pub(crate) fn client(&self) -> Result<ClientConfig, StoreError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match self.mode {
            Some(TlsMode::VerifyFull) => self.verifier(&provider)?,
            Some(TlsMode::VerifyCa) => {
                Arc::new(AnyName { signed_by: Some(self.verifier(&provider)?), provider: provider.clone() })
            }
            None | Some(TlsMode::Disable | TlsMode::Prefer | TlsMode::Require) => {
                Arc::new(AnyName { signed_by: None, provider: provider.clone() })
            }
        };
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| unusable(&format!("there is no TLS here: {error}")))?;
        Ok(config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
    }

    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, StoreError> {
        let mut roots = RootCertStore::empty();
        match &self.roots {
            Some(path) => {
                let bad = |error: &dyn fmt::Display| unusable(&format!("sslrootcert, {}: {error}", path.display()));
                for certificate in CertificateDer::pem_file_iter(path).map_err(|error| bad(&error))? {
                    roots.add(certificate.map_err(|error| bad(&error))?).map_err(|error| bad(&error))?;
                }
            }
            None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
        verifier.map_err(|error| unusable(&format!("no certificate is trusted here: {error}")))
    }
}

fn unusable(why: &str) -> StoreError {
    StoreError::Unavailable(why.into())
}

/// Verifies a certificate without its host name. Without `signed_by` any certificate is accepted, which protects against
/// eavesdropping and not against a redirected connection.
#[derive(Debug)]
struct AnyName {
    signed_by: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(signed_by) = &self.signed_by else { return Ok(ServerCertVerified::assertion()) };
        match signed_by.verify_server_cert(end, chain, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        end: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, end, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        end: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, end, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a URL means, and what is left of it for the driver.
    fn split(query: &str) -> (String, Option<TlsMode>, Option<PathBuf>) {
        let (url, TlsOptions { mode, roots }) =
            TlsOptions::split(&format!("postgres://me:secret@host/name{query}")).unwrap();
        (url.strip_prefix("postgres://me:secret@host/name").unwrap().into(), mode, roots)
    }

    #[test]
    fn urls_say_who_is_trusted() {
        use TlsMode::*;
        let path = || Some(PathBuf::from("/etc/our ca.pem"));
        let cases = [
            ("", "", None, None),
            ("?sslmode=disable", "", Some(Disable), None),
            ("?sslmode=require&channel_binding=prefer", "?channel_binding=prefer", Some(Require), None),
            ("?connect_timeout=3&sslmode=verify-full", "?connect_timeout=3", Some(VerifyFull), None),
            ("?sslrootcert=/etc/our%20ca.pem", "", Some(VerifyCa), path()),
            ("?sslmode=require&sslrootcert=/etc/our%20ca.pem", "", Some(VerifyCa), path()),
            ("?sslrootcert=/etc/our%20ca.pem&sslmode=require", "", Some(VerifyCa), path()),
            ("?sslrootcert=/etc/our%20ca.pem&sslmode=verify-ca", "", Some(VerifyCa), path()),
            ("?sslrootcert=/etc/our%20ca.pem&sslmode=disable", "", Some(Disable), path()),
            ("?sslmode=verify-full&sslrootcert=/etc/our%20ca.pem", "", Some(VerifyFull), path()),
            ("?sslrootcert=/etc/our%20ca.pem&sslmode=verify-full", "", Some(VerifyFull), path()),
            ("?sslrootcert=system", "", Some(VerifyFull), None),
            ("?sslrootcert=system&sslmode=verify-full", "", Some(VerifyFull), None),
        ];
        for (query, left, mode, roots) in cases {
            assert_eq!(split(query), (left.into(), mode, roots), "{query}");
        }
    }
    /// Options that together would verify less than either seems to say.
    #[test]
    fn options_without_verification_are_refused() {
        for query in ["sslrootcert=system&sslmode=require", "sslmode=prefer&sslrootcert=system", "sslmode=verify-ca"] {
            let split = TlsOptions::split(&format!("postgres://host/name?{query}"));
            assert!(matches!(split, Err(StoreError::Unavailable(_))), "{query}: {split:?}");
        }
    }
}
