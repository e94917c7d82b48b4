//! The loop that advances one chat.
//!
//! Plan, act, commit. It decides nothing: what to do is [`everturn_core::plan`]'s answer, what it means is
//! [`everturn_core::change`]'s, and a driver that was killed anywhere is replaced by one that asks the same question.
//! While it acts it listens: messages are queued at once, and whoever wants the turn stopped is heard at every wait.

mod compaction;
mod inbox;
mod inherit;
mod session;
pub(crate) mod step;
mod takeover;
pub(crate) mod tools;

use std::sync::Arc;
use std::time::Duration;

use everturn_core::change::Change;
use everturn_core::chat::{Chat, TurnEnd};
use everturn_core::command::{Command, InboxCommand, check};
use everturn_core::context::TokenGauge;
use everturn_core::draft::Draft;
use everturn_core::error::Cause;
use everturn_core::fact::{AttemptOutcome, Fact};
use everturn_core::ids::{MessageId, Seq, Timestamp};
use everturn_core::message::{Body, Message, Reply, Stop};
use everturn_core::plan::{Next, plan};
use everturn_core::prompt::Prompt;
use everturn_stores::{Lease, Loaded, StoreError, StoreExt as _, WriteError};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::admission::slots::{Place, Seat, Waiting};
use crate::agent::Agent;
use crate::drive::compaction::Room;
use crate::drive::step::background::Kept;
use crate::engine::Ports;
use crate::observe::log;
use crate::observe::metrics::{Commit, Meter};
use crate::observe::spans::Spans;
use crate::tool::toolbox::ChatTools;
use crate::util::clock::Clock;
use crate::watch::hub::Bell;

/// Who waits at least this long keeps nothing that can be read again: people take their time, and thousands may wait.
const FORGET_AFTER: Duration = Duration::from_secs(60);

/// The holder of a chat's lease.
pub(crate) struct Driver {
    pub(crate) ports: Arc<Ports>,
    pub(crate) agent: Arc<Agent>,
    /// The tools that the chat brought.
    pub(crate) own_tools: ChatTools,
    pub(crate) bell: Arc<Bell>,
    pub(crate) lease: Lease,
    pub(crate) chat: Chat,
    /// Wall time, read between two steps and counted within one: what a step measures does not jump.
    pub(crate) clock: Clock,
    /// Counts from where the turn began, or was taken up here: a jump of the wall clock is no work.
    pub(crate) turn_clock: Clock,
    /// The transcript from the newest summary on. Without its bytes as long as nobody asks a model.
    pub(crate) messages: Vec<Arc<Message>>,
    /// Whether that was forgotten while nobody needed it.
    forgot: bool,
    /// What was prepared of it, for the model asked last.
    pub(crate) prompt: Option<Prompt>,
    /// The reply that is arriving, or that broke off.
    pub(crate) draft: Option<Draft>,
    /// The generation it comes from, if that goes on without us.
    pub(crate) kept: Option<Kept>,
    /// How it broke off.
    pub(crate) cause: Cause,
    /// Whether somebody there showed that they lived before it did.
    pub(crate) pinged: bool,
    /// Whether it is of a process that is gone: then it ended with its newest delta, however long ago that was.
    pub(crate) inherited: bool,
    /// How far the open step's journal went when it was taken from others, as long as that is not written down.
    pub(crate) found: Option<Seq>,
    pub(crate) gauge: TokenGauge,
    pub(crate) room: Room,
    pub(crate) meter: Meter,
    pub(crate) spans: Spans,
    /// What it may work on. Nothing while it waits.
    seat: Seat,
    /// Whether it was left in the middle of something, and nothing has been done about it here yet.
    pub(crate) left_behind: bool,
    /// Keeps other suspects out while this one works, until it has got on.
    pub(crate) alone: Option<DropGuard>,
    /// Why the newest command may have been obeyed, or not: the store did not say. Nothing else is written before it does.
    pub(crate) doubt: Option<StoreError>,
    /// The newest such doubt.
    pub(crate) shaken: Option<StoreError>,
    /// Fires when this process may not drive any more: it shuts down, or it may no longer be the one that should.
    pub(crate) halt: CancellationToken,
}

/// Why a driver stopped.
#[derive(Debug)]
pub(crate) enum Parked {
    /// The chat rests.
    Resting,
    /// The chat has work, and no place to do it; but perhaps one in line already.
    InLine(Option<Waiting>),
    /// The process may not drive any more; the chat goes on elsewhere.
    HandedOver,
}

