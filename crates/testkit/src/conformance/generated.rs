//! Whole lives of chats, drawn by lot, stored as they were.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everturn_core::ids::{Seq, Timestamp};
use everturn_core::view::JournalRow;
use everturn_stores::{Lease, Receipt, Store, StoreExt as _, Submission, SubmitError, WriteError};
use everturn_testkit::rehearsal::sample::attempt;
use everturn_testkit::rehearsal::{Deed, Dice, wish};

use super::Witness;
use super::lots::for_each_life;
use super::samples::ODD;

/// How many lives, and how long each is at most.
const LIVES: u32 = 60;
const LIFE_LEN_MAX: usize = 60;

/// I2, I4–I6, CS05, CS24: whatever people want and drivers do, with repeats, takeovers, late writers and misplaced rows in
/// between, the store holds after every step what the plainest picture of the chat does.
pub async fn any_life_of_a_chat_is_stored_as_it_was<S: Store>(store: Arc<S>) {
    let chats = AtomicU64::new(1);
    for_each_life(LIVES, LIFE_LEN_MAX, |numbers| {
        let (store, chat) = (store.clone(), chats.fetch_add(1, Ordering::Relaxed));
        async move {
            let mut life = GeneratedLife { witness: Witness::new(&store, chat.into()).await, lapsed: Vec::new() };
            for number in numbers {
                life.live(number).await;
                life.witness.agrees().await;
            }
        }
    })
    .await;
}

/// One chat, and its earlier leases.
pub(super) struct GeneratedLife<S> {
    pub(super) witness: Witness<S>,
    pub(super) lapsed: Vec<Lease>,
}

impl<S: Store> GeneratedLife<S> {
    /// Does what `number` stands for.
    pub(super) async fn live(&mut self, number: u64) {
        let mut dice = Dice::new(number);
        self.witness.tick();
        match dice.below(16) {
            0..=2 => self.submit(&mut dice).await,
            3..=5 => self.witness.obey_next().await,
            6 => {
                let lapsed = self.witness.take_over().await;
                self.lapsed.push(lapsed);
            }
            7 => self.write_late(&mut dice).await,
            8 => self.misplace(&mut dice).await,
            _ => self.act(&mut dice).await,
        }
    }

    /// A command is submitted, perhaps twice.
    async fn submit(&mut self, dice: &mut Dice) {
        let Witness { store, stage, limits, .. } = &mut self.witness;
        let odd = dice.pick(&ODD).copied().unwrap_or_default();
        let command = wish(&stage.chat, &stage.transcript, &format!("{}{odd}", stage.inbox.len()), dice);
        let key = (dice.below(2) == 0).then(|| format!("{}{odd}", stage.inbox.len()));
        let submission = Submission { command: command.clone(), key: key.clone(), at: stage.now };
        let chat = stage.chat.id;
        let receipt = store.submit(chat, submission.clone(), limits).await;
        let expected = stage.submit_as(key.as_deref(), command, limits).map(|seq| Receipt { chat, seq });
        assert_eq!(receipt, expected.map_err(SubmitError::Refused));
        if receipt.is_ok() && key.is_some() {
            let later = Submission { at: Timestamp(stage.now.0 + 1), ..submission };
            assert_eq!(store.submit(chat, later, limits).await, receipt, "the second time");
        }
    }

    async fn act(&mut self, dice: &mut Dice) {
        match self.witness.stage.deed(&self.witness.limits, dice) {
            Deed::Rest => {}
            Deed::Journal(deltas) => drop(self.witness.journal(deltas).await),
            Deed::Commit(facts) => drop(self.witness.commit(&facts).await),
        }
    }

    /// A driver that does not know yet that its lease was taken.
    async fn write_late(&mut self, dice: &mut Dice) {
        if !self.lapsed.is_empty() {
            let late = dice.below(self.lapsed.len() as u64) as usize;
            self.witness.is_shut_out(&mut self.lapsed[late], &WriteError::Fenced).await;
        }
    }

    /// Rows that do not follow what is stored.
    async fn misplace(&self, dice: &mut Dice) {
        let stage = &self.witness.stage;
        let next = stage.rows.len() as u64 + 1;
        let step = [stage.chat.step, stage.chat.step.next()][dice.below(2) as usize];
        let seq = if step == stage.chat.step { Seq(next + 1 + dice.below(3)) } else { Seq(next) };
        let row = JournalRow { step, seq, at: stage.now, delta: Arc::new(attempt()) };
        let refused = self.witness.store.append_and_wait(self.witness.lease.append_right(), vec![row]).await;
        assert_eq!(refused, Err(WriteError::OutOfPlace));
    }
}
