//! Many chats on one credential: no retry storm, no crowd, and every chat gets its turn.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use everturn::core::chat::TurnEnd;
use everturn::core::error::ErrorKind;
use everturn::core::ids::Timestamp;
use everturn::core::limits::Limits;
use everturn::core::message::Stop;
use everturn::core::view::Event;
use everturn::{Agent, ChatHandle, Engine};
use everturn_understudy::{Script, Understudy, refuse, script, slow, stop, text, wait};
use tokio::time::Instant;

use crate::stage::{Stage, agent};

const CHATS: usize = 50;

/// Chats on one key, and when each request of theirs came.
struct Crowd {
    engine: Engine,
    understudy: Understudy,
    chats: Vec<ChatHandle>,
    asked: Arc<Mutex<Vec<Duration>>>,
}

impl Crowd {
    /// `answers` says what is played to a request that comes after so much time.
    async fn new(agent: Agent, answers: impl Fn(Duration) -> Script + Send + 'static) -> Self {
        let (asked, started) = (Arc::<Mutex<Vec<Duration>>>::default(), Instant::now());
        let log = asked.clone();
        let understudy = Understudy::improvising(move |_| {
            log.lock().unwrap().push(started.elapsed());
            answers(started.elapsed())
        });
        let builder = Engine::builder().provider(understudy.clone()).agent("it", agent);
        let engine = builder.seed(7).starting_at(Timestamp(0)).start();
        let mut chats = Vec::new();
        for _ in 0..CHATS {
            chats.push(engine.create("it").await.unwrap());
        }
        Self { engine, understudy, chats, asked }
    }

    /// All chats are spoken to at once; when all rest, this says how many requests came in which second.
    async fn run(&self) -> Vec<(u64, usize)> {
        for chat in &self.chats {
            chat.send("hi").await.unwrap();
        }
        for chat in &self.chats {
            assert_eq!(chat.rest().await.unwrap().ended(), Some(TurnEnd::Done));
        }
        self.seconds()
    }

    fn seconds(&self) -> Vec<(u64, usize)> {
        let mut seconds: Vec<(u64, usize)> = Vec::new();
        for at in self.asked.lock().unwrap().iter() {
            match seconds.last_mut() {
                Some((second, count)) if *second == at.as_secs() => *count += 1,
                _ => seconds.push((at.as_secs(), 1)),
            }
        }
        seconds
    }
}

fn done() -> Script {
    script([slow(1), text("Done."), stop(Stop::End)])
}

/// A Retry-After of ten seconds for one chat holds back all fifty; then they come back one, two, four… at a time. Each
/// asks twice in all, not eight times.
#[tokio::test(start_paused = true)]
async fn a_retry_after_makes_no_storm() {
    let crowd = Crowd::new(agent(), |at| match at.as_secs() {
        0..10 => script([slow(1), refuse(429).retry_after(10)]),
        _ => done(),
    });
    let crowd = crowd.await;
    let seconds = crowd.run().await;
    let (first, later) = (seconds[0], &seconds[1..]);
    assert_eq!(first, (0, CHATS), "no chat knew of the limit");
    assert_eq!(later.iter().map(|(_, count)| count).sum::<usize>(), CHATS, "{later:?}");
    assert!(later[0].0 >= 10, "{later:?}");
    let mut answered = 0;
    for (at, count) in later {
        assert!(*count <= 1 + answered, "at {at}: {later:?}");
        answered += count;
    }
    for chat in &crowd.chats {
        assert_eq!(chat.attempts(0).await.unwrap().len(), 2);
    }
}

/// Without a Retry-After the credential backs off as one, however many chats use it.
#[tokio::test(start_paused = true)]
async fn a_refusal_without_a_time_makes_no_storm() {
    let crowd = Crowd::new(agent(), |at| match at.as_secs() {
        0..30 => script([slow(1), refuse(429)]),
        _ => done(),
    });
    let crowd = crowd.await;
    let seconds = crowd.run().await;
    let early: usize = seconds.iter().filter(|(at, _)| (1..30).contains(at)).map(|(_, count)| count).sum();
    assert!(early <= 10, "{seconds:?}");
    let late: usize = seconds.iter().filter(|(at, _)| *at >= 30).map(|(_, count)| count).sum();
    assert_eq!(late, CHATS, "{seconds:?}");
}

/// An outage is noticed by five and looked at by one; when it is over, all come back slowly.
#[tokio::test(start_paused = true)]
async fn an_outage_makes_no_storm() {
    let crowd = Crowd::new(agent(), |at| match at.as_secs() {
        0..40 => script([slow(1), refuse(529)]),
        _ => done(),
    });
    let crowd = crowd.await;
    let seconds = crowd.run().await;
    let early: usize = seconds.iter().filter(|(at, _)| (1..40).contains(at)).map(|(_, count)| count).sum();
    assert!(early <= 2, "{seconds:?}");
    let back: Vec<usize> = seconds.iter().filter(|(at, _)| *at >= 40).map(|(_, count)| *count).collect();
    assert_eq!((back[0], back.iter().sum::<usize>()), (1, CHATS), "{seconds:?}");
}

/// I16: and they do come back: a chat that found a probe under way waits little longer than the probe took.
#[tokio::test(start_paused = true)]
async fn an_outage_ends_for_all_chats() {
    let crowd = Crowd::new(agent(), |at| match at.as_secs() {
        0..40 => script([slow(1), refuse(529)]),
        _ => done(),
    });
    let seconds = crowd.await.run().await;
    let looks: Vec<u64> = seconds.iter().map(|(at, _)| *at).filter(|at| *at >= 30).take(2).collect();
    assert!(looks[1] - looks[0] <= 32, "{seconds:?}");
    let last = seconds.last().unwrap().0;
    assert!(last <= looks[1] + 12, "the one that looks is back after a second, the others in waves: {seconds:?}");
}

