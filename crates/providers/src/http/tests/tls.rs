//! The client against servers that speak TLS, and over it HTTP/1.1 or HTTP/2.

use std::sync::atomic::{AtomicUsize, Ordering};

use expect_test::expect;
use h2::Reason;
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::*;

/// What a server offers to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaks {
    Http1,
    Http2,
}

/// A test authority that signs certificates.
pub(super) struct Authority {
    pub(super) root: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { root: params.self_signed(&key).unwrap(), issuer: Issuer::new(params, key) }
    }

    /// What it takes to be a server of this name.
    pub(super) fn server(&self, name: &str, speaks: Speaks) -> TlsAcceptor {
        self.certified(CertificateParams::new([name.to_owned()]).unwrap(), speaks)
    }

    fn certified(&self, params: CertificateParams, speaks: Speaks) -> TlsAcceptor {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder().with_no_client_auth();
        let mut config = config.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        config.alpn_protocols = match speaks {
            Speaks::Http1 => vec![b"http/1.1".to_vec()],
            Speaks::Http2 => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        };
        TlsAcceptor::from(Arc::new(config))
    }

    /// A client that trusts this authority and no other.
    fn client(&self) -> Http {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.root.der().clone()).unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Http::over(&Limits::default(), ProxyUse::Direct, tls)
    }
}

type Secured = TlsStream<TcpStream>;

/// A server that does the same with every connection.
pub(super) async fn server<F: Future<Output = ()> + Send + 'static>(
    acceptor: TlsAcceptor,
    act: impl Fn(Secured) -> F + Send + 'static,
) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::at("openai", &format!("https://{}", listener.local_addr().unwrap())).unwrap();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            if let Ok(socket) = acceptor.accept(socket).await {
                tokio::spawn(act(socket));
            }
        }
    });
    endpoint.with_key(SecretString::from(KEY.to_owned()), Auth::Bearer).unwrap()
}

async fn asked(http: &Http, endpoint: &Endpoint) -> Result<FrameStream, ProviderError> {
    http.stream(endpoint, HttpCall::post("/v1/ask", json!({"q": 1})), Texts).await
}

/// Reads a request and answers over HTTP/1.1.
pub(super) async fn answer_plainly(mut socket: impl AsyncRead + AsyncWrite + Unpin, answer: String) {
    let mut request = Vec::new();
    while !request.ends_with(b"}") {
        let mut bytes = [0; 4096];
        let read = socket.read(&mut bytes).await.unwrap();
        request.extend_from_slice(&bytes[..read]);
    }
    assert!(String::from_utf8(request).unwrap().contains(KEY));
    socket.write_all(answer.as_bytes()).await.unwrap();
    socket.flush().await.unwrap();
}

const CHUNKED: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\nb\r\ndata: one\n\n\r\n";

/// How an HTTP/2 server goes on when it has said one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It says that it is going, and stays for the rest of the answer.
    GoesGently,
    /// It says that it is going, why, and is gone.
    GoesAway(Reason),
    /// It says that it is going, and that it has not looked at the request.
    Disowns(Reason),
    /// It ends the stream alone.
    Resets(Reason),
    /// It is gone, without a word.
    Drops,
}

/// Answers requests over HTTP/2: the first as the fault says, once `told` says that its first word has arrived.
async fn answer_multiplexed(socket: Secured, mut fault: Option<Fault>, told: Arc<Notify>) {
    assert_eq!(socket.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut connection = h2::server::handshake(socket).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        assert_eq!(request.headers()["authorization"], format!("Bearer {KEY}"));
        let head = hyper::Response::builder().header("content-type", "text/event-stream").header("request-id", "req_7");
        let mut body = respond.send_response(head.body(()).unwrap(), false).unwrap();
        body.send_data(Bytes::from_static(b"data: one\n\n"), false).unwrap();
        if let Some(fault) = fault.take() {
            tokio::select! {
                biased;
                _ = connection.accept() => return,
                () = told.notified() => {}
            }
            match fault {
                Fault::GoesGently => connection.graceful_shutdown(),
                Fault::GoesAway(reason) => {
                    connection.abrupt_shutdown(reason);
                    continue;
                }
                Fault::Resets(reason) => {
                    body.send_reset(reason);
                    continue;
                }
                Fault::Drops | Fault::Disowns(_) => return,
            }
        }
        body.send_data(Bytes::from_static(b"data: stop\n\n"), true).unwrap();
    }
}

