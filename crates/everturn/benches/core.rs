//! What a delta and a step cost.
//!
//! Each figure stands beside a floor measured in the same run: the same bytes appended to a `Vec<u8>`. Ratios between
//! sizes say whether the cost is flat. Run with `cargo xtask bench core [--json]`.

#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]

use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use allocation_counter::measure;
use async_trait::async_trait;
use everturn::core::chat::{Chat, TranscriptTail};
use everturn::core::delta::{AttemptBegan, Delta, Rung};
use everturn::core::draft::Draft;
use everturn::core::error::ProviderError;
use everturn::core::fact::Fact;
use everturn::core::ids::{MessageId, StepId, Timestamp};
use everturn::core::limits::{Limits, Thinking};
use everturn::core::message::{Body, Message, Part, Reply, ReplyBody, Stop, Text};
use everturn::core::plan::plan;
use everturn::core::prompt::{Request, Target, WireFormat};
use everturn::core::recovery::Capabilities;
use everturn::core::view::{Event, JournalRow, View};
use everturn::providers::{Frame, FrameStream, ModelFacts, Provider};
use everturn::stores::{Memory, Store as _};
use everturn::{Agent, Engine, ToolError, tool};
use futures_util::{StreamExt as _, stream};

const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
const PIECE: &str = "tok ";
const ROUNDS: usize = 5;

fn main() {
    let json = std::env::args().any(|arg| arg == "--json");
    let out = Out { json };
    let deltas: Vec<Delta> = (0..SIZES[3]).map(|_| Delta::Text(PIECE.into())).collect();
    let mut first = None;
    for n in SIZES {
        let floor = best(|| append(n));
        let folded = best(|| fold(&deltas[..n]));
        out.line("fold", "time per delta", n, folded / n as f64, "ns", floor / n as f64);
        let allocations = measure(|| {
            black_box(fold(&deltas[..n]));
        })
        .count_total;
        out.line("fold", "allocations per delta", n, allocations as f64 / n as f64, "1", 1.0);
        let seen = best(|| fold_plan_event(&deltas[..n]));
        out.line("fold+plan+event", "time per delta", n, seen / n as f64, "ns", floor / n as f64);
        let whole = best(|| whole_path(n));
        out.line("whole", "time per delta", n, whole / n as f64, "ns", floor / n as f64);
        let allocations = measure(|| {
            black_box(whole_path(n));
        })
        .count_total;
        out.line("whole", "allocations per delta", n, allocations as f64 / n as f64, "1", 1.0);
        let first = first.get_or_insert((folded / n as f64, whole / n as f64));
        out.line("fold", "growth from 1k", n, folded / n as f64, "ns", first.0);
        out.line("whole", "growth from 1k", n, whole / n as f64, "ns", first.1);
    }
    let short = best(|| step_at(50));
    for messages in [50, 500, 5_000] {
        out.line("step", "time per step", messages, best(|| step_at(messages)), "ns", short);
    }
}

struct Out {
    json: bool,
}

impl Out {
    fn line(&self, bench: &str, metric: &str, n: usize, value: f64, unit: &str, floor: f64) {
        let ratio = value / floor;
        if self.json {
            println!(
                "{{\"bench\":\"{bench}\",\"metric\":\"{metric}\",\"n\":{n},\"value\":{value:.3},\"unit\":\"{unit}\",\
                 \"floor\":{floor:.3},\"ratio\":{ratio:.3}}}"
            );
        } else {
            println!("{bench:<16} {metric:<22} n={n:<8} {value:>10.2} {unit:<3} floor {floor:>9.2}  ratio {ratio:.2}");
        }
    }
}

/// The best of several runs, in nanoseconds: noise only ever adds.
fn best(run: impl Fn() -> f64) -> f64 {
    (0..ROUNDS).map(|_| run()).fold(f64::INFINITY, f64::min)
}

fn timed<T>(run: impl FnOnce() -> T) -> f64 {
    let started = Instant::now();
    drop(black_box(run()));
    started.elapsed().as_nanos() as f64
}

fn append(n: usize) -> f64 {
    timed(|| {
        let mut bytes = Vec::new();
        for _ in 0..n {
            bytes.extend_from_slice(black_box(PIECE).as_bytes());
        }
        bytes
    })
}

fn draft() -> Draft {
    let mut draft = Draft::new(StepId(1));
    let began = AttemptBegan { number: 1, model: "bench/one".parse().expect("a model"), rung: Rung::First };
    draft.push(Timestamp(0), &Delta::Attempt(Box::new(began))).expect("first");
    draft
}

fn fold(deltas: &[Delta]) -> f64 {
    let mut draft = draft();
    timed(move || {
        for delta in deltas {
            draft.push(Timestamp(1), black_box(delta)).expect("in order");
        }
        draft
    })
}

/// What a delta costs from fold to a client's view, were each one journalled and shown by itself.
fn fold_plan_event(deltas: &[Delta]) -> f64 {
    let (limits, chat) = (Limits::default(), Chat::new(everturn::core::ids::ChatId::from_u128(1), "it", ""));
    let (mut draft, mut view) = (Draft::new(StepId(1)), View::default());
    let rows: Vec<Arc<Delta>> = deltas.iter().cloned().map(Arc::new).collect();
    timed(move || {
        for delta in rows {
            let seq = draft.push(Timestamp(1), &delta).expect("in order");
            black_box(plan(&chat, Some(&draft), &limits, Timestamp(1)));
            let row = JournalRow { step: StepId(1), seq, at: Timestamp(1), delta };
            view.fold(&Event::Delta(row)).expect("in order");
        }
        (draft, view)
    })
}

