//! Asking the model, once.
//!
//! One call of [`Driver::call_model`] makes at most one attempt and commits what became of it. Whether there is another,
//! and on which rung of the ladder, is derived anew from the chat and the draft, so it does not matter whether the same
//! process or the next one makes it.

mod append;
pub(crate) mod attempt;
pub(crate) mod background;
pub(crate) mod recovery;
mod request;

use std::sync::Arc;

use everturn_core::change::Change;
use everturn_core::chat::{CallState, RetryWait, StepAttempts, TurnFailure};
use everturn_core::context::PromptSize;
use everturn_core::cost::{Price, StreamEnd};
use everturn_core::delta::{AttemptBegan, Delta, Rung};
use everturn_core::draft::Draft;
use everturn_core::error::{Cause, ErrorKind, ProviderError, Retry};
use everturn_core::fact::{AttemptOutcome, AttemptPurpose, AttemptRecord, Fact};
use everturn_core::ids::{ModelId, Timestamp};
use everturn_core::limits::Thinking;
use everturn_core::message::{Body, Stop};
use everturn_core::prompt::{OUTPUT_MAX, Prompt, Request};
use everturn_core::recovery::{Recovery, RetryBudget, plan};
use everturn_core::retry::{AttemptProgress, GiveUpReason, RetryDecision, RetrySpent, decide};
use everturn_providers::record::{Of, recording};
use everturn_providers::{ModelFacts, Provider};
use everturn_stores::{Reader, StoreExt as _, SubmitError, WriteError};
use tokio_util::sync::CancellationToken;

use crate::admission::governor::Permit;
use crate::agent::{Background, Chaining};
use crate::drive::Driver;
use crate::drive::step::attempt::{Attempt, Ended, Opening, Outcome, Windows};
use crate::drive::step::background::Kept;
use crate::drive::step::recovery::Climb;
use crate::observe::log;
use crate::tool::toolbox::{self, Shelf};

/// Whom the next attempt asks.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) model: ModelId,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) facts: ModelFacts,
}

impl Driver {
    /// Makes the next attempt of the open step, or first what has to come before it.
    pub(crate) async fn call_model(&mut self) -> Result<(), WriteError> {
        if self.brief().await? {
            return Ok(());
        }
        self.inherit().await?;
        if let Some(began) = self.unrecorded() {
            // Its process is gone. What it showed is here, and no provider wants to be spared.
            let lost = ProviderError::new(began.model.provider(), ErrorKind::Truncated).with_cause(Cause::Resumed);
            return self.broke(lost.with_retry(Retry::Now), 0.0).await;
        }
        let asked = match self.asked() {
            Ok(asked) => asked,
            Err(error) => return self.fail(&error, None).await,
        };
        self.fetch().await?;
        if let Some(retract) = self.salvageable(&asked) {
            let given_up = self.owed().and_then(|_| self.end_attempt(AttemptOutcome::Lost));
            return self.salvage(retract, given_up).await;
        }
        self.prepare(&asked);
        let Some(request) = self.fitting(&asked).await? else { return Ok(()) };
        let Some(permit) = self.permit(&asked).await? else { return Ok(()) };
        let climb = self.climb(&asked, request);
        if climb.rung != Rung::Reattach
            && let Some(given_up) = self.owed().and_then(|_| self.end_attempt(AttemptOutcome::Lost))
        {
            drop(permit);
            return self.change(|change| change.fact(given_up)).await;
        }
        self.attempt(asked, climb, permit).await
    }

    /// Lets the program say what the model should know before the step. Once a step, also over crashes.
    async fn brief(&mut self) -> Result<bool, WriteError> {
        let Some(hook) = self.agent.hook.clone().filter(|_| self.chat.briefed < self.chat.step) else {
            return Ok(false);
        };
        let (chat, cancel) = (self.chat.clone(), CancellationToken::new());
        let stopped = cancel.clone();
        let asked = Box::pin(async move {
            tokio::select! {
                biased;
                () = stopped.cancelled() => Err(()),
                text = hook.before_step(&chat) => Ok(text),
            }
        });
        let Ok(text) = self.listening(asked, &cancel).await? else {
            return Ok(true); // The top of the loop knows who wants the turn stopped.
        };
        let Some(text) = text else {
            return Ok(false);
        };
        self.change(|change| change.say(Body::Context(text)).fact(Fact::Briefed)).await?;
        Ok(true)
    }

