//! Two servers that share a database, one of which dies, stands still, or is cut off.

use std::time::Duration;

use everturn_props::shared::VARIABLE;
use everturn_props::{Pooler, PostgresServer};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::crowd::{Town, has_begun, words};
use crate::daemon::{Daemon, Scratch};
use crate::line::{Line, Weather};
use crate::reader::{Reader, reply, rests};

/// How long a turn may stand still when its server is gone and the database cannot tell.
const TAKEOVER_MAX: Duration = Duration::from_secs(20);
/// How long another server may take when the database can tell, on a busy machine; on an idle one it is a second
/// and a half.
const NOTICED_MAX: Duration = Duration::from_secs(8);
const MODEL: &str = "understudy/numbered";

/// What happens to the server that drives the turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Killed,
    Stopped,
    CutOff,
}

/// A turn that one server drives and a client of the other watches goes on there, every token once, however
/// the first one fares. If that one comes back, it serves again.
async fn survives(fate: Fate) {
    const TOKENS: usize = 400;
    let (first, second) = (Scratch::new(), Scratch::new());
    let url = everturn_props::database().unwrap();
    let host = url.split_once('@').unwrap().1.split('/').next().unwrap();
    let line = Line::to(host.into()).await;
    let mut one = Daemon::start_on(first.path(), MODEL, &url.replace(host, &line.address)).await;
    let other = Daemon::start_on(second.path(), MODEL, &url).await;
    let chat = one.chat().await;
    let mut reader = Reader::open(other.ask(Method::GET, &format!("{chat}/stream"))).await;
    one.post(&format!("{chat}/messages"), &json!({"text": format!("count to {TOKENS}")})).await;
    reader.until(has_begun).await;
    match fate {
        Fate::Killed => one.child.kill().await.unwrap(),
        Fate::Stopped => one.signal("STOP").await,
        Fate::CutOff => line.turn(Weather::Cut),
    }
    let (mut seen, mut gap_max, mut last) = (0, Duration::ZERO, Instant::now());
    while !rests(reader.follower.view()) {
        reader.next().await;
        let now = reader.follower.view().draft.as_ref().map_or(seen, |draft| draft.n);
        if now != seen {
            (gap_max, seen, last) = (gap_max.max(last.elapsed()), now, Instant::now());
        }
    }
    assert_eq!(reply(reader.follower.view()), words(TOKENS));
    println!("the turn stood still for {gap_max:?}");
    let time_max = if fate == Fate::Killed { NOTICED_MAX } else { TAKEOVER_MAX };
    assert!(gap_max < time_max, "the turn stood still for {gap_max:?}");
    match fate {
        Fate::Killed => return,
        Fate::Stopped => one.signal("CONT").await,
        Fate::CutOff => line.turn(Weather::Fair),
    }
    let town = Town::of(&other, 1).await;
    town.point_to(&[&one]);
    let mut guest = town.guest(&chat, 0);
    timeout(TAKEOVER_MAX, guest.say("count to 5", "back-again")).await.expect("it serves again");
    let view = reader.until(|view| rests(view) && reply(view) == words(5)).await;
    assert_eq!(view.messages.len(), 4, "{:?}", view.messages);
}

/// I7, I13: the server that drives is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_survives_a_server_that_is_killed() {
    survives(Fate::Killed).await;
}

/// I6, I7, I13: it stands still, and goes on when it has lost its chats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_survives_a_server_that_stands_still() {
    survives(Fate::Stopped).await;
}

/// I6, I7, I13: it cannot reach the database any more, and then can.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_survives_a_server_that_is_cut_off() {
    survives(Fate::CutOff).await;
}

/// A chat in the middle of an answer that takes long.
async fn talking(daemon: &Daemon) -> String {
    let chat = daemon.chat().await;
    let mut reader = daemon.watch(&chat).await;
    daemon.post(&format!("{chat}/messages"), &json!({"text": "count to 100000"})).await;
    reader.until(has_begun).await;
    chat
}

/// Sends a message to a chat without a driver, and interrupts it: neither is refused, and the interrupt is
/// answered when it is done.
async fn is_sent_to_and_stopped(daemon: &Daemon, chat: &str) {
    let sent = daemon.answer(Method::POST, &format!("{chat}/messages"), &json!({"text": "count to 5"})).await;
    assert_eq!(sent.0, StatusCode::ACCEPTED, "{}", sent.1);
    let stopped = daemon.answer(Method::POST, &format!("{chat}/interrupt"), &json!({})).await;
    assert_eq!(stopped.0, StatusCode::OK, "{}", stopped.1);
}

/// I7, I11: a server that is killed and started again knows that the one before it is dead. Turns go on at
/// once, and what is asked meanwhile is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_started_again_goes_on_at_once() {
    let (data, url) = (Scratch::new(), everturn_props::database().unwrap());
    let mut killed = Daemon::start_on(data.path(), MODEL, &url).await;
    let (goes_on, is_stopped) = (talking(&killed).await, talking(&killed).await);
    killed.child.kill().await.unwrap();
    let again = Daemon::start_on(data.path(), MODEL, &url).await;
    let ready = Instant::now();
    let mut reader = again.watch(&goes_on).await;
    let said = reader.until(|view| view.draft.is_some()).await.draft.map(|draft| draft.n);
    reader.until(|view| view.draft.as_ref().map(|draft| draft.n) > said).await;
    println!("the next word came {:?} after it was ready", ready.elapsed());
    assert!(ready.elapsed() < NOTICED_MAX, "the turn stood still for {:?}", ready.elapsed());
    is_sent_to_and_stopped(&again, &is_stopped).await;
}

