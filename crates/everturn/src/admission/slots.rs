//! Places for chats that work.
//!
//! A process that takes up ten thousand chats at once has memory, sockets and patience for some of them. So a chat that
//! asks a model or runs tools needs a place, and there are only so many. Whoever finds none waits in a line of its owner,
//! and a place goes to the owner who has fewest, so one with ten thousand chats delays another by one step at most.
//!
//! Only work needs a place. A chat that rests, waits for its time to retry or for somebody's answer has none, and what
//! its inbox says is obeyed without one: a person who presses stop does not wait in line.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::Instant;

use crate::observe::metrics::Metrics;

/// The places of one process.
#[derive(Debug, Clone)]
pub(crate) struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    metrics: Metrics,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// How many places each owner has. Whoever has none is not in here.
    held: HashMap<Arc<str>, usize>,
    /// Owners with somebody in line; of two with as many places, the front one is served first.
    lines: VecDeque<(Arc<str>, VecDeque<Ticket>)>,
    tickets: u64,
}

#[derive(Debug)]
struct Ticket {
    number: u64,
    called: Arc<Notify>,
}

/// The right to work. Given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    /// Nobody's until its chat was loaded.
    owner: Option<Arc<str>>,
}

/// What a driver has to work on, or instead.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    pub(crate) place: Option<Place>,
    /// Where it stands in line.
    pub(crate) line: Option<Waiting>,
    /// The right to be loaded nevertheless, to do what its inbox says.
    pub(crate) obeying: Option<OwnedSemaphorePermit>,
}

impl Seat {
    pub(crate) fn on(place: Place) -> Self {
        Self { place: Some(place), ..Self::default() }
    }

    /// Whether there is a place, if need be one that is free or has just been called.
    pub(crate) fn is_placed(&mut self, places: &Places, owner: &str) -> bool {
        if self.place.is_none() {
            let called = self.line.as_mut().and_then(|line| line.place().now_or_never());
            self.place = called.or_else(|| places.take());
        }
        let Some(place) = &mut self.place else { return false };
        place.belongs_to(owner);
        (self.line, self.obeying) = (None, None);
        true
    }
}

/// Somebody in line. Dropped, they have left it.
#[derive(Debug)]
pub(crate) struct Waiting {
    places: Places,
    owner: Arc<str>,
    number: u64,
    called: Arc<Notify>,
    since: Instant,
    is_seated: bool,
}

