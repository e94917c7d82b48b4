//! One thing that goes wrong, played on every wire.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use everturn::core::chat::TurnEnd;
use everturn::core::limits::Limits;
use everturn::core::message::{Body, Stop};
use everturn::core::retry::RetryLimits;
use everturn_understudy::{Cue, Heard, Script, Understudy, script, stop, usage, words};

use super::front::First;
use super::set::{Sockets, Stage};
use super::trace;
use super::way::Way;

/// How many words the answer has, and after how many of them something happens.
pub const WHOLE: u32 = 24;
pub const HALF: u32 = 14;
/// How many words a model says again when it goes on.
const AGAIN: usize = 10;
/// The longest any of this may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Something that goes wrong.
pub struct Case {
    pub name: &'static str,
    /// Where it cannot be, and why.
    pub excused: Vec<(Way, &'static str)>,
    scripts: Box<dyn Fn(Way) -> Vec<Script>>,
    pub faults: &'static str,
    pub limits: Limits,
    pub place: Place,
    then: Then,
    turns: usize,
    pub kept_len_max: usize,
    pub falls_back: bool,
}

/// Where the adapter looks for its provider.
pub enum Place {
    /// Where it is.
    There,
    /// There, expecting it to speak TLS.
    Secure,
    /// Under a name that has no address.
    Nameless,
    /// Where it will be, after the first try.
    Later,
    /// Where nothing listens.
    Gone,
    /// Where a listener takes no more connections.
    Full,
    /// Behind a proxy that answers the first request wrongly.
    Behind(Box<dyn Fn(Way) -> First>),
}

/// What the user does meanwhile.
#[derive(Clone, Copy)]
pub enum Then {
    /// Waits.
    Waits,
    /// Interrupts once so many words were seen.
    Interrupts(u32),
    /// Interrupts once the next attempt waits.
    InterruptsTheWait,
}

impl Case {
    /// Nothing goes wrong yet: the model counts to the end, and goes on when it is asked to.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            excused: Vec::new(),
            scripts: Box::new(|_| Vec::new()),
            faults: "",
            limits: limits(),
            place: Place::There,
            then: Then::Waits,
            turns: 1,
            kept_len_max: 1,
            falls_back: false,
        }
    }

    /// The model counts half of the way; then this happens. A generation that is kept is not stopped by it.
    pub fn half_way(self, cues: impl Fn(Way) -> Vec<Cue> + 'static) -> Self {
        let rest = || vec![words(&numbers(HALF + 1, WHOLE)), usage(100, 24), stop(Stop::End)];
        self.scripts(move |way| {
            let half = vec![words(&format!("{} ", numbers(1, HALF)))];
            vec![script([half, cues(way), rest()].concat())]
        })
    }

    /// These are played first; then the model counts.
    pub fn scripts(self, scripts: impl Fn(Way) -> Vec<Script> + 'static) -> Self {
        Self { scripts: Box::new(scripts), ..self }
    }

    /// The first request meets this instead of an answer.
    pub fn first(self, cue: impl Fn() -> Cue + 'static) -> Self {
        self.scripts(move |_| vec![script([cue()])])
    }

    /// A fault of the server's, by name.
    pub fn fault(self, faults: &'static str) -> Self {
        Self { faults, ..self }
    }

    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    pub fn place(self, place: Place) -> Self {
        Self { place, ..self }
    }

    /// The first request gets these bytes.
    pub fn answered_with(self, bytes: impl Fn(Way) -> Vec<u8> + 'static) -> Self {
        self.place(Place::Behind(Box::new(move |way| First::Says(bytes(way)))))
    }

    pub fn then(self, then: Then) -> Self {
        Self { then, ..self }
    }

    /// A turn went well before.
    pub fn after_a_turn(self) -> Self {
        Self { turns: 2, ..self }
    }

    /// The provider keeps no generation for long.
    pub fn forgetful(self) -> Self {
        Self { kept_len_max: 0, ..self }
    }

    /// There is another model to ask.
    pub fn or_another_model(self) -> Self {
        Self { falls_back: true, ..self }
    }

    /// There is no such thing on these wires, because…
    pub fn except(mut self, ways: impl IntoIterator<Item = Way>, why: &'static str) -> Self {
        self.excused.extend(ways.into_iter().map(|way| (way, why)));
        self
    }

    /// There is such a thing on this wire alone, because…
    pub fn only(self, way: Way, why: &'static str) -> Self {
        self.except(Way::ALL.into_iter().filter(|other| *other != way), why)
    }

    /// The ways it is played.
    pub fn ways(&self) -> impl Iterator<Item = Way> {
        Way::ALL.into_iter().filter(|way| self.excused.iter().all(|(excused, _)| excused != way))
    }

    /// Plays it one way, and tells what came of it.
    pub async fn play(&self, way: Way, sockets: &Sockets) -> String {
        let played = tokio::time::timeout(PATIENCE, self.played(way, sockets)).await;
        played.unwrap_or_else(|_| panic!("{} on {way} does not come to an end", self.name))
    }

    async fn played(&self, way: Way, sockets: &Sockets) -> String {
        let understudy = counting((self.scripts)(way));
        let stage = Stage::set(self, way, understudy.clone(), sockets).await;
        for _ in 1..self.turns {
            stage.chat.send("Hi.").await.unwrap();
            assert_eq!(stage.chat.rest().await.unwrap().ended(), Some(TurnEnd::Done));
        }
        let before = stage.requests().len();
        let (seen, end) = stage.turn(self.then).await;
        let answers = stage.chat.transcript().await.unwrap();
        let said = answers.iter().rev().find_map(|message| match &message.body {
            Body::Reply(reply) => Some(reply.text()),
            _ => None,
        });
        let said = said.unwrap_or_default();
        if end == TurnEnd::Done && said.starts_with("t1 ") {
            assert_eq!(said, numbers(1, WHOLE), "{} on {way}: nothing is lost and nothing doubled", self.name);
        }
        stage.stream_is_closed().await;
        let mut attempts = stage.chat.attempts(0).await.unwrap();
        attempts.retain(|row| self.turns == 1 || row.step.0 > 1);
        let told = [seen, trace::rows(&attempts), trace::asked(&stage.requests()[before..])].concat();
        let told = without_ports(&told.replace(" (os error 111)", "").replace(way.name(), "PROVIDER"));
        assert!(!told.contains(everturn_understudy::http::KEY), "{} on {way} tells the key: {told}", self.name);
        told
    }
}

