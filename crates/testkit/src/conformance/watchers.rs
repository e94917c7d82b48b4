//! I13: every watcher's fold of events is what is there, for every way of coming, going and coming back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everturn_core::ids::{Seq, StepId, Version};
use everturn_core::view::{Cursor, Event, View};
use everturn_stores::Store;
use everturn_testkit::rehearsal::Dice;

use super::Witness;
use super::generated::GeneratedLife;
use super::lots::for_each_life;

const LIVES: u32 = 60;
const LIFE_LEN_MAX: usize = 80;
const WATCHERS: usize = 3;

/// I3, I13: watchers that look at different times, are cut off in the middle of a catch-up, come back with the cursor
/// they have, come late, or come with a cursor that was never given, all end up with what a fresh snapshot shows; and no
/// event came twice, out of order, or without the rest of its commit.
pub async fn every_watcher_sees_what_is_there<S: Store>(store: Arc<S>) {
    let chats = AtomicU64::new(1);
    for_each_life(LIVES, LIFE_LEN_MAX, |numbers| {
        let (store, chat) = (store.clone(), chats.fetch_add(1, Ordering::Relaxed));
        async move {
            let mut life = GeneratedLife { witness: Witness::new(&store, chat.into()).await, lapsed: Vec::new() };
            let mut watchers: [Watcher; WATCHERS] = Default::default();
            for number in numbers {
                let mut dice = Dice::new(number);
                let watcher = &mut watchers[dice.below(WATCHERS as u64) as usize];
                let what = dice.below(10);
                life.live(number / 30).await;
                watcher.watch(what, &life.witness, &mut dice).await;
            }
            for watcher in &mut watchers {
                watcher.catch_up(&life.witness).await;
            }
        }
    })
    .await;
}

/// A subscriber: its folded view, and its cursor.
#[derive(Default)]
struct Watcher {
    view: View,
    cursor: Option<Cursor>,
}

impl Watcher {
    async fn watch<S: Store>(&mut self, what: u64, witness: &Witness<S>, dice: &mut Dice) {
        match what {
            0..=2 => self.catch_up(witness).await,
            3 | 4 => self.be_cut_off(witness, dice).await,
            5 => *self = Self::default(), // Closes the page and opens it again.
            6 => is_reset(forged(witness.now().await, dice), witness).await,
            _ => {}
        }
    }

    /// Takes in everything that happened, and then knows what is there.
    async fn catch_up<S: Store>(&mut self, witness: &Witness<S>) {
        if let Some(news) = witness.since(self.cursor).await {
            assert!(!news.events.is_empty(), "news without an event");
            assert!(Some(news.cursor) > self.cursor, "a cursor only goes on");
            for event in &news.events {
                self.view.fold(event).expect("each event once, in order");
            }
            self.cursor = Some(news.cursor);
        }
        assert_eq!(self.cursor, Some(witness.now().await), "a catch-up leaves nothing for later");
        let expected = witness.snapshot();
        let received = self.view.standing.as_ref().expect("a snapshot came first").received;
        if received < expected.standing.received {
            // No commit tells of what was accepted since; a look at where the chat stands does.
            let standing = witness.store.standing(witness.chat()).await.expect("the chat is there");
            self.view.fold(&Event::Standing(Box::new(standing))).expect("it replaces what was told");
        }
        assert_eq!(self.view.messages, expected.messages);
        assert_eq!(self.view.standing.as_ref(), Some(&expected.standing));
        assert_eq!(self.view.draft, expected.draft);
    }

    /// The line breaks in the middle of a catch-up. What came of it has no cursor, so it is not kept.
    async fn be_cut_off<S: Store>(&mut self, witness: &Witness<S>, dice: &mut Dice) {
        if let Some(news) = witness.since(self.cursor).await {
            let mut scrap = self.view.clone();
            let came = dice.below(news.events.len() as u64) as usize;
            for event in &news.events[..came] {
                scrap.fold(event).expect("each event once, in order");
            }
        }
    }
}

/// A cursor that is ahead of everything in one way or another.
fn forged(now: Cursor, dice: &mut Dice) -> Cursor {
    let by = 1 + dice.below(3);
    match dice.below(3) {
        0 => Cursor { version: Version(now.version.0 + by), ..now },
        1 => Cursor { step: StepId(now.step.0 + by), ..now },
        _ => Cursor { seq: Seq(now.seq.0 + by), ..now },
    }
}

async fn is_reset<S: Store>(cursor: Cursor, witness: &Witness<S>) {
    let news = witness.since(Some(cursor)).await.expect("never silence");
    let [Event::Reset(shown)] = &news.events[..] else { panic!("{cursor} got {:?}", news.events) };
    witness.is_shown(shown);
}