impl Driver {
    /// Takes the lease and finds out where the chat stands.
    pub(crate) async fn take(ports: Arc<Ports>, lease: Lease, mut seat: Seat) -> Result<Box<Self>, WriteError> {
        let (bell, halt) = (ports.hub.bell(lease.chat()), ports.halt());
        let started = Instant::now();
        let Loaded { chat, messages, rows } = ports.store.load(&lease).await?;
        ports.metrics.loaded(started.elapsed());
        bell.log(&rows); // Whoever stored them may have died before it said so.
        let agent = ports.agent(&chat.agent).unwrap_or_else(|| Arc::new(Agent::nobody()));
        if let Some(place) = &mut seat.place {
            place.belongs_to(&chat.owner);
        }
        let left_behind = ports.is_left_behind(&lease, chat.status);
        let found = ports.found(&chat, rows.last().map_or(Seq(0), |row| row.seq));
        let draft = Draft::of_rows(&rows).map_err(|error| StoreError::Unreadable(format!("the journal: {error}")))?;
        let kept = Kept::of(draft.as_ref(), &agent);
        let room = Room::of(&chat);
        let own_tools = ChatTools::of(chat.setup.as_deref());
        let meter = ports.metrics.meter(&chat, &messages, draft.as_ref());
        let spans = Spans::of(&chat);
        let clock = ports.clock.counting();
        // In a box: it is handed on twice, and every driver would have room for it three times.
        Ok(Box::new(Self {
            ports,
            agent,
            own_tools,
            bell,
            lease,
            chat,
            clock,
            turn_clock: clock,
            messages,
            forgot: false,
            prompt: None,
            draft,
            kept,
            cause: Cause::Resumed,
            pinged: false,
            inherited: true,
            found,
            gauge: TokenGauge::default(),
            room,
            meter,
            spans,
            seat,
            left_behind,
            alone: None,
            doubt: None,
            shaken: None,
            halt,
        }))
    }

    /// Advances the chat until it rests, then lets go of it.
    pub(crate) async fn run(mut self: Box<Self>) -> Result<Parked, WriteError> {
        let parked = match (self.go_on().await, self.shaken.take()) {
            (Err(WriteError::Fenced), Some(away)) => Err(away.into()), // By ourselves, perhaps: looking again will tell.
            (parked, _) => parked,
        };
        self.ports.forget(self.chat.id, &parked);
        self.stay_in_line(&parked);
        let parked = parked?;
        if matches!(parked, Parked::HandedOver) {
            log::handed_over(&self.chat);
        }
        if let Err(error) = self.ports.store.release(self.lease).await {
            tracing::debug!(%error, "the lease was not given back, it lapses by itself");
        }
        Ok(parked)
    }

    async fn go_on(&mut self) -> Result<Parked, WriteError> {
        if self.draft.is_some() {
            self.fetch().await?; // What it was sent has to be measured, however it ends.
        }
        self.bury_summary().await?;
        loop {
            if self.draft.is_none() {
                self.clock = self.ports.clock.counting();
            }
            self.obey_all().await?;
            if self.halt.is_cancelled() {
                self.hand_over().await?;
                return Ok(Parked::HandedOver);
            }
            let next = plan(&self.chat, self.draft.as_ref(), &self.agent.limits, self.turn_clock.now());
            if self.ports.drain.is_cancelled() && !matches!(next, Next::Finish(_) | Next::Settle | Next::Rest) {
                self.hand_over().await?;
                return Ok(Parked::HandedOver);
            }
            if self.needs_agent(&next) {
                self.recall().await?;
                self.fail(&self.no_model(), None).await?;
                continue;
            }
            if let Some(until) = self.waits(&next) {
                self.rejoin();
                self.wait_until(until).await?;
                continue;
            }
            self.recall().await?;
            if Self::is_work(&next) && !self.has_place() {
                return Ok(Parked::InLine(self.seat.line.take()));
            }
            if Self::is_work(&next) && self.left_behind {
                self.take_up().await?;
                continue;
            }
            self.rejoin();
            match next {
                Next::Rest => return Ok(Parked::Resting),
                Next::Await => self.change(|change| change.expire()).await?,
                Next::Begin => self.change(|change| change.begin()).await?,
                Next::CallModel => self.call_model().await?,
                Next::Reask => self.change(reask).await?,
                Next::RunCalls => self.run_calls().await?,
                Next::Ask => self.ask().await?,
                Next::Compact => self.compact_as_asked().await?,
                Next::Settle => self.settle().await?,
                Next::Finish(end) => self.finish(end).await?,
            }
        }
    }

