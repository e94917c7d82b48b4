//! TLS for a server that other machines reach without a proxy.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use everturn::core::ids::Timestamp;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::time::Time;

/// Protocols offered to clients (ALPN).
const SPOKEN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// A certificate that expires within this time gets a warning.
const EXPIRES_SOON: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// The permission bit of a file that every user may read.
const READ_BY_OTHERS: u32 = 0o004;

/// A certificate and its key, read from files and read again when they change.
#[derive(Debug)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    config: RwLock<Arc<ServerConfig>>,
}

/// A certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is no PEM.
    #[error("{0}: {1}")]
    File(PathBuf, #[source] PemError),
    /// There is no certificate in the file.
    #[error("{0} holds no certificate")]
    Empty(PathBuf),
    /// Certificate and key do not belong together, or are not supported.
    #[error("the certificate in {0} cannot be used with its key: {1}")]
    Unfit(PathBuf, #[source] rustls::Error),
}

impl Tls {
    /// Reads the certificate with its chain, and its key, both in PEM.
    ///
    /// # Errors
    /// They cannot be read, or do not belong together.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let config = RwLock::new(config(certificate, key)?);
        Ok(Self { certificate: certificate.into(), key: key.into(), config })
    }

    /// Reads both files again, for new connections. Files that cannot be used change nothing.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn reread(&self) -> Result<(), TlsError> {
        let config = config(&self.certificate, &self.key)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// Warnings about usable files: a key that other users can read, a certificate that is not valid at `now`, or expires
    /// soon.
    #[must_use]
    pub fn warnings(&self, now: Timestamp) -> Vec<String> {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        let mut warnings = Vec::new();
        if std::fs::metadata(&self.key).is_ok_and(|file| file.permissions().mode() & READ_BY_OTHERS != 0) {
            warnings.push(format!("{key} can be read by every user of this machine: chmod o= {key}"));
        }
        let chain = CertificateDer::pem_file_iter(&self.certificate).into_iter().flatten().flatten();
        for validity in chain.filter_map(|der| Some(Certificate::from_der(&der).ok()?.tbs_certificate.validity)) {
            let at = |time: Time| Timestamp(0) + time.to_unix_duration();
            let (from, until) = (at(validity.not_before), at(validity.not_after));
            let what = "replace it, then send SIGHUP";
            if now < from {
                warnings.push(format!("a certificate in {certificate} is not valid before {}", date(from)));
            } else if now > until {
                warnings.push(format!("a certificate in {certificate} expired on {}: {what}", date(until)));
            } else if now + EXPIRES_SOON > until {
                warnings.push(format!("a certificate in {certificate} expires on {}: {what}", date(until)));
            }
        }
        warnings
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone().into()
    }
}

fn config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let file = |path: &Path, error| TlsError::File(path.into(), error);
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect).map_err(|e| file(certificate, e));
    let chain = Some(chain?).filter(|chain| !chain.is_empty()).ok_or_else(|| TlsError::Empty(certificate.into()))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| file(key, error))?;
    let unfit = |error| TlsError::Unfit(certificate.into(), error);
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(unfit)?.with_no_client_auth();
    let mut config = builder.with_single_cert(chain, secret).map_err(unfit)?;
    config.alpn_protocols = SPOKEN.map(<[u8]>::to_vec).to_vec();
    Ok(Arc::new(config))
}

/// A readable date and time.
fn date(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.0).map_or_else(|_| at.0.to_string(), |at| at.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    /// Warnings are given for a certificate that is not valid now, or expires soon, and for a key that every user can read.
    #[test]
    fn expiring_certificates_and_readable_keys_are_warned_about() {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = (dir.path().join("it.pem"), dir.path().join("it.key"));
        let pair = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".into()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(2026, 3, 1));
        std::fs::write(&certificate, params.self_signed(&pair).unwrap().pem()).unwrap();
        std::fs::write(&key, pair.serialize_pem()).unwrap();
        set_permissions(&key, Permissions::from_mode(0o640)).unwrap();
        let tls = Tls::read(&certificate, &key).unwrap();
        let on = |day: &str| {
            let at: jiff::Timestamp = format!("{day}T12:00:00Z").parse().unwrap();
            tls.warnings(Timestamp(at.as_millisecond())).join("; ")
        };
        assert_eq!(on("2026-02-01"), "");
        for (day, said) in [
            ("2025-12-31", "is not valid before 2026-01-01T00:00:00Z"),
            ("2026-02-16", "expires on 2026-03-01T00:00:00Z"),
            ("2026-03-01", "expired on 2026-03-01T00:00:00Z"),
        ] {
            assert!(on(day).contains(said), "{day}: {}", on(day));
        }
        set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
        assert!(on("2026-02-01").contains("it.key can be read by every user"), "{}", on("2026-02-01"));
    }
}
