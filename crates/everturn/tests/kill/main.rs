//! Real processes, killed for real, at moments of their own choosing and at moments of ours.
//!
//! Whatever a process acknowledged or showed before it died must be there for the next one: once, and as it was shown.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod inputs;
mod mortal;
mod place;
mod saga;
mod still;

use everturn::core::chat::TurnEnd;
use everturn::core::error::ErrorKind;
use everturn::core::ids::{ChatId, Timestamp};
use everturn::core::view::Event;
use mortal::{DEADLY, FRAIL};
use place::Place;
use saga::{End, Mortal, Saga};

/// How many processes die by chance.
const DEATHS: u64 = 300;
/// In how many stories: the longer one is, the longer it takes to look at all of it after each death.
const SAGAS: u64 = 4;
/// After how many deaths on Postgres the next process waits until the last lease expires.
const BURIED: u64 = 12;

/// I1, I2, I3, I4, I9: three hundred processes, each killed after it has said so and so many things.
#[tokio::test]
async fn nothing_is_lost_by_three_hundred_deaths() {
    for seed in 1..=SAGAS {
        let (place, trace, _dir) = sqlite();
        die_by_chance(Saga::begin(place, trace, 3).await, DEATHS / SAGAS, Dice(seed)).await;
    }
}

/// I1, I2, I3, I4, I7, I9: three hundred deaths lose nothing on Postgres, which outlives the processes.
#[tokio::test]
async fn nothing_is_lost_by_three_hundred_deaths_on_postgres() {
    for seed in 1..=SAGAS {
        let (place, trace, _dir) = postgres();
        die_by_chance(Saga::begin(place, trace, 3).await, DEATHS / SAGAS, Dice(seed)).await;
    }
}

/// I1: commands besides sending survive as well: an accepted one is applied once, and not undone.
#[tokio::test]
async fn nothing_that_people_did_is_lost_by_deaths() {
    let (place, trace, _dir) = sqlite();
    die_by_chance(Saga::of_every_kind(place, trace).await, DEATHS / 8, Dice(7)).await;
}

/// I1: accepted commands survive on Postgres, which outlives the processes.
#[tokio::test]
async fn nothing_that_people_did_is_lost_by_deaths_on_postgres() {
    let (place, trace, _dir) = postgres();
    die_by_chance(Saga::of_every_kind(place, trace).await, DEATHS / 8, Dice(7)).await;
}

async fn die_by_chance(mut saga: Saga, deaths: u64, mut dice: Dice) {
    for death in 0..deaths {
        let mut mortal = saga.start(None);
        saga.set_going(&mut mortal, dice.below(3) as usize);
        mortal.end_input();
        for _ in 0..dice.below(90) {
            match mortal.next() {
                Some(line) if line == "rest" => break, // On a slow machine a watcher says more at once, and less often.
                Some(line) => saga.heed(&line),
                None => panic!("a process died by itself: {}", mortal.kill()),
            }
        }
        mortal.kill();
        while let Some(line) = mortal.next() {
            saga.heed(&line); // What it had said, it had said.
        }
        if death % BURIED > 0 {
            saga.place.bury();
        }
        saga.check().await;
    }
    end(saga).await;
}

/// Where processes are to die besides: places in the store that have a name, and how many messages it takes to get there.
const SQLITE: [(&str, usize); 7] = [
    ("sqlite-begin", 2),
    ("sqlite-commit", 2),
    ("sqlite-committed", 2),
    ("sqlite-write-back", 2),
    ("sqlite-trim", 25),
    ("sqlite-trim-middle", 25),
    ("sqlite-merge", 15),
];

const POSTGRES: [(&str, usize); 9] = [
    ("postgres-acquire", 2),
    ("postgres-begin", 2),
    ("postgres-commit", 2),
    ("postgres-committed", 2),
    ("postgres-journal", 2),
    ("postgres-journalled", 2),
    ("postgres-trim", 2),
    ("postgres-file", 2),
    ("postgres-filed", 2),
];