impl Places {
    /// So many places, all free.
    pub(crate) fn new(len: usize, metrics: Metrics) -> Self {
        let state = State { free: len.max(1), held: HashMap::new(), lines: VecDeque::new(), tickets: 0 };
        Self(Arc::new(Shared { state: Mutex::new(state), metrics }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place, if there is one that nobody waits for.
    pub(crate) fn take(&self) -> Option<Place> {
        let mut state = self.state();
        if state.free == 0 {
            return None; // Whoever is in line found none either: a place that is given back goes to them.
        }
        state.free -= 1;
        self.0.metrics.place_taken();
        Some(Place { places: self.clone(), owner: None })
    }

    /// A place in line, behind the others of the same owner.
    pub(crate) fn line_up(&self, owner: &str) -> Waiting {
        let mut state = self.state();
        state.tickets += 1;
        let (number, called, owner) = (state.tickets, Arc::new(Notify::new()), Arc::<str>::from(owner));
        let ticket = Ticket { number, called: called.clone() };
        match state.lines.iter_mut().find(|(known, _)| *known == owner) {
            Some((_, line)) => line.push_back(ticket),
            None => state.lines.push_back((owner.clone(), VecDeque::from([ticket]))),
        }
        self.0.metrics.lined_up();
        let waiting = Waiting { places: self.clone(), owner, number, called, since: Instant::now(), is_seated: false };
        if state.free > 0 {
            state.free -= 1; // It was given back since somebody looked.
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

    /// Gives a place that nobody has to whoever is next.
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

impl Waiting {
    /// Waits until it is one's turn. May be dropped and called again.
    pub(crate) async fn place(&mut self) -> Place {
        self.called.notified().await;
        self.is_seated = true;
        let metrics = &self.places.0.metrics;
        metrics.seated(self.since.elapsed());
        metrics.place_taken();
        Place { places: self.places.clone(), owner: Some(self.owner.clone()) }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.is_seated {
            return;
        }
        self.places.0.metrics.left_the_line();
        let mut state = self.places.state();
        let line = state.lines.iter().position(|(owner, _)| *owner == self.owner);
        let ticket = line.and_then(|line| {
            let tickets = &mut state.lines[line].1;
            let found = tickets.iter().position(|ticket| ticket.number == self.number)?;
            tickets.remove(found)
        });
        if ticket.is_none() {
            drop(state);
            self.places.give_back(Some(&self.owner)); // It had just been called.
            return;
        }
        state.lines.retain(|(_, tickets)| !tickets.is_empty());
    }
}

impl Place {
    /// Counts it as this owner's.
    pub(crate) fn belongs_to(&mut self, owner: &str) {
        if self.owner.is_none() {
            let owner = Arc::<str>::from(owner);
            *self.places.state().held.entry(owner.clone()).or_default() += 1;
            self.owner = Some(owner);
        }
    }

    /// Whether somebody in line should have it instead: their owner has fewer, and still would not have more.
    pub(crate) fn is_owed(&self) -> bool {
        let Some(owner) = &self.owner else { return false };
        let state = self.places.state();
        let mine = state.held(owner);
        state.lines.iter().any(|(other, _)| other != owner && state.held(other) + 1 < mine)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.0.metrics.place_left();
        self.places.give_back(self.owner.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn places(len: usize) -> Places {
        Places::new(len, Metrics::unregistered())
    }

    fn taken(places: &Places, owner: &str) -> Place {
        let mut place = places.take().expect("a free place");
        place.belongs_to(owner);
        place
    }

    fn called(waiting: &mut Waiting) -> Option<Place> {
        pin!(waiting.place()).now_or_never()
    }

    /// Whoever has fewest places is next, and among equals whoever came first.
    #[tokio::test]
    async fn a_place_goes_to_the_owner_who_has_fewest() {
        let places = places(3);
        let mut held = vec![taken(&places, "many"), taken(&places, "many"), taken(&places, "many")];
        assert!(places.take().is_none());
        let mut many = [places.line_up("many"), places.line_up("many")];
        let (mut few, mut third) = (places.line_up("few"), places.line_up("third"));
        drop(held.pop());
        assert!(called(&mut many[0]).is_none() && called(&mut third).is_none());
        let few = called(&mut few).expect("the first without any");
        drop(held.pop());
        let third = called(&mut third).expect("the other without any");
        drop((few, third));
        assert!(called(&mut many[0]).is_some() && called(&mut many[1]).is_some());
    }

    /// A place is owed to an owner who has fewer, but not handed to and fro between equals.
    #[tokio::test]
    async fn nobody_gives_way_to_an_equal() {
        let places = places(2);
        let (one, two) = (taken(&places, "a"), taken(&places, "a"));
        assert!(!one.is_owed());
        let _own = places.line_up("a");
        assert!(!one.is_owed(), "not to themselves");
        let mut other = places.line_up("b");
        assert!(one.is_owed());
        drop(two);
        let other = called(&mut other).expect("b has none");
        let _more = places.line_up("b");
        assert!(!one.is_owed() && !other.is_owed(), "one each");
    }

    /// Whoever leaves the line, also in the moment they are called, takes no place with them.
    #[tokio::test]
    async fn no_place_is_lost() {
        let places = places(1);
        for owner in ["a", "b"] {
            let place = taken(&places, "a");
            let (left, called_and_left) = (places.line_up(owner), places.line_up("c"));
            drop(left);
            drop(place);
            drop(called_and_left);
            assert!(places.state().held.is_empty() && places.state().lines.is_empty());
        }
        assert!(places.take().is_some());
    }
}
