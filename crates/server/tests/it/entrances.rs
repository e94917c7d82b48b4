//! The ways in: TLS, and a socket in the file system.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everturn::core::ids::Timestamp;
use everturn::stores::{Memory, Scopes, Token, TokenHash, TokenKind, Tokens};
use everturn::{Agent, Engine, Metrics};
use everturn_server::{ListenAddress, ListenerConfig, Reach, Server, ServerLimits, ServerParts, Tls, TlsError};
use everturn_understudy::{Manner, Understudy};
use prometheus_client::registry::Registry;
use rcgen::{CertificateParams, KeyPair};
use reqwest::{Client, StatusCode, Version};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::reader::{Reader, reply};
use crate::stage::TOKEN;

const PATIENCE: Duration = Duration::from_secs(30);

/// A server with an unusual listener, and a client of it.
pub struct Inn {
    pub server: Server,
    pub client: Client,
    pub base: String,
}

impl Inn {
    /// A server on a free port with this token store.
    pub async fn with(memory: Arc<Memory>, tokens: Arc<dyn Tokens>, limits: ServerLimits) -> Self {
        Self::new(memory, tokens, limits, ListenerConfig::plain("127.0.0.1:0".parse().unwrap())).await
    }

    async fn open(entrance: ListenerConfig, limits: ServerLimits) -> Self {
        let memory = Arc::new(Memory::new());
        Self::new(memory.clone(), memory, limits, entrance).await
    }

    async fn new(memory: Arc<Memory>, tokens: Arc<dyn Tokens>, limits: ServerLimits, entrance: ListenerConfig) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default(); // Another test may have been first.
        let mut registry = Registry::default();
        let engine = Engine::builder()
            .store(memory.clone())
            .metrics(Metrics::register(&mut registry))
            .provider(Understudy::company(Manner { pace: Duration::ZERO, seed: 7 }))
            .agent("default", Agent::new("understudy/numbered".parse().unwrap()))
            .start();
        let (hash, scopes) = (TokenHash::of(TOKEN), Scopes::all());
        let (name, owner, made) = ("test".into(), "me".into(), Timestamp(0));
        memory
            .put(&Token { hash, name, owner, scopes, made, expires: None, revoked: None, kind: TokenKind::Bearer })
            .await
            .unwrap();
        let parts = ServerParts {
            engine,
            store: memory,
            tokens,
            registry,
            agent: "default".into(),
            models: vec![],
            mcp: Arc::new(Vec::new),
            limits,
            workspaces: BTreeMap::new(),
            workspace_service: None,
            page: &[],
            drill: None,
        };
        let server = Server::open(parts, &[entrance], Reach::default()).await.unwrap();
        let base = server.entrances()[0].url();
        Self { server, client: Client::new(), base }
    }
}

/// Writes a certificate for this machine and its key, and returns the certificate for the client to trust.
fn certify(dir: &Path) -> reqwest::Certificate {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(dir.join("cert.pem"), certificate.pem()).unwrap();
    std::fs::write(dir.join("key.pem"), key.serialize_pem()).unwrap();
    reqwest::Certificate::from_der(certificate.der()).unwrap()
}

fn tls(dir: &Path) -> Result<Tls, TlsError> {
    Tls::read(&dir.join("cert.pem"), &dir.join("key.pem"))
}

fn entrance(tls: &Arc<Tls>) -> ListenerConfig {
    ListenerConfig { at: "127.0.0.1:0".parse().unwrap(), tls: Some(tls.clone()) }
}

fn trusting(root: &reqwest::Certificate) -> reqwest::ClientBuilder {
    Client::builder().no_proxy().tls_certs_only([root.clone()])
}

