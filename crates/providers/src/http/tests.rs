//! A client against a socket that does as it is told.

use std::future::Future;
use std::time::Duration;

use everturn_core::delta::Delta;
use everturn_core::error::{Cause, ErrorKind, Retry};
use everturn_core::ids::{ChatId, Timestamp};
use everturn_core::message::Stop;
use secrecy::SecretString;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::*;
use crate::endpoint::Auth;
use crate::provider::Frame;
use crate::record::{Exchange, Of, Recorder, recording};
use crate::sse::SseEvent;

mod elsewhere;
mod tls;

const KEY: &str = "sk-very-secret-0123456789";

/// Every event is a text, until the one that stops.
struct Texts;

impl Decode for Texts {
    fn event(&mut self, event: &SseEvent<'_>, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        out.push(match event.data {
            "stop" => Frame::Stop(Stop::End),
            text => Frame::Delta(Delta::Text(text.to_owned())),
        });
        Ok(())
    }
}

/// A server for one connection: reads a request, then does what it is told. Gives back the request.
async fn serve<F: Future<Output = ()> + Send>(
    act: impl FnOnce(TcpStream) -> F + Send + 'static,
) -> (Endpoint, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/base", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let request = request(&mut socket).await;
        act(socket).await;
        request
    });
    let endpoint = Endpoint::at("openai", &url).unwrap().with_key_variable("SOME_KEY");
    (endpoint.with_key(SecretString::from(KEY.to_owned()), Auth::Bearer).unwrap(), server)
}

async fn request(socket: &mut TcpStream) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"}") {
        let mut bytes = [0; 4096];
        let read = socket.read(&mut bytes).await.unwrap();
        assert!(read > 0, "a request ends with its JSON");
        request.extend_from_slice(&bytes[..read]);
    }
    String::from_utf8(request).unwrap()
}

fn http() -> Http {
    let limits = Limits { open_max: Duration::from_secs(2), connect_max: Duration::from_secs(2), ..Limits::default() };
    Http::direct(&limits)
}

async fn ask(endpoint: &Endpoint) -> Result<FrameStream, ProviderError> {
    http().stream(endpoint, HttpCall::post("/v1/ask", json!({"q": 1})), Texts).await
}

/// What a server that answers with these bytes, and then closes, makes of a question.
async fn answer(bytes: impl Into<Vec<u8>>) -> Result<FrameStream, ProviderError> {
    let bytes = bytes.into();
    let (endpoint, _) = serve(|mut socket| async move {
        socket.write_all(&bytes).await.unwrap();
        // Closing with unread data sends a reset.
        let _ = socket.shutdown().await;
        let _ = socket.read(&mut [0; 64]).await;
    })
    .await;
    ask(&endpoint).await
}

