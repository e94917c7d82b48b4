//! A chat while this process holds its lease: its state, its transcript, its open step, and the one way to commit.
//!
//! A commit that the store could not confirm may have happened all the same, or happen yet. What it holds may be all
//! there is: the result of a tool that must not run twice, or the end of an answer that was paid for. So the session
//! waits for the store with the facts in hand, for as long as the process may drive, and then acquires the lease again:
//! nothing written under the old fence can happen any more, and the version says whether the commit did. Programs that
//! drive by hand get the error instead.

use std::sync::Arc;
use std::time::Duration;

use everturn_core::change::Change;
use everturn_core::chat::{Chat, TurnEnd};
use everturn_core::context::limit_in_meta;
use everturn_core::draft::Draft;
use everturn_core::fact::Fact;
use everturn_core::ids::{MessageId, Seq, Timestamp};
use everturn_core::message::Body;
use everturn_core::view::JournalRow;
use everturn_providers::record::Of;
use everturn_stores::{AppendRight, Lease, Loaded, MessageReader, StoreError, StoreExt as _, WriteError};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::drive::step::OpenStep;
use crate::drive::step::background;
use crate::drive::target::{ModelTarget, model_of};
use crate::drive::transcript::Transcript;
use crate::engine::Drivers;
use crate::observe::Observers;
use crate::process::{STORE_RETRY, STORE_RETRY_MAX, Shared};
use crate::tool::permit::AgentAbove;
use crate::tool::toolbox::{ChatTools, Shelf};
use crate::util::clock::Clock;
use crate::watch::hub::ChatSignals;

/// What a session works with. It does not change while the session lasts.
pub(crate) struct Environment {
    pub(crate) shared: Arc<Shared>,
    pub(crate) agent: Arc<Agent>,
    /// The agents above, if it is a sub-agent's chat.
    pub(crate) above: Vec<AgentAbove>,
    /// What the agent's hook says about this chat.
    pub(crate) instructions: HookInstructions,
    /// The tools that the chat itself brought.
    pub(crate) chat_tools: ChatTools,
    pub(crate) signals: Arc<ChatSignals>,
    /// Fires when this process may not drive any more: it shuts down, or it has lost its leases.
    pub(crate) halt: CancellationToken,
}

/// Instructions for one chat, from the agent's hook.
pub(crate) enum HookInstructions {
    /// The hook was not asked yet.
    Unknown,
    /// What it said.
    Known(Option<String>),
}

/// A chat, held by its lease.
pub(crate) struct ChatSession {
    pub(crate) env: Environment,
    lease: Lease,
    pub(crate) chat: Chat,
    pub(crate) transcript: Transcript,
    pub(crate) step: OpenStep,
    pub(crate) clocks: Clocks,
    pub(crate) observers: Observers,
    last_write: LastWrite,
    /// Counts up whenever the turn ends, another model is asked or the transcript is rewound: what was found out about
    /// fitting requests is void then.
    terms: u64,
}

/// The two clocks of a driver. Both count and never jump.
#[derive(Clone, Copy)]
pub(crate) struct Clocks {
    /// Set to wall time between two steps.
    pub(crate) step: Clock,
    /// Set when the turn began, or was taken over here.
    pub(crate) turn: Clock,
}

/// What is known about the newest write of a command while something else ran.
enum LastWrite {
    /// Every write was confirmed.
    Confirmed,
    /// The store did not answer. Nothing else is written until the chat was read again.
    Unknown(StoreError),
    /// One was unknown, and the chat was read again since.
    WasUnknown(StoreError),
}

/// What a commit does while the store is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnOutage {
    /// Waits until the store is back and finds out whether the commit happened. Not while an attempt streams: a new
    /// lease would shut it out of the journal.
    Wait,
    /// Returns the error.
    Fail,
}

