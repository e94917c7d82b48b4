//! The floors: proxies of a page each, on the runtime and the HTTP libraries that the real server uses.

use std::convert::Infallible;
use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::net::{TcpListener, TcpStream};

/// The argument that makes this program a floor.
pub const ROLE: &str = "--floor";

/// Serves as a floor until it is killed. The arguments: which one, where the model is, and where the log goes.
pub fn run(arguments: &[String]) {
    let [which, source, log] = arguments else { panic!("which, source and log, not {arguments:?}") };
    let source: SocketAddr = source.parse().unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("http://{}", listener.local_addr().unwrap());
        match which.as_str() {
            "Passing" => pass(listener, source).await,
            _ => parse(listener, source, File::options().append(true).create(true).open(log).unwrap()).await,
        }
    });
}

/// Passes bytes on, whatever they are.
async fn pass(listener: TcpListener, source: SocketAddr) {
    loop {
        let (mut client, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let mut model = TcpStream::connect(source).await.unwrap();
            client.set_nodelay(true).unwrap();
            model.set_nodelay(true).unwrap();
            let _ = tokio::io::copy_bidirectional(&mut client, &mut model).await; // Either may be gone.
        });
    }
}

/// Parses each event, appends it to the log, and emits it again: all that came together, together.
async fn parse(listener: TcpListener, source: SocketAddr, log: File) {
    let (client, log) = (reqwest::Client::builder().no_proxy().tcp_nodelay(true).build().unwrap(), Arc::new(log));
    let relay = move |body: Bytes| async move {
        let request = client.post(format!("http://{source}/v1/messages")).header("content-type", "application/json");
        let mut reading = Reading { rest: Vec::new(), log };
        let answer = request.body(body).send().await.unwrap().bytes_stream();
        let frames = answer.map(move |bytes| Ok::<_, Infallible>(reading.read(&bytes.unwrap_or_default())));
        Response::builder().header("content-type", "text/event-stream").body(Body::from_stream(frames)).unwrap()
    };
    let router = Router::new().route("/v1/messages", post(relay));
    axum::serve(axum::serve::ListenerExt::tap_io(listener, |io| io.set_nodelay(true).unwrap()), router).await.unwrap();
}

/// What is needed of an event.
#[derive(serde::Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
}

#[derive(serde::Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    text: Option<std::borrow::Cow<'a, str>>,
}

struct Reading {
    rest: Vec<u8>,
    log: Arc<File>,
}

impl Reading {
    fn read(&mut self, bytes: &[u8]) -> Bytes {
        self.rest.extend_from_slice(bytes);
        let (mut taken, mut entries, mut frame) = (0, Vec::new(), Vec::new());
        while let Some(end) = memchr::memchr(b'\n', &self.rest[taken..]) {
            let line = &self.rest[taken..taken + end];
            taken += end + 1;
            let Some(data) = line.strip_prefix(b"data: ") else { continue };
            let event: Event<'_> = serde_json::from_slice(data).unwrap();
            let text = event.delta.and_then(|delta| delta.text);
            let size = text.map_or(0, |text| text.len());
            writeln!(entries, "{} {size} {}", event.kind, String::from_utf8_lossy(data)).unwrap();
            writeln!(frame, "event: {}\ndata: {}\n", event.kind, String::from_utf8_lossy(data)).unwrap();
        }
        self.rest.drain(..taken);
        (&*self.log).write_all(&entries).unwrap();
        frame.into()
    }
}
