//! The stage all tests play on: an engine in memory, an understudy, paused time, and a watcher that records what a
//! client sees and when.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everturn::core::chat::{CallState, Effect, TurnEnd};
use everturn::core::delta::Delta;
use everturn::core::ids::Timestamp;
use everturn::core::message::{Body, Message, Part, text_of};
use everturn::core::view::{Event, Standing, View};
use everturn::stores::Store as _;
use everturn::{Agent, ChatHandle, Engine, Policy, ToolContext, ToolError, tool};
use everturn_understudy::{Script, Understudy};
use serde_json::Value;
use tokio::time::Instant;

use crate::stepwise::Stepwise;

/// An engine with one agent called `it`, its understudy, and one chat.
pub struct Stage {
    pub engine: Engine,
    pub chat: ChatHandle,
    pub understudy: Understudy,
    pub store: Arc<Stepwise>,
    started: Instant,
}

/// An agent on the understudy's model.
pub fn agent() -> Agent {
    Agent::new("understudy/one".parse().unwrap())
}

/// A stage on which these scripts are played to a plain agent.
pub async fn stage(scripts: impl IntoIterator<Item = Script>) -> Stage {
    Stage::new(Understudy::new(scripts), agent()).await
}

impl Stage {
    pub async fn new(understudy: Understudy, agent: Agent) -> Self {
        Self::built(understudy, agent, |builder| builder).await
    }

    /// A stage with something changed about the engine.
    pub async fn built(
        understudy: Understudy,
        agent: Agent,
        change: impl FnOnce(everturn::Builder) -> everturn::Builder,
    ) -> Self {
        let store = Arc::new(Stepwise::default());
        let builder = Engine::builder().store(store.clone()).provider(understudy.clone()).agent("it", agent);
        let engine = change(builder.seed(7).starting_at(Timestamp(0))).start();
        let chat = engine.create("it").await.unwrap();
        Self { engine, chat, understudy, store, started: Instant::now() }
    }

    /// Moves the chat to another process: this engine shuts down, a new one resumes from the store.
    pub async fn moved(self, understudy: Understudy, agent: Agent) -> Self {
        self.moved_as(understudy, agent, |builder| builder).await
    }

    /// Moves the chat to a process with something changed about its engine.
    pub async fn moved_as(
        self,
        understudy: Understudy,
        agent: Agent,
        change: impl FnOnce(everturn::Builder) -> everturn::Builder,
    ) -> Self {
        self.engine.shutdown().await;
        let Self { chat, store, started, .. } = self;
        let now = Timestamp(0) + started.elapsed();
        let builder = Engine::builder().store(store.clone()).provider(understudy.clone()).agent("it", agent);
        let engine = change(builder.seed(7).starting_at(now)).start();
        let chat = engine.chat(chat.id());
        engine.resume().await.unwrap();
        Self { engine, chat, understudy, store, started }
    }

    /// Sends a message and watches until the chat rests.
    pub async fn run(&self, text: &str) -> String {
        let watch = self.watch();
        self.chat.send(text).await.unwrap();
        watch.until_rest().await
    }

    /// A watcher from now on.
    pub fn watch(&self) -> Watch {
        let (chat, store, started) = (self.chat.clone(), self.store.clone(), self.started);
        Watch { events: chat.events(None), view: View::default(), seen: String::new(), started, chat, store }
    }

    /// How the last turn ended.
    pub async fn ended(&self) -> TurnEnd {
        self.chat.rest().await.unwrap().ended().expect("a turn has ended")
    }

    pub async fn transcript(&self) -> Vec<Arc<Message>> {
        self.chat.transcript().await.unwrap()
    }

    /// The transcript, one line per message.
    pub async fn told(&self) -> String {
        self.transcript().await.iter().map(|message| format!("{}\n", line(message))).collect()
    }

