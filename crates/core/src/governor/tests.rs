use proptest::prelude::*;

use super::*;

fn model(name: &str) -> ModelId {
    format!("test/{name}").parse().unwrap()
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn at(seconds: i64) -> Timestamp {
    Timestamp(seconds * 1_000)
}

fn limits(at_once_max: usize) -> Limits {
    let governor = GovernorLimits { at_once_max, ramp_from: 1, ramp_max: 8 };
    Limits { governor, ..Limits::default() }
}

fn refusal(kind: ErrorKind, retry: Retry) -> ProviderError {
    ProviderError::new("test", kind).with_retry(retry)
}

fn too_often(retry: Retry) -> ProviderError {
    refusal(ErrorKind::RateLimit, retry)
}

/// So many at once, as far as they get.
fn go(governor: &mut Governor, places: std::ops::Range<u64>, now: Timestamp) -> Vec<AttemptPermit> {
    let asked = places.map(|place| governor.ask(QueueTicket(place), &model("m"), now, 0.5));
    let passes = asked.collect::<Vec<_>>().into_iter().filter_map(|answer| match answer {
        PermitDecision::Go(pass) => Some(pass),
        PermitDecision::InLine | PermitDecision::NotBefore(_) => None,
    });
    passes.collect()
}

fn shut(answer: &PermitDecision) -> Option<(i64, BlockScope)> {
    match answer {
        PermitDecision::NotBefore(Blocked { until, door, .. }) => Some((until.0, *door)),
        PermitDecision::Go(_) | PermitDecision::InLine => None,
    }
}

/// P6, 90–94: what one is told holds for all on the key, those of another model too, and they come back spread.
#[test]
fn a_retry_after_is_everybodys() {
    let mut governor = Governor::new(&limits(100));
    let mut passes = go(&mut governor, 0..2, at(0));
    let told = too_often(Retry::After(secs(7)));
    governor.ended(passes.remove(0), AttemptEnd::Broke(&told), at(0), 0.9);
    for (jitter, until) in [(0.0, 7_000), (0.5, 7_500), (1.0, 8_000)] {
        let answer = governor.ask(QueueTicket(9), &model("other"), at(1), jitter);
        assert_eq!(shut(&answer), Some((until, BlockScope::Credential)));
    }
    let longer = refusal(ErrorKind::Overloaded, Retry::After(secs(20)));
    governor.ended(passes.remove(0), AttemptEnd::Broke(&longer), at(2), 0.9);
    assert_eq!(
        shut(&governor.ask(QueueTicket(9), &model("m"), at(7), 0.0)),
        Some((22_000, BlockScope::Credential)),
        "the longest counts"
    );
    assert_eq!(go(&mut governor, 9..10, at(22)).len(), 1);
}

/// P6: a wait that a person should know of does not hold up everybody unseen.
#[test]
fn an_absurd_retry_after_shuts_the_door_for_as_long_as_anyone_waits() {
    let mut governor = Governor::new(&limits(100));
    let pass = go(&mut governor, 0..1, at(0)).remove(0);
    governor.ended(pass, AttemptEnd::Broke(&too_often(Retry::After(secs(1_000_000)))), at(0), 0.5);
    assert_eq!(shut(&governor.ask(QueueTicket(9), &model("m"), at(1), 0.0)), Some((120_000, BlockScope::Credential)));
    let mut governor = Governor { until: at(1_000_000), ..Governor::new(&limits(1)) };
    assert!(
        matches!(governor.ask(QueueTicket(1), &model("m"), at(0), 0.0), PermitDecision::Go(_)),
        "the clock was put back"
    );
}

/// Without a Retry-After the key backs off by itself. A hundred that were refused together are one refusal.
#[test]
fn refusals_without_a_time_back_off() {
    let mut governor = Governor::new(&limits(100));
    let mut now = at(0);
    let mut spans = Vec::new();
    for _ in 0..8 {
        let passes = go(&mut governor, 0..50, now);
        for pass in passes {
            governor.ended(pass, AttemptEnd::Broke(&too_often(Retry::Backoff)), now, 1.0);
        }
        let waiting: Vec<QueueTicket> = governor.line.iter().copied().collect();
        waiting.into_iter().for_each(|place| governor.leave(place));
        spans.push(governor.until.since(now).as_secs());
        now = governor.until;
    }
    assert_eq!(spans, [1, 2, 4, 8, 16, 32, 60, 60]);
    let mut pass = go(&mut governor, 0..1, now).remove(0);
    governor.opened(&mut pass);
    governor.ended(pass, AttemptEnd::Broke(&too_often(Retry::Backoff)), now, 1.0);
    assert_eq!(governor.until.since(now), secs(1), "an answer in between starts the count again");
}

/// After an outage one goes first; each that gets an answer lets in one more, and then the door is wide open.
#[test]
fn an_outage_ends_slowly() {
    let mut governor = Governor::new(&limits(1_000));
    let pass = go(&mut governor, 0..1, at(0)).remove(0);
    governor.ended(pass, AttemptEnd::Broke(&too_often(Retry::After(secs(7)))), at(0), 0.5);
    let mut waves = Vec::new();
    let mut open = Vec::new();
    let mut next = 1;
    while next < 101 {
        let wave = go(&mut governor, next..101, at(8));
        waves.push(wave.len());
        next += wave.len() as u64;
        for mut pass in wave {
            governor.opened(&mut pass);
            open.push(pass);
        }
    }
    assert_eq!(waves, [1, 2, 4, 93], "eight at once are no ramp any more");
    let error = refusal(ErrorKind::Config, Retry::Never);
    for pass in open.drain(..) {
        governor.ended(pass, AttemptEnd::Broke(&error), at(9), 0.5);
    }
    assert_eq!((governor.running, governor.opening), (0, 0));
}

/// A refusal that is about the request, not about the key, is as good as an answer.
#[test]
fn a_bad_request_is_proof_of_life() {
    let mut governor = Governor::new(&limits(100));
    let pass = go(&mut governor, 0..1, at(0)).remove(0);
    governor.ended(pass, AttemptEnd::Broke(&too_often(Retry::After(secs(1)))), at(0), 0.5);
    let pass = go(&mut governor, 1..9, at(2)).remove(0);
    governor.ended(pass, AttemptEnd::Broke(&refusal(ErrorKind::Config, Retry::Never)), at(2), 0.5);
    assert_eq!(governor.called().count(), 2);
    let pass = go(&mut governor, 2..3, at(2)).remove(0);
    governor.ended(pass, AttemptEnd::Broke(&refusal(ErrorKind::Timeout, Retry::Backoff)), at(2), 0.5);
    assert_eq!(governor.called().count(), 2, "a failure is not");
    let pass = go(&mut governor, 3..4, at(2)).remove(0);
    governor.ended(pass, AttemptEnd::Untold, at(2), 0.5);
    assert_eq!(governor.called().count(), 2, "nor is an attempt without an outcome");
}

/// A model that fails everybody is left alone; the key's other models are not.
#[test]
fn a_broken_model_is_left_alone() {
    let mut governor = Governor::new(&limits(100));
    let down = refusal(ErrorKind::Overloaded, Retry::Backoff);
    for pass in go(&mut governor, 0..5, at(0)) {
        governor.ended(pass, AttemptEnd::Broke(&down), at(0), 0.5);
    }
    assert_eq!(shut(&governor.ask(QueueTicket(6), &model("m"), at(1), 0.5)), Some((30_000, BlockScope::Model)));
    assert_eq!(governor.shut(&model("other"), at(1)), None);
    assert_eq!(governor.ramp, Some(1));
    let mut probe = go(&mut governor, 6..9, at(30));
    assert_eq!(probe.len(), 1, "one looks");
    let is_shut = Blocked { until: at(38), door: BlockScope::Model, error: down };
    assert_eq!(governor.shut(&model("m"), at(34)), Some(is_shut));
    assert_eq!(
        shut(&governor.ask(QueueTicket(7), &model("m"), at(34), 0.5)),
        Some((38_500, BlockScope::Model)),
        "spread"
    );
    governor.opened(&mut probe[0]);
    assert!(governor.shut(&model("m"), at(34)).is_some(), "it may still say nothing");
    governor.spoke(&mut probe[0]);
    assert_eq!(governor.shut(&model("m"), at(34)), None, "and need not say all");
    governor.ended(probe.remove(0), AttemptEnd::Answered, at(31), 0.5);
    assert_eq!(governor.shut(&model("m"), at(31)), None);
}

/// A blocked attempt gets the error that caused the block, not one that might have.
#[test]
fn a_shut_door_tells_the_real_error() {
    let mut governor = Governor::new(&limits(100));
    let broken = refusal(ErrorKind::Generic, Retry::Backoff).with_detail("a worker died");
    let cut = refusal(ErrorKind::Truncated, Retry::Backoff);
    let errors = [&cut, &cut, &cut, &cut, &broken];
    for (pass, error) in go(&mut governor, 0..5, at(0)).into_iter().zip(errors) {
        governor.ended(pass, AttemptEnd::Broke(error), at(0), 0.5);
    }
    assert_eq!(governor.shut(&model("m"), at(1)).map(|shut| shut.error), Some(broken));
    let busy = refusal(ErrorKind::Overloaded, Retry::After(secs(20)));
    let pass = match governor.ask(QueueTicket(9), &model("other"), at(1), 0.5) {
        PermitDecision::Go(pass) => pass,
        answer => panic!("{answer:?}"),
    };
    governor.ended(pass, AttemptEnd::Broke(&busy), at(1), 0.5);
    let shut = governor.shut(&model("m"), at(2)).unwrap();
    assert_eq!((shut.door, shut.error), (BlockScope::Credential, busy));
}

/// First come, first served; leaving the queue makes room.
#[test]
fn the_line_is_a_line() {
    let mut governor = Governor::new(&limits(2));
    let mut passes = go(&mut governor, 0..5, at(0));
    assert_eq!(passes.len(), 2);
    assert!(
        matches!(governor.ask(QueueTicket(4), &model("m"), at(0), 0.5), PermitDecision::InLine),
        "asking again does not help"
    );
    governor.ended(passes.remove(0), AttemptEnd::Answered, at(1), 0.5);
    assert_eq!(governor.called().collect::<Vec<_>>(), [QueueTicket(2)]);
    assert!(
        matches!(governor.ask(QueueTicket(5), &model("m"), at(1), 0.5), PermitDecision::InLine),
        "no attempt overtakes another"
    );
    governor.leave(QueueTicket(2));
    assert_eq!(governor.called().collect::<Vec<_>>(), [QueueTicket(3)]);
    assert!(matches!(governor.ask(QueueTicket(3), &model("m"), at(1), 0.5), PermitDecision::Go(_)));
}

/// A governor with limits of zero admits one attempt.
#[test]
fn absurd_limits_let_one_through() {
    let governor = GovernorLimits { at_once_max: 0, ramp_from: 0, ramp_max: 0 };
    let mut governor = Governor::new(&Limits { governor, ..Limits::default() });
    for round in 0..3 {
        let mut passes = go(&mut governor, 0..3, at(round * 100));
        assert_eq!(passes.len(), 1);
        governor.ended(passes.remove(0), AttemptEnd::Broke(&too_often(Retry::After(secs(9)))), at(round * 100), 0.5);
        (0..3).for_each(|place| governor.leave(QueueTicket(place)));
    }
}

/// Something that happens to a governor.
#[derive(Debug, Clone)]
enum Op {
    Ask(u8),
    Open(usize),
    Speak(usize),
    End(usize, Outcome),
    Leave(usize),
    Pass(u64),
}

#[derive(Debug, Clone, Copy)]
enum Outcome {
    Answered,
    Untold,
    TooOften(Option<u64>),
    Fails,
    Refused,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let outcome = prop_oneof![
        3 => Just(Outcome::Answered),
        1 => Just(Outcome::Untold),
        2 => prop::option::of(0..200_u64).prop_map(Outcome::TooOften),
        2 => Just(Outcome::Fails),
        1 => Just(Outcome::Refused),
    ];
    let op = prop_oneof![
        4 => (0..2_u8).prop_map(Op::Ask),
        2 => any::<usize>().prop_map(Op::Open),
        1 => any::<usize>().prop_map(Op::Speak),
        4 => (any::<usize>(), outcome).prop_map(|(which, outcome)| Op::End(which, outcome)),
        1 => any::<usize>().prop_map(Op::Leave),
        2 => (0..60_000_u64).prop_map(Op::Pass),
    ];
    prop::collection::vec(op, 0..200)
}

/// A governor, its callers, and what it promised them.
struct World {
    governor: Governor,
    now: Timestamp,
    waiting: Vec<(QueueTicket, ModelId)>,
    going: Vec<AttemptPermit>,
    next: u64,
    /// No attempt may go before this: the latest time a provider asked for.
    promised: Timestamp,
    /// How many got through since the last outage.
    welcomed: usize,
    outages: u64,
}

impl World {
    fn new(at_once_max: usize) -> Self {
        let governor = Governor::new(&limits(at_once_max));
        let (now, promised) = (at(0), at(0));
        Self { governor, now, waiting: vec![], going: vec![], next: 0, promised, welcomed: 0, outages: 0 }
    }

    fn ask(&mut self, place: QueueTicket, model: ModelId) {
        match self.governor.ask(place, &model, self.now, 0.3) {
            PermitDecision::InLine => self.waiting.push((place, model)),
            PermitDecision::NotBefore(shut) => assert!(shut.until > self.now),
            PermitDecision::Go(pass) => {
                assert!(self.now >= self.promised, "an attempt went before the time");
                assert!(self.waiting.iter().all(|(other, _)| *other > place), "an attempt overtook another");
                self.going.push(pass);
                let opening = self.going.iter().filter(|pass| !pass.opened).count();
                assert!(self.going.len() <= self.governor.limits.at_once_max, "too many at once");
                let ramp_max = self.governor.limits.ramp_max;
                assert!(self.outages == 0 || self.welcomed + 1 >= ramp_max || opening <= 1 + self.welcomed, "too fast");
            }
        }
    }

    /// Called tickets ask again, until none is called.
    fn serve(&mut self) {
        loop {
            let called = self.governor.called().next();
            let Some(called) = called else { return };
            let at = self.waiting.iter().position(|(place, _)| *place == called).expect("the line knows its places");
            let (place, model) = self.waiting.remove(at);
            self.ask(place, model);
        }
    }

    fn noted(&mut self, welcome: bool) {
        if self.governor.outages != self.outages {
            (self.outages, self.welcomed) = (self.governor.outages, 0);
        } else {
            self.welcomed += usize::from(welcome);
        }
    }

    fn end(&mut self, which: usize, outcome: Outcome) {
        let pass = self.going.remove(which);
        let error = match outcome {
            Outcome::Answered | Outcome::Untold => None,
            Outcome::TooOften(None) => Some(too_often(Retry::Backoff)),
            Outcome::TooOften(Some(wait)) => {
                self.promised = self.promised.max(self.now + secs(wait.min(120)));
                Some(too_often(Retry::After(secs(wait))))
            }
            Outcome::Fails => Some(refusal(ErrorKind::Overloaded, Retry::Backoff)),
            Outcome::Refused => Some(refusal(ErrorKind::Config, Retry::Never)),
        };
        let how = match (&error, outcome) {
            (Some(error), _) => AttemptEnd::Broke(error),
            (None, Outcome::Untold) => AttemptEnd::Untold,
            (None, _) => AttemptEnd::Answered,
        };
        let welcome = !pass.opened && matches!(outcome, Outcome::Answered | Outcome::Refused);
        self.governor.ended(pass, how, self.now, 0.3);
        self.noted(welcome);
    }

    fn happen(&mut self, op: Op) {
        match op {
            Op::Ask(kind) => {
                self.next += 1;
                self.ask(QueueTicket(self.next), model(&kind.to_string()));
            }
            Op::Open(which) if !self.going.is_empty() => {
                let which = which % self.going.len();
                let welcome = !self.going[which].opened;
                self.governor.opened(&mut self.going[which]);
                self.noted(welcome);
            }
            Op::Speak(which) if !self.going.is_empty() => {
                let which = which % self.going.len();
                self.governor.spoke(&mut self.going[which]);
            }
            Op::End(which, outcome) if !self.going.is_empty() => self.end(which % self.going.len(), outcome),
            Op::Leave(which) if !self.waiting.is_empty() => {
                let (place, _) = self.waiting.remove(which % self.waiting.len());
                self.governor.leave(place);
            }
            Op::Pass(millis) => self.now = self.now + Duration::from_millis(millis),
            Op::Open(_) | Op::Speak(_) | Op::End(..) | Op::Leave(_) => {}
        }
        self.serve();
    }
}

proptest! {
    /// Under any faults: no attempt goes before the time, none overtakes another, never too many run at once,
    /// and after an outage they go no faster than answers come. Once faults stop, every queued attempt goes
    /// exactly once.
    #[test]
    fn a_governor_keeps_its_promises(ops in ops(), at_once_max in 1..12_usize) {
        let mut world = World::new(at_once_max);
        for op in ops {
            world.happen(op);
        }
        world.now = world.now + secs(150); // Longer than any door stays shut.
        let mut left = world.going.len() + world.waiting.len();
        while !world.going.is_empty() || !world.waiting.is_empty() {
            world.serve();
            if !world.going.is_empty() {
                world.end(0, Outcome::Answered);
            }
            prop_assert!(left > 0, "no attempt is served any more");
            left -= 1;
        }
        prop_assert_eq!((world.governor.running, world.governor.opening, world.governor.line.len()), (0, 0, 0));
    }
}
