//! A server with TLS, and the verification of its certificate.

use std::path::{Path, PathBuf};
use std::time::Duration;

use everturn_props::{PostgresServer, shared};
use everturn_stores::postgres::PostgresOptions;
use everturn_stores::{Postgres, StoreExt as _};
use everturn_testkit::rehearsal::sample::chat_id;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// A certificate authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: PathBuf,
}

impl Authority {
    fn new(dir: &Path, name: &str) -> Self {
        let key = KeyPair::generate().expect("chance is there");
        let mut params = CertificateParams::new([]).expect("no name is a good name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = dir.join(name);
        std::fs::write(&root, params.self_signed(&key).expect("it signs itself").pem()).expect("it is written");
        Self { issuer: Issuer::new(params, key), root }
    }

    /// Makes a server known by this name.
    fn name(&self, server: &PostgresServer, name: &str) {
        let key = KeyPair::generate().expect("chance is there");
        let params = CertificateParams::new([name.to_owned()]).expect("it is a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("it signs");
        server.encrypt(&certificate.pem(), &key.serialize_pem()).expect("it can speak TLS");
    }
}

/// Says which of its connections are encrypted, or why there are none.
async fn tried(server: &PostgresServer, query: &str) -> Result<String, String> {
    let options = PostgresOptions { retry_max: Duration::from_secs(3), ..PostgresOptions::default() };
    let store = Postgres::open(&format!("{}?{query}", server.url("postgres")), options).await;
    let store = store.map_err(|error| error.to_string())?;
    store.heading(chat_id(1)).await.expect_err("there is no chat");
    let encrypted = "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE application_name = 'everturn'";
    Ok(shared::psql(&server.url("postgres"), encrypted).expect("psql works").trim().into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_certificate_is_verified_as_configured() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let (ours, strange) = (Authority::new(dir.path(), "ours"), Authority::new(dir.path(), "strange"));
    let (ours_file, strange_file) = (ours.root.display(), strange.root.display());
    let server = PostgresServer::start().expect("a server can be started");
    let is_refused = async |query: String, why: &str| {
        let error = tried(&server, &query).await.expect_err(&query);
        assert!(error.contains(why), "{query}: {error}");
    };

    is_refused("sslmode=require".into(), "does not support TLS").await;
    assert_eq!(tried(&server, "sslmode=prefer").await.as_deref(), Ok("f"));

    ours.name(&server, "127.0.0.1");
    assert_eq!(tried(&server, "sslmode=disable").await.as_deref(), Ok("f"));
    for query in [
        "sslmode=prefer".into(),
        "sslmode=require".into(),
        format!("sslmode=verify-ca&sslrootcert={ours_file}"),
        format!("sslmode=verify-full&sslrootcert={ours_file}"),
    ] {
        assert_eq!(tried(&server, &query).await.as_deref(), Ok("t"), "{query}");
    }
    is_refused(format!("sslmode=verify-ca&sslrootcert={strange_file}"), "invalid peer certificate").await;
    is_refused(format!("sslmode=verify-full&sslrootcert={strange_file}"), "invalid peer certificate").await;
    is_refused("sslmode=verify-full".into(), "invalid peer certificate").await;

    ours.name(&server, "db.example.com");
    assert_eq!(tried(&server, &format!("sslmode=verify-ca&sslrootcert={ours_file}")).await.as_deref(), Ok("t"));
    is_refused(format!("sslmode=verify-full&sslrootcert={ours_file}"), "not valid for name").await;
    is_refused(format!("sslmode=verify-ca&sslrootcert={strange_file}"), "invalid peer certificate").await;
}
