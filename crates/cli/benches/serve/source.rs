//! The model: answers in Anthropic's wire format, with the time of its writing in each delta.
//!
//! It must cost next to nothing, since it shares the machine with what is measured: one thread writes to all streams,
//! a few bytes of a prepared event each time. Answers begin with one delta and go on together, once all have begun.
//! It speaks HTTP/1.1 as it comes, and HTTP/2 over TLS as providers do.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::SendStream;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::process::Wire;
use crate::shared;

/// How long the model and the clients rest when nothing is to be done: they are many machines, each with its own cores, and
/// here they share two with what is measured. Delays have up to two of these in them, with any server in the middle.
pub const TICK: Duration = Duration::from_millis(1);
/// A prompt that asks for so many deltas as fast as possible begins like this.
pub const FAST: &str = "as fast as possible: ";
/// What a stamp begins with, and how many digits follow: microseconds since the bench began.
pub const STAMP: (u8, usize) = (b'@', 13);

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: req_bench\r\n\
    connection: close\r\ntransfer-encoding: chunked\r\n\r\n";
pub const BEGIN: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_bench\",\
    \"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-sonnet-4-5\",\"content\":[],\"stop_reason\":null,\
    \"stop_sequence\":null,\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n\
    event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\
    \"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n";
const DELTA: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\
    \"delta\":{\"type\":\"text_delta\",\"text\":\"@0000000000000 \"}}\n\n";
const END: &str = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
    event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\
    \"stop_sequence\":null},\"usage\":{\"output_tokens\":100}}\n\n\
    event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

/// An answer that goes on.
pub enum Answer {
    Alone(TcpStream),
    /// It shares a connection with others.
    Shared(SendStream<Bytes>),
}

/// A model that answers.
pub struct Source {
    address: SocketAddr,
    secure: SocketAddr,
    /// File with the certificate to trust at `secure`.
    authority: PathBuf,
    clock: Instant,
    /// Deltas a second and chat; none while answers wait.
    pace: Arc<AtomicU32>,
}

impl Source {
    /// Starts it on ports of its own. What it takes to trust it goes to `dir`.
    pub fn start(dir: &Path) -> Self {
        let (listener, clock, pace) = (listen(), Instant::now(), Arc::<AtomicU32>::default());
        let authority = dir.join("authority.pem");
        let secure = shared::serve(listen(), &authority, (clock, pace.clone()));
        let source = Self { address: listener.local_addr().unwrap(), secure, authority, clock, pace: pace.clone() };
        let (sender, streams) = unbounded_channel();
        std::thread::spawn(move || runtime().block_on(write_paced(streams, clock, pace)));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sender = sender.clone();
                std::thread::spawn(move || answer(stream, clock, &sender));
            }
        });
        source
    }

    /// Where it is.
    pub fn base(&self, wire: Wire) -> String {
        match wire {
            Wire::Http1 => format!("http://{}", self.address),
            Wire::Http2 => format!("https://localhost:{}", self.secure.port()),
        }
    }

    /// File with the certificate to trust there.
    pub fn authority(&self) -> &Path {
        &self.authority
    }

    /// When the bench began.
    pub const fn clock(&self) -> Instant {
        self.clock
    }

    pub fn now(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Goes on with every answer that has begun, at so many deltas a second each.
    pub fn go_on(&self, pace: u32) {
        self.pace.store(pace, Ordering::Relaxed);
    }

    /// Ends every answer that is under way, in good order.
    pub fn end_answers(&self) {
        self.pace.store(0, Ordering::Relaxed);
    }
}

pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Listens with a long backlog: the standard library's is 128, and a connection beyond it is tried again after a
/// second.
fn listen() -> TcpListener {
    let listener = runtime().block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        socket.listen(4_096).unwrap().into_std().unwrap()
    });
    listener.set_nonblocking(false).unwrap();
    listener
}

