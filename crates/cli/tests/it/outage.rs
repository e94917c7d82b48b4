//! A database that is gone for longer than a silent server is believed, while a crowd talks at two of them.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use everturn_props::{PostgresServer, ShutdownMode};
use everturn_server::wire::{Body, Call, Part, Verdict, View};
use everturn_understudy::http::{KEY, UnderstudyOptions, UnderstudyServer as Understudies};
use everturn_understudy::{Manner, Understudy};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::crowd::{Guest, Town, has_begun, words};
use crate::daemon::{Daemon, Scratch, everturn};
use crate::reader::{reply, rests};

/// Chats that count.
const COUNTING: usize = 40;
const TOKENS: usize = 600;
/// Chats whose model calls tools in the middle of its words.
const WORKING: usize = 10;
/// How many words are said after that.
const AFTER: usize = 20;
/// Which ones: the first must not run twice.
const TOOLS: [&str; 3] = ["note", "look", "tally"];
/// What a server logs when it may not believe in its leases any more.
const LOST: &str = "lost the database lease";

/// How a database is gone.
#[derive(Clone, Copy)]
enum Gone {
    /// As if it had crashed.
    Crashed,
    /// It stands still, and keeps everybody waiting.
    Frozen,
}

/// A database of its own, a model over HTTP, and where tools leave their lines.
struct House {
    postgres: Arc<PostgresServer>,
    model: Understudies,
    dirs: Scratch,
}

impl House {
    async fn build() -> Self {
        let dirs = Scratch::new();
        std::fs::create_dir_all(dirs.path()).unwrap();
        std::fs::write(dirs.path().join("agents.toml"), "[agents.works]\nmodel = 'anthropic/drill'").unwrap();
        let model =
            Understudies::start(Understudy::company(Manner::default()), UnderstudyOptions::default()).await.unwrap();
        Self { postgres: Arc::new(PostgresServer::start().unwrap()), model, dirs }
    }

    fn side_file(&self) -> PathBuf {
        self.dirs.path().join("effects.jsonl")
    }

    async fn serve(&self, name: &str) -> Daemon {
        let data = self.dirs.path().join(name);
        let mut command = everturn(&["serve", "--listen", "127.0.0.1:0", "--model", "understudy/numbered"]);
        command.arg("--data").arg(&data).arg("--config").arg(self.dirs.path().join("agents.toml"));
        command.arg("--demo-tools").arg(self.side_file()).env("DATABASE_URL", self.postgres.url("postgres"));
        command.env("ANTHROPIC_BASE_URL", self.model.url()).env("ANTHROPIC_API_KEY", KEY);
        command.stdin(Stdio::piped()); // It ends when the other end of the pipe is closed.
        Daemon::spawn(&data, command).await
    }

    /// What tools did so far, a line each. One that is being written does not count yet.
    fn effects(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.side_file()).unwrap_or_default();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    async fn on_postgres(&self, act: impl FnOnce(&PostgresServer) -> std::io::Result<()> + Send + 'static) {
        let postgres = self.postgres.clone();
        tokio::task::spawn_blocking(move || act(&postgres)).await.unwrap().unwrap();
    }
}

/// What a chat is told whose model works, and how many words it says.
fn order(number: usize) -> (String, usize) {
    let before = 20 * (number + 1); // So that tools are called at different moments.
    let last = before + AFTER;
    let calls = TOOLS.map(|tool| format!("{tool}:{number}")).join(", ");
    (format!("say t1..t{before}, call {calls}, then say t{}..t{last}.", before + 1), last)
}

/// All parts of all answers.
fn replied(view: &View) -> impl Iterator<Item = &Part> {
    view.messages.iter().flat_map(|message| match &message.body {
        Body::Reply(reply) => &reply.parts[..],
        _ => &[],
    })
}

/// All that the model said, answer after answer.
fn said(view: &View) -> String {
    let texts =
        replied(view).filter_map(|part| if let Part::Text(text) = part { Some(text.text.trim()) } else { None });
    texts.collect::<Vec<_>>().join(" ")
}

/// Each call has a result that says what the side file says: what must not run twice did not, and the rest is
/// done.
fn is_accounted_for(view: &View, number: usize, effects: &[Value]) {
    let result = |call: &Call| {
        let results = view.messages.iter().filter_map(|message| match &message.body {
            Body::Result(result) if result.call == call.id => Some(result.verdict),
            _ => None,
        });
        results.collect::<Vec<_>>()
    };
    let calls: Vec<&Call> =
        replied(view).filter_map(|part| if let Part::Call(call) = part { Some(call) } else { None }).collect();
    assert_eq!(calls.iter().map(|call| &*call.tool).collect::<Vec<_>>(), TOOLS);
    for call in calls {
        let is_of = |line: &&Value| line["tool"] == *call.tool && line["number"] == number;
        let count = |what: &str| effects.iter().filter(is_of).filter(|line| line["what"] == what).count();
        let (starts, done, verdicts, is_once) = (count("start"), count("effect"), result(call), call.tool == TOOLS[0]);
        let told = format!("{} {number}: {verdicts:?}, {starts} starts, {done} effects", call.tool);
        match verdicts[..] {
            [Verdict::Done] => assert!(done >= 1 && (!is_once || starts == 1), "{told}"),
            [Verdict::Unknown] => assert!(is_once && starts <= 1, "{told}"),
            _ => panic!("{told}"),
        }
    }
}

