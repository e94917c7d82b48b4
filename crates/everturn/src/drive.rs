//! Advancing one chat.
//!
//! Plan, act, commit. The loop decides nothing: what to do is [`everturn_core::plan`]'s answer, what it means is
//! [`everturn_core::change`]'s, and a driver that was killed anywhere is replaced by one that asks the same question. While
//! it acts it reads the inbox: messages are queued at once, and a command that stops the turn takes effect at every wait.

pub(crate) mod compaction;
pub(crate) mod inbox;
pub(crate) mod session;
pub(crate) mod step;
pub(crate) mod takeover;
mod target;
pub(crate) mod tools;
mod transcript;

use std::sync::Arc;
use std::time::Duration;

use everturn_core::change::Change;
use everturn_core::fact::Fact;
use everturn_core::ids::Timestamp;
use everturn_core::message::Body;
use everturn_core::plan::{Next, plan};
use everturn_stores::{Lease, WriteError};

use crate::admission::slots::{Admission, SlotWait};
use crate::observe::log;
use crate::process::Shared;
use compaction::Fitting;
use session::{ChatSession, HookInstructions};
use takeover::Takeover;

/// Waits longer than this drop the loaded transcript; it is loaded again on wake-up. Keeps memory flat with thousands of
/// waiting chats.
const UNLOAD_AFTER: Duration = Duration::from_secs(60);

/// Advances one chat while it holds its lease.
pub(crate) struct Driver {
    session: ChatSession,
    takeover: Takeover,
    fitting: Fitting,
    /// The work slot, or the place in line for one.
    admission: Admission,
}

/// Why a driver stopped.
#[derive(Debug)]
pub(crate) enum Parked {
    /// The chat rests.
    Resting,
    /// The chat has work and no work slot; it may be in line for one already.
    InLine(Option<SlotWait>),
    /// The process may not drive any more; the chat goes on elsewhere.
    HandedOver,
}

impl Driver {
    /// Loads the chat that `lease` is for.
    pub(crate) async fn load(
        shared: Arc<Shared>,
        lease: Lease,
        mut admission: Admission,
    ) -> Result<Box<Self>, WriteError> {
        let session = ChatSession::load(shared, lease).await?;
        admission.belongs_to(&session.chat.owner);
        let takeover = Takeover::of(&session);
        let fitting = Fitting::of(&session);
        // In a box: it is moved twice, and every driver would have room for it three times.
        Ok(Box::new(Self { session, takeover, fitting, admission }))
    }

    /// Advances the chat until it rests, then releases it.
    pub(crate) async fn run(mut self: Box<Self>) -> Result<Parked, WriteError> {
        let ended = self.advance().await;
        let Self { session, takeover, admission: _admission, .. } = *self;
        let parked = session.explain(ended);
        session.env.shared.takeovers.driver_ended(session.chat.id, &parked);
        takeover.remember_parked(&session, &parked);
        let parked = parked?;
        if matches!(parked, Parked::HandedOver) {
            log::handed_over(&session.chat);
        }
        session.release().await;
        Ok(parked)
    }

    async fn advance(&mut self) -> Result<Parked, WriteError> {
        if self.session.step.draft.is_some() {
            self.session.fetch_bytes().await?; // However the draft ends, its request has to be measured.
        }
        compaction::record_lost_summary(&mut self.session).await?;
        loop {
            let session = &mut self.session;
            if session.step.draft.is_none() {
                session.clocks.step = session.env.shared.clock.counting();
            }
            inbox::apply_all(session, &mut self.fitting).await?;
            if session.env.halt.is_cancelled() {
                takeover::reset_count(session).await?;
                return Ok(Parked::HandedOver);
            }
            let draft = session.step.draft.as_ref();
            let next = plan(&session.chat, draft, &session.env.agent.limits, session.clocks.turn.now());
            let drains = session.env.shared.stop.drain.is_cancelled();
            if drains && !matches!(next, Next::Finish(_) | Next::Settle | Next::Rest) {
                takeover::reset_count(session).await?;
                return Ok(Parked::HandedOver);
            }
            if lacks_agent(session, &next) {
                if (session.env.shared.agents_elsewhere)(&session.chat.agent) {
                    return Ok(Parked::HandedOver);
                }
                session.reload().await?;
                let error = target::no_model(&session.env, &session.chat);
                step::fail(session, &mut self.fitting, &error, None).await?;
                continue;
            }
            if let Some(until) = waits_until(session, &next) {
                self.takeover.end_isolation_if_cleared(session);
                self.wait(until).await;
                continue;
            }
            if let Next::Look = next {
                self.admission = Admission::None; // A look may wait for long, and needs no transcript.
                tools::rest::look(session).await?;
                continue;
            }
            session.reload().await?;
            if is_work(&next) && !self.take_slot() {
                return Ok(Parked::InLine(self.admission.take_line()));
            }
            if is_work(&next) && self.takeover.is_due() {
                self.takeover.record(&mut self.session, &mut self.fitting).await?;
                continue;
            }
            self.takeover.end_isolation_if_cleared(&self.session);
            if let Next::Rest = next {
                return Ok(Parked::Resting);
            }
            self.act(next).await?;
        }
    }

