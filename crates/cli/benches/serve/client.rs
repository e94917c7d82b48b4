//! Clients that watch, and what they saw.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::process::{Middle, Process, Wire};
use crate::shared::Connections;
use crate::source::{STAMP, TICK};

/// How long anything may take before the bench gives up.
const PATIENCE: Duration = Duration::from_secs(120);
/// Streams of one token. It may have one more, which an earlier stream may still hold.
const STREAMS_MAX: usize = 99;
/// What stands before a cursor. No line of an event's data begins like this.
const ID: &[u8] = b"\nid: ";
/// Chats that are begun at the same time.
const AT_ONCE: usize = 50;

/// What all clients together saw.
pub struct Seen {
    clock: Instant,
    /// What was written before this is not counted.
    since: Duration,
    begun: AtomicUsize,
    count: AtomicUsize,
    is_measuring: AtomicBool,
    delays: Mutex<Vec<u32>>,
    firsts: Mutex<Vec<u32>>,
}

impl Seen {
    pub fn new(clock: Instant, since: Duration) -> Self {
        Self {
            clock,
            since,
            begun: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            is_measuring: AtomicBool::new(false),
            delays: Mutex::default(),
            firsts: Mutex::default(),
        }
    }

    /// Waits until so many chats have a delta.
    pub fn wait_until_begun(&self, chats: usize) {
        self.wait(|| self.begun.load(Ordering::Relaxed) >= chats);
    }

    /// Waits until so many deltas were seen.
    pub fn wait_for(&self, deltas: usize) {
        self.wait(|| self.count.load(Ordering::Relaxed) >= deltas);
    }

    fn wait(&self, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            let (begun, count) = (self.begun.load(Ordering::Relaxed), self.count.load(Ordering::Relaxed));
            assert!(began.elapsed() < PATIENCE, "only {begun} chats began and {count} deltas came");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// From now on delays are kept.
    pub fn measure(&self) {
        self.is_measuring.store(true, Ordering::Relaxed);
    }

    /// The delays, in microseconds.
    pub fn measured(&self) -> Vec<u32> {
        self.is_measuring.store(false, Ordering::Relaxed);
        std::mem::take(&mut self.delays.lock().unwrap())
    }

    /// How long it was until each chat had something new, in microseconds.
    pub fn firsts(&self) -> Vec<u32> {
        std::mem::take(&mut self.firsts.lock().unwrap())
    }
}

/// The stamps in a stream, wherever it is cut.
pub struct Stamps {
    seen: Arc<Seen>,
    /// A stamp that is not whole.
    rest: Vec<u8>,
    has_begun: bool,
    /// Where to come back to.
    cursor: Cursor,
}

/// The newest cursor of a stream. One that was cut in two is not taken: the one before is as good.
type Cursor = Arc<Mutex<Option<String>>>;

impl Stamps {
    fn new(seen: &Arc<Seen>, cursor: &Cursor) -> Self {
        Self { seen: seen.clone(), rest: Vec::new(), has_begun: false, cursor: cursor.clone() }
    }

    pub fn read(&mut self, bytes: &[u8]) {
        let (now, since) = (self.seen.clock.elapsed().as_micros() as u64, self.seen.since.as_micros() as u64);
        if let Some(at) = memchr::memmem::rfind(bytes, ID)
            && let line = &bytes[at + ID.len()..]
            && let Some(end) = memchr::memchr(b'\n', line)
        {
            *self.cursor.lock().unwrap() = Some(String::from_utf8_lossy(&line[..end]).into_owned());
        }
        let joined;
        let bytes = if self.rest.is_empty() {
            bytes
        } else {
            joined = [&self.rest, bytes].concat();
            &joined
        };
        self.rest.clear();
        let (mut at, mut found) = (0, Vec::new());
        while let Some(next) = memchr::memchr(STAMP.0, &bytes[at..]) {
            let digits = at + next + 1;
            let Some(stamp) = bytes.get(digits..digits + STAMP.1) else {
                self.rest.extend_from_slice(&bytes[at + next..]);
                break;
            };
            let written = stamp.iter().fold(0, |sum: u64, digit| sum * 10 + u64::from(digit - b'0'));
            if written >= since {
                found.push(now.saturating_sub(written) as u32);
            }
            at = digits + STAMP.1;
        }
        if found.is_empty() {
            return;
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            self.seen.firsts.lock().unwrap().push((now - since) as u32);
            self.seen.begun.fetch_add(1, Ordering::Relaxed);
        }
        self.seen.count.fetch_add(found.len(), Ordering::Relaxed);
        if self.seen.is_measuring.load(Ordering::Relaxed) {
            self.seen.delays.lock().unwrap().append(&mut found);
        }
    }
}

/// Clients that are connected. They leave when dropped.
pub struct Clients {
    runtime: Runtime,
    /// The chats of ours, each with the token that opened it, and how far it was seen.
    chats: Vec<(Arc<str>, String, Cursor)>,
}

impl Clients {
    /// Opens so many chats, asks each the same, and watches them all.
    pub fn open(process: &Process, seen: &Arc<Seen>, chats: usize, prompt: &str) -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        if chats > 1 {
            runtime.on_thread_park(|| std::thread::sleep(TICK)); // Not woken for every delta.
        }
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let (middle, door) = (process.middle, Door::of(process));
        let address = door.address;
        let (token, prompt) = (Arc::<str>::from(&*process.token), Arc::<str>::from(prompt));
        let chats = runtime.block_on(async {
            let mut tokens = vec![token.clone()];
            while middle == Middle::Everturn && tokens.len() * STREAMS_MAX < chats {
                let body = format!("{{\"name\":\"bench {}\",\"scopes\":[\"read\",\"chat\"]}}", tokens.len());
                tokens.push(field(&ask(address, &token, "POST", "/v1/tokens", &body).await, "token").into());
            }
            let (mut opened, mut begun) = (Vec::new(), tokio::task::JoinSet::new());
            for number in 0..chats {
                if begun.len() >= AT_ONCE {
                    opened.push(begun.join_next().await.unwrap().unwrap());
                }
                let (token, prompt) = (tokens[number / STREAMS_MAX % tokens.len()].clone(), prompt.clone());
                let door = door.clone();
                let cursor = Cursor::default();
                let stamps = Stamps::new(seen, &cursor);
                begun.spawn(async move {
                    match middle {
                        Middle::Everturn => {
                            let chat = chat(&door, &token, &prompt, stamps).await;
                            (token, chat, cursor)
                        }
                        Middle::Passing | Middle::Parsing => {
                            let token = Arc::from((number / STREAMS_MAX).to_string());
                            door.watch(&token, ("/v1/messages", Some(question(&prompt))), stamps, None);
                            (token, String::new(), cursor)
                        }
                    }
                });
            }
            opened.extend(begun.join_all().await);
            opened
        });
        Self { runtime, chats }
    }