/// A model that says what it was given, as fast as it is heard.
struct Fast(Mutex<Option<Vec<Result<Frame, ProviderError>>>>);

#[async_trait]
impl Provider for Fast {
    fn name(&self) -> &str {
        "bench"
    }

    fn facts(&self, _model: &str) -> ModelFacts {
        facts()
    }

    async fn open(&self, _request: Request) -> Result<FrameStream, ProviderError> {
        let frames = self.0.lock().expect("alone").take().expect("asked once");
        Ok(stream::iter(frames).boxed())
    }
}

fn facts() -> ModelFacts {
    ModelFacts {
        target: Target::new(WireFormat::Anthropic, "bench"),
        can: Capabilities::default(),
        thinks: Thinking::No,
        context_limit: None,
        output_max: u32::MAX,
        price: None,
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
}

fn agent() -> Agent {
    Agent::new("bench/one".parse().expect("a model"))
}

/// From the provider's stream through draft, journal and store to a subscriber's view.
fn whole_path(n: usize) -> f64 {
    let deltas = (0..n).map(|_| Ok(Frame::Delta(Delta::Text(PIECE.into()))));
    let frames = deltas.chain([Ok(Frame::Stop(Stop::End))]).collect();
    let runtime = runtime();
    let (engine, chat) = runtime.block_on(async {
        let engine = Engine::builder().provider(Fast(Mutex::new(Some(frames)))).agent("it", agent()).start();
        let chat = engine.create("it").await.expect("a chat");
        (engine, chat)
    });
    let took = timed(|| {
        runtime.block_on(async {
            let mut events = chat.events(None);
            let mut view = View::default();
            chat.send("go").await.expect("accepted");
            while view.messages.len() < 2 {
                view.fold(&events.next().await.expect("a store")).expect("in order");
            }
            view
        })
    });
    drop(engine);
    took
}

/// A model that calls a tool a number of times, and then is done.
struct Busy {
    steps: usize,
    made: Mutex<usize>,
}

#[async_trait]
impl Provider for Busy {
    fn name(&self) -> &str {
        "bench"
    }

    fn facts(&self, _model: &str) -> ModelFacts {
        facts()
    }

    async fn open(&self, _request: Request) -> Result<FrameStream, ProviderError> {
        let mut made = self.made.lock().expect("alone");
        *made += 1;
        if *made > self.steps {
            return Ok(stream::iter([Ok(Frame::Delta(Delta::Text("done".into()))), Ok(Frame::Stop(Stop::End))]).boxed());
        }
        let began = everturn::core::delta::CallBegan {
            slot: 0,
            provider_id: String::new(),
            tool: "tick".into(),
            run_by: everturn::core::message::RunBy::Us,
            meta: Default::default(),
        };
        let json = format!("{{\"n\":{made}}}");
        let deltas =
            [Delta::CallBegan(Box::new(began)), Delta::CallInput { slot: 0, json }, Delta::CallEnded { slot: 0 }];
        let frames = deltas.map(|delta| Ok(Frame::Delta(delta))).into_iter().chain([Ok(Frame::Stop(Stop::ToolUse))]);
        Ok(stream::iter(frames.collect::<Vec<_>>()).boxed())
    }
}

const STEPS: usize = 100;

/// One step (a call, its result, the next request) of a chat that has this many messages: between the first and the
/// last run of the tool, so that loading the chat does not count.
fn step_at(messages: usize) -> f64 {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Input {
        #[allow(dead_code, reason = "the model has to say something")]
        n: u64,
    }
    let ticks: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let seen = ticks.clone();
    let tick = tool("tick", "Ticks.", move |_, _: Input| {
        let seen = seen.clone();
        async move {
            seen.lock().expect("alone").push(Instant::now());
            Ok::<_, ToolError>("tock")
        }
    });
    runtime().block_on(async {
        let store = Arc::new(Memory::new());
        let busy = Busy { steps: STEPS, made: Mutex::new(0) };
        let agent = agent().tool(tick).expect("a tool");
        let engine = Engine::builder().store(store.clone()).provider(busy).agent("it", agent).start();
        let chat = engine.create("it").await.expect("a chat");
        fill(&store, chat.id(), messages).await;
        chat.send("go").await.expect("accepted");
        chat.rest().await.expect("a store");
    });
    let ticks = ticks.lock().expect("alone");
    let span: Duration = ticks[ticks.len() - 1] - ticks[0];
    span.as_nanos() as f64 / (ticks.len() - 1) as f64
}

async fn fill(store: &Memory, chat: everturn::core::ids::ChatId, messages: usize) {
    let mut lease = store.acquire(chat).await.expect("a chat");
    for id in 1..=messages as u64 {
        let words =
            vec![Part::Text(Text { text: "Some words that somebody said at some time.".into(), ..Text::default() })];
        let body = if id % 2 == 1 { Body::User(words) } else { Body::Reply(Box::new(reply(id, words))) };
        let tail = if id % 2 == 1 { TranscriptTail::Input } else { TranscriptTail::Reply };
        let message = Message { id: MessageId(id), at: Timestamp(0), body, sent: None };
        store.commit(&mut lease, &[Fact::Said(Arc::new(message), tail)]).await.expect("a lease");
    }
}

fn reply(step: u64, parts: Vec<Part>) -> Reply {
    Reply::restored(ReplyBody {
        step: StepId(step),
        parts,
        stop: Stop::End,
        model: "bench/one".parse().expect("a model"),
        usage: None,
        runtime: Duration::ZERO,
        alive: Duration::ZERO,
        context_limit: None,
        response_id: None,
        seams: Vec::new(),
        retracted: Vec::new(),
        meta: Default::default(),
    })
}
