//! Where the database is, and how it is called.

use std::time::Duration;

use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::postgres::PostgresOptions;
use crate::postgres::setup::tls::TlsOptions;
use crate::store::StoreError;

/// A connection that is still to be driven.
pub(crate) type DbConnection = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// Where the database is, and how it is called.
#[derive(Clone)]
pub(crate) struct DbAddress {
    pub(crate) config: Config,
    pub(crate) tls: MakeRustlsConnect,
}

impl DbAddress {
    /// Reads a URL. What is wrong with it is said without quoting it: there is a password in it.
    pub(crate) fn parse(url: &str, options: &PostgresOptions) -> Result<Self, StoreError> {
        let (url, tls) = TlsOptions::split(url)?;
        let bad = |_| {
            StoreError::Unavailable("the database URL cannot be read: write postgres://user:password@host/name".into())
        };
        let mut config: Config = url.parse().map_err(bad)?;
        config.connect_timeout(options.connect_max);
        config.tcp_user_timeout(options.statement_max * 2);
        config.keepalives_idle(options.lease_max.max(Duration::from_secs(1))); // The system counts whole seconds.
        if config.get_application_name().is_none() {
            config.application_name("everturn");
        }
        if let Some(mode) = tls.encryption() {
            config.ssl_mode(mode);
        }
        Ok(Self { config, tls: MakeRustlsConnect::new(tls.client()?) })
    }

    pub(crate) async fn connect(&self) -> Result<(Client, DbConnection), tokio_postgres::Error> {
        self.config.connect(self.tls.clone()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_do_not_show_the_password() {
        for url in ["postgres://me:secret@host/name?sslmode=some", "postgres://me:secret@host:x/name", "secret"] {
            let Err(error) = DbAddress::parse(url, &PostgresOptions::default()) else { panic!("{url}") };
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let url = "postgres://me:secret@host/name?sslmode=verify-full&sslrootcert=/nowhere.pem";
        let Err(error) = DbAddress::parse(url, &PostgresOptions::default()) else { panic!("there is no such file") };
        assert!(error.to_string().contains("/nowhere.pem"), "{error}");
    }
}