    /// When the draft's attempt ended, or would if it ended now.
    pub(crate) fn attempt_ended(&self) -> Timestamp {
        self.draft.as_ref().filter(|_| self.inherited).map_or_else(|| self.now(), Draft::newest_at)
    }

    /// The draft's attempt, if no row says what became of it.
    fn unrecorded(&self) -> Option<AttemptBegan> {
        let began = self.draft.as_ref()?.current()?;
        (began.number > self.chat.tried.attempts).then(|| began.clone())
    }

    /// Whose exchanges are recorded, if any are.
    pub(crate) const fn recorded(&self) -> Of {
        Of { chat: self.chat.id, debug: self.chat.debug }
    }

    /// The model that is asked, whether or not there is somebody to ask for it.
    pub(crate) fn model(&self) -> Option<ModelId> {
        // Beyond the last, as after an agent lost one in between, the last is meant.
        self.agent.asks(self.chat.own_model()).take(self.chat.tried.model.saturating_add(1)).last().cloned()
    }

    pub(crate) fn asked(&self) -> Result<Asked, ProviderError> {
        let model = self.model().ok_or_else(|| self.no_model())?;
        let provider = self.ports.providers.get(model.provider()).cloned().ok_or_else(|| {
            let known: Vec<_> = self.ports.providers.keys().map(String::as_str).collect();
            let detail =
                format!("no provider `{}` for model {model}; there are: {}", model.provider(), known.join(", "));
            ProviderError::new(model.provider(), ErrorKind::Config).with_detail(&detail)
        })?;
        let facts = provider.facts(model.name());
        Ok(Asked { model, provider, facts })
    }

    /// Why there is nobody to ask.
    pub(crate) fn no_model(&self) -> ProviderError {
        let name = &self.chat.agent;
        let detail = match self.ports.agent(name) {
            Some(_) => "the agent has no model".into(),
            None => SubmitError::NoAgent(name.clone()).to_string(),
        };
        ProviderError::new("", ErrorKind::Config).with_detail(&detail)
    }

    /// The terms on which the next model is asked, if there is one and the error is this one's own: it passes but has not
    /// in time, or nobody gets an answer here.
    pub(crate) fn elsewhere(&self, error: &ProviderError) -> Option<StepAttempts> {
        let its_own =
            error.retry != Retry::Never || matches!(error.kind, ErrorKind::UsageLimit | ErrorKind::ProviderDisabled);
        (its_own && self.has_next_model()).then(|| self.next_model())
    }

    /// Whether no other model may be asked either: a total of the step is reached, perhaps together with another bound.
    pub(crate) fn is_total(&self, why: GiveUpReason, spent: &RetrySpent) -> bool {
        why.is_of_the_step() || spent.attempts >= self.agent.limits.retry.attempts_max
    }

    /// Whether there is a model behind the one that is asked.
    pub(crate) fn has_next_model(&self) -> bool {
        self.agent.asks(self.chat.own_model()).nth(self.chat.tried.model.saturating_add(1)).is_some()
    }

    pub(crate) fn next_model(&self) -> StepAttempts {
        let spent = self.chat.tried.spent.anew();
        StepAttempts { model: self.chat.tried.model + 1, spent, blind: false, ..self.chat.tried }
    }

    pub(crate) fn wait(&self, until: Timestamp, error: &ProviderError, attempt: u32) -> Fact {
        let (kind, message) = (error.kind, error.to_string());
        Fact::Waits(Box::new(RetryWait { until, kind, message, attempt }))
    }