    /// All text the model's replies hold.
    pub async fn replies(&self) -> String {
        let texts = self.transcript().await;
        let texts = texts.iter().filter_map(|message| match &message.body {
            Body::Reply(reply) => Some(reply.text()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("|")
    }
}

/// A client that folds events, checks that they fit, and keeps a trace.
pub struct Watch {
    pub events: everturn::Subscription,
    pub view: View,
    pub seen: String,
    started: Instant,
    chat: ChatHandle,
    store: Arc<Stepwise>,
}

impl Watch {
    /// Takes one event in.
    pub async fn step(&mut self) -> Event {
        let event = self.events.next().await.unwrap();
        self.view.fold(&event).unwrap();
        let told = match &event {
            Event::Reset(_) => None,
            Event::Message(message) => Some(line(message)),
            Event::Delta(row) => Some(format!("delta {} {}", row.seq, delta(&row.delta))),
            Event::Rewound(from) => Some(format!("rewound from {from}")),
            Event::Standing(standing) => Some(stands(standing)),
        };
        if let Some(told) = told {
            writeln!(self.seen, "t={:05.1} {told}", self.started.elapsed().as_secs_f64()).unwrap();
        }
        event
    }

    /// Watches until something is seen.
    pub async fn until(&mut self, is_it: impl Fn(&Event) -> bool) -> Event {
        loop {
            let event = self.step().await;
            if is_it(&event) {
                return event;
            }
        }
    }

    /// Watches until so much text of the draft was seen.
    pub async fn until_text(&mut self, text: &str) {
        while !self.view.draft.as_ref().is_some_and(|draft| text_of(draft.parts()).contains(text)) {
            self.step().await;
        }
    }

    /// Watches until the chat waits for a client or a person.
    pub async fn until_asked(&mut self) {
        use everturn::core::status::Status;
        let asks = |view: &View| view.standing.as_ref().is_some_and(|standing| standing.status == Status::Awaiting);
        while !(asks(&self.view) && self.events.cursor().is_some()) {
            self.step().await;
        }
    }

    /// Watches until the chat rests, compares what it folded with what the server has, and gives the trace.
    pub async fn until_rest(mut self) -> String {
        loop {
            self.step().await;
            let rests = self.view.standing.as_ref().is_some_and(|standing| !standing_is_busy(standing));
            if rests && self.events.cursor().is_some() && self.rests_now().await {
                break;
            }
        }
        let server = self.chat.view().await.unwrap();
        assert_eq!(self.view, server, "the client's fold is the server's");
        self.seen
    }

    /// Whether a turn has ended, no other runs, and nothing waits to be obeyed.
    async fn rests_now(&self) -> bool {
        let is_obeyed = self.store.inbox(self.chat.id()).await.unwrap().is_empty();
        let standing = self.chat.view().await.unwrap().standing;
        is_obeyed && standing.is_some_and(|standing| !standing_is_busy(&standing) && standing.ended.is_some())
    }
}

fn standing_is_busy(standing: &Standing) -> bool {
    use everturn::core::status::Status;
    matches!(standing.status, Status::Running | Status::Interrupting)
}

/// A message on one line.
pub fn line(message: &Message) -> String {
    let what = match &message.body {
        Body::User(parts) => format!("user {:?}", text_of(parts)),
        Body::Context(text) => format!("context {text:?}"),
        Body::Reply(reply) => format!("reply {} {:?}", parts(&reply.parts), reply.stop),
        Body::Result(result) => {
            format!("result {} {} {:?} {:?}", result.call, result.tool, result.verdict, result.output.text)
        }
        Body::Summary(summary) => format!("summary {:?} {:?}", summary.source, summary.text),
    };
    format!("message {} {what}", message.id)
}

pub fn parts(parts: &[Part]) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => format!("{:?}", text.text),
        Part::Reasoning(reasoning) => {
            format!("({}{})", reasoning.text, if reasoning.seal.is_some() { " ✓" } else { "" })
        }
        Part::Call(call) => format!("{}({}){}", call.tool, call.input, if call.whole { "" } else { "…" }),
        Part::Provided(provided) => format!("{}→{}", provided.tool, provided.output),
        Part::Source(source) => format!("<{}>", source.url),
        Part::File(file) => format!("[{}]", file.name),
        Part::Other(_) => "?".into(),
    };
    format!("[{}]", parts.iter().map(part).collect::<Vec<_>>().join(" "))
}

fn delta(delta: &Delta) -> String {
    match delta {
        Delta::Attempt(began) => format!("attempt {} {:?} {}", began.number, began.rung, began.model),
        Delta::CallBegan(call) => format!("call {}", call.tool),
        Delta::Usage(report) => format!("usage {:?}", report.usage().map(|usage| (usage.input, usage.output))),
        other => format!("{other:?}"),
    }
}

fn stands(standing: &Standing) -> String {
    let mut told = format!("{:?}", standing.status).to_lowercase();
    if standing.archived {
        told.push_str(" archived");
    }
    for queued in &standing.queue {
        write!(told, " +{:?}{}", text_of(&queued.parts), if queued.steers { "!" } else { "" }).unwrap();
    }
    for ask in &standing.asks {
        let what = if ask.state == CallState::AsksApproval { "approve" } else { "client" };
        write!(told, " {what} {}", ask.uid).unwrap();
    }
    if let Some(wait) = &standing.retry {
        write!(told, " retry {:?} until {:.1}", wait.kind, wait.until.0 as f64 / 1000.0).unwrap();
    }
    if let Some(compacting) = &standing.compacting {
        write!(told, " compacting {:?}", compacting.source).unwrap();
    }
    if let (Some(end), false) = (&standing.ended, standing_is_busy(standing)) {
        match end {
            TurnEnd::Failed(failure) => write!(told, " failed {:?}", failure.kind).unwrap(),
            end => write!(told, " {end:?}").unwrap(),
        }
    }
    told
}

/// A tool that counts its runs and says what it was given.
pub fn echo(name: &str, runs: &Arc<AtomicUsize>) -> impl everturn::Tool + use<> {
    echo_with(name, runs, Effect::Once)
}

pub fn echo_with(name: &str, runs: &Arc<AtomicUsize>, effect: Effect) -> impl everturn::Tool + use<> {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Input {
        say: String,
    }
    let runs = runs.clone();
    let policy = Policy { effect, ..Policy::default() };
    let run = move |_, input: Input| {
        let runs = runs.clone();
        async move {
            runs.fetch_add(1, Ordering::SeqCst);
            Ok::<_, ToolError>(format!("heard {}", input.say))
        }
    };
    tool(name, "Says what it was given.", run).with(policy)
}

/// Where tools write down what they do, and when.
#[derive(Clone)]
pub struct Diary {
    lines: Arc<Mutex<String>>,
    started: Instant,
}

impl Diary {
    pub fn new() -> Self {
        Self { lines: Arc::default(), started: Instant::now() }
    }