    async fn act(&mut self, next: Next) -> Result<(), WriteError> {
        let Self { session, takeover, fitting, .. } = self;
        match next {
            Next::Rest | Next::Look => Ok(()),
            Next::Await => session.change(|change| change.expire()).await,
            Next::Begin => session.change(|change| change.begin()).await,
            Next::CallModel | Next::Compact if matches!(session.env.instructions, HookInstructions::Unknown) => {
                step::learn_instructions(session).await
            }
            Next::CallModel => step::call_model(session, fitting, takeover).await,
            Next::Reask => session.change(ask_again).await,
            Next::RunCalls => tools::run_calls(session).await,
            Next::Ask => tools::ask(session).await,
            Next::Compact => compaction::compact_on_request(session, fitting).await,
            Next::Settle => step::settle(session, fitting).await,
            Next::Finish(end) => step::finish(session, fitting, end).await,
        }
    }

    /// Takes a work slot, if there is one. Between two steps the slot is given up for an owner with fewer.
    fn take_slot(&mut self) -> bool {
        let ChatSession { env, chat, step, .. } = &self.session;
        if step.draft.is_none() && self.admission.should_yield() {
            self.admission = Admission::None;
            return false;
        }
        self.admission.acquire(&env.shared.slots, &chat.owner)
    }

    /// Waits until a time, a command, or the end of the process.
    async fn wait(&mut self, until: Timestamp) {
        self.admission = Admission::None; // A slot or a call to one would be wasted.
        let session = &mut self.session;
        if until.since(session.now()) >= UNLOAD_AFTER {
            session.unload();
        }
        tokio::select! {
            biased;
            () = session.env.halt.cancelled() => {}
            () = session.env.shared.stop.drain.cancelled() => {}
            () = session.env.signals.inbox.notified() => {} // Applied at the top of the loop.
            () = tokio::time::sleep_until(session.clocks.step.instant(until)) => {}
        }
    }
}

/// Whether the next action needs the chat's agent, and that is not configured any more.
fn lacks_agent(session: &ChatSession, next: &Next) -> bool {
    let is_needed = match next {
        Next::CallModel | Next::Reask | Next::RunCalls | Next::Ask | Next::Compact => true,
        Next::Rest | Next::Await | Next::Look | Next::Begin | Next::Settle | Next::Finish(_) => false,
    };
    is_needed && session.env.shared.agent(&session.chat.agent).is_none()
}

/// Whether the next action needs a work slot. Writing down what happened does not, nor does waiting.
const fn is_work(next: &Next) -> bool {
    match next {
        Next::CallModel | Next::Compact | Next::RunCalls => true,
        Next::Rest | Next::Await | Next::Look => false,
        Next::Begin | Next::Reask | Next::Ask | Next::Settle | Next::Finish(_) => false,
    }
}

/// Until when there is nothing to do unless a command arrives.
fn waits_until(session: &ChatSession, next: &Next) -> Option<Timestamp> {
    let chat = &session.chat;
    let now = session.now();
    match next {
        Next::CallModel | Next::Compact => {
            // A time further off than any wait of this engine was stored by a clock that was ahead: it means nothing.
            let until = chat.wait.as_ref()?.until;
            (now < until && until.since(now) <= session.env.agent.limits.wait_max()).then_some(until)
        }
        Next::Await => chat.awaits_until.filter(|until| now < *until),
        Next::Look => tools::rest::waits_until(session),
        Next::Rest | Next::Begin | Next::Reask | Next::RunCalls | Next::Ask | Next::Settle | Next::Finish(_) => None,
    }
}

/// Tells the model, once, that its answer was empty.
fn ask_again<'c, 'a>(change: &'c mut Change<'a>) -> &'c mut Change<'a> {
    change.fact(Fact::Reasked).say(Body::Context("Your last answer was empty. Please answer.".into()))
}