    /// Fetches the bytes of the transcript, which was loaded without. Prompts are made of them, and nothing else is; so one
    /// that was made had them.
    pub(crate) async fn fetch(&mut self) -> Result<(), WriteError> {
        if self.prompt.is_some() {
            return Ok(());
        }
        for message in self.messages.iter_mut().filter(|message| !message.is_whole()) {
            if let Some(whole) = self.ports.store.message(self.chat.id, message.id, Reader::Driver).await? {
                *message = whole;
            }
        }
        Ok(())
    }

    /// Prepares the transcript for the model, if that is not done yet.
    pub(crate) fn prepare(&mut self, asked: &Asked) {
        let (target, unseen) = (&asked.facts.target, self.unseen());
        if self.prompt.as_ref().is_some_and(|prompt| prompt.target() == target && prompt.unseen() == unseen) {
            return;
        }
        let mut prompt = Prompt::unseeing(target.clone(), unseen);
        self.messages.iter().for_each(|message| prompt.push(message));
        self.prompt = Some(prompt);
        self.calibrate(asked);
    }

    /// The request for the step as it stands, without anything half-said.
    pub(crate) fn request(&self, asked: &Asked) -> Request {
        let target = &asked.facts.target;
        let prompt = self.prompt.as_ref().expect("the transcript was prepared");
        let mut request = Request::new(asked.model.clone(), target, prompt.entries());
        request.system = self.agent.system.clone();
        request.system.extend(self.chat.setup.as_ref().map(|setup| setup.instructions.clone()));
        request.tools = self.shelf().offered();
        request.effort = self.agent.effort;
        request.sampling = self.agent.sampling.clone();
        request.background = self.agent.background == Background::On;
        if self.agent.chaining == Chaining::On && !self.chat.tried.unchained {
            request.chain = prompt.chain(&asked.model);
        }
        if let Some(stage) = self.room.leaner {
            request.entries = self.leaner(&request.entries, stage, target);
            request.chain = None; // The provider's copy is the one that was too long.
        }
        request.output_is_told = self.agent.output_tokens_max.is_some();
        request.max_output = self.output_max(asked, &request, self.agent.output_tokens_max.unwrap_or(OUTPUT_MAX));
        request
    }

    /// The tools of the agent, and those that the chat brought.
    pub(crate) fn shelf(&self) -> Arc<Shelf> {
        self.agent.shelf().with_clients(&self.own_tools)
    }

    async fn attempt(&mut self, asked: Asked, climb: Climb, permit: Permit) -> Result<(), WriteError> {
        let Climb { rung, retract, opening } = climb;
        let number = self.chat.tried.attempts + 1;
        let began = AttemptBegan { number, model: asked.model.clone(), rung };
        self.meter.began(&began, &retract, self.draft.as_ref());
        self.spans.ask(&self.chat, &began, asked.provider.server());
        log::asks(&self.chat, &began, self.cause);
        if let Opening::Ask(request) = &opening {
            self.ports.metrics.asked(&asked.model, request);
        }
        let cancel = CancellationToken::new();
        self.inherited = false;
        // It and its run are in boxes, or every wrapper has room for them twice: that is memory of each chat that streams.
        let attempt = Box::new(Attempt {
            store: self.ports.store.clone(),
            pen: self.lease.append_right(),
            bell: self.bell.clone(),
            clock: self.clock,
            metrics: self.ports.metrics.clone(),
            provider: asked.provider.clone(),
            permit,
            windows: self.windows(&asked.facts),
            cancel: cancel.clone(),
            alone: self.lend_alone(),
            pinged: false,
            insists: self.insists(),
            draft: self.draft.take().unwrap_or_else(|| Draft::new(self.chat.step)),
        });
        let attempt = Box::pin(attempt.run(retract, began, opening));
        let attempt = recording(self.ports.recorder.clone(), self.recorded(), attempt);
        let Outcome { attempt, ended, first_after } = self.listening(attempt, &cancel).await?;
        let Attempt { draft, permit, alone, pinged, .. } = *{ attempt };
        self.spans.heard(&draft);
        (self.draft, self.pinged) = (Some(draft), pinged);
        self.alone = self.alone.take().or(alone);
        self.kept = Kept::of(self.draft.as_ref(), &self.agent);
        if let Some(first) = first_after {
            self.ports.metrics.first_token(&asked.model, first);
        }
        let ended = ended?;
        let jitter = self.ports.give_back(permit, &ended);
        match ended {
            Ended::Answered(stop) => self.answered(stop).await,
            Ended::Broke(error) if error.retry == Retry::Now => self.paused(error, jitter.unwrap_or_default()).await,
            Ended::Broke(error) => self.broke(error, jitter.unwrap_or_default()).await,
            Ended::Cancelled => Ok(()), // Whoever stopped it is at the top of the loop.
        }
    }