async fn refused(status: &str, headers: &str, body: &str) -> ProviderError {
    let bytes = format!("HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
    answer(bytes).await.err().expect("a refusal is no stream")
}

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nrequest-id: req_7\r\n";

async fn all(frames: FrameStream) -> Vec<Result<Frame, ProviderError>> {
    frames.collect().await
}

fn text(text: &str) -> Frame {
    Frame::Delta(Delta::Text(text.to_owned()))
}

/// One question: where it goes, what it carries, and what comes back.
#[tokio::test]
async fn a_question_is_answered_as_it_arrives() {
    let (endpoint, server) = serve(|mut socket| async move {
        socket.write_all(format!("{STREAM}transfer-encoding: chunked\r\n\r\n").as_bytes()).await.unwrap();
        socket.write_all(b"b\r\ndata: one\n\n\r\n").await.unwrap();
        socket.write_all(b"c\r\ndata: stop\n\n\r\n0\r\n\r\n").await.unwrap();
    })
    .await;
    let endpoint = endpoint.with_header("x-extra", "yes").unwrap();
    let frames = ask(&endpoint).await.unwrap();
    assert_eq!(all(frames).await, [Ok(text("one")), Ok(Frame::Stop(Stop::End))]);
    let request = server.await.unwrap().to_lowercase();
    assert!(request.starts_with("post /base/v1/ask http/1.1\r\n"), "{request}");
    for line in [
        format!("authorization: bearer {KEY}"),
        "x-extra: yes".into(),
        "accept: text/event-stream".into(),
        "accept-encoding: identity".into(),
        "content-type: application/json".into(),
    ] {
        assert!(request.contains(&format!("{line}\r\n")), "{line} in {request}");
    }
    assert!(request.ends_with("\r\n\r\n{\"q\":1}"), "{request}");
}

/// P29: dropping the frames closes the socket; the server sees it at once.
#[tokio::test]
async fn dropping_the_frames_closes_the_socket() {
    let (endpoint, server) = serve(|mut socket| async move {
        socket.write_all(format!("{STREAM}\r\ndata: one\n\n").as_bytes()).await.unwrap();
        assert_eq!(socket.read(&mut [0; 64]).await.unwrap_or(0), 0, "closed");
    })
    .await;
    let mut frames = ask(&endpoint).await.unwrap();
    assert_eq!(frames.next().await, Some(Ok(text("one"))));
    drop(frames);
    tokio::time::timeout(Duration::from_secs(5), server).await.expect("the socket is closed").unwrap();
}

/// P20, P23: a stream that ends is cut, one that is reset is reset, and both know their request.
#[tokio::test]
async fn a_broken_stream_is_typed() {
    let cases = [
        (format!("{STREAM}\r\ndata: one\n\n"), ErrorKind::Truncated, Cause::Truncated),
        (format!("{STREAM}content-length: 99\r\n\r\ndata: one\n\n"), ErrorKind::Truncated, Cause::Truncated),
        (
            format!("{STREAM}transfer-encoding: chunked\r\n\r\nb\r\ndata: one\n\n\r\n"),
            ErrorKind::Truncated,
            Cause::Truncated,
        ),
    ];
    for (bytes, kind, cause) in cases {
        let frames = all(answer(bytes.clone()).await.unwrap()).await;
        assert_eq!(frames[0], Ok(text("one")), "{bytes}");
        let error = frames[1].clone().unwrap_err();
        assert_eq!((error.kind, error.cause, error.request_id.as_deref()), (kind, cause, Some("req_7")), "{bytes}");
        assert_eq!(frames.len(), 2);
    }

    let (endpoint, _) = serve(|mut socket| async move {
        socket.write_all(format!("{STREAM}\r\ndata: one\n\n").as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        socket.set_zero_linger().unwrap(); // The close becomes a reset.
    })
    .await;
    let frames = all(ask(&endpoint).await.unwrap()).await;
    let error = frames[1].clone().unwrap_err();
    assert_eq!((error.kind, error.cause), (ErrorKind::Timeout, Cause::Reset), "{error:?}");
    assert!(error.is_broken_stream());
}

/// P4, P6: a refusal is read: its status, its wait, its request, the variable of the key; the key itself is not kept.
#[tokio::test]
async fn a_refusal_is_read() {
    let body = json!({"error": {"message": format!("Incorrect key {KEY}!"), "type": "invalid_request_error"}});
    let error = refused("401", "x-request-id: req_9\r\n", &body.to_string()).await;
    assert_eq!((error.kind, error.retry, error.status), (ErrorKind::Auth, Retry::Never, Some(401)));
    assert_eq!((error.request_id.as_deref(), error.subject.as_deref()), (Some("req_9"), Some("SOME_KEY")));
    assert_eq!(error.detail, "Incorrect key [key]!");

    let error = refused("429", "retry-after: 7\r\n", "{}").await;
    assert_eq!((error.kind, error.retry), (ErrorKind::RateLimit, Retry::After(Duration::from_secs(7))));
    assert_eq!(refused("529", "", "").await.kind, ErrorKind::Overloaded);
    assert_eq!(refused("503", "", "<html>").await.kind, ErrorKind::Timeout);
}

/// P8, P26: a good status with something else in it is not an answer, and says what it can.
#[tokio::test]
async fn something_else_is_not_an_answer() {
    let json = "content-type: application/json\r\n";
    let error = refused("200", json, r#"{"error":{"type":"overloaded_error","message":"busy"}}"#).await;
    assert_eq!((error.kind, error.detail.as_str()), (ErrorKind::Overloaded, "busy"));
    for (headers, body) in [
        (json, "{}"),
        ("content-type: text/html\r\n", "<html><script>alert(1)</script></html>"),
        ("content-type: text/plain\r\n", ""),
        ("content-type: text/event-stream\r\ncontent-encoding: gzip\r\n", "\x1f"),
    ] {
        let error = refused("200", headers, body).await;
        assert_eq!((error.kind, error.retry), (ErrorKind::Malformed, Retry::Backoff), "{headers}");
        assert!(!error.detail.contains('<'), "{}", error.detail);
    }
    let unsaid = all(answer("HTTP/1.1 200 OK\r\n\r\ndata: stop\n\n").await.unwrap()).await;
    assert_eq!(unsaid, [Ok(Frame::Stop(Stop::End))], "some forget to say what it is");
}

/// P10: of an error without an end, the beginning is read.
#[tokio::test]
async fn an_endless_error_is_read_to_a_bound() {
    let (endpoint, server) = serve(|mut socket| async move {
        socket.write_all(b"HTTP/1.1 500 X\r\ncontent-type: text/plain\r\n\r\nbroken\n").await.unwrap();
        while socket.write_all(&[b'x'; 4096]).await.is_ok() {}
    })
    .await;
    let error = ask(&endpoint).await.err().unwrap();
    assert_eq!((error.kind, error.detail.as_str()), (ErrorKind::Generic, "broken"));
    server.await.unwrap();

    let (endpoint, _) = serve(|mut socket| async move {
        socket.write_all(b"HTTP/1.1 500 X\r\n\r\n").await.unwrap();
        std::future::pending::<()>().await;
    })
    .await;
    assert_eq!(ask(&endpoint).await.err().unwrap().status, Some(500), "nor is one waited for that never comes");
}

/// P1, P11: no listener, no answer, and a server that hangs up before it answers.
#[tokio::test]
async fn an_unreachable_server_is_a_typed_error() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = ask(&Endpoint::at("openai", &format!("http://{gone}")).unwrap()).await.err().unwrap();
    assert_eq!(
        (error.kind, error.retry, error.cause),
        (ErrorKind::Timeout, Retry::Backoff, Cause::Refused),
        "{error:?}"
    );

    let (endpoint, _) = serve(|socket| async move {
        let _held = socket;
        std::future::pending().await
    })
    .await;
    let error = ask(&endpoint).await.err().unwrap();
    assert_eq!(
        (error.kind, error.retry, error.cause),
        (ErrorKind::Timeout, Retry::Backoff, Cause::Refused),
        "{error:?}"
    );

    let (endpoint, _) = serve(|socket| async move { drop(socket) }).await;
    let error = ask(&endpoint).await.err().unwrap();
    assert_eq!((error.kind, error.retry, error.cause), (ErrorKind::Timeout, Retry::Backoff, Cause::Reset), "{error:?}");

    let plain = Endpoint::at("openai", &format!("https://127.0.0.1:{}", plaintext().await)).unwrap();
    let error = ask(&plain).await.err().unwrap();
    assert_eq!((error.kind, error.retry, error.cause), (ErrorKind::Timeout, Retry::Once, Cause::Refused), "{error:?}");
}

/// P3: a port without TLS.
async fn plaintext() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        let _ = socket.read(&mut [0; 1024]).await;
    });
    port
}

