//! Many chats and many clients, on servers that die under them.

use std::sync::Arc;
use std::time::Duration;

use everturn_server::wire::{Follower, View};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::{Barrier, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::daemon::{Daemon, Scratch};
use crate::memory::peak;
use crate::reader::{Came, Reader, reply, rests};

/// How many streams a token may have open.
const STREAMS_MAX: usize = 100;
/// When a guest without a server tries again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Where servers are now, and the tokens that open them.
pub struct Town {
    servers: watch::Sender<Vec<String>>,
    tokens: Vec<String>,
    client: Client,
}

impl Town {
    /// Room for so many streams at a server.
    pub async fn of(daemon: &Daemon, streams: usize) -> Self {
        let mut tokens = Vec::new();
        for number in 0..streams.div_ceil(STREAMS_MAX) {
            let asked = json!({"name": format!("crowd {number}"), "scopes": ["read", "chat"]});
            tokens.push(daemon.post("/v1/tokens", &asked).await["token"].as_str().unwrap().to_owned());
        }
        Self { servers: watch::Sender::new(vec![daemon.base.clone()]), tokens, client: Client::new() }
    }

    /// Tells everybody where servers are.
    pub fn point_to(&self, daemons: &[&Daemon]) {
        self.servers.send_replace(daemons.iter().map(|daemon| daemon.base.clone()).collect());
    }

    /// A guest of a chat; `number` tells guests apart.
    pub fn guest(&self, chat: &str, number: usize) -> Guest {
        Guest {
            chat: chat.into(),
            follower: Follower::default(),
            grown: Vec::new(),
            token: self.tokens[number % self.tokens.len()].clone(),
            client: self.client.clone(),
            servers: self.servers.subscribe(),
            asked: number,
        }
    }
}

/// A guest that watches a chat and sends messages, through every failure of servers.
pub struct Guest {
    pub chat: String,
    pub follower: Follower,
    /// When the answer first went on, for each time the stream was opened.
    grown: Vec<Instant>,
    token: String,
    client: Client,
    servers: watch::Receiver<Vec<String>>,
    asked: usize,
}

impl Guest {
    /// Says something, once.
    pub async fn say(&mut self, text: &str, key: &str) {
        loop {
            let request = self.request(Method::POST, "/messages").await.header("idempotency-key", key);
            match request.json(&json!({"text": text})).send().await {
                Ok(response) if response.status() == StatusCode::ACCEPTED => return,
                Ok(response) => assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE),
                Err(_) => {}
            }
            self.look_again().await;
        }
    }

    /// Watches until the view is so.
    pub async fn until(&mut self, is_so: impl Fn(&View) -> bool) -> View {
        while !is_so(self.follower.view()) {
            let request = self.request(Method::GET, "/stream").await;
            match Reader::try_resume(request, std::mem::take(&mut self.follower)).await {
                Ok(reader) => self.read(reader, &is_so).await,
                Err(follower) => {
                    self.follower = follower;
                    self.look_again().await;
                }
            }
        }
        self.follower.view().clone()
    }

    async fn read(&mut self, mut reader: Reader, is_so: impl Fn(&View) -> bool) {
        let before = length(reader.follower.view());
        let mut has_grown = false;
        while !is_so(reader.follower.view()) && !matches!(reader.next().await, Came::End | Came::Cut) {
            if !has_grown && length(reader.follower.view()) > before {
                has_grown = true;
                self.grown.push(Instant::now());
            }
        }
        self.follower = reader.follower;
    }

    async fn request(&mut self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let servers = self.servers.wait_for(|servers| !servers.is_empty()).await.unwrap().clone();
        self.asked += 1;
        let base = &servers[self.asked % servers.len()];
        self.client.request(method, format!("{base}{}{path}", self.chat)).bearer_auth(&self.token)
    }

    /// Waits for a server to change its address, a moment at most: the failure may have been chance.
    async fn look_again(&mut self) {
        let _ = timeout(LOOK_AGAIN, self.servers.changed()).await;
    }
}

/// How far a chat has come: its messages, and the deltas of its draft.
fn length(view: &View) -> (usize, u64) {
    (view.messages.len(), view.draft.as_ref().map_or(0, |draft| draft.n))
}