    pub(crate) fn windows(&self, facts: &ModelFacts) -> Windows {
        let limits = &self.agent.limits;
        let thinking = match self.agent.effort {
            Some(_) => Thinking::Yes,
            None => facts.thinks,
        };
        Windows {
            open_max: limits.open_for(thinking),
            silence_max: limits.silence_for(thinking),
            batch_len_max: limits.batch_len_max,
            batch_bytes_max: limits.batch_bytes_max,
            draft_bytes_max: limits.draft_bytes_max,
        }
    }

    async fn answered(&mut self, stop: Stop) -> Result<(), WriteError> {
        if let (Stop::Filtered { category, detail }, Some(draft)) = (&stop, &self.draft)
            && !draft.has_text()
            && draft.complete_calls().next().is_none()
        {
            let provider = draft.model().map_or("", ModelId::provider);
            let error = ProviderError::filtered(provider, category, detail).with_cause(Cause::ErrorFinish);
            return self.fail(&error, None).await;
        }
        let bytes_max = self.agent.limits.draft_bytes_max;
        if stop == Stop::Length && self.draft.as_ref().is_some_and(|draft| draft.weight() > bytes_max) {
            // It was cut here: whoever spoke has not said what that came to, and may go on.
            let attempted = self.end_attempt(AttemptOutcome::Lost);
            return self.seal(stop, attempted).await;
        }
        self.kept = None; // It is over.
        let attempted = self.end_attempt(AttemptOutcome::Answered);
        self.learn();
        self.seal(stop, attempted).await
    }

    /// Commits the draft as the step's reply.
    async fn seal(&mut self, stop: Stop, attempted: Option<Fact>) -> Result<(), WriteError> {
        let limit = self.context_limit();
        let ended = self.attempt_ended();
        let mut draft = self.draft.take().expect("an attempt was made");
        if stop != Stop::Length {
            draft.mend(toolbox::repaired);
        }
        let reply = draft.seal(stop, ended, limit).expect("an attempt was made");
        let shelf = self.shelf();
        self.change(|change| {
            if let Some(attempted) = attempted {
                change.fact(attempted);
            }
            change.reply(reply, |call| if call.whole { shelf.first_state(call) } else { CallState::Ready })
        })
        .await
    }

    /// The prompt tokens the provider counted calibrate the measure of the next request.
    fn learn(&mut self) {
        let counted = self.draft.as_ref().and_then(|draft| draft.usage().usage()).map(|usage| usage.prompt());
        if let (Some(tokens), Ok(asked)) = (counted, self.asked())
            && self.agent.chaining == Chaining::Off
        {
            let size = PromptSize::text(self.request(&asked).bytes());
            self.gauge.learn(size, tokens);
        }
    }

    /// The provider wants to be asked to go on. That is no failure, as long as the answer gets on by it.
    async fn paused(&mut self, error: ProviderError, jitter: f64) -> Result<(), WriteError> {
        self.cause = error.cause;
        let gets_on = self.progress(error.cause) == AttemptProgress::Output && self.goes_on(error.cause);
        if !gets_on || self.chat.tried.attempts + 1 >= self.agent.limits.retry.attempts_max {
            return self.broke(error.with_retry(Retry::Backoff), jitter).await;
        }
        match self.end_attempt(AttemptOutcome::Answered) {
            Some(Fact::Attempted(attempted, tried)) => {
                let spent = tried.spent.resumed(attempted.spend.total());
                let row = Fact::Attempted(attempted, StepAttempts { spent, ..tried });
                self.change(|change| change.fact(row)).await
            }
            _ => self.fail(&error, None).await,
        }
    }