/// I1, I3, I4: a process may die around every transaction, every trim and every write-back.
#[tokio::test]
async fn nothing_is_lost_at_any_place_that_has_a_name() {
    let (place, trace, _dir) = sqlite();
    die_at(Saga::begin(place, trace, 3).await, &SQLITE, &[1, 2, 7, 30]).await;
}

/// I1, I3, I4: a death before or after any transaction with Postgres loses nothing.
#[tokio::test]
async fn nothing_is_lost_at_any_place_before_postgres() {
    let (place, trace, _dir) = postgres();
    die_at(Saga::begin(place, trace, 3).await, &POSTGRES, &[1, 4]).await;
}

async fn die_at(mut saga: Saga, places: &[(&str, usize)], times: &[u64]) {
    for (name, messages) in places {
        let mut died = 0;
        for times in times {
            let mut mortal = saga.start(Some(&format!("{name}:{times}")));
            saga.set_going(&mut mortal, *messages);
            mortal.end_input();
            while let Some(line) = mortal.next() {
                saga.heed(&line);
            }
            died += usize::from(mortal.end().0 == End::AtItsPlace);
            saga.check().await;
        }
        assert!(died > 0, "no process reached {name}");
    }
    end(saga).await;
}

/// Where they die while tables are made.
const MIGRATING: [&str; 8] = [
    "sqlite-migrate-begin",
    "sqlite-migrate-middle",
    "sqlite-migrate-commit",
    "sqlite-migrate-end",
    "postgres-migrate-begin",
    "postgres-migrate-middle",
    "postgres-migrate-commit",
    "postgres-migrate-end",
];

/// A failpoint that is named and not listed is one at which no process is ever killed.
#[test]
fn every_place_that_has_a_name_is_listed() {
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../stores/src");
    let mut dirs = vec![std::path::PathBuf::from(sources)];
    let mut named = std::collections::BTreeSet::new();
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                dirs.push(entry);
            } else if let Ok(text) = std::fs::read_to_string(entry) {
                let names = text.split("failpoint!(\"").skip(1).filter_map(|rest| rest.split('"').next());
                named.extend(names.map(String::from));
            }
        }
    }
    let places = SQLITE.iter().chain(&POSTGRES).map(|(name, _)| *name);
    let listed = places.chain(MIGRATING).map(String::from).collect();
    assert_eq!(named, listed);
}

/// A process may die while it makes the tables. The next one makes them.
#[tokio::test]
async fn a_migration_may_be_killed_anywhere() {
    for name in MIGRATING {
        let place = || if name.starts_with("sqlite") { sqlite() } else { postgres() };
        for step in [1, 4] {
            die_migrating(&format!("{name}:{step}"), place()).await;
        }
    }
}

async fn die_migrating(name: &str, (place, trace, _dir): (Place, std::path::PathBuf, tempfile::TempDir)) {
    let saga = Saga::unmade(place, trace);
    let mut mortal = saga.start(Some(name));
    assert_eq!(mortal.next(), None, "{name}: {}", mortal.kill());
    assert_eq!(mortal.end().0, End::AtItsPlace, "{name}");
    let mut saga = Saga::begin(saga.place, saga.trace, 1).await;
    let mut mortal = saga.start(None);
    saga.set_going(&mut mortal, 1);
    mortal.kill();
    end(saga).await;
}