/// I16: a probe that has begun to stream has shown enough. No chat waits for its end.
#[tokio::test(start_paused = true)]
async fn a_probe_that_streams_opens_the_door() {
    let crowd = Crowd::new(agent(), |at| match at.as_secs() {
        0..20 => script([refuse(529)]),
        20..60 => script([slow(2), text("Do"), wait(100), text("ne."), stop(Stop::End)]),
        _ => done(),
    });
    let crowd = crowd.await;
    for chat in &crowd.chats[..5] {
        chat.send("hi").await.unwrap(); // All are refused, and that is an outage.
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let asked = crowd.asked.lock().unwrap().iter().filter(|at| at.as_secs() >= 20).count();
    assert_eq!(asked, 5, "all of them got in behind one that speaks");
    crowd.chats[5].send("hi").await.unwrap();
    assert_eq!(crowd.chats[5].rest().await.unwrap().ended(), Some(TurnEnd::Done));
    assert!(crowd.asked.lock().unwrap().last().unwrap().as_secs() < 62, "{:?}", crowd.seconds());
    crowd.engine.shutdown().await;
}

/// I18: agents on one credential may have limits of their own. A chat with a shorter longest wait asks again in between.
#[tokio::test(start_paused = true)]
async fn a_door_may_be_shut_for_longer_than_one_waits() {
    let mut patient = Limits::default();
    patient.retry.retry_after_max = Duration::from_secs(600);
    let understudy = Understudy::new([script([refuse(429).retry_after(300)]), done(), done()]);
    let stage = Stage::built(understudy, agent(), |builder| builder.agent("patient", agent().limits(patient))).await;
    let (first, began) = (stage.engine.create("patient").await.unwrap(), Instant::now());
    first.send("hi").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    stage.chat.send("hi").await.unwrap();
    assert_eq!((stage.ended().await, stage.chat.attempts(0).await.unwrap().len()), (TurnEnd::Done, 1));
    assert!(began.elapsed() >= Duration::from_secs(300), "{:?}", began.elapsed());
}

/// Only so many at once, first come, first served.
#[tokio::test(start_paused = true)]
async fn only_so_many_at_once() {
    let mut limits = Limits::default();
    limits.governor.at_once_max = 5;
    let crowd =
        Crowd::new(agent().limits(limits), |_| script([text("Do"), wait(10), text("ne."), stop(Stop::End)])).await;
    let understudy = crowd.understudy.clone();
    let crowding = tokio::spawn(async move {
        let mut most = 0;
        loop {
            most = most.max(understudy.streams_open());
            tokio::time::sleep(Duration::from_secs(1)).await;
            if understudy.streams_open() == 0 {
                return most;
            }
        }
    });
    let seconds = crowd.run().await;
    assert_eq!(seconds, (0..10).map(|wave| (wave * 10, 5)).collect::<Vec<_>>());
    assert_eq!(crowding.await.unwrap(), 5);
}

/// A chat in line can be interrupted at once, and the line goes on.
#[tokio::test(start_paused = true)]
async fn an_interrupt_leaves_the_line() {
    let mut limits = Limits::default();
    limits.governor.at_once_max = 1;
    let crowd =
        Crowd::new(agent().limits(limits), |_| script([text("Do"), wait(10), text("ne."), stop(Stop::End)])).await;
    for chat in &crowd.chats[..3] {
        chat.send("hi").await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let before = Instant::now();
    crowd.chats[1].interrupt().await.unwrap();
    assert_eq!(crowd.chats[1].rest().await.unwrap().ended(), Some(TurnEnd::Interrupted));
    assert!(before.elapsed() < Duration::from_millis(1));
    assert_eq!(crowd.chats[2].rest().await.unwrap().ended(), Some(TurnEnd::Done));
    assert_eq!(crowd.seconds(), [(0, 1), (10, 1)]);
    crowd.engine.shutdown().await;
}

/// I18: a wait that another chat was told is stored here as well, shown, and kept by the process that takes over.
#[tokio::test(start_paused = true)]
async fn a_shut_door_is_stored() {
    let understudy = Understudy::new([script([refuse(429).retry_after(60)]), done(), done()]);
    let stage = Stage::new(understudy, agent()).await;
    let mut watch = stage.watch();
    stage.chat.send("hi").await.unwrap();
    watch.until(|event| matches!(event, Event::Standing(standing) if standing.retry.is_some())).await;
    let other = stage.engine.create("it").await.unwrap();
    let mut events = other.events(None);
    other.send("hi").await.unwrap();
    let retry = loop {
        if let Event::Standing(standing) = events.next().await.unwrap()
            && let Some(retry) = standing.retry
        {
            break retry;
        }
    };
    assert_eq!((retry.kind, retry.attempt), (ErrorKind::RateLimit, 0));
    assert!((60_000..=61_000).contains(&retry.until.0), "{:?}", retry.until);
    assert_eq!(stage.understudy.requests().len(), 1, "it never asked");
    stage.engine.shutdown().await;
    let builder = Engine::builder().store(stage.store.clone()).provider(stage.understudy.clone());
    let next = builder.agent("it", agent()).starting_at(Timestamp(0)).start();
    next.resume().await.unwrap();
    let before = Instant::now();
    assert_eq!(next.chat(other.id()).rest().await.unwrap().ended(), Some(TurnEnd::Done));
    assert!(before.elapsed() >= Duration::from_secs(60));
}