/// Reads a request and begins to answer it.
fn answer(mut stream: TcpStream, clock: Instant, paced: &UnboundedSender<Answer>) {
    let Some(prompt) = request(&mut stream) else { return };
    stream.set_nodelay(true).unwrap();
    let begun = stream.write_all(HEAD.as_bytes()).and_then(|()| stream.write_all(&framed(BEGIN)));
    let fast = prompt.split_once(FAST).map(|(_, count)| count.chars().take_while(char::is_ascii_digit));
    match fast.map(|digits| digits.collect::<String>().parse::<usize>().unwrap()) {
        _ if begun.is_err() => {}
        Some(count) => pour(&mut stream, clock, count),
        None => drop(paced.send(Answer::Alone(stream))),
    }
}

/// The body of a request, if one comes.
fn request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let len = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= len.map_or(0, |len| len.trim().parse().unwrap()) {
                return Some(body.to_owned());
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(len) => bytes.extend_from_slice(&piece[..len]),
        }
    }
}

/// Writes so many deltas as fast as they are taken.
fn pour(stream: &mut TcpStream, clock: Instant, count: usize) {
    let mut event = framed(DELTA);
    let mut bytes = Vec::new();
    for number in 1..=count {
        stamp(&mut event, clock);
        bytes.extend_from_slice(&event);
        if bytes.len() >= 16 * 1024 || number == count {
            if stream.write_all(&bytes).is_err() {
                return;
            }
            bytes.clear();
        }
    }
    end(stream);
}

/// Writes a delta to each stream when it is due. A task that carries them on the same thread runs between two ticks.
pub async fn write_paced(mut streams: UnboundedReceiver<Answer>, clock: Instant, pace: Arc<AtomicU32>) {
    let (mut begun, mut event) = (Vec::<Answer>::new(), framed(DELTA));
    loop {
        if let Ok(Some(mut answer)) = tokio::time::timeout(TICK * 20, streams.recv()).await {
            stamp(&mut event, clock);
            if answer.say(&event).is_some() {
                begun.push(answer);
            }
        }
        let Some(period) = Duration::from_secs(1).checked_div(pace.load(Ordering::Relaxed)) else { continue };
        // Not all at the same moment: people begin when they like.
        let offset = |number: usize| Duration::from_micros(number as u64 * 7_919 % period.as_micros() as u64);
        let now = clock.elapsed();
        let mut due: BinaryHeap<_> = (0..begun.len()).map(|number| Reverse((now + offset(number), number))).collect();
        while pace.load(Ordering::Relaxed) > 0
            && let Some(Reverse((at, number))) = due.pop()
        {
            if let Some(early) = at.checked_sub(clock.elapsed()) {
                tokio::task::yield_now().await;
                std::thread::sleep(early.max(TICK));
            }
            stamp(&mut event, clock);
            if begun[number].say(&event).is_some() {
                due.push(Reverse((at + period, number)));
            }
        }
        begun.drain(..).for_each(Answer::end);
    }
}

impl Answer {
    /// Writes a piece as HTTP/1.1 has it, or what is in it; nothing if the client is gone.
    fn say(&mut self, piece: &[u8]) -> Option<()> {
        match self {
            Self::Alone(stream) => stream.write_all(piece).ok(),
            Self::Shared(stream) => stream.send_data(Bytes::copy_from_slice(unframed(piece)), false).ok(),
        }
    }

    fn end(self) {
        match self {
            Self::Alone(mut stream) => end(&mut stream),
            Self::Shared(mut stream) => drop(stream.send_data(Bytes::from_static(END.as_bytes()), true)),
        }
    }
}

fn end(stream: &mut TcpStream) {
    let mut bytes = framed(END);
    bytes.extend_from_slice(b"0\r\n\r\n");
    let _ = stream.write_all(&bytes); // The client may be gone.
}

/// A piece of a body of unknown length.
fn framed(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

fn unframed(piece: &[u8]) -> &[u8] {
    let begin = piece.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    &piece[begin..piece.len() - 2]
}

/// Puts the time into an event.
fn stamp(event: &mut [u8], clock: Instant) {
    let at = event.iter().rposition(|byte| *byte == STAMP.0).unwrap();
    let mut rest = clock.elapsed().as_micros() as u64;
    for digit in event[at + 1..=at + STAMP.1].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}
