//! Processes that stand still for longer than they are believed, and then go on as if nothing had been.

use std::fs::OpenOptions;
use std::process::Command;

use crate::saga::{Mortal, Saga};
use crate::{end, finish, postgres};

/// How often a process stands still.
const TIMES: usize = 4;

/// I6, I9: a process that stood still for longer than it is believed has lost its chats. When it goes on, it changes no
/// row.
#[tokio::test]
async fn a_process_that_stood_still_changes_nothing() {
    let start = |saga: &mut Saga, _| {
        let mut still = saga.start(None);
        get_going(saga, &mut still);
        still
    };
    is_shut_out(start, |_| ()).await;
}

/// I6, I9: nor does a process that lost time with its clock, like a paused machine: it trusts its own lease,
/// and only the database keeps it from writing.
#[tokio::test]
async fn a_process_whose_clock_stood_still_changes_nothing() {
    let start = |saga: &mut Saga, time: usize| {
        let (mut still, before) = (saga.start_sure(), saga.effects());
        if time.is_multiple_of(2) {
            get_going(saga, &mut still); // In the middle of answers, which have something to journal.
            return still;
        }
        saga.set_going(&mut still, 3);
        while saga.effects() == before {
            heed_next(saga, &mut still);
        }
        still // In the middle of a tool, which has nothing to journal but its result to commit.
    };
    is_shut_out(start, |saga| saga.place.bury()).await;
}

async fn is_shut_out(start: impl Fn(&mut Saga, usize) -> Mortal, give_up: impl Fn(&Saga)) {
    let (place, trace, _dir) = postgres();
    let mut saga = Saga::begin(place, trace, 3).await;
    let mut lost = 0;
    for time in 0..TIMES {
        let still = start(&mut saga, time);
        still.signal("-STOP");
        give_up(&saga);
        lost += goes_on_too_late(&mut saga, still, |still| still.signal("-CONT"));
        saga.check().await;
    }
    assert!(lost > 0, "none of them ever tried to");
    end(saga).await;
}

/// I6, I9: a process with all its threads blocked is alive and keeps its chats. If it is taken for dead all the
/// same, it changes no row when it gets to it.
#[tokio::test]
async fn a_process_that_was_kept_from_its_work_changes_nothing() {
    let (place, trace, dir) = postgres();
    let mut saga = Saga::begin(place, trace, 3).await;
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut lost = 0;
    for _ in 0..TIMES {
        let mut busy = saga.start(None);
        get_going(&mut saga, &mut busy);
        busy.tell(&format!("block {}", fifo.display()));
        while heed_next(&mut saga, &mut busy) != "blocked" {}
        assert!(saga.place.held_for_long() > 0, "it was taken for dead");
        saga.place.bury();
        lost += goes_on_too_late(&mut saga, busy, |_| drop(OpenOptions::new().write(true).open(&fifo).unwrap()));
        saga.check().await;
    }
    assert!(lost > 0, "none of them ever tried to");
    end(saga).await;
}

/// Lets a process come into the middle of some answers.
fn get_going(saga: &mut Saga, mortal: &mut Mortal) {
    saga.set_going(mortal, 3);
    for _ in 0..60 {
        heed_next(saga, mortal);
    }
}

fn heed_next(saga: &mut Saga, mortal: &mut Mortal) -> String {
    let line = mortal.next().unwrap_or_else(|| panic!("a process died by itself: {}", mortal.kill()));
    saga.heed(&line);
    line
}

/// Has another process do everything before this one goes on, which changes no row then. How often it tried to.
fn goes_on_too_late(saga: &mut Saga, mut late: Mortal, go_on: impl Fn(&Mortal)) -> u64 {
    let mut next = saga.start(None);
    finish(saga, &mut next);
    let before = saga.place.rows();
    go_on(&late);
    late.end_input();
    let mut lost = 0;
    while let Some(line) = late.next() {
        // What it has seen is what the other one did.
        lost += line.strip_prefix("lost ").map_or(0, |times| times.parse::<u64>().unwrap());
    }
    assert_eq!(saga.place.rows(), before, "it wrote after it had lost its chats");
    late.kill();
    lost
}