/// A whole answer is read as JSON, to a bound.
#[tokio::test]
async fn a_whole_answer_is_read() {
    let fetch = |bytes: &'static str| async move {
        let (endpoint, _) = serve(move |mut socket| async move {
            socket.write_all(bytes.as_bytes()).await.unwrap();
        })
        .await;
        http().fetch(&endpoint, HttpCall::post("x", json!({}))).await
    };
    let good = fetch("HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{\"a\":1}").await;
    assert_eq!(good, Ok(json!({"a": 1})));
    let bad = fetch("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nno!").await.unwrap_err();
    assert_eq!((bad.kind, bad.status), (ErrorKind::Malformed, Some(200)));
}

/// Without its key a provider is not asked at all.
#[tokio::test]
async fn without_a_key_nothing_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let set = |name: &str| (name == "ANTHROPIC_BASE_URL").then(|| base.clone());
    let endpoint = Endpoint::usual("anthropic", &crate::anthropic::USUAL, set).unwrap();
    let error = ask(&endpoint).await.err().unwrap();
    assert_eq!((error.kind, error.subject.as_deref()), (ErrorKind::MissingKey, Some("ANTHROPIC_API_KEY")));
    let asked = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
    assert!(asked.is_err(), "no connection was made");
}

/// P2: a name without an address, and other troubles, are known by their types, however deep they lie.
#[test]
fn troubles_are_known_by_type() {
    use std::io::{Error, ErrorKind};
    let wrapped = |inner: Error| Error::other(Error::other(inner));
    assert_eq!(trouble::transport(&wrapped(Error::other(NoAddress(Error::other("x"))))), Some(Transport::Dns));
    let tls = Error::new(ErrorKind::InvalidData, rustls::Error::HandshakeNotComplete);
    assert_eq!(trouble::transport(&wrapped(tls)), Some(Transport::Tls));
    let reset = Error::from(ErrorKind::ConnectionReset);
    assert_eq!(trouble::transport(&wrapped(reset)), Some(Transport::Reset));
    let h2: h2::Error = h2::Reason::REFUSED_STREAM.into();
    assert!(matches!(trouble::transport(&Error::other(h2)), Some(Transport::Http2 { code: 7, .. })));
    assert_eq!(trouble::transport(&Error::other("a text about resets and time-outs")), None);
}

