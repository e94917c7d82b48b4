//! The floors: proxies of a page each, on the runtime and the HTTP libraries that the real server uses.

use std::convert::Infallible;
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::net::{TcpListener, TcpStream};

/// The argument that makes this program a floor.
pub const ROLE: &str = "--floor";
/// Clients that take turns: over HTTP/2 each has one connection, and a model takes so many requests there at once.
const CLIENTS: usize = 16;

/// Serves as a floor until it is killed. The arguments: which one, where the model is, and where the log goes.
pub fn run(arguments: &[String]) {
    let [which, source, log] = arguments else { panic!("which, source and log, not {arguments:?}") };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("http://{}", listener.local_addr().unwrap());
        match (which.as_str(), source.strip_prefix("http://")) {
            ("Passing", Some(address)) => pass(listener, address).await,
            ("Passing", None) => relay(listener, source, || |bytes| bytes).await,
            _ => {
                let log = Arc::new(File::options().append(true).create(true).open(log).unwrap());
                let parse = move || {
                    let mut reading = Reading { rest: Vec::new(), log: log.clone() };
                    move |bytes: Bytes| reading.read(&bytes)
                };
                relay(listener, source, parse).await;
            }
        }
    });
}

/// Passes bytes on, whatever they are.
async fn pass(listener: TcpListener, source: &str) {
    loop {
        let (mut client, _) = listener.accept().await.unwrap();
        let source = source.to_owned();
        tokio::spawn(async move {
            let mut model = TcpStream::connect(source).await.unwrap();
            client.set_nodelay(true).unwrap();
            model.set_nodelay(true).unwrap();
            let _ = tokio::io::copy_bidirectional(&mut client, &mut model).await; // Either may be gone.
        });
    }
}

/// Emits what comes as `read` makes it: all that came together, together.
async fn relay<R>(listener: TcpListener, source: &str, make: impl Fn() -> R + Clone + Send + Sync + 'static)
where
    R: FnMut(Bytes) -> Bytes + Send + 'static,
{
    let client = |_| reqwest::Client::builder().no_proxy().tcp_nodelay(true).build().unwrap();
    let clients: Arc<[reqwest::Client]> = (0..CLIENTS).map(client).collect();
    let (url, turn) = (format!("{source}/v1/messages"), Arc::new(AtomicUsize::new(0)));
    let relay = move |body: Bytes| async move {
        let client = &clients[turn.fetch_add(1, Ordering::Relaxed) % CLIENTS];
        let request = client.post(url).header("content-type", "application/json");
        let mut read = make();
        let answer = request.body(body).send().await.unwrap().bytes_stream();
        let frames = answer.map(move |bytes| Ok::<_, Infallible>(read(bytes.unwrap_or_default())));
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

/// Parses each event, appends it to the log, and emits it again.
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
