//! Work slots of one process.
//!
//! A process that takes over ten thousand chats at once has memory and sockets for some of them. So a chat that asks a model
//! or runs tools needs a work slot, and their number is limited. A chat that finds none waits in a line of its owner, and a
//! free slot goes to the owner with the fewest, so one with ten thousand chats delays another by one step at most.
//!
//! Only work needs a slot. A chat that rests, waits for its next retry or for an answer has none, and commands are applied
//! without one: an interrupt does not wait in line.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::Instant;

use crate::observe::metrics::Metrics;

/// The work slots of one process.
#[derive(Debug, Clone)]
pub(crate) struct WorkSlots(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    metrics: Metrics,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// Slots by owner. Owners without any are absent.
    held: HashMap<Arc<str>, usize>,
    /// Owners with chats in line; of two with as many slots, the front one is served first.
    lines: VecDeque<(Arc<str>, VecDeque<Ticket>)>,
    tickets: u64,
}

#[derive(Debug)]
struct Ticket {
    number: u64,
    called: Arc<Notify>,
}

/// The right to work. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct WorkSlot {
    slots: WorkSlots,
    /// Unknown until the chat is loaded.
    owner: Option<Arc<str>>,
}

/// The work slot of a driver, or its place in line for one.
#[derive(Debug, Default)]
pub(crate) enum Admission {
    /// Neither.
    #[default]
    None,
    /// The chat may work.
    Slot(WorkSlot),
    /// The chat waits, and is loaded only to apply the commands in its inbox.
    Waiting {
        line: SlotWait,
        /// The permit to be loaded without a slot.
        _loading: Option<OwnedSemaphorePermit>,
    },
}

impl Admission {
    /// Counts the slot for its owner, once the chat is loaded.
    pub(crate) fn belongs_to(&mut self, owner: &str) {
        if let Self::Slot(slot) = self {
            slot.belongs_to(owner);
        }
    }

    /// Whether an owner in line should have the slot instead.
    pub(crate) fn should_yield(&self) -> bool {
        matches!(self, Self::Slot(slot) if slot.should_yield())
    }

    /// Takes a slot that is free or was just given to this place in line. False if there is none.
    pub(crate) fn acquire(&mut self, slots: &WorkSlots, owner: &str) -> bool {
        let slot = match self {
            Self::Slot(_) => None,
            Self::Waiting { line, .. } => line.slot().now_or_never().or_else(|| slots.take()),
            Self::None => slots.take(),
        };
        if let Some(slot) = slot {
            *self = Self::Slot(slot);
        }
        self.belongs_to(owner);
        matches!(self, Self::Slot(_))
    }

    /// Takes the place in line out, if there is one.
    pub(crate) fn take_line(&mut self) -> Option<SlotWait> {
        match std::mem::take(self) {
            Self::Waiting { line, .. } => Some(line),
            Self::None | Self::Slot(_) => None,
        }
    }
}

/// A place in line. Dropping it leaves the line.
#[derive(Debug)]
pub(crate) struct SlotWait {
    slots: WorkSlots,
    owner: Arc<str>,
    number: u64,
    called: Arc<Notify>,
    since: Instant,
    has_slot: bool,
}