/// Limits for tests: little time.
pub fn limits() -> Limits {
    let delay = Duration::from_millis(20);
    let retry = RetryLimits { tries_max: 3, delay_base: delay, delay_max: delay, ..RetryLimits::default() };
    Limits { retry, ..Limits::default() }
}

/// A model that plays some scripts, and then counts.
pub fn counting(scripts: Vec<Script>) -> Understudy {
    let played = AtomicUsize::new(0);
    Understudy::hearing(move |heard| {
        let number = played.fetch_add(1, Ordering::SeqCst);
        scripts.get(number).cloned().unwrap_or_else(|| count(heard))
    })
}

/// Counts, or goes on counting, and says some words again if there are enough: one word could be meant.
fn count(heard: &Heard) -> Script {
    let said = heard.half_said.split_whitespace().count();
    let from = (said + 1 - if said < AGAIN { 0 } else { AGAIN }) as u32;
    script([words(&numbers(from, WHOLE)), usage(100, 24), stop(Stop::End)])
}

/// The numbers from one to another, as words.
pub fn numbers(first: u32, last: u32) -> String {
    (first..=last).map(|number| format!("t{number}")).collect::<Vec<_>>().join(" ")
}

/// The host without its port, which is another one every time.
fn without_ports(told: &str) -> String {
    let mut hosts = told.split("127.0.0.1:");
    let first = hosts.next().unwrap_or_default().to_owned();
    hosts.fold(first, |told, rest| told + "HOST" + rest.trim_start_matches(|c: char| c.is_ascii_digit()))
}