    /// Decides what a break means, and commits it.
    async fn broke(&mut self, error: ProviderError, jitter: f64) -> Result<(), WriteError> {
        self.cause = error.cause;
        let outcome = AttemptOutcome::Broke(error.cause, error.kind);
        let Some(Fact::Attempted(attempted, tried)) = self.end_attempt(outcome) else {
            return self.fail(&error, None).await;
        };
        let tried = StepAttempts { spent: tried.spent.leaving(error.retry), ..tried };
        let row = |tried| Fact::Attempted(attempted.clone(), tried);
        match error.kind {
            _ if tried.spent.attempts >= self.agent.limits.retry.attempts_max => {} // None is made on other terms either.
            ErrorKind::ContextFull => return self.overflowed(row(tried)).await,
            _ if self.may_be_chain(&error) => {
                let row = row(StepAttempts { unchained: true, ..tried });
                return self.change(|change| change.fact(row)).await;
            }
            _ if self.may_be_media(&error) => {
                let row = row(StepAttempts { blind: true, ..tried });
                return self.change(|change| change.fact(row)).await;
            }
            _ => {}
        }
        let verdict = decide(error.retry, &tried.spent, &self.agent.limits.retry, jitter);
        let elsewhere = self.elsewhere(&error);
        let budget = match verdict {
            RetryDecision::Wait(_) => RetryBudget::Left,
            RetryDecision::GiveUp(why) if elsewhere.is_some() && !self.is_total(why, &tried.spent) => {
                RetryBudget::SpentHere
            }
            RetryDecision::GiveUp(_) => RetryBudget::Spent,
        };
        let draft = self.draft.as_ref().expect("an attempt was made");
        let can = self.asked().map(|asked| self.can(&asked)).unwrap_or_default();
        match (plan(draft, error.cause, can, budget), verdict) {
            // A refusal to let us hear the rest says nothing against what was heard.
            (Recovery::Salvage { retract }, _) if error.is_broken_stream() || error.cause == Cause::Refused => {
                self.salvage(retract, Some(row(tried))).await
            }
            (Recovery::FallBack { .. }, _) => {
                let next = StepAttempts {
                    attempts: tried.attempts,
                    spent: tried.spent.anew(),
                    owed: false,
                    ..self.next_model()
                };
                let row = row(next);
                self.change(|change| change.fact(row)).await
            }
            (
                recovery @ (Recovery::Reattach(_) | Recovery::Continue { .. } | Recovery::Restart),
                RetryDecision::Wait(span),
            ) => {
                let (mut attempted, mut tried) = (attempted.clone(), tried);
                if matches!(recovery, Recovery::Reattach(_)) {
                    // The same generation goes on: it is paid once, and the attempt that ends it says how much.
                    (attempted.tally, attempted.spend) = Default::default();
                    (tried.spent.cost, tried.owed) = (self.chat.tried.spent.cost, true);
                }
                tried.spent = tried.spent.waited(span);
                let wait = (error.retry != Retry::Now).then(|| self.wait(self.now() + span, &error, tried.attempts));
                let facts = [Fact::Attempted(attempted, tried)].into_iter().chain(wait);
                self.change(|change| facts.fold(change, Change::fact)).await
            }
            (_, RetryDecision::GiveUp(why)) => self.fail(&gave_up(error, why), Some(row(tried))).await,
            (_, RetryDecision::Wait(_)) => self.fail(&error, Some(row(tried))).await,
        }
    }

    /// Whether a request may have been refused for the response it was chained to. Servers say that in words of their own,
    /// or speak of a call in that response that we never saw; so any refusal for good is answered by one request with the
    /// whole transcript.
    fn may_be_chain(&self, error: &ProviderError) -> bool {
        let said_nothing = self.draft.as_ref().is_none_or(|draft| !draft.got_on());
        let for_good = error.retry == Retry::Never && matches!(error.kind, ErrorKind::Generic | ErrorKind::Config);
        (error.kind == ErrorKind::ChainBroken || (for_good && said_nothing))
            && self.asked().is_ok_and(|asked| self.request(&asked).chain.is_some())
    }