/// A TLS listener serves HTTP/1.1 and HTTP/2, streams included, and refuses plain HTTP.
#[tokio::test]
async fn both_versions_are_spoken_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    let root = certify(dir.path());
    let inn = Inn::open(entrance(&Arc::new(tls(dir.path()).unwrap())), ServerLimits::default()).await;
    let base = inn.base.replace("127.0.0.1", "localhost");
    assert!(base.starts_with("https://"));
    for (client, version) in [(trusting(&root).http1_only(), Version::HTTP_11), (trusting(&root), Version::HTTP_2)] {
        let client = client.build().unwrap();
        let made = client.post(format!("{base}/v1/chats")).bearer_auth(TOKEN).json(&json!({})).send().await.unwrap();
        assert_eq!((made.status(), made.version()), (StatusCode::CREATED, version));
        let made: Value = made.json().await.unwrap();
        let chat = format!("{base}/v1/chats/{}", made["id"].as_str().unwrap());
        let mut reader = Reader::open(client.get(format!("{chat}/stream")).bearer_auth(TOKEN)).await;
        let say = client.post(format!("{chat}/messages")).bearer_auth(TOKEN).json(&json!({"text": "count to 30"}));
        assert_eq!(say.send().await.unwrap().status(), StatusCode::ACCEPTED);
        let words: Vec<String> = (1..=30).map(|n| format!("t{n}")).collect();
        assert_eq!(reply(&reader.until_rest().await), words.join(" "));
    }
    assert!(Client::new().get(format!("{base}/healthz")).send().await.is_err(), "the certificate is not trusted");
    assert!(inn.client.get(base.replace("https", "http")).send().await.is_err(), "it is not spoken otherwise");
    inn.server.stop().await;
}

/// A TLS handshake that does not come is ended after the time limit for request heads.
#[tokio::test]
async fn a_handshake_has_to_arrive() {
    let dir = tempfile::tempdir().unwrap();
    certify(dir.path());
    let limits = ServerLimits { head_time_max: Duration::from_millis(50), ..ServerLimits::default() };
    let inn = Inn::open(entrance(&Arc::new(tls(dir.path()).unwrap())), limits).await;
    for said in [b"".as_slice(), &[0x16, 3, 1]] {
        let mut stream = TcpStream::connect(inn.server.address()).await.unwrap();
        stream.write_all(said).await.unwrap();
        let end = timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await.expect("it ends");
        let _ = end; // A clean end and a reset are both fine.
    }
    inn.server.stop().await;
}

/// A changed certificate is loaded without a restart, and an invalid one is ignored.
#[tokio::test]
async fn a_certificate_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let (first, tls) = (certify(dir.path()), Arc::new(tls(dir.path()).unwrap()));
    let inn = Inn::open(entrance(&tls), ServerLimits::default()).await;
    let url = format!("{}/healthz", inn.base.replace("127.0.0.1", "localhost"));
    let ask = async |root: &reqwest::Certificate| trusting(root).build().unwrap().get(&url).send().await.is_ok();
    assert!(ask(&first).await);
    let second = certify(dir.path());
    assert!(ask(&first).await && !ask(&second).await);
    tls.reread().unwrap();
    assert!(!ask(&first).await && ask(&second).await);
    std::fs::write(dir.path().join("key.pem"), KeyPair::generate().unwrap().serialize_pem()).unwrap();
    assert!(matches!(tls.reread(), Err(TlsError::Unfit(..))));
    std::fs::write(dir.path().join("cert.pem"), "no certificate").unwrap();
    assert!(matches!(tls.reread(), Err(TlsError::Empty(_))));
    std::fs::remove_file(dir.path().join("cert.pem")).unwrap();
    assert!(matches!(tls.reread(), Err(TlsError::File(..))));
    assert!(ask(&second).await);
    inn.server.stop().await;
}

/// A Unix socket asks for a token like TCP does, and its file is removed at shutdown.
#[tokio::test]
async fn a_socket_is_guarded_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let inn = Inn::open(ListenerConfig::plain(ListenAddress::Unix(path.clone())), ServerLimits::default()).await;
    assert_eq!(inn.base, format!("unix:{}", path.display()));
    let ask = async |target: &str, host: &str, token: &str| {
        let mut stream = UnixStream::connect(&path).await.unwrap();
        let head = format!("GET {target} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n");
        stream.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(ask("/healthz", "localhost", "").await, "200");
    assert_eq!(ask("/v1/chats", "localhost", TOKEN).await, "200");
    assert_eq!(ask("/v1/chats", "localhost", "wrong").await, "401");
    assert_eq!(ask("/v1/chats", "evil.example", TOKEN).await, "421");
    inn.server.stop().await;
    assert!(!path.exists());
}
