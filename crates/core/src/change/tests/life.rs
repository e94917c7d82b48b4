//! Whole lives of chats, drawn by lot.

use std::collections::BTreeSet;

use expect_test::expect;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, RngSeed, TestRng};

use super::oracle::{Oracle, words_of};
use crate::change::foresee;
use crate::chat::Chat;
use crate::draft::Draft;
use crate::fact::{Fact, Totals};
use crate::ids::{InboxSeq, Timestamp};
use crate::rehearsal::sample::chat_id;
use crate::rehearsal::{Deed, Dice, Stage, tiny_limits, wish};
use crate::status::Status;

/// One chat, and its reader.
struct Life {
    stage: Stage,
    oracle: Oracle,
}

impl Life {
    fn new() -> Self {
        Self { stage: Stage::new(chat_id(1)), oracle: Oracle::default() }
    }

    /// Does what `number` stands for.
    fn live(&mut self, number: u64) {
        let mut dice = Dice::new(number);
        self.stage.now = Timestamp(self.stage.now.0 + 10);
        match dice.below(10) {
            0 | 1 => self.submit(&mut dice),
            2 | 3 => self.obey(),
            _ => drop(self.act(&mut dice)),
        }
    }

    fn submit(&mut self, dice: &mut Dice) {
        let words = words_of(InboxSeq(self.stage.inbox.len() as u64 + 1));
        let command = wish(&self.stage.chat, &self.stage.transcript, &words, dice);
        let before = (self.stage.inbox.len(), self.stage.chat.clone());
        let accepted = self.stage.submit(command, &tiny_limits()).is_ok();
        let after = (self.stage.inbox.len() - usize::from(accepted), self.stage.chat.clone());
        assert_eq!(before, after, "only the inbox has changed");
        self.foreseen();
    }

    fn obey(&mut self) {
        if let Some(facts) = self.stage.obey_next() {
            self.commit(&facts);
        }
    }

    fn act(&mut self, dice: &mut Dice) -> Deed {
        let deed = self.stage.deed(&tiny_limits(), dice);
        match &deed {
            Deed::Rest => {}
            Deed::Journal(deltas) => drop(self.stage.journal(deltas.clone())),
            Deed::Commit(facts) => self.commit(facts),
        }
        deed
    }

    fn commit(&mut self, facts: &[Fact]) {
        let before = self.stage.chat.clone();
        let half_said = self.stage.draft.as_ref().is_some_and(Draft::is_half_said);
        self.stage.commit(facts);
        self.oracle.commit((&before, half_said), facts, &self.stage);
    }

    /// What is foreseen of the inbox is what the driver makes of it, if nothing else happens.
    fn foreseen(&self) {
        let foreseen = foresee(&self.stage.chat, self.stage.pending(), self.stage.now);
        let mut obeyed = self.stage.clone();
        while let Some(facts) = obeyed.obey_next() {
            obeyed.commit(&facts);
        }
        // Only the driver knows that an edit costs an attempt.
        let totals = Totals::default();
        assert_eq!(Chat { totals, ..foreseen }, Chat { totals, ..obeyed.chat });
    }

    /// Obeys what is left, answers what is asked, and comes to rest.
    fn end(&mut self) {
        const DULL: u64 = 4; // Every attempt begins, answers and is over.
        for _ in 0..400 {
            while self.stage.pending().next().is_some() {
                self.obey();
            }
            if self.act(&mut Dice::new(DULL)) == Deed::Rest {
                let rests = matches!(self.stage.chat.status, Status::Idle | Status::Failed | Status::Awaiting);
                assert!(rests, "{:?} is no rest", self.stage.chat.status);
                return;
            }
        }
        panic!("still {:?}, with {} waiting", self.stage.chat.status, self.stage.chat.queue.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_000, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default()
    })]

    /// I8, I12, I17, CS10, CS18, MC26, MC27: whatever people want and whatever a driver does, in any order: calls have
    /// their results, messages are heard once and in order, numbers only grow, and the chat comes to rest.
    #[test]
    fn every_life_keeps_the_promises(numbers in proptest::collection::vec(any::<u64>(), 0..200)) {
        let mut life = Life::new();
        for number in numbers {
            life.live(number);
            life.oracle.queue(&life.stage);
        }
        life.end();
        life.oracle.queue(&life.stage);
    }
}

/// A property that never meets the interesting states holds for nothing.
#[test]
fn lives_come_by_every_corner() {
    let mut seen = BTreeSet::new();
    let mut numbers = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    for _ in 0..120 {
        let mut life = Life::new();
        for _ in 0..200 {
            life.live(numbers.next_u64());
            seen.extend(corners(&life.stage));
        }
    }
    let seen: Vec<_> = seen.into_iter().collect();
    expect![[r#"
        Awaiting
        Failed
        Failed, archived
        Idle
        Idle, archived
        Interrupting
        Running
        call Approved
        call AsksApproval
        call AsksClient
        call Ready
        call Rests
        call Started
        ended Done
        ended Empty
        ended Failed
        ended Filtered
        ended Interrupted
        ended Length
        ended SameCallMax
        ended StepsMax
        ended StopAfter
        queue of 0
        queue of 1
        queue of 2
        queue of 3
        queue of 4
        queue, steers: false
        queue, steers: true
        refused NotQueued
        refused Status
        said Context
        said Reply
        said Result
        said Summary
        said User"#]]
    .assert_eq(&seen.join("\n"));
}

fn corners(stage: &Stage) -> Vec<String> {
    let chat = &stage.chat;
    let name = |thing: &dyn std::fmt::Debug| format!("{thing:?}").split(['(', ' ']).take(1).collect::<String>();
    let mut seen = vec![format!("{:?}{}", chat.status, if chat.archived { ", archived" } else { "" })];
    seen.push(format!("queue of {}", chat.queue.len()));
    seen.extend(chat.queue.iter().map(|queued| format!("queue, steers: {}", queued.steers)));
    seen.extend(chat.calls.iter().map(|open| format!("call {}", name(&open.state))));
    seen.extend(chat.ended.iter().map(|end| format!("ended {}", name(end))));
    seen.extend(stage.transcript.iter().map(|message| format!("said {}", name(&message.body))));
    let refusals = stage.inbox.iter().filter_map(|(_, outcome)| outcome.and_then(Result::err));
    seen.extend(refusals.map(|refusal| format!("refused {}", name(&refusal))));
    seen
}