impl ChatSession {
    /// Loads the chat that `lease` is for.
    pub(crate) async fn load(shared: Arc<Shared>, lease: Lease) -> Result<Self, WriteError> {
        let signals = shared.signals.of(lease.chat());
        let halt = shared.stop.halt();
        let started = Instant::now();
        let Loaded { chat, messages, rows } = shared.store.load(&lease).await?;
        shared.metrics.loaded(started.elapsed());
        signals.log(&rows); // The process that stored them may have died before it logged them.
        let agent = shared.agent(&chat.agent).unwrap_or_else(|| Arc::new(Agent::missing()));
        let draft = Draft::of_rows(&rows).map_err(|error| StoreError::Unreadable(format!("the journal: {error}")))?;
        let observers = Observers::new(&shared.metrics, &chat, &messages, draft.as_ref());
        let chat_tools = ChatTools::of(chat.setup.as_deref(), chat.settings());
        let clock = shared.clock.counting();
        let instructions = if agent.hook.is_some() { HookInstructions::Unknown } else { HookInstructions::Known(None) };
        Ok(Self {
            step: OpenStep::found(draft, &agent),
            env: Environment {
                above: AgentAbove::of(&shared, &chat),
                shared,
                agent,
                instructions,
                chat_tools,
                signals,
                halt,
            },
            lease,
            chat,
            transcript: Transcript::new(messages),
            clocks: Clocks { step: clock, turn: clock },
            observers,
            last_write: LastWrite::Confirmed,
            terms: 0,
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clocks.step.now()
    }

    /// How long the turn may still work.
    pub(crate) fn time_left(&self) -> Duration {
        let worked = self.chat.turn.as_ref().map_or(Duration::ZERO, |turn| turn.worked(self.clocks.turn.now()));
        self.env.agent.limits.turn_time_max.saturating_sub(worked)
    }

    /// The model that the next attempt asks.
    pub(crate) fn target(&self) -> Result<ModelTarget, everturn_core::error::ProviderError> {
        ModelTarget::resolve(&self.env, &self.chat)
    }

    /// The tools of the agent and of the chat.
    pub(crate) fn shelf(&self) -> Arc<Shelf> {
        let Environment { agent, above, chat_tools, .. } = &self.env;
        let own = agent.shelf_for(&self.chat).with_clients(chat_tools).permitted(&agent.permissions);
        let above = above.iter().filter_map(|above| above.agent.as_deref());
        above.fold(own, |shelf, above| shelf.permitted(&above.permissions))
    }

    fn tell_turn_ended(&self, end: &TurnEnd) {
        let Some(hook) = self.env.agent.hook.clone() else { return };
        let (chat, end) = (self.chat.clone(), end.clone());
        self.env.shared.spawn(async move { hook.turn_ended(&chat, &end).await });
    }

    fn forget_turn_tools(&self) {
        if let Some(live) = &self.env.agent.live {
            live.forget_turn(self.chat.id);
        }
    }

    /// The label of this chat's exchanges for the recorder.
    pub(crate) const fn recorded(&self) -> Of {
        Of { chat: self.chat.id, debug: self.chat.debug }
    }

    /// The context window of the model in use: as the provider reported it last, else as configured.
    pub(crate) fn context_limit(&self) -> Option<u64> {
        let target = self.target().ok()?;
        let draft = self.step.draft.as_ref().filter(|draft| draft.model() == Some(&target.model)).map(Draft::meta);
        let reported = draft.and_then(limit_in_meta);
        let newest = || self.transcript.newest_reply_by(&target.model);
        let reported = reported.or_else(|| newest().and_then(|(_, reply)| limit_in_meta(&reply.meta)));
        reported.or(target.facts.context_limit)
    }

    /// Up to which message media are described instead of shown.
    pub(crate) const fn media_hidden_until(&self) -> MessageId {
        if self.chat.tried.without_media { MessageId(u64::MAX) } else { self.chat.media_hidden_until }
    }

    /// See [`ChatSession::terms`].
    pub(crate) const fn terms(&self) -> u64 {
        self.terms
    }

    pub(crate) const fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The right to append to the journal.
    pub(crate) const fn append_right(&self) -> AppendRight {
        self.lease.append_right()
    }

    /// Whether no other process can have the chat by now.
    pub(crate) fn holds_lease(&self) -> bool {
        self.env.shared.store.holds(&self.lease)
    }

    /// Appends rows to the journal of the open step.
    pub(crate) async fn append(&self, rows: Vec<JournalRow>) -> Result<(), WriteError> {
        self.env.shared.store.append_and_wait(self.append_right(), rows.clone()).await?;
        self.env.signals.log(&rows);
        Ok(())
    }

    /// Commits what `make` puts together, and waits for the store if need be.
    pub(crate) async fn change(
        &mut self,
        make: impl for<'c, 'a> FnOnce(&'c mut Change<'a>) -> &'c mut Change<'a>,
    ) -> Result<(), WriteError> {
        let facts = {
            let mut change = Change::new(&self.chat, self.now());
            make(&mut change);
            change.facts()
        };
        self.commit(facts, OnOutage::Wait).await
    }

    /// Commits facts, and applies them to everything kept here.
    pub(crate) async fn commit(&mut self, facts: Vec<Fact>, on_outage: OnOutage) -> Result<(), WriteError> {
        let started = Instant::now();
        loop {
            let outage = match self.env.shared.store.commit(&mut self.lease, &facts).await {
                Err(WriteError::Store(outage @ StoreError::Unavailable(_))) if on_outage == OnOutage::Wait => outage,
                written => {
                    written?;
                    break;
                }
            };
            if self.reacquire(outage).await?.version != self.chat.version {
                break; // It did happen.
            }
        }
        self.apply(&facts, started.elapsed()).await
    }

    async fn apply(&mut self, facts: &[Fact], took: Duration) -> Result<(), WriteError> {
        let step = self.chat.step;
        let model = self.chat.tried.model;
        let own_model = self.chat.own_model().cloned();
        self.observe(facts, took);
        self.chat.apply(facts);
        background::cancel_abandoned(&mut self.step.background, facts, &self.env, self.chat.id);
        for fact in facts {
            match fact {
                Fact::Said(message, _) => {
                    self.transcript.push(message);
                    if matches!(message.body, Body::Summary(_)) {
                        self.forget_turn_tools(); // What was cached of it at the provider is of no use any more.
                    }
                }
                Fact::Rewound { from } => self.rewind(*from).await?,
                Fact::TurnBegan(_) => self.clocks.turn = self.clocks.step,
                Fact::Settings(settings) => {
                    self.env.chat_tools = ChatTools::of(self.chat.setup.as_deref(), Some(settings));
                }
                Fact::TurnEnded(end) => {
                    self.forget_turn_tools();
                    self.tell_turn_ended(end);
                }
                _ => {}
            }
        }
        if self.chat.step != step {
            self.step.draft = None;
        }
        let same_model = self.chat.tried.model == model && self.chat.own_model() == own_model.as_ref();
        if self.chat.turn.is_none() || !same_model {
            self.terms += 1;
        }
        self.env.signals.ring();
        self.env.shared.feeds.tell(&self.chat.owner, self.chat.id);
        Ok(())
    }

    fn observe(&mut self, facts: &[Fact], took: Duration) {
        let Environment { shared, agent, .. } = &self.env;
        let at = self.clocks.step.now();
        let commit = crate::observe::Commit { before: &self.chat, facts, at, took };
        let server_of = |model: &_| shared.server_of(model);
        self.observers.committed(&commit, &agent.shelf(), server_of, || model_of(agent, &self.chat));
    }

    async fn rewind(&mut self, from: MessageId) -> Result<(), WriteError> {
        self.terms += 1;
        if self.transcript.begins_at_or_after(from) {
            // Messages from before the newest summary are needed again.
            self.transcript = Transcript::new(self.env.shared.store.load(&self.lease).await?.messages);
        }
        self.transcript.rewind(from);
        Ok(())
    }

    /// Drops the transcript until it is needed again.
    pub(crate) fn unload(&mut self) {
        self.transcript = Transcript::Unloaded;
    }

    /// Loads the transcript again if it was dropped. Not before it is needed: a process that shuts down wakes every
    /// waiting chat.
    pub(crate) async fn reload(&mut self) -> Result<(), WriteError> {
        if self.transcript.is_loaded() {
            return Ok(());
        }
        self.transcript = Transcript::new(self.env.shared.store.load(&self.lease).await?.messages);
        match self.step.draft {
            Some(_) => self.fetch_bytes().await, // As after a takeover.
            None => Ok(()),
        }
    }

    /// Fetches the bytes of messages that were loaded without them. Only prompts need them.
    pub(crate) async fn fetch_bytes(&mut self) -> Result<(), WriteError> {
        for id in self.transcript.without_bytes() {
            if let Some(whole) = self.env.shared.store.message(self.chat.id, id, MessageReader::Driver).await? {
                self.transcript.replace(whole);
            }
        }
        Ok(())
    }

    /// Notes that the store did not say whether the newest command was applied.
    pub(crate) fn doubt(&mut self, outage: StoreError) {
        self.last_write = LastWrite::Unknown(outage);
    }

    pub(crate) const fn is_in_doubt(&self) -> bool {
        matches!(self.last_write, LastWrite::Unknown(_))
    }

    /// Reads where the chat stands, if the newest write is unknown.
    pub(crate) async fn settle_doubt(&mut self) -> Result<(), WriteError> {
        if self.is_in_doubt() {
            self.chat = self.env.shared.store.load(&self.lease).await?.chat;
            self.end_doubt();
        }
        Ok(())
    }

    /// Acquires the chat again, if the newest write is unknown. Only once nothing else writes under the old lease.
    pub(crate) async fn settle_doubt_anew(&mut self) -> Result<(), WriteError> {
        match self.end_doubt() {
            Some(outage) => self.resync(outage).await,
            None => Ok(()),
        }
    }

    /// Acquires the chat again after an outage, and takes over where it stands.
    pub(crate) async fn resync(&mut self, outage: StoreError) -> Result<(), WriteError> {
        self.chat = self.reacquire(outage).await?;
        Ok(())
    }

    fn end_doubt(&mut self) -> Option<StoreError> {
        match std::mem::replace(&mut self.last_write, LastWrite::Confirmed) {
            LastWrite::Unknown(outage) => {
                self.last_write = LastWrite::WasUnknown(outage.clone());
                Some(outage)
            }
            before => {
                self.last_write = before;
                None
            }
        }
    }

    /// Acquires the chat again as soon as that can be done, and returns where it stands.
    async fn reacquire(&mut self, outage: StoreError) -> Result<Chat, WriteError> {
        let mut pause = STORE_RETRY;
        while self.waits_for_store() {
            tracing::warn!(chat = %self.chat.id, error = %outage, "store unavailable: a driver waits to commit");
            let span = pause.mul_f64(0.5 + self.env.shared.entropy.unit()); // Or all chats would ask at the same moment.
            if self.env.halt.run_until_cancelled(sleep(span)).await.is_none() {
                break;
            }
            pause = (pause * 2).min(STORE_RETRY_MAX);
            match self.acquire_again().await {
                Err(WriteError::Store(StoreError::Unavailable(_))) => {}
                Err(WriteError::OutOfPlace) => break, // The next driver finds out where the chat stands.
                acquired => return acquired,
            }
        }
        Err(outage.into())
    }

    /// Whether writes wait for the store: if the engine drives, and no other process can have had the chat since it was
    /// loaded.
    pub(crate) fn waits_for_store(&self) -> bool {
        let shared = &self.env.shared;
        shared.drivers == Drivers::Spawned && shared.takeovers.is_own(&self.lease)
    }

    async fn acquire_again(&mut self) -> Result<Chat, WriteError> {
        self.lease = self.env.shared.acquire(self.chat.id).await?;
        if !self.waits_for_store() {
            return Err(WriteError::OutOfPlace); // Another process had it meanwhile.
        }
        let Loaded { chat, rows, .. } = self.env.shared.store.load(&self.lease).await?;
        let is_ours = [self.chat.version, self.chat.version.next()].contains(&chat.version);
        let end = rows.last().map_or(Seq(0), |row| row.seq);
        // A database that crashed may have lost the newest rows of a draft.
        let is_whole = chat.step != self.chat.step || self.step.draft.as_ref().map_or(end, Draft::seq) == end;
        if is_ours && is_whole { Ok(chat) } else { Err(WriteError::OutOfPlace) }
    }

    /// What a driver's end is reported as. A driver that was fenced after an unknown write may have fenced itself: it
    /// reports the outage, so that it is started again.
    pub(crate) fn explain<T>(&self, ended: Result<T, WriteError>) -> Result<T, WriteError> {
        match (ended, &self.last_write) {
            (Err(WriteError::Fenced), LastWrite::Unknown(outage) | LastWrite::WasUnknown(outage)) => {
                Err(outage.clone().into())
            }
            (ended, _) => ended,
        }
    }

    /// Gives the lease back.
    pub(crate) async fn release(self) {
        if let Err(error) = self.env.shared.store.release(self.lease).await {
            tracing::debug!(%error, "lease not released, it expires by itself");
        }
    }
}
