//! Background generations whose drivers die anywhere: a handle is stored together with the deltas it covers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use everturn::core::chat::TurnEnd;
use everturn::core::delta::{Delta, GenerationHandle};
use everturn::core::error::{Cause, ErrorKind, ProviderError};
use everturn::core::ids::Timestamp;
use everturn::core::message::{Body, Seal, Stop};
use everturn::core::prompt::{Request, Target, WireFormat};
use everturn::core::recovery::Reattach;
use everturn::core::view::View;
use everturn::providers::{Frame, FrameStream, ModelFacts, Provider};
use everturn::{Agent, Background, Drivers, Engine};
use everturn_understudy::Understudy;
use futures_util::{StreamExt as _, stream};

use crate::crash::{die_at, half_said};
use crate::stage::agent;
use crate::stepwise::Stepwise;

const WORDS: &str = "amber basalt coral dunes ember fjord glacier harbour island jungle";
/// How much of it the first generation says before it fails.
const HALF: usize = 31;

/// A provider that keeps every generation and can send each from any event on. The first one
/// fails half-way. One that goes on thinks first, and says the last two words again.
#[derive(Clone)]
struct Keeper {
    facts: ModelFacts,
    generations: Arc<Mutex<Vec<Generation>>>,
    /// Between two events.
    pace: Duration,
}

#[derive(Clone)]
struct Generation {
    events: Vec<Vec<Delta>>,
    ends: Result<Stop, ProviderError>,
}

impl Keeper {
    fn new(pace: Duration) -> Self {
        let mut facts = Understudy::new([]).facts("one");
        facts.target = Target::new(WireFormat::OpenAiResponses, "understudy");
        facts.can.reattach = Reattach::Yes;
        Self { facts, generations: Arc::default(), pace }
    }

    fn tell(&self, number: usize, after: usize) -> FrameStream {
        let Generation { events, ends } = self.generations.lock().unwrap()[number].clone();
        let told = events.into_iter().zip(1..).skip(after).map(move |(deltas, cursor)| {
            let handle = GenerationHandle { id: number.to_string(), cursor: cursor.to_string() };
            Ok(Frame::Together([deltas, vec![Delta::Handle(Box::new(handle))]].concat()))
        });
        let pace = self.pace;
        let paced = stream::iter(told.chain([ends.map(Frame::Stop)])).then(move |frame| async move {
            if !pace.is_zero() {
                tokio::time::sleep(pace).await;
            }
            frame
        });
        paced.boxed()
    }
}

#[async_trait]
impl Provider for Keeper {
    fn name(&self) -> &str {
        "understudy"
    }

    fn facts(&self, _model: &str) -> ModelFacts {
        self.facts.clone()
    }

    async fn open(&self, request: Request) -> Result<FrameStream, ProviderError> {
        let said = half_said(&request);
        let generation = match said.trim_end().rmatch_indices(' ').nth(1) {
            _ if said.is_empty() => Generation {
                events: by_word(&WORDS[..HALF]),
                ends: Err(ProviderError::new("understudy", ErrorKind::Timeout).with_cause(Cause::ErrorFinish)),
            },
            at => Generation {
                events: [thinks(), by_word(&WORDS[at.map_or(0, |(at, _)| at + 1)..])].concat(),
                ends: Ok(Stop::End),
            },
        };
        let mut generations = self.generations.lock().unwrap();
        generations.push(generation);
        let number = generations.len() - 1;
        drop(generations);
        Ok(self.tell(number, 0))
    }

    async fn reattach(&self, _model: &str, handle: &GenerationHandle) -> Result<FrameStream, ProviderError> {
        Ok(self.tell(handle.id.parse().unwrap(), handle.cursor.parse().unwrap()))
    }
}

/// Nothing yet, and then an event a word, in two pieces.
fn by_word(words: &str) -> Vec<Vec<Delta>> {
    let pieces = |word: &str| {
        let (head, tail) = word.split_at(1);
        vec![Delta::Text(head.into()), Delta::Text(tail.into())]
    };
    [vec![Delta::ResponseId("r".into())]].into_iter().chain(words.split_inclusive(' ').map(pieces)).collect()
}

fn thinks() -> Vec<Vec<Delta>> {
    let sealed = Delta::Sealed(Seal::Signature("sig".into()));
    vec![vec![Delta::Reasoning("Where was I?".into())], vec![sealed, Delta::Ended]]
}

fn keeping(batch_len_max: usize) -> Agent {
    let mut agent = Agent { background: Background::On, ..agent() };
    agent.limits.batch_len_max = batch_len_max;
    agent
}

/// Plays a turn with processes that die at these points. Every word is said once, at one seam, the watcher saw just
/// that, and `true` if the first process lived to the end.
async fn survive(keeper: &Keeper, agent: &Agent, deaths: &[usize]) -> bool {
    keeper.generations.lock().unwrap().clear();
    let store = Arc::new(Stepwise::default());
    let process = |number: u64| {
        let builder = Engine::builder().store(store.clone()).provider(keeper.clone()).agent("it", agent.clone());
        builder.seed(number).starting_at(Timestamp(number as i64 * 1_000_000)).drivers(Drivers::ByHand).start()
    };
    let first = process(1);
    let chat = first.create("it").await.unwrap();
    chat.send("go").await.unwrap();
    let (mut watched, mut cursor, mut lived) = (View::default(), None, false);
    for (number, death) in deaths.iter().map(Some).chain([None]).enumerate() {
        let process = process(number as u64 + 2);
        let chat = process.chat(chat.id());
        match death {
            Some(waits) => lived |= die_at(chat.advance(), *waits).await,
            None => chat.advance().await.unwrap(),
        }
        let mut events = chat.events(cursor);
        while let Some(event) = events.try_next().await.unwrap() {
            watched.fold(&event).unwrap();
        }
        cursor = events.cursor();
    }
    let at = format!("after {deaths:?}, by {}", agent.limits.batch_len_max);
    assert_eq!(chat.rest().await.unwrap().ended(), Some(TurnEnd::Done), "{at}");
    let Some(Body::Reply(reply)) = watched.messages.last().map(|message| &message.body) else { panic!("{at}") };
    assert_eq!(reply.text(), WORDS, "{at}");
    assert_eq!(reply.seams.len(), 1, "{at}");
    lived
}

/// AW20, AW21: a driver dies at every point of an answer that is kept, in the head of a continuation too, with a bound on
/// batches anywhere between an event's deltas and its handle. The next one reads on behind what is stored: nothing is
/// lost and nothing is said twice.
#[tokio::test(start_paused = true)]
async fn a_reader_of_a_kept_generation_may_die_anywhere() {
    for pace in [Duration::from_millis(20), Duration::ZERO] {
        for batch_len_max in [1, 2, 4, 1024] {
            let (keeper, agent) = (Keeper::new(pace), keeping(batch_len_max));
            let mut waits = 0;
            while !survive(&keeper, &agent, &[waits]).await {
                waits += 1;
            }
            assert!(waits > 10, "a turn waits often: {waits}");
        }
    }
}

/// A second death while the generation is read on is survived too.
#[tokio::test(start_paused = true)]
async fn a_second_reader_may_die_anywhere_too() {
    for batch_len_max in [2, 1024] {
        let (keeper, agent) = (Keeper::new(Duration::from_millis(20)), keeping(batch_len_max));
        for first in (10..120).step_by(6) {
            for second in (0..60).step_by(5) {
                survive(&keeper, &agent, &[first, second]).await;
            }
        }
    }
}