    /// Runs the calls that came whole and takes back the others. Nobody is asked again.
    async fn salvage(&mut self, retract: Vec<u16>, attempted: Option<Fact>) -> Result<(), WriteError> {
        let draft = self.draft.as_mut().expect("there are calls to salvage");
        draft.forget_response(); // Its end was not seen: it may hold calls that we know nothing of.
        let (at, step) = (self.clock.now(), draft.step());
        let mut rows = Vec::new();
        for ordinal in retract {
            let delta = Delta::RetractCall { ordinal };
            let seq = draft.push(at, &delta).expect("the call is in the draft");
            rows.push(everturn_core::view::JournalRow { step, seq, at, delta: Arc::new(delta) });
        }
        self.ports.store.append_and_wait(self.lease.append_right(), rows.clone()).await?;
        self.bell.log(&rows);
        self.seal(Stop::ToolUse, attempted).await
    }

    /// Ends the turn with an error. What was shown stays.
    pub(crate) async fn fail(&mut self, error: &ProviderError, attempted: Option<Fact>) -> Result<(), WriteError> {
        let outcome = AttemptOutcome::Broke(error.cause, error.kind);
        let (reply, missing) = match attempted {
            Some(_) => (self.give_up_draft(Stop::Broken, outcome).0, attempted),
            None => self.give_up_draft(Stop::Broken, outcome),
        };
        let attempts = self.chat.tried.attempts + u32::from(missing.is_some());
        let failure =
            TurnFailure { kind: error.kind, message: error.to_string(), detail: error.detail.clone(), attempts };
        self.change(|change| {
            if let Some(attempted) = missing {
                change.fact(attempted);
            }
            change.fail(reply, failure)
        })
        .await
    }

    /// The row of the attempt that has just ended, if it has none yet: what it used and what that leaves.
    pub(crate) fn end_attempt(&mut self, outcome: AttemptOutcome) -> Option<Fact> {
        let (began, is_made) = match self.unrecorded() {
            Some(began) => (began, true),
            None => (self.owed()?, false),
        };
        self.draft.as_ref()?;
        let sent = self.asked().map_or(0, |asked| {
            self.prepare(&asked);
            // A continuation is sent with what was said before it.
            let said_before = self.draft.as_ref().map_or(0, Draft::said_before_bytes);
            self.gauge.tokens(PromptSize::text(self.request(&asked).bytes() + said_before))
        });
        let draft = self.draft.as_ref()?;
        let facts = self.ports.providers.get(began.model.provider()).map(|provider| provider.facts(began.model.name()));
        let price: Price = facts.and_then(|facts| facts.price).unwrap_or_default();
        let end = match outcome.end() {
            StreamEnd::Refused if began.rung == Rung::Reattach => StreamEnd::Broken, // What was refused is only to hear the rest.
            end => end,
        };
        let tally = draft.usage().settle(end, sent, draft.generation_bytes() as u64);
        let spend = tally.cost(&price);
        let began_at = if is_made { draft.current_began() } else { self.attempt_ended() };
        let (took, silent) = (self.attempt_ended().since(began_at), self.attempt_ended().since(draft.newest_at()));
        let spent = self.spent(outcome, silent, spend.total());
        let tried = StepAttempts { attempts: began.number, spent, owed: false, ..self.chat.tried };
        let row = AttemptRecord {
            step: draft.step(),
            number: began.number,
            model: began.model,
            aim: AttemptPurpose::Answer(began.rung),
            began: began_at,
            took,
            tally,
            spend,
            outcome,
        };
        Some(Fact::Attempted(Box::new(row), tried))
    }
}

/// The error with the reason why nothing more was tried.
pub(crate) fn gave_up(error: ProviderError, why: GiveUpReason) -> ProviderError {
    match (why, error.detail.as_str()) {
        (GiveUpReason::Permanent, _) => error,
        (why, "") => error.with_detail(&why.to_string()),
        (why, detail) => {
            let detail = format!("{detail} ({why})");
            error.with_detail(&detail)
        }
    }
}