    /// Whether that needs somebody who is not there: the chat's agent is not in the configuration any more.
    fn needs_agent(&self, next: &Next) -> bool {
        let is_needed = match next {
            Next::CallModel | Next::Reask | Next::RunCalls | Next::Ask | Next::Compact => true,
            Next::Rest | Next::Await | Next::Begin | Next::Settle | Next::Finish(_) => false,
        };
        is_needed && self.ports.agent(&self.chat.agent).is_none()
    }

    /// Whether that needs a place. What only writes down what happened does not, nor does waiting.
    const fn is_work(next: &Next) -> bool {
        match next {
            Next::CallModel | Next::Compact | Next::RunCalls => true,
            Next::Rest | Next::Await | Next::Begin | Next::Reask | Next::Ask | Next::Settle | Next::Finish(_) => false,
        }
    }

    /// Until when nothing is to be done, unless somebody says something.
    fn waits(&self, next: &Next) -> Option<Timestamp> {
        match next {
            Next::CallModel | Next::Compact => self.not_before(),
            Next::Await => self.chat.awaits_until.filter(|until| self.now() < *until),
            Next::Rest | Next::Begin | Next::Reask | Next::RunCalls | Next::Ask | Next::Settle | Next::Finish(_) => {
                None
            }
        }
    }

    /// Whether it may work. Between two steps a place is given up for an owner who has fewer.
    fn has_place(&mut self) -> bool {
        if self.draft.is_none() && self.seat.place.as_ref().is_some_and(Place::is_owed) {
            self.seat.place = None;
            return false;
        }
        self.seat.is_placed(&self.ports.places, &self.chat.owner)
    }

