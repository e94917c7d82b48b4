//! How sure we want to be that the database is the one.
//!
//! `sslmode` and `sslrootcert` mean what they mean to every other client of Postgres: without them a connection is
//! encrypted if the server can, and nobody's identity is checked. `verify-full` is what to write across a network.

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
pub(super) struct Trust {
    mode: Option<Mode>,
    roots: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl Mode {
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

impl Trust {
    /// Takes out of a URL what the driver does not know.
    pub(super) fn split(url: &str) -> Result<(String, Self), StoreError> {
        let mut trust = Self { mode: None, roots: None };
        let Some((base, query)) = url.split_once('?').filter(|(base, _)| base.contains("://")) else {
            return Ok((url.into(), trust));
        };
        let mut rest = Vec::new();
        for pair in query.split('&') {
            match pair.split_once('=') {
                Some(("sslmode", word)) => {
                    let known = "disable, allow, prefer, require, verify-ca and verify-full";
                    let mode = Mode::parse(word);
                    trust.mode = Some(mode.ok_or_else(|| unusable(&format!("sslmode knows {known}")))?);
                }
                Some(("sslrootcert", path)) => {
                    let path = percent_encoding::percent_decode_str(path).decode_utf8();
                    let path = path.map_err(|_| unusable("the path in sslrootcert is not UTF-8"))?;
                    trust.roots = (path != "system").then(|| path.as_ref().into());
                    let least = if path == "system" { Mode::VerifyFull } else { Mode::VerifyCa };
                    trust.mode = Some(match trust.mode {
                        Some(Mode::VerifyFull) => Mode::VerifyFull,
                        _ => least,
                    });
                }
                _ => rest.push(pair),
            }
        }
        let url = if rest.is_empty() { base.into() } else { format!("{base}?{}", rest.join("&")) };
        Ok((url, trust))
    }

    /// Whether a connection has to be encrypted; `None` leaves it to the driver.
    pub(super) fn encryption(&self) -> Option<SslMode> {
        self.mode.map(Mode::encryption)
    }

    pub(super) fn client(&self) -> Result<ClientConfig, StoreError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match self.mode {
            Some(Mode::VerifyFull) => self.verifier(&provider)?,
            Some(Mode::VerifyCa) => Arc::new(AnyName(self.verifier(&provider)?)),
            None | Some(Mode::Disable | Mode::Prefer | Mode::Require) => Arc::new(Anybody(provider.clone())),
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

/// Whoever it is, as long as somebody we trust knows them.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

/// Whoever it is. Keeps listeners out, and nobody who can redirect the connection.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.0.verify_server_cert(end, chain, name, ocsp, now) {
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
        self.0.verify_tls12_signature(message, end, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        end: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, end, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        end: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, end, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        end: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, end, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a URL means, and what is left of it for the driver.
    fn split(query: &str) -> (String, Option<Mode>, Option<PathBuf>) {
        let (url, Trust { mode, roots }) = Trust::split(&format!("postgres://me:secret@host/name{query}")).unwrap();
        (url.strip_prefix("postgres://me:secret@host/name").unwrap().into(), mode, roots)
    }

    #[test]
    fn urls_say_who_is_trusted() {
        use Mode::*;
        let path = || Some(PathBuf::from("/etc/our ca.pem"));
        let cases = [
            ("", "", None, None),
            ("?sslmode=disable", "", Some(Disable), None),
            ("?sslmode=require&channel_binding=prefer", "?channel_binding=prefer", Some(Require), None),
            ("?connect_timeout=3&sslmode=verify-full", "?connect_timeout=3", Some(VerifyFull), None),
            ("?sslrootcert=/etc/our%20ca.pem", "", Some(VerifyCa), path()),
            ("?sslmode=require&sslrootcert=/etc/our%20ca.pem", "", Some(VerifyCa), path()),
            ("?sslmode=verify-full&sslrootcert=/etc/our%20ca.pem", "", Some(VerifyFull), path()),
            ("?sslrootcert=/etc/our%20ca.pem&sslmode=verify-full", "", Some(VerifyFull), path()),
            ("?sslrootcert=system", "", Some(VerifyFull), None),
        ];
        for (query, left, mode, roots) in cases {
            assert_eq!(split(query), (left.into(), mode, roots), "{query}");
        }
    }
}
