//! TLS of our own, for a server that other machines reach without a proxy.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// What is spoken over it, as clients are offered it.
const SPOKEN: [&[u8]; 2] = [b"h2", b"http/1.1"];

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
    /// They do not belong together, or nobody can use them.
    #[error("the certificate in {0} cannot be used with its key: {1}")]
    Unfit(PathBuf, #[source] rustls::Error),
}

impl Tls {
    /// Reads the certificate, with those that lead from it to an authority, and its key, both in PEM.
    ///
    /// # Errors
    /// They cannot be read, or do not belong together.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let config = RwLock::new(config(certificate, key)?);
        Ok(Self { certificate: certificate.into(), key: key.into(), config })
    }

    /// Reads both files again, for the connections from now on. What cannot be used changes nothing.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn reread(&self) -> Result<(), TlsError> {
        let config = config(&self.certificate, &self.key)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
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