/// A 404 of something that is not the provider is told of the base URL, and not of the model.
#[tokio::test]
async fn a_wrong_address_is_not_a_wrong_model() {
    let nothing_there = [
        ("404", "<html>The requested URL was not found on this server.</html>"),
        ("404", ""),
        ("404", "404 page not found"),
        ("404", r#"{"detail":"Not Found"}"#),
        ("404", r#"{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}"#),
        ("404", r#"{"error":{"message":"Invalid URL (POST /models/x)","type":"invalid_request_error"}}"#),
        ("404", r#"{"message":"Route POST:/models/x not found","error":"Not Found","statusCode":404}"#),
        ("405", r#"{"detail":"Method Not Allowed"}"#),
    ];
    for (status, body) in nothing_there {
        let error = refused(status, "", body).await;
        assert_eq!((error.kind, error.retry), (ErrorKind::Config, Retry::Never), "{body}");
        assert_eq!(error.to_string(), "OpenAI has nothing at the address that was asked; check the base URL", "{body}");
        assert!(!error.detail.is_empty(), "{body}");
    }
    let empty = refused("404", "", "").await;
    assert!(empty.detail.starts_with("status 404 for a request below http://127.0.0.1:"), "{}", empty.detail);
    let no_model = [
        r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#,
        r#"{"type":"error","error":{"type":"not_found_error","message":"model: x"}}"#,
        r#"{"error":{"code":404,"message":"models/x is not found for API version v1beta","status":"NOT_FOUND"}}"#,
        r#"{"error":"model 'x' not found"}"#,
    ];
    for body in no_model {
        let error = refused("404", "", body).await;
        assert!(error.to_string().contains("does not accept this model"), "{body}");
    }
}

/// A recorder that keeps the exchanges.
#[derive(Default)]
struct Kept(std::sync::Mutex<Vec<Exchange>>);

impl Recorder for Kept {
    fn record(&self, _: Of, exchange: Exchange) {
        self.0.lock().unwrap().push(exchange);
    }

    fn forget(&self, _: ChatId) {}

    fn kept(&self) -> Vec<ChatId> {
        Vec::new()
    }
}

/// A server that echoes the key, in headers or in its body, has it recorded nowhere and told nowhere.
#[tokio::test]
async fn a_key_that_is_echoed_is_not_recorded() {
    let headers = format!("x-request-id: for {KEY}\r\nserver: {KEY}\r\nx-ratelimit-of: k={KEY};\r\nx-other: {KEY}\r\n");
    let body = format!("no, {KEY}!");
    let bytes = format!("HTTP/1.1 400 X\r\n{headers}content-length: {}\r\n\r\n{body}", body.len());
    let kept = Arc::new(Kept::default());
    let of = Of { chat: ChatId::new(Timestamp(0), 1), debug: false };
    let error = recording(Some(kept.clone() as _), of, answer(bytes)).await.err().unwrap();
    assert!(!format!("{error:?}").contains(KEY), "{error:?}");
    let exchanges = kept.0.lock().unwrap();
    assert_eq!(exchanges.len(), 1);
    assert!(!format!("{exchanges:?}").contains(KEY), "{exchanges:?}");
    let told = |name: &str| exchanges[0].response_headers.iter().find(|(known, _)| known == name).unwrap().1.clone();
    assert_eq!((told("server"), told("x-ratelimit-of")), ("[key]".into(), "k=[key];".into()));
}