    /// Watches all chats again, from where each was seen last.
    pub fn come_back(&self, process: &Process, seen: &Arc<Seen>) {
        let _inside = self.runtime.enter();
        for (token, chat, cursor) in &self.chats {
            let stamps = Stamps::new(seen, cursor);
            let cursor = cursor.lock().unwrap().clone().expect("it had a delta, and so a cursor");
            Door::of(process).watch(token, (&format!("/v1/chats/{chat}/stream?after={cursor}"), None), stamps, None);
        }
    }
}

/// How the process in the middle is reached.
#[derive(Clone)]
struct Door {
    address: SocketAddr,
    wire: Wire,
    connections: Arc<Connections>,
}

impl Door {
    fn of(process: &Process) -> Self {
        Self { address: process.address, wire: process.wire, connections: Arc::default() }
    }

    /// Asks, and reads what comes, in the background.
    fn watch(
        &self,
        token: &Arc<str>,
        (path, body): (&str, Option<String>),
        stamps: Stamps,
        opened: Option<oneshot::Sender<()>>,
    ) {
        let (address, token, path) = (self.address, token.clone(), path.to_owned());
        match self.wire {
            Wire::Http1 => {
                let (method, body) = (if body.is_some() { "POST" } else { "GET" }, body.unwrap_or_default());
                let request = head(address, &token, method, &path, &body) + &body;
                tokio::spawn(watch(address, request, stamps, opened));
            }
            Wire::Http2 => {
                let connections = self.connections.clone();
                tokio::spawn(async move { connections.watch(address, &token, (&path, body), stamps, opened).await });
            }
        }
    }
}

/// Begins a chat, watches it, and says something.
async fn chat(door: &Door, token: &Arc<str>, prompt: &str, stamps: Stamps) -> String {
    let chat = field(&ask(door.address, token, "POST", "/v1/chats", "{}").await, "id");
    let (opened, is_open) = oneshot::channel();
    door.watch(token, (&format!("/v1/chats/{chat}/stream"), None), stamps, Some(opened));
    is_open.await.unwrap();
    let (path, said) = (format!("/v1/chats/{chat}/messages"), format!("{{\"text\":\"{prompt}\"}}"));
    ask(door.address, token, "POST", &path, &said).await;
    chat
}

/// What the model itself is asked.
fn question(prompt: &str) -> String {
    format!("{{\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"{prompt}\"}}]}}")
}

async fn watch(address: SocketAddr, request: String, mut stamps: Stamps, mut opened: Option<oneshot::Sender<()>>) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(len) = stream.read(&mut bytes).await
        && len > 0
    {
        if let Some(opened) = opened.take() {
            assert!(bytes.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&bytes[..len]));
            opened.send(()).unwrap();
        }
        stamps.read(&bytes[..len]);
    }
}

fn head(address: SocketAddr, token: &str, method: &str, path: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    )
}

/// One request, and the whole answer.
async fn ask(address: SocketAddr, token: &str, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = head(address, token, method, path, body) + body;
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 2"), "{method} {path}: {answer}");
    answer
}

/// A string in an answer.
fn field(answer: &str, name: &str) -> String {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    body[name].as_str().unwrap().to_owned()
}