    /// Until when the next attempt waits, if it still does. A time further off than any wait of ours was stored by a clock
    /// that was ahead, or before this one was put back: it means nothing now.
    pub(crate) fn not_before(&self) -> Option<Timestamp> {
        let (until, now) = (self.chat.wait.as_ref()?.until, self.now());
        (now < until && until.since(now) <= self.agent.limits.wait_max()).then_some(until)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Commits what `make` puts together.
    pub(crate) async fn change(
        &mut self,
        make: impl for<'c, 'a> FnOnce(&'c mut Change<'a>) -> &'c mut Change<'a>,
    ) -> Result<(), WriteError> {
        let facts = {
            let mut change = Change::new(&self.chat, self.now());
            make(&mut change);
            change.facts()
        };
        self.commit(facts).await
    }

    /// Writes a change, and follows it in everything kept here.
    pub(crate) async fn commit(&mut self, facts: Vec<Fact>) -> Result<(), WriteError> {
        let started = Instant::now();
        self.write(&facts).await?;
        self.follow(&facts, started).await
    }

    /// The same while something goes on: a store that is away is not waited for.
    pub(crate) async fn commit_now(&mut self, facts: Vec<Fact>) -> Result<(), WriteError> {
        let started = Instant::now();
        self.ports.store.commit(&mut self.lease, &facts).await?;
        self.follow(&facts, started).await
    }

    async fn follow(&mut self, facts: &[Fact], started: Instant) -> Result<(), WriteError> {
        let (step, model, own) = (self.chat.step, self.chat.tried.model, self.chat.own_model().cloned());
        let commit = Commit { before: &self.chat, facts, at: self.now(), took: started.elapsed() };
        self.meter.committed(&commit, &self.agent.shelf());
        self.spans.committed(&self.chat, facts, |model| self.ports.server_of(model));
        log::committed(&self.chat, facts, commit.at, || self.model());
        self.chat.apply(facts);
        self.forsake(facts);
        for fact in facts {
            match fact {
                Fact::Said(message, _) => self.said(message),
                Fact::Rewound { from } => self.rewound(*from).await?,
                Fact::TurnBegan(_) => self.turn_clock = self.clock,
                _ => {}
            }
        }
        if self.chat.step != step {
            (self.draft, self.found) = (None, None);
        }
        let is_same = self.chat.tried.model == model && self.chat.own_model() == own.as_ref();
        if self.chat.turn.is_none() || !is_same {
            self.room = Room::default();
        }
        self.bell.ring();
        self.ports.feeds.tell(&self.chat.owner, self.chat.id);
        Ok(())
    }

    fn said(&mut self, message: &Arc<Message>) {
        if matches!(message.body, Body::Summary(_)) {
            self.messages.clear();
        }
        if let Some(prompt) = &mut self.prompt {
            prompt.push(message);
        }
        self.messages.push(message.clone());
    }

    async fn rewound(&mut self, from: MessageId) -> Result<(), WriteError> {
        self.prompt = None;
        self.room = Room::default();
        if self.messages.first().is_some_and(|first| first.id >= from) {
            // What stands before the newest summary is needed again.
            self.messages = self.ports.store.load(&self.lease).await?.messages;
        }
        self.messages.retain(|message| message.id < from);
        Ok(())
    }

    /// Does what the inbox says, oldest first.
    async fn obey_all(&mut self) -> Result<(), WriteError> {
        for inbound in self.ports.store.inbox(self.chat.id).await? {
            self.recall().await?;
            self.obey(inbound).await?;
        }
        Ok(())
    }

    pub(crate) async fn obey(&mut self, inbound: InboxCommand) -> Result<(), WriteError> {
        let facts = self.obeyed(inbound);
        self.commit(facts).await
    }

    /// What doing what a command says comes to.
    pub(crate) fn obeyed(&mut self, inbound: InboxCommand) -> Vec<Fact> {
        let verdict = check(&self.chat, &inbound.command, |id| self.is_users(id));
        let inbound = InboxCommand { command: self.bounded_answers(inbound.command), ..inbound };
        let lost = match inbound.command {
            Command::Edit { .. } if verdict.is_ok() => self.end_attempt(AttemptOutcome::Lost),
            _ => None,
        };
        let mut change = Change::new(&self.chat, self.now());
        if let Some(attempted) = lost {
            change.fact(attempted);
        }
        change.obey(&inbound, verdict);
        change.facts()
    }

    pub(crate) fn is_users(&self, id: MessageId) -> bool {
        // A message before the summary was looked up when the command was accepted, and ids are never reused.
        let newest_summary = self.messages.first().filter(|message| matches!(message.body, Body::Summary(_)));
        newest_summary.is_some_and(|summary| id < summary.id)
            || self.messages.iter().any(|message| message.id == id && matches!(message.body, Body::User(_)))
    }

    /// Keeps what was shown, answers what is open.
    async fn settle(&mut self) -> Result<(), WriteError> {
        let (reply, attempted) = self.give_up_draft(Stop::Interrupted, AttemptOutcome::Interrupted);
        self.change(|change| {
            if let Some(attempted) = attempted {
                change.fact(attempted);
            }
            change.settle(reply)
        })
        .await
    }

    /// The draft as a reply that never came to its end, if it says anything, and its attempt's row if that is missing.
    pub(crate) fn give_up_draft(&mut self, stop: Stop, outcome: AttemptOutcome) -> (Option<Reply>, Option<Fact>) {
        let attempted = self.end_attempt(outcome);
        let limit = self.context_limit();
        let ended = self.attempt_ended();
        let reply = self.draft.take().and_then(|draft| draft.seal(stop, ended, limit));
        (reply.filter(|reply| !reply.parts.is_empty()), attempted)
    }

    async fn finish(&mut self, end: TurnEnd) -> Result<(), WriteError> {
        let (reply, attempted) = self.give_up_draft(Stop::Broken, AttemptOutcome::Lost);
        self.change(|change| {
            if let Some(attempted) = attempted {
                change.fact(attempted);
            }
            change.stop(reply, end)
        })
        .await
    }

    /// Rests until somebody answers, or nobody did in time.
    async fn ask(&mut self) -> Result<(), WriteError> {
        if self.turn_away().await? {
            return Ok(());
        }
        let until = self.now() + self.agent.limits.awaiting_max;
        self.change(|change| change.ask(until)).await
    }

    /// Waits, unless something happens before.
    async fn wait_until(&mut self, until: Timestamp) -> Result<(), WriteError> {
        let (bell, halt) = (self.bell.clone(), self.halt.clone());
        self.seat = Seat::default(); // A place that is called while nobody works would be wasted.
        if until.since(self.now()) >= FORGET_AFTER {
            (self.prompt, self.messages, self.forgot) = (None, Vec::new(), true);
        }
        tokio::select! {
            biased;
            () = halt.cancelled() => {}
            () = self.ports.drain.cancelled() => {}
            () = bell.inbox.notified() => {} // Obeyed at the top of the loop.
            () = tokio::time::sleep_until(self.clock.instant(until)) => {}
        }
        Ok(())
    }

    /// Reads again what was forgotten. Not before it is needed: a process that leaves wakes everybody who waits.
    async fn recall(&mut self) -> Result<(), WriteError> {
        if !self.forgot {
            return Ok(());
        }
        self.messages = self.ports.store.load(&self.lease).await?.messages;
        self.forgot = false;
        match self.draft {
            Some(_) => self.fetch().await, // Like whoever takes the chat up.
            None => Ok(()),
        }
    }
}

/// The model said nothing. It is told so, once.
fn reask<'c, 'a>(change: &'c mut Change<'a>) -> &'c mut Change<'a> {
    change.fact(Fact::Reasked).say(Body::Context("Your last answer was empty. Please answer.".into()))
}