/// Sends a message and watches until it is answered; signals `so_far` once `is_so_far` holds.
async fn talk(mut guest: Guest, text: String, is_so_far: fn(&View) -> bool, so_far: mpsc::Sender<()>) -> (Guest, View) {
    guest.say(&text, "the-only-one").await;
    guest.until(is_so_far).await;
    so_far.send(()).await.unwrap();
    let view = guest.until(rests).await;
    (guest, view)
}

/// Whether tools are called, and not more.
fn has_called(view: &View) -> bool {
    view.messages.len() >= 2
}

pub async fn is_ready(daemon: &Daemon) -> bool {
    let status = daemon.ask(Method::GET, "/readyz").send().await.unwrap().status();
    assert!([StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE].contains(&status), "{status}");
    status == StatusCode::OK
}

/// Lets the database be gone until both servers have let go of everything, and come back. Requests
/// meanwhile are answered.
async fn be_gone(gone: Gone, house: &House, daemons: [&Daemon; 2], mut late: Guest) {
    match gone {
        Gone::Crashed => house.on_postgres(|postgres| postgres.stop(ShutdownMode::Immediate)).await,
        Gone::Frozen => house.on_postgres(PostgresServer::freeze).await,
    }
    let late = tokio::spawn(async move {
        late.say("count to 20", "the-only-one").await;
        late.until(rests).await
    });
    for daemon in daemons {
        daemon.until_logged(LOST).await;
        assert!(!is_ready(daemon).await);
    }
    match gone {
        Gone::Crashed => house.on_postgres(PostgresServer::start_again).await,
        Gone::Frozen => house.on_postgres(PostgresServer::thaw).await,
    }
    for daemon in daemons {
        while !is_ready(daemon).await {}
    }
    let view = late.await.unwrap();
    assert_eq!((reply(&view), view.messages.len()), (words(20), 2));
}

/// A turn that runs when the database goes is finished when it is back, every word once. Tools that must not run
/// twice do not.
async fn is_outlived(gone: Gone) {
    let house = House::build().await;
    let (mut one, mut other) = (house.serve("one").await, house.serve("other").await);
    let town = Town::of(&one, COUNTING + WORKING + 1).await;
    town.point_to(&[&one, &other]);
    let late = town.guest(&one.chat().await, COUNTING + WORKING);
    let (so_far, mut are_so_far) = mpsc::channel(COUNTING + WORKING);
    let (mut counting, mut working) = (JoinSet::new(), JoinSet::new());
    for number in 0..COUNTING {
        let guest = town.guest(&one.chat().await, number);
        counting.spawn(talk(guest, format!("count to {TOKENS}"), has_begun, so_far.clone()));
    }
    for _ in 0..COUNTING {
        are_so_far.recv().await.expect("no client gave up");
    }
    for number in 0..WORKING {
        let guest = town.guest(&other.chat_with("works").await, number);
        let (so_far, (told, len)) = (so_far.clone(), order(number));
        working.spawn(async move { (number, len, talk(guest, told, has_called, so_far).await) });
    }
    are_so_far.recv().await.expect("no client gave up");
    assert!(counting.try_join_next().is_none(), "they are in the middle");
    be_gone(gone, &house, [&one, &other], late).await;
    for (guest, view) in counting.join_all().await {
        assert_eq!(reply(&view), words(TOKENS));
        is_shown(&view, &guest, [&one, &other]).await;
    }
    for (number, len, (guest, view)) in working.join_all().await {
        assert_eq!(said(&view), words(len));
        is_accounted_for(&view, number, &house.effects());
        is_shown(&view, &guest, [&one, &other]).await;
    }
    for daemon in [&mut one, &mut other] {
        assert!(daemon.child.try_wait().unwrap().is_none(), "it lives");
    }
}

/// What a client was shown is what both servers have stored.
async fn is_shown(view: &View, guest: &Guest, daemons: [&Daemon; 2]) {
    for daemon in daemons {
        assert_eq!(daemon.get(&format!("{}/messages", guest.chat)).await["messages"], json!(view.messages));
    }
}

/// The database crashes, and comes back after every lease has expired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_outlives_a_database_that_crashed() {
    is_outlived(Gone::Crashed).await;
}

/// I6, I7, I9, I13, I16, I21: it stands still, and then does what it was asked before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_outlives_a_database_that_stood_still() {
    is_outlived(Gone::Frozen).await;
}

/// X2, I24: told to end while the database stands still, and told again, a server is gone soon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_stands_still_keeps_no_server_from_ending() {
    let house = House::build().await;
    let daemon = house.serve("one").await;
    let chat = daemon.chat().await;
    let mut reader = daemon.watch(&chat).await;
    daemon.post(&format!("{chat}/messages"), &json!({"text": "count to 100000"})).await;
    reader.until(has_begun).await;
    house.on_postgres(PostgresServer::freeze).await;
    let asks = daemon.ask(Method::POST, &format!("{chat}/interrupt")).json(&json!({})).send();
    let asks = tokio::spawn(asks); // Not answered: the command is being stored.
    daemon.signal("TERM").await;
    daemon.until_logged("again to hand over now").await;
    let ended = tokio::time::timeout(Duration::from_secs(15), daemon.end()).await;
    house.on_postgres(PostgresServer::thaw).await;
    asks.abort();
    ended.expect("it has ended");
}
