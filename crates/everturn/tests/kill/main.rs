//! Real processes, killed for real, at moments of their own choosing and at moments of ours.
//!
//! Whatever a process acknowledged or showed before it died must be there for the next one: once, and as it was shown.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod mortal;
mod place;
mod saga;

use place::Place;
use saga::Saga;

/// How many processes die by chance.
const DEATHS: u64 = 300;

/// I1, I2, I3, I4, I9: three hundred processes, each killed after it has said so and so many things.
#[tokio::test]
async fn nothing_is_lost_by_three_hundred_deaths() {
    let (place, trace, _dir) = sqlite();
    let mut saga = Saga::begin(place, trace, 3).await;
    let mut dice = Dice(7);
    for _ in 0..DEATHS {
        let mut mortal = saga.start(None);
        saga.set_going(&mut mortal, dice.below(3) as usize);
        for _ in 0..dice.below(90) {
            match mortal.next() {
                Some(line) => saga.heed(&line),
                None => panic!("a process died by itself: {}", mortal.kill()),
            }
        }
        mortal.kill();
        while let Some(line) = mortal.next() {
            saga.heed(&line); // What it had said, it had said.
        }
        saga.check().await;
    }
    end(saga).await;
}

/// Where processes are to die besides: every place in the store that has a name, and how many messages it takes to get
/// there.
const PLACES: [(&str, usize); 6] = [
    ("sqlite-begin", 2),
    ("sqlite-commit", 2),
    ("sqlite-committed", 2),
    ("sqlite-write-back", 2),
    ("sqlite-trim", 15),
    ("sqlite-trim-middle", 15),
];

/// I1, I3, I4: a process may die around every transaction, every trim and every write-back.
#[tokio::test]
async fn nothing_is_lost_at_any_place_that_has_a_name() {
    let (place, trace, _dir) = sqlite();
    let mut saga = Saga::begin(place, trace, 3).await;
    for (name, messages) in PLACES {
        let mut died = 0;
        for times in [1, 2, 7, 30] {
            let mut mortal = saga.start(Some(&format!("{name}:{times}")));
            saga.set_going(&mut mortal, messages);
            mortal.end_input();
            let mut last = String::new();
            while let Some(line) = mortal.next() {
                saga.heed(&line);
                last = line;
            }
            died += usize::from(last != "rest");
            mortal.kill();
            saga.check().await;
        }
        assert!(died > 0, "nobody ever came by {name}");
    }
    end(saga).await;
}

/// A process may die while it makes the tables. The next one makes them.
#[tokio::test]
async fn a_migration_may_be_killed_anywhere() {
    for name in ["sqlite-migrate-begin", "sqlite-migrate-middle", "sqlite-migrate-commit", "sqlite-migrate-end"] {
        let (place, trace, _dir) = sqlite();
        let saga = Saga::unmade(place, trace);
        let mut mortal = saga.start(Some(&format!("{name}:1")));
        assert_eq!(mortal.next(), None, "{name}: {}", mortal.kill());
        mortal.kill();
        let mut saga = Saga::begin(saga.place, saga.trace, 1).await;
        let mut mortal = saga.start(None);
        saga.set_going(&mut mortal, 1);
        mortal.kill();
        end(saga).await;
    }
}

/// One last process, which nobody kills.
async fn end(mut saga: Saga) {
    let mut mortal = saga.start(None);
    saga.set_going(&mut mortal, 3);
    mortal.end_input();
    let mut last = String::new();
    while let Some(line) = mortal.next() {
        saga.heed(&line);
        last = line;
    }
    assert_eq!(last, "rest", "the last one died by itself: {}", mortal.kill());
    mortal.kill();
    saga.is_complete().await;
}

fn sqlite() -> (Place, std::path::PathBuf, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    (Place::Directory(dir.path().join("data")), dir.path().join("trace"), dir)
}

/// Chance with a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