/// Answers frame by frame: says a word, and then that it never looked at the request.
async fn disown(mut socket: Secured, reason: Reason, told: Arc<Notify>) {
    let (mut asked, mut bytes) = (Vec::new(), [0; 4096]);
    while !asked.ends_with(b"{\"q\":1}") {
        let read = socket.read(&mut bytes).await.unwrap();
        asked.extend_from_slice(&bytes[..read]);
    }
    let (settings, status_200) = (frame(4, 0, 0, b""), frame(1, 4, 1, b"\x88"));
    let word = frame(0, 0, 1, b"data: one\n\n");
    socket.write_all(&[settings, status_200, word].concat()).await.unwrap();
    told.notified().await;
    let nothing_processed = [[0; 4], u32::from(reason).to_be_bytes()].concat();
    socket.write_all(&frame(7, 0, 0, &nothing_processed)).await.unwrap();
    while let Ok(1..) = socket.read(&mut bytes).await {}
}

/// A frame as RFC 9113 has it.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// What the client makes of a fault, and then of a second question; and how many connections that took.
async fn faulty(fault: Fault) -> (Result<Frame, ProviderError>, usize) {
    let (authority, told, connections) =
        (Authority::new("ours"), Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (heard, counted) = (Arc::clone(&told), Arc::clone(&connections));
    let endpoint = server(authority.server("127.0.0.1", Speaks::Http2), move |socket| {
        let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
        let heard = Arc::clone(&heard);
        async move {
            match fault {
                Fault::Disowns(reason) if first => disown(socket, reason, heard).await,
                _ => answer_multiplexed(socket, first.then_some(fault), heard).await,
            }
        }
    })
    .await;
    let http = authority.client();
    let mut frames = asked(&http, &endpoint).await.unwrap();
    assert_eq!(frames.next().await, Some(Ok(text("one"))), "{fault:?}");
    told.notify_one();
    let then = frames.next().await.unwrap();
    assert_eq!(frames.next().await, None, "{fault:?}");
    let again = all(asked(&http, &endpoint).await.unwrap()).await;
    assert_eq!(again, [Ok(text("one")), Ok(Frame::Stop(Stop::End))], "after {fault:?}");
    (then, connections.load(Ordering::SeqCst))
}

/// P24: the end of an HTTP/2 connection, or of its stream, is a typed cause, and the next request is
/// answered.
///
/// Two things are decided by the HTTP library: `NO_ERROR` counts as an end, which without a stop is a cut all the same;
/// and whether a server that was lost in the middle of an answer had said that it was going, it does not tell.
#[tokio::test]
async fn a_broken_http2_stream_is_typed() {
    let mut all = String::new();
    for fault in [
        Fault::Disowns(Reason::NO_ERROR),
        Fault::Disowns(Reason::ENHANCE_YOUR_CALM),
        Fault::GoesAway(Reason::NO_ERROR),
        Fault::GoesAway(Reason::ENHANCE_YOUR_CALM),
        Fault::Resets(Reason::NO_ERROR),
        Fault::Resets(Reason::CANCEL),
        Fault::Resets(Reason::INTERNAL_ERROR),
        Fault::Resets(Reason::REFUSED_STREAM),
        Fault::Resets(Reason::PROTOCOL_ERROR),
        Fault::Drops,
    ] {
        let (then, connections) = faulty(fault).await;
        let error = then.unwrap_err();
        assert!(error.is_broken_stream() || error.retry == Retry::Never, "{fault:?}: {error:?}");
        all += &format!("{fault:?}: {:?} {:?} {:?}, {connections}\n", error.kind, error.retry, error.cause);
    }
    expect![[r#"
        Disowns(NO_ERROR): Truncated Backoff Truncated, 2
        Disowns(ENHANCE_YOUR_CALM): Timeout Backoff GoAway, 2
        GoesAway(NO_ERROR): Timeout Backoff Reset, 2
        GoesAway(ENHANCE_YOUR_CALM): Timeout Backoff Reset, 2
        Resets(NO_ERROR): Truncated Backoff Truncated, 1
        Resets(CANCEL): Timeout Backoff Reset, 1
        Resets(INTERNAL_ERROR): Timeout Backoff Reset, 1
        Resets(REFUSED_STREAM): Timeout Backoff Reset, 1
        Resets(PROTOCOL_ERROR): Malformed Never Malformed, 1
        Drops: Timeout Backoff Reset, 2
    "#]]
    .assert_eq(&all);
}

/// P24: a server that goes when it is done is heard to the end, and not asked again on that connection.
#[tokio::test]
async fn a_server_that_goes_gently_is_heard_out() {
    assert_eq!(faulty(Fault::GoesGently).await, (Ok(Frame::Stop(Stop::End)), 2));
}

/// A host takes a hundred requests at once per connection, and answers take long: still no request waits for
/// another's answer.
#[tokio::test]
async fn a_crowd_is_answered_at_once() {
    const CROWD: usize = 300;
    let (authority, connections) = (Authority::new("ours"), Arc::new(AtomicUsize::new(0)));
    let (counted, (end, ended)) = (Arc::clone(&connections), tokio::sync::watch::channel(false));
    let endpoint = server(authority.server("127.0.0.1", Speaks::Http2), move |socket| {
        counted.fetch_add(1, Ordering::SeqCst);
        let ended = ended.clone();
        async move {
            let mut connection =
                h2::server::Builder::new().max_concurrent_streams(100).handshake(socket).await.unwrap();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                let head = hyper::Response::builder().header("content-type", "text/event-stream").body(()).unwrap();
                let (mut body, mut ended) = (respond.send_response(head, false).unwrap(), ended.clone());
                body.send_data(Bytes::from_static(b"data: one\n\n"), false).unwrap();
                tokio::spawn(async move {
                    ended.wait_for(|ended| *ended).await.unwrap();
                    body.send_data(Bytes::from_static(b"data: stop\n\n"), true).unwrap();
                });
            }
        }
    })
    .await;
    let http = authority.client();
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        let mut frames = asked(&http, &endpoint).await.unwrap();
        assert_eq!(frames.next().await, Some(Ok(text("one"))));
        crowd.push(frames);
    }
    let came = connections.load(Ordering::SeqCst);
    assert!((3..10).contains(&came), "{CROWD} on {came} connections");
    end.send(true).unwrap();
    for frames in crowd {
        assert_eq!(all(frames).await, [Ok(Frame::Stop(Stop::End))]);
    }
    assert_eq!(all(asked(&http, &endpoint).await.unwrap()).await.len(), 2);
    assert_eq!(connections.load(Ordering::SeqCst), came, "places are free again");
}

/// HTTP/1.1 over TLS: an answer, and a connection that ends without one.
#[tokio::test]
async fn http1_over_tls() {
    let authority = Authority::new("ours");
    for (rest, end) in [("c\r\ndata: stop\n\n\r\n0\r\n\r\n", None), ("", Some(Cause::Truncated))] {
        let endpoint = server(authority.server("127.0.0.1", Speaks::Http1), move |socket| {
            answer_plainly(socket, format!("{CHUNKED}{rest}"))
        })
        .await;
        let frames = all(asked(&authority.client(), &endpoint).await.unwrap()).await;
        assert_eq!(frames[0], Ok(text("one")));
        assert_eq!(frames[1].clone().err().map(|error| error.cause), end, "{frames:?}");
    }
}

/// P3: a server without a valid certificate gets no request, and the error names the server.
#[tokio::test]
async fn a_stranger_is_not_trusted() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let mut expired = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    expired.not_after = rcgen::date_time_ymd(2001, 1, 1);
    for (acceptor, says) in [
        (theirs.server("127.0.0.1", Speaks::Http2), "UnknownIssuer"),
        (ours.server("elsewhere.example", Speaks::Http2), "not valid for"),
        (ours.certified(expired, Speaks::Http2), "expired"),
    ] {
        let endpoint = server(acceptor, |_| async { panic!("a question for a stranger") }).await;
        let error = asked(&ours.client(), &endpoint).await.err().unwrap();
        assert_eq!(
            (error.kind, error.retry, error.cause),
            (ErrorKind::Timeout, Retry::Once, Cause::Refused),
            "{error:?}"
        );
        let named = format!("no secure connection to {}: ", endpoint.host());
        assert!(error.detail.starts_with(&named) && error.detail.contains(says), "{}", error.detail);
    }
}