/// A chat with a tool that kills the process does so three times. Then it is parked with a reason, and
/// the other chats of the process go on.
#[tokio::test]
async fn a_chat_that_kills_is_left_alone_and_others_go_on() {
    for (place, trace, _dir) in [sqlite(), postgres()] {
        let saga = Saga::of(FRAIL, place, trace, 3).await;
        let ids: Vec<ChatId> = (1..=3).map(|number| ChatId::new(Timestamp(1), number)).collect();
        let (mut deaths, mut last) = (0, String::new());
        while last != "rest" {
            let mut mortal = saga.start(None);
            ids.iter().for_each(|id| mortal.tell(&format!("watch {id}")));
            mortal.tell("go");
            mortal.tell(&format!("send {} {DEADLY}", ids[0]));
            ids[1..].iter().for_each(|id| mortal.tell(&format!("send {id} hello")));
            mortal.end_input();
            last.clear();
            while let Some(line) = mortal.next() {
                last = line;
            }
            let (end, said) = mortal.end();
            assert_eq!(end == End::Rested, last == "rest", "{said}");
            deaths += u32::from(end == End::AtItsPlace);
            assert!(deaths <= 3, "it kills and kills: {said}");
        }
        assert_eq!(deaths, 3);
        let store = saga.place.open().await;
        let ends = async |id| {
            let news = store.since(id, None).await.unwrap().unwrap();
            let [Event::Reset(snapshot)] = &news.events[..] else { panic!("no snapshot but {:?}", news.events) };
            snapshot.standing.ended.clone().unwrap()
        };
        let deadly = ends(ids[0]).await;
        assert!(matches!(&deadly, TurnEnd::Failed(failure) if failure.kind == ErrorKind::Quarantine), "{deadly:?}");
        assert_eq!((ends(ids[1]).await, ends(ids[2]).await), (TurnEnd::Done, TurnEnd::Done));
    }
}

/// A look that finds nothing wrong with anything would be no proof.
#[tokio::test]
async fn damaged_rows_are_noticed() {
    let (place, trace, _dir) = postgres();
    let mut saga = Saga::begin(place, trace, 2).await;
    let mut mortal = saga.start(None);
    finish(&mut saga, &mut mortal);
    let Place::Database(url) = &saga.place else { unreachable!("it was made so") };
    for (sql, told) in [
        ("UPDATE messages SET version = version + 1000 WHERE id = 1", "the order of messages in 1"),
        ("DELETE FROM messages WHERE id = 1", "messages of 1"),
        ("UPDATE inbox SET outcome = NULL", "the inbox of 1"),
        ("DELETE FROM attempts WHERE number = (SELECT max(number) - 1 FROM attempts)", "attempts of 1"),
        ("INSERT INTO drafts VALUES (99, 1, 1, 1, '')", "a draft of nobody, 99"),
        ("INSERT INTO drafts VALUES (1, 1000, 1, 1, '')", "a draft of the future, 1"),
        ("INSERT INTO tail VALUES (1, 7, '{1, 99}', '')", "a batch of nobody, 7"),
        ("DELETE FROM messages", "words of no message"),
    ] {
        let before = saga.place.rows();
        everturn_props::shared::psql(url, sql).unwrap();
        let found = saga.place.troubles(&[]);
        assert!(found.iter().any(|line| line.starts_with(told)), "{sql}: {found:?}");
        assert_ne!(saga.place.rows(), before, "{sql}");
    }
}

/// One last process, which is not killed.
async fn end(mut saga: Saga) {
    let mut mortal = saga.start(None);
    finish(&mut saga, &mut mortal);
    saga.check_complete().await;
}

/// Lets a process send some more and do everything that is left.
fn finish(saga: &mut Saga, mortal: &mut Mortal) {
    saga.set_going(mortal, 3);
    mortal.end_input();
    let mut last = String::new();
    while let Some(line) = mortal.next() {
        saga.heed(&line);
        last = line;
    }
    assert_eq!(last, "rest", "the last one died by itself: {}", mortal.kill());
    mortal.kill();
}

fn sqlite() -> (Place, std::path::PathBuf, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (Place::Directory(dir.path().join("data")), dir.path().join("trace"), dir)
}

fn postgres() -> (Place, std::path::PathBuf, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (Place::Database(everturn_props::database().unwrap()), dir.path().join("trace"), dir)
}

/// Chance with a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