/// I7, I11: a chat whose server was killed is stopped by another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chat_of_a_killed_server_is_stopped_by_another() {
    let (first, second) = (Scratch::new(), Scratch::new());
    let url = everturn_props::database().unwrap();
    let mut killed = Daemon::start_on(first.path(), MODEL, &url).await;
    let other = Daemon::start_on(second.path(), MODEL, &url).await;
    let chat = talking(&killed).await;
    killed.child.kill().await.unwrap();
    let asked = Instant::now();
    is_sent_to_and_stopped(&other, &chat).await;
    assert!(asked.elapsed() < NOTICED_MAX, "the chat stood still for {:?}", asked.elapsed());
}

/// I7, I11: behind a pooler `LISTEN` does not work, and the database cannot tell that a server is dead. Both are
/// logged once. The chats of a dead server wait for its lease, and so does a stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_pooler_a_stop_waits_for_the_lease() {
    if !Pooler::is_installed() {
        assert!(
            std::env::var_os(VARIABLE).is_none(),
            "pgbouncer is not installed, and the gate should have seen to it"
        );
        return;
    }
    let server = PostgresServer::start().unwrap();
    let pooler = Pooler::start(&server).unwrap();
    let (first, second, url) = (Scratch::new(), Scratch::new(), pooler.url("postgres"));
    let mut killed = Daemon::start_on(first.path(), MODEL, &url).await;
    let other = Daemon::start_on(second.path(), MODEL, &url).await;
    let chat = talking(&killed).await;
    killed.child.kill().await.unwrap();
    is_sent_to_and_stopped(&other, &chat).await;
    let mut again = Daemon::start_on(first.path(), MODEL, &url).await;
    let log = other.end().await;
    assert_eq!(log.matches("DATABASE_LISTEN_URL").count(), 1, "{log}");
    assert!(log.contains("up to 5 s late"), "{log}");
    let chat = talking(&again).await;
    again.child.kill().await.unwrap(); // Its successor needs no session to know.
    let again = Daemon::start_on(first.path(), MODEL, &url).await;
    let asked = Instant::now();
    is_sent_to_and_stopped(&again, &chat).await;
    assert!(asked.elapsed() < NOTICED_MAX, "the chat stood still for {:?}", asked.elapsed());
}

/// A chat that one server drives is interrupted and deleted by another, and its watchers are notified.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chat_is_deleted_by_the_server_that_does_not_drive_it() {
    let (first, second) = (Scratch::new(), Scratch::new());
    let url = everturn_props::database().unwrap();
    let one = Daemon::start_on(first.path(), MODEL, &url).await;
    let other = Daemon::start_on(second.path(), MODEL, &url).await;
    let chat = one.chat().await;
    let mut reader = Reader::open(one.ask(Method::GET, &format!("{chat}/stream"))).await;
    for _ in 0..3 {
        one.post(&format!("{chat}/messages"), &json!({"text": "count to 100000"})).await;
    }
    reader.until(has_begun).await;
    let delete = async || other.ask(Method::DELETE, &chat).send().await.unwrap().status();
    assert_eq!(delete().await, StatusCode::NO_CONTENT);
    assert_eq!(delete().await, StatusCode::NOT_FOUND);
    assert_eq!(one.ask(Method::GET, &chat).send().await.unwrap().status(), StatusCode::NOT_FOUND);
    reader.until_the_end().await;
    assert_eq!(reader.comments.last().unwrap(), "bye, the chat is gone");
}

/// I12, I24: both servers are replaced one after the other while turns run; no turn fails, and
/// no message or answer appears twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_fails_no_turn() {
    const CHATS: usize = 20;
    const TURNS: usize = 3;
    const TOKENS: usize = 120;
    let dirs: Vec<Scratch> = (0..4).map(|_| Scratch::new()).collect();
    let url = everturn_props::database().unwrap();
    let mut one = Daemon::start_on(dirs[0].path(), MODEL, &url).await;
    let mut two = Daemon::start_on(dirs[1].path(), MODEL, &url).await;
    let town = Town::of(&one, CHATS).await;
    town.point_to(&[&one, &two]);
    let (turns, mut turned) = watch::channel(0_usize);
    let mut guests = JoinSet::new();
    for number in 0..CHATS {
        let (mut guest, turns) = (town.guest(&one.chat().await, number), turns.clone());
        guests.spawn(async move {
            for turn in 0..TURNS {
                guest.say(&format!("count to {TOKENS}"), &format!("turn-{turn}")).await;
                let view = guest.until(|view| rests(view) && view.messages.len() == 2 * (turn + 1)).await;
                assert_eq!(reply(&view), words(TOKENS), "{:?}", view.status);
                turns.send_modify(|turns| *turns += 1);
            }
        });
    }
    drop(turns);
    turned.wait_for(|turns| *turns >= CHATS / 2).await.expect("no client gave up");
    town.point_to(&[&two]);
    one.signal("TERM").await;
    assert_eq!(one.child.wait().await.unwrap().code(), Some(0));
    let three = Daemon::start_on(dirs[2].path(), MODEL, &url).await;
    town.point_to(&[&two, &three]);
    turned.wait_for(|turns| *turns >= CHATS * 3 / 2).await.expect("no client gave up");
    town.point_to(&[&three]);
    two.signal("TERM").await;
    assert_eq!(two.child.wait().await.unwrap().code(), Some(0));
    let four = Daemon::start_on(dirs[3].path(), MODEL, &url).await;
    town.point_to(&[&three, &four]);
    guests.join_all().await;
    let ready = four.ask(Method::GET, "/readyz").send().await.unwrap();
    assert_eq!(ready.status(), StatusCode::OK);
}
