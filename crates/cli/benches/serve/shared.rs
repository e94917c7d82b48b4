//! HTTP/2: a model over TLS, and clients that share connections, as behind a proxy.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use bytes::Bytes;
use h2::client::SendRequest;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, oneshot};
use tokio_rustls::TlsAcceptor;

use crate::client::Stamps;
use crate::source::{Answer, BEGIN, runtime, write_paced};

/// Requests at once on a connection to the model: what most providers take.
const STREAMS_MAX: u32 = 100;

/// Flow-control window of each stream of a client. Large, as proxies have it: a small one costs an update every
/// few deltas.
const WINDOW: u32 = 1 << 20;

/// Answers on `listener`, each request with an answer that goes on at this pace. The certificate to trust is
/// written to `authority`.
pub fn serve(listener: TcpListener, authority: &Path, (clock, pace): (Instant, Arc<AtomicU32>)) -> SocketAddr {
    let (address, acceptor, (paced, answers)) =
        (listener.local_addr().unwrap(), acceptor(authority), unbounded_channel());
    listener.set_nonblocking(true).unwrap();
    let accept = async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            tokio::spawn(answer_all(acceptor.clone(), stream, paced.clone()));
        }
    };
    std::thread::spawn(move || {
        runtime().block_on(async move {
            tokio::spawn(accept);
            write_paced(answers, clock, pace).await;
        });
    });
    address
}

/// A TLS acceptor whose certificate clients trust through the file `authority`.
fn acceptor(authority: &Path) -> TlsAcceptor {
    let (mut root, root_key) = (CertificateParams::new([]).unwrap(), KeyPair::generate().unwrap());
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    std::fs::write(authority, root.self_signed(&root_key).unwrap().pem()).unwrap();
    let (issuer, key) = (Issuer::new(root, root_key), KeyPair::generate().unwrap());
    let host = CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = ServerConfig::builder().with_no_client_auth();
    let mut config = config.with_single_cert(vec![host.der().clone()], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

async fn answer_all(acceptor: TlsAcceptor, stream: TcpStream, paced: UnboundedSender<Answer>) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let connection = h2::server::Builder::new().max_concurrent_streams(STREAMS_MAX).handshake(stream).await;
    let Ok(mut connection) = connection else { return };
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        let head = axum::http::Response::builder().header("content-type", "text/event-stream").body(()).unwrap();
        let Ok(mut answer) = respond.send_response(head, false) else { continue };
        if answer.send_data(Bytes::from_static(BEGIN.as_bytes()), false).is_ok() {
            let _ = paced.send(Answer::Shared(answer)); // The bench may be over.
        }
    }
}

/// Connections that clients share, one for all of a token.
#[derive(Default)]
pub struct Connections {
    open: Mutex<HashMap<String, SendRequest<Bytes>>>,
}

impl Connections {
    async fn of(&self, address: SocketAddr, token: &str) -> SendRequest<Bytes> {
        let mut open = self.open.lock().await;
        if let Some(connection) = open.get(token) {
            return connection.clone();
        }
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW * 64);
        let (send, connection) = builder.handshake(stream).await.unwrap();
        tokio::spawn(connection);
        open.insert(token.to_owned(), send.clone());
        send
    }

    /// Asks, and reads what comes.
    pub async fn watch(
        &self,
        address: SocketAddr,
        token: &str,
        (path, body): (&str, Option<String>),
        mut stamps: Stamps,
        opened: Option<oneshot::Sender<()>>,
    ) {
        let method = if body.is_some() { "POST" } else { "GET" };
        let request = axum::http::Request::builder().method(method).uri(format!("http://{address}{path}"));
        let request = request.header("authorization", format!("Bearer {token}"));
        let request = request.header("content-type", "application/json").body(()).unwrap();
        let mut connection = self.of(address, token).await.ready().await.unwrap();
        let (answer, mut sends) = connection.send_request(request, body.is_none()).unwrap();
        if let Some(body) = body {
            sends.send_data(body.into(), true).unwrap();
        }
        let answer = answer.await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        if let Some(opened) = opened {
            opened.send(()).unwrap();
        }
        let mut body = answer.into_body();
        while let Some(Ok(bytes)) = body.data().await {
            let _ = body.flow_control().release_capacity(bytes.len()); // It may be over.
            stamps.read(&bytes);
        }
    }
}