/// `t1 t2 … tn`
pub fn words(count: usize) -> String {
    (1..=count).map(|n| format!("t{n}")).collect::<Vec<_>>().join(" ")
}

pub fn has_begun(view: &View) -> bool {
    view.draft.as_ref().is_some_and(|draft| draft.n > 10)
}

fn shown(view: &View) -> Value {
    serde_json::to_value(&view.messages).unwrap()
}

/// I3, I7, I13: SIGKILL with 200 chats streaming. After the start all go on, clients come back with their
/// cursors, and every token is seen once by every client and is once in the transcript. How long the next
/// token took is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_chats_go_on_after_a_kill() {
    const CHATS: usize = 200;
    const TOKENS: usize = 250;
    let scratch = Scratch::new();
    let mut daemon = Daemon::start(scratch.path(), "understudy/numbered").await;
    let town = Town::of(&daemon, CHATS).await;
    let (begun, mut have_begun) = mpsc::channel(CHATS);
    let (mut guests, together) = (JoinSet::new(), Arc::new(Barrier::new(CHATS)));
    for number in 0..CHATS {
        let mut guest = town.guest(&daemon.chat().await, number);
        let (begun, together) = (begun.clone(), together.clone());
        guests.spawn(async move {
            guest.until(|view| view.status.is_some()).await;
            together.wait().await;
            guest.say(&format!("count to {TOKENS}"), "the-only-one").await;
            guest.until(has_begun).await;
            begun.send(()).await.unwrap();
            (guest.until(rests).await, guest)
        });
    }
    drop(begun);
    for _ in 0..CHATS {
        have_begun.recv().await.expect("no client gave up");
    }
    daemon.child.kill().await.unwrap();
    town.point_to(&[]);
    let daemon = Daemon::start(scratch.path(), "understudy/numbered").await;
    let ready = Instant::now();
    town.point_to(&[&daemon]);
    let mut waits = Vec::new();
    for (view, guest) in guests.join_all().await {
        assert_eq!(reply(&view), words(TOKENS));
        assert_eq!(daemon.get(&format!("{}/messages", guest.chat)).await["messages"], shown(&view));
        waits.extend(guest.grown.iter().find(|at| **at > ready).map(|at| *at - ready));
    }
    waits.sort();
    assert!(waits.len() > CHATS / 2, "only {} chats were killed in the middle", waits.len());
    let (half, most) = (waits[waits.len() / 2], waits[waits.len() * 99 / 100]);
    println!("from ready to the next token, {} chats: p50 {half:?}, p99 {most:?}", waits.len());
}

/// I13: five hundred clients, each cut at a random byte again and again, have all seen what the server says
/// there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_clients_that_are_cut_see_what_the_server_sees() {
    const CLIENTS: usize = 500;
    const TOKENS: usize = 100;
    let scratch = Scratch::new();
    let daemon = Daemon::start(scratch.path(), "understudy/numbered").await;
    let town = Town::of(&daemon, CLIENTS).await;
    let mut chats = Vec::new();
    for _ in 0..5 {
        chats.push(daemon.chat().await);
    }
    let mut guests = JoinSet::new();
    for number in 0..CLIENTS {
        let mut guest = town.guest(&chats[number % chats.len()], number);
        guests.spawn(async move {
            let (mut cuts, mut chance) = (0_usize, number as u64);
            while !rests(guest.follower.view()) {
                chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let request = guest.request(Method::GET, "/stream").await;
                match Reader::try_resume(request, std::mem::take(&mut guest.follower)).await {
                    Ok(reader) => guest.follower = reader.cut_after((chance >> 33) as usize % 6_000).await,
                    Err(follower) => guest.follower = follower, // One stream too many for this token: a moment ago's.
                }
                cuts += 1;
            }
            (guest, cuts)
        });
    }
    for chat in &chats {
        town.guest(chat, 0).say(&format!("count to {TOKENS}"), "the-only-one").await;
    }
    let mut cuts_all = 0;
    let guests = guests.join_all().await;
    for chat in &chats {
        let mut fresh = town.guest(chat, 0);
        let view = fresh.until(rests).await;
        assert_eq!(reply(&view), words(TOKENS));
        for (guest, cuts) in guests.iter().filter(|(guest, _)| guest.chat == *chat) {
            assert_eq!(*guest.follower.view(), view);
            cuts_all += cuts;
        }
    }
    assert!(cuts_all > 2 * CLIENTS, "only {cuts_all} cuts");
}