    pub fn note(&self, what: &str) {
        let at = self.started.elapsed().as_secs_f64();
        writeln!(self.lines.lock().unwrap(), "t={at:05.1} {what}").unwrap();
    }

    pub fn read(&self) -> String {
        self.lines.lock().unwrap().clone()
    }

    /// A tool that takes `seconds` and writes down when it begins and ends, or that it was told to stop.
    pub fn tool(&self, name: &str, seconds: u64, policy: Policy) -> impl everturn::Tool + use<> {
        let (diary, own) = (self.clone(), name.to_string());
        let run = move |context: ToolContext, input: Value| {
            let (diary, own) = (diary.clone(), own.clone());
            async move {
                diary.note(&format!("{own} {input} begins"));
                tokio::select! {
                    biased;
                    () = tokio::time::sleep(Duration::from_secs(seconds)) => {}
                    () = context.cancel.cancelled() => {
                        diary.note(&format!("{own} {input} is told to stop"));
                        return Err("I was told to stop.".into());
                    }
                }
                diary.note(&format!("{own} {input} ends"));
                Ok::<_, ToolError>(format!("{own} did {input}"))
            }
        };
        tool(name, "Takes its time.", run).with(policy)
    }
}

/// A counter.
pub fn counter() -> Arc<AtomicUsize> {
    Arc::new(AtomicUsize::new(0))
}

/// The value of a counter.
pub fn count(counter: &Arc<AtomicUsize>) -> usize {
    counter.load(Ordering::SeqCst)
}