impl WorkSlots {
    /// `len` slots, all free.
    pub(crate) fn new(len: usize, metrics: Metrics) -> Self {
        let state = State { free: len.max(1), held: HashMap::new(), lines: VecDeque::new(), tickets: 0 };
        Self(Arc::new(Inner { state: Mutex::new(state), metrics }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot, if one is free.
    pub(crate) fn take(&self) -> Option<WorkSlot> {
        let mut state = self.state();
        if state.free == 0 {
            return None; // Chats in line found none either: a slot that is freed goes to them.
        }
        state.free -= 1;
        self.0.metrics.slot_taken();
        Some(WorkSlot { slots: self.clone(), owner: None })
    }

    /// A place in line, behind the other chats of the same owner.
    pub(crate) fn line_up(&self, owner: &str) -> SlotWait {
        let mut state = self.state();
        state.tickets += 1;
        let (number, called, owner) = (state.tickets, Arc::new(Notify::new()), Arc::<str>::from(owner));
        let ticket = Ticket { number, called: called.clone() };
        match state.lines.iter_mut().find(|(known, _)| *known == owner) {
            Some((_, line)) => line.push_back(ticket),
            None => state.lines.push_back((owner.clone(), VecDeque::from([ticket]))),
        }
        self.0.metrics.lined_up();
        let waiting = SlotWait { slots: self.clone(), owner, number, called, since: Instant::now(), has_slot: false };
        if state.free > 0 {
            state.free -= 1; // It was freed since the caller looked.
            state.call();
        }
        waiting
    }

    fn give_back(&self, owner: Option<&Arc<str>>) {
        let mut state = self.state();
        if let Some(owner) = owner
            && let Some(held) = state.held.get_mut(owner)
        {
            *held -= 1;
            if *held == 0 {
                state.held.remove(owner);
            }
        }
        state.call();
    }
}

impl State {
    fn held(&self, owner: &str) -> usize {
        self.held.get(owner).copied().unwrap_or(0)
    }

    /// Gives a freed slot to the next in line.
    fn call(&mut self) {
        let fewest = (0..self.lines.len()).min_by_key(|place| self.held(&self.lines[*place].0));
        let Some((owner, mut line)) = fewest.and_then(|place| self.lines.remove(place)) else {
            self.free += 1;
            return;
        };
        if let Some(ticket) = line.pop_front() {
            ticket.called.notify_one();
            *self.held.entry(owner.clone()).or_default() += 1;
        }
        if !line.is_empty() {
            self.lines.push_back((owner, line));
        }
    }
}

impl SlotWait {
    /// Waits for the slot. May be dropped and called again.
    pub(crate) async fn slot(&mut self) -> WorkSlot {
        self.called.notified().await;
        self.has_slot = true;
        let metrics = &self.slots.0.metrics;
        metrics.left_line_with_slot(self.since.elapsed());
        metrics.slot_taken();
        WorkSlot { slots: self.slots.clone(), owner: Some(self.owner.clone()) }
    }
}

impl Drop for SlotWait {
    fn drop(&mut self) {
        if self.has_slot {
            return;
        }
        self.slots.0.metrics.left_line();
        let mut state = self.slots.state();
        let line = state.lines.iter().position(|(owner, _)| *owner == self.owner);
        let ticket = line.and_then(|line| {
            let tickets = &mut state.lines[line].1;
            let found = tickets.iter().position(|ticket| ticket.number == self.number)?;
            tickets.remove(found)
        });
        if ticket.is_none() {
            drop(state);
            self.slots.give_back(Some(&self.owner)); // It had just been given a slot.
            return;
        }
        state.lines.retain(|(_, tickets)| !tickets.is_empty());
    }
}

impl WorkSlot {
    /// Counts the slot for its owner.
    pub(crate) fn belongs_to(&mut self, owner: &str) {
        if self.owner.is_none() {
            let owner = Arc::<str>::from(owner);
            *self.slots.state().held.entry(owner.clone()).or_default() += 1;
            self.owner = Some(owner);
        }
    }

    /// Whether an owner in line should have the slot instead: one with fewer, and still not more after that.
    pub(crate) fn should_yield(&self) -> bool {
        let Some(owner) = &self.owner else { return false };
        let state = self.slots.state();
        let mine = state.held(owner);
        state.lines.iter().any(|(other, _)| other != owner && state.held(other) + 1 < mine)
    }
}

impl Drop for WorkSlot {
    fn drop(&mut self) {
        self.slots.0.metrics.slot_freed();
        self.slots.give_back(self.owner.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn slots(len: usize) -> WorkSlots {
        WorkSlots::new(len, Metrics::unregistered())
    }

    fn taken(slots: &WorkSlots, owner: &str) -> WorkSlot {
        let mut slot = slots.take().expect("a free slot");
        slot.belongs_to(owner);
        slot
    }

    fn called(waiting: &mut SlotWait) -> Option<WorkSlot> {
        pin!(waiting.slot()).now_or_never()
    }

    /// The owner with the fewest slots is next, and among equals the one that came first.
    #[tokio::test]
    async fn a_slot_goes_to_the_owner_with_the_fewest() {
        let slots = slots(3);
        let mut held = vec![taken(&slots, "many"), taken(&slots, "many"), taken(&slots, "many")];
        assert!(slots.take().is_none());
        let mut many = [slots.line_up("many"), slots.line_up("many")];
        let (mut few, mut third) = (slots.line_up("few"), slots.line_up("third"));
        drop(held.pop());
        assert!(called(&mut many[0]).is_none() && called(&mut third).is_none());
        let few = called(&mut few).expect("the first without any");
        drop(held.pop());
        let third = called(&mut third).expect("the other without any");
        drop((few, third));
        assert!(called(&mut many[0]).is_some() && called(&mut many[1]).is_some());
    }

    /// A slot is yielded to an owner with fewer, but not passed back and forth between equals.
    #[tokio::test]
    async fn no_slot_is_yielded_to_an_equal() {
        let slots = slots(2);
        let (one, two) = (taken(&slots, "a"), taken(&slots, "a"));
        assert!(!one.should_yield());
        let _own = slots.line_up("a");
        assert!(!one.should_yield(), "not to the same owner");
        let mut other = slots.line_up("b");
        assert!(one.should_yield());
        drop(two);
        let other = called(&mut other).expect("b has none");
        let _more = slots.line_up("b");
        assert!(!one.should_yield() && !other.should_yield(), "one each");
    }

    /// Leaving the line loses no slot, also in the moment one is given.
    #[tokio::test]
    async fn no_slot_is_lost() {
        let slots = slots(1);
        for owner in ["a", "b"] {
            let slot = taken(&slots, "a");
            let (left, called_and_left) = (slots.line_up(owner), slots.line_up("c"));
            drop(left);
            drop(slot);
            drop(called_and_left);
            assert!(slots.state().held.is_empty() && slots.state().lines.is_empty());
        }
        assert!(slots.take().is_some());
    }
}