/// C4, I14: a thousand clients of one chat, and a thousand of a hundred chats, all see every word, and cost
/// little memory.
async fn a_thousand_clients_of(chats: usize) {
    const CLIENTS: usize = 1_000;
    const TOKENS: usize = 40;
    let scratch = Scratch::new();
    let daemon = Daemon::start(scratch.path(), "understudy/numbered").await;
    let town = Town::of(&daemon, CLIENTS).await;
    let mut paths = Vec::new();
    for _ in 0..chats {
        paths.push(daemon.chat().await);
    }
    let (before, watching) = (peak(&daemon), Arc::new(Barrier::new(CLIENTS + 1)));
    let mut guests = JoinSet::new();
    for number in 0..CLIENTS {
        let (mut guest, watching) = (town.guest(&paths[number % chats], number), watching.clone());
        guests.spawn(async move {
            let request = guest.request(Method::GET, "/stream").await;
            let mut reader = Reader::open(request).await;
            reader.until(|view| view.status.is_some()).await;
            watching.wait().await;
            reader.until(|view| rests(view) && !view.messages.is_empty()).await
        });
    }
    watching.wait().await;
    for path in &paths {
        daemon.post(&format!("{path}/messages"), &json!({"text": format!("count to {TOKENS}")})).await;
    }
    for view in guests.join_all().await {
        assert_eq!(reply(&view), words(TOKENS));
    }
    let each = peak(&daemon).saturating_sub(before) / CLIENTS;
    println!("a client costs {} KiB", each >> 10);
    assert!(each < 128 << 10, "a client costs {each} bytes");
    daemon.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_clients_of_one_chat_see_every_word() {
    a_thousand_clients_of(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_clients_of_a_hundred_chats_see_every_word() {
    a_thousand_clients_of(100).await;
}

/// C5, I13: a thousand clients of ten chats lose their server in the middle of an answer and come back all at
/// once, with their cursors, to the next one. Each sees every word once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_clients_come_back_at_once() {
    const CLIENTS: usize = 1_000;
    const CHATS: usize = 10;
    const TOKENS: usize = 250;
    let scratch = Scratch::new();
    let mut daemon = Daemon::start(scratch.path(), "understudy/numbered").await;
    let town = Town::of(&daemon, CLIENTS).await;
    let mut paths = Vec::new();
    for _ in 0..CHATS {
        paths.push(daemon.chat().await);
    }
    let (watching, begun) = (Arc::new(Barrier::new(CLIENTS + 1)), Arc::new(Barrier::new(CLIENTS + 1)));
    let mut guests = JoinSet::new();
    for number in 0..CLIENTS {
        let (mut guest, watching, begun) =
            (town.guest(&paths[number % CHATS], number), watching.clone(), begun.clone());
        guests.spawn(async move {
            guest.until(|view| view.status.is_some()).await;
            watching.wait().await;
            guest.until(has_begun).await;
            begun.wait().await;
            let was_in_the_middle = guest.follower.view().draft.is_some();
            (guest.until(rests).await, was_in_the_middle)
        });
    }
    watching.wait().await;
    for path in &paths {
        town.guest(path, 0).say(&format!("count to {TOKENS}"), "the-only-one").await;
    }
    begun.wait().await;
    daemon.child.kill().await.unwrap();
    town.point_to(&[]);
    let daemon = Daemon::start(scratch.path(), "understudy/numbered").await;
    town.point_to(&[&daemon]);
    let mut cut = 0;
    for (view, was_in_the_middle) in guests.join_all().await {
        assert_eq!(reply(&view), words(TOKENS));
        cut += usize::from(was_in_the_middle);
    }
    assert!(cut > CLIENTS / 2, "only {cut} clients were cut in the middle");
    daemon.end().await;
}
