//! Two servers, and bad lines between them and their database.

use std::time::Duration;

use everturn_server::wire::{Part, View};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::crowd::{Guest, Town, words};
use crate::daemon::{Daemon, Scratch};
use crate::line::{Line, Weather};
use crate::outage::is_ready;
use crate::reader::{reply, rests};

const CHATS: usize = 6;
const TOKENS: usize = 3_000;
/// How many words it takes to have got on.
const SOME: usize = 100;
/// Within which every chat settles when the faults have stopped.
const SETTLED_MAX: Duration = Duration::from_secs(60);

/// How many words of the answer that is arriving have come.
fn so_far(view: &View) -> usize {
    let parts = view.draft.iter().flat_map(|draft| &draft.parts);
    let words = |part: &Part| if let Part::Text(text) = part { text.text.split(' ').count() } else { 0 };
    parts.map(words).sum()
}

/// Says something and watches; tells after which of the weathers it has got on.
async fn talk(
    mut guest: Guest,
    mut weather: watch::Receiver<usize>,
    got_on: watch::Sender<[usize; 3]>,
) -> (View, Guest) {
    guest.say(&format!("count to {TOKENS}"), "the-only-one").await;
    for stage in 0..3 {
        weather.wait_for(|now| *now >= stage).await.unwrap();
        let far = so_far(guest.follower.view()) + SOME;
        guest.until(|view| rests(view) || so_far(view) >= far).await;
        got_on.send_modify(|got_on| got_on[stage] += 1);
    }
    (guest.until(rests).await, guest)
}

/// N4, I13, I16: what is late, held up, or heard by one side alone holds chats up, and ends none of them. They get on
/// meanwhile, and when the weather is fair all settle, every word said once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_end_in_any_weather() {
    let (first, second) = (Scratch::new(), Scratch::new());
    let url = everturn_props::database().unwrap();
    let host = url.split_once('@').unwrap().1.split('/').next().unwrap();
    let lines = [Line::to(host.into()).await, Line::to(host.into()).await];
    let one = Daemon::start_on(first.path(), "understudy/numbered", &url.replace(host, &lines[0].address)).await;
    let other = Daemon::start_on(second.path(), "understudy/numbered", &url.replace(host, &lines[1].address)).await;
    let town = Town::of(&one, CHATS).await;
    town.point_to(&[&one, &other]);
    let (weather, _) = watch::channel(0);
    let (got_on, mut have_got_on) = watch::channel([0; 3]);
    let mut guests = JoinSet::new();
    for number in 0..CHATS {
        guests.spawn(talk(town.guest(&one.chat().await, number), weather.subscribe(), got_on.clone()));
    }
    let mut all_have = async |stage: usize| drop(have_got_on.wait_for(|got_on| got_on[stage] == CHATS).await.unwrap());
    all_have(0).await;
    lines.iter().for_each(|line| line.turn(Weather::Storm));
    weather.send_replace(1);
    all_have(1).await;
    lines.iter().for_each(|line| line.turn(Weather::Fair));
    lines[0].turn(Weather::Deaf);
    while is_ready(&one).await {}
    lines[0].turn(Weather::Fair);
    for chat in other.get("/v1/chats").await["chats"].as_array().unwrap() {
        assert_eq!(chat["status"], "running", "they are in the middle: {chat}");
    }
    let clogged = lines.iter().map(|line| line.turn_half(Weather::Clogged)).sum::<usize>();
    assert!(clogged >= 2, "{clogged} connections");
    weather.send_replace(2);
    all_have(2).await;
    lines.iter().for_each(|line| line.turn(Weather::Fair));
    for (view, guest) in timeout(SETTLED_MAX, guests.join_all()).await.expect("all settle") {
        assert_eq!(reply(&view), words(TOKENS));
        for daemon in [&one, &other] {
            assert_eq!(daemon.get(&format!("{}/messages", guest.chat)).await["messages"], json!(view.messages));
        }
    }
}
