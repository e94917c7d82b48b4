//! Having the transcript summarised.
//!
//! A summary is written by the model the chat talks to, from the request it knows already with an instruction behind it,
//! so that the provider's cache holds. It is an attempt like any other: it waits while the model is left alone, is tried
//! again, falls back, stops when somebody stops the turn, and is paid for. Only nobody is shown it as it comes, so there
//! is nothing to journal. A fact says that it is being written; who finds that fact without having written it knows that
//! the writer is gone.
//!
//! What people said that the model has not answered stands behind the summary word for word, as long as the model can
//! read it, and so do the constraints that a summary once wrote down.

use std::sync::Arc;
use std::time::Duration;

use everturn_core::chat::{Compacting, StepAttempts};
use everturn_core::context::{CompactionFallback, PromptSize, PromptTooLong, size_of_parts, spare_bytes, summary};
use everturn_core::cost::Price;
use everturn_core::draft::Draft;
use everturn_core::error::{Cause, ErrorKind, ProviderError, Retry};
use everturn_core::fact::{AttemptOutcome, AttemptPurpose, AttemptRecord, Fact};
use everturn_core::ids::MessageId;
use everturn_core::message::{Body, Message, Part, Stop, Summary, SummarySource};
use everturn_core::prompt::{OUTPUT_MAX, Request, Sampling, ToolChoice, told_of};
use everturn_core::retry::{AttemptProgress, RetryDecision, decide};
use everturn_providers::record::recording;
use everturn_providers::{Frame, Provider};
use everturn_stores::WriteError;
use futures_util::StreamExt as _;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::admission::governor::Permit;
use crate::drive::Driver;
use crate::drive::compaction::Room;
use crate::drive::step::attempt::{Ended, Windows};
use crate::drive::step::{Asked, gave_up};
use crate::util::clock::Clock;

/// The longest text in what is summarised when the whole is too long, and when that is too long again.
const TEXT_BYTES_MAX: [usize; 2] = [8 * 1024, 1024];
/// In place of older messages, when that is too long as well.
const OLDER_LEFT_OUT: &str = "(Older messages are left out here: they are too long to be read again.)";

impl Driver {
    /// Has the transcript summarised, plainly or as a stage of falling back, and commits what came of it. Its state is kept
    /// apart, because it is large and seldom: every driver would carry room for it.
    pub(crate) async fn compact(
        &mut self,
        asked: &Asked,
        source: SummarySource,
        stage: Option<CompactionFallback>,
    ) -> Result<(), WriteError> {
        Box::pin(self.try_compact(asked, source, stage)).await
    }

    async fn try_compact(
        &mut self,
        asked: &Asked,
        source: SummarySource,
        stage: Option<CompactionFallback>,
    ) -> Result<(), WriteError> {
        let how = if self.room.short || stage.is_some() { summary::SHORTER } else { summary::INSTRUCTIONS };
        let Some(request) = self.fitting_summary(asked, how) else {
            let request = self.request(asked);
            let fixed = self.gauge.tokens(PromptSize::text(request.bytes().saturating_sub(request.entries.bytes())));
            let too_long = PromptTooLong { tokens: self.tokens(&request), fixed, limit: self.context_limit() };
            return self.do_without(&self.too_long(asked, too_long), source, None).await;
        };
        let Some(permit) = self.permit(asked).await? else { return Ok(()) };
        let (model, tokens) = (asked.model.clone(), self.tokens(&request));
        let compacting = Compacting { began: self.now(), model, source, tokens };
        self.change(|change| change.fact(Fact::Compacts(Box::new(compacting.clone())))).await?;
        let (draft, ended, jitter) = self.have_told(asked, request, permit).await?;
        let written = match ended {
            Ended::Answered(stop) => written(&draft, &stop, asked.provider.name()).map(Some),
            Ended::Broke(error) => Err(error),
            Ended::Cancelled => Ok(None),
        };
        let outcome = match &written {
            Ok(Some(_)) => AttemptOutcome::Answered,
            Ok(None) if self.halt.is_cancelled() => AttemptOutcome::Lost,
            Ok(None) => AttemptOutcome::Interrupted,
            Err(error) => AttemptOutcome::Broke(error.cause, error.kind),
        };
        let took = self.now().since(compacting.began);
        let row = self.summary_row(&compacting, &draft, took, outcome);
        match written {
            Ok(Some(text)) => self.keep_summary(text, source, stage, row).await,
            Ok(None) => self.record(row, self.chat.tried).await, // Whoever stopped it is at the top of the loop.
            Err(error) => self.no_summary(error, source, row, jitter).await,
        }
    }

    /// Records a summary whose writer is gone.
    pub(crate) async fn bury_summary(&mut self) -> Result<(), WriteError> {
        let Some(lost) = self.chat.compacting.clone() else { return Ok(()) };
        let nothing = Draft::new(self.chat.step);
        let row = self.summary_row(&lost, &nothing, Duration::ZERO, AttemptOutcome::Lost);
        self.record(row, self.chat.tried).await
    }

    /// The request for a summary, cut as little as it takes to be read. The measure decides on the first cut, which does
    /// little harm; the others are made when the provider refused.
    fn fitting_summary(&mut self, asked: &Asked, how: &str) -> Option<Request> {
        let request = self.summary_request(asked, how, self.room.cuts)?;
        let over = self.context_limit().is_some_and(|limit| self.tokens(&request) > limit);
        if self.room.cuts > 0 || !over {
            return Some(request);
        }
        self.room.cuts = 1;
        self.summary_request(asked, how, 1)
    }

    /// The transcript with an instruction behind it. First long texts are cut, then the older half of what the model has
    /// heard is left out, again and again; `None` if nothing of it would be left.
    fn summary_request(&self, asked: &Asked, how: &str, cuts: usize) -> Option<Request> {
        let target = &asked.facts.target;
        let (summary, said) = self.messages.split_at(usize::from(self.summary().is_some()));
        let heard = self.heard().saturating_sub(summary.len());
        let halvings = cuts.saturating_sub(TEXT_BYTES_MAX.len()).min(usize::BITS as usize - 1);
        let left_out = heard - (heard >> halvings);
        if halvings > 0 && left_out == heard {
            return None;
        }
        let note = |text: &str| {
            Arc::new(Message { id: MessageId(0), at: self.now(), body: Body::Context(text.into()), sent: None })
        };
        let gap = (left_out > 0).then(|| note(OLDER_LEFT_OUT));
        let newest = &said[left_out..];
        let all = summary.iter().chain(&gap).chain(newest).cloned().chain([note(how)]).collect::<Vec<_>>();
        let entries = self.prepared(&all, target);
        let entries = match cuts {
            0 => entries,
            1 => entries.cut(TEXT_BYTES_MAX[0].min(spare_bytes(self.context_limit()))),
            _ => entries.cut(TEXT_BYTES_MAX[1]),
        };
        let tool_choice = ToolChoice::None; // Offered all the same: they are part of the cached beginning.
        // What bounds an answer would cut a summary short.
        let sampling = Sampling { stop: Vec::new(), ..self.agent.sampling.clone() };
        let mut request =
            Request { entries, tool_choice, sampling, chain: None, background: false, ..self.request(asked) };
        request.output_is_told = false;
        request.max_output = self.output_max(asked, &request, OUTPUT_MAX);
        Some(request.fit(target))
    }

    /// Asks, and listens to the end or until somebody stops the turn. What comes back with it is the jitter to try again
    /// with, if there is one.
    async fn have_told(
        &mut self,
        asked: &Asked,
        request: Request,
        permit: Permit,
    ) -> Result<(Draft, Ended, Option<f64>), WriteError> {
        let (size, step) = (PromptSize::text(request.bytes()), self.chat.step);
        let cancel = CancellationToken::new();
        let teller = Teller {
            provider: asked.provider.clone(),
            permit,
            windows: self.windows(&asked.facts),
            clock: self.clock,
            draft: Draft::new(step),
        };
        let telling = recording(self.ports.recorder.clone(), self.recorded(), teller.tell(request, cancel.clone()));
        let (Teller { draft, permit, .. }, ended) = self.listening(telling, &cancel).await?;
        let jitter = self.ports.give_back(permit, &ended);
        if let Some(usage) = draft.usage().usage() {
            self.gauge.learn(size, usage.prompt());
        }
        Ok((draft, ended, jitter))
    }

    async fn keep_summary(
        &mut self,
        text: String,
        source: SummarySource,
        stage: Option<CompactionFallback>,
        row: Box<AttemptRecord>,
    ) -> Result<(), WriteError> {
        let text = summary::keep_constraints(self.summary().map_or("", |earlier| &earlier.text), &text);
        let (tokens_before, runtime) = (row.tally.known.prompt() + row.tally.estimated.prompt(), row.took);
        let summary = Summary { text, newest_user: self.newest_words(source), source, tokens_before, runtime };
        let told = self.messages[self.heard()..].iter().filter_map(|message| match &message.body {
            Body::Context(text) => Some(Body::Context(text.clone())),
            _ => None,
        });
        let (told, tail): (Vec<Body>, _) = (told.collect(), self.chat.tail);
        let spent = self.chat.tried.spent.anew();
        let tried = StepAttempts { attempts: row.number, spent, ..self.chat.tried };
        self.change(|change| {
            change.fact(Fact::Attempted(row, tried)).say_as(Body::Summary(Box::new(summary)), tail);
            told.into_iter().fold(change, |change, body| change.say_as(body, tail))
        })
        .await?;
        self.room = Room { leaner: stage, ..Room::default() };
        Ok(())
    }

    /// Everything people said since the model last did; if that is nothing, the last thing they said before. What is of
    /// earlier turns is cut where nothing could stand beside it.
    fn newest_words(&self, source: SummarySource) -> Vec<Part> {
        let whole = self.newest_words_of(&self.messages);
        let is_over = match self.context_limit() {
            Some(limit) => self.gauge.tokens(size_of_parts(&whole)) > limit,
            None => source == SummarySource::Overflow,
        };
        if is_over { self.newest_words_of(&self.without_earlier()) } else { whole }
    }

    fn newest_words_of(&self, messages: &[Arc<Message>]) -> Vec<Part> {
        let shown = |id, parts: &[Part]| if id > self.chat.unseen { parts.to_vec() } else { told_of(parts) };
        let said = |message: &Arc<Message>| match &message.body {
            Body::User(parts) => shown(message.id, parts),
            Body::Summary(summary) => shown(message.id, &summary.newest_user),
            Body::Context(_) | Body::Reply(_) | Body::Result(_) => Vec::new(),
        };
        let (heard, unheard) = messages.split_at(self.heard());
        let newest: Vec<Part> = unheard.iter().flat_map(said).collect();
        let earlier = || heard.iter().rev().map(said).find(|parts| !parts.is_empty());
        if newest.is_empty() { earlier().unwrap_or_default() } else { newest }
    }

    /// No summary was written: try again, try less, ask elsewhere, or do without.
    async fn no_summary(
        &mut self,
        error: ProviderError,
        source: SummarySource,
        row: Box<AttemptRecord>,
        jitter: Option<f64>,
    ) -> Result<(), WriteError> {
        self.room.short |= error.cause == Cause::ErrorFinish;
        if error.kind == ErrorKind::ContextFull || (self.room.cuts == 0 && self.may_be_media(&error)) {
            self.room.cuts += 1;
            return self.record(row, self.chat.tried).await;
        }
        let limits = &self.agent.limits.retry;
        let spent = self.chat.tried.spent.failed(AttemptProgress::None, row.took, row.spend.total(), limits);
        let spent = spent.leaving(error.retry);
        let jitter = jitter.unwrap_or_else(|| self.ports.entropy.unit());
        match decide(error.retry, &spent, limits, jitter) {
            RetryDecision::Wait(span) => {
                let tried = StepAttempts { attempts: row.number, spent: spent.waited(span), ..self.chat.tried };
                let wait = self.wait(self.now() + span, &error, row.number);
                self.change(|change| change.fact(Fact::Attempted(row, tried)).fact(wait)).await
            }
            RetryDecision::GiveUp(why) if self.is_total(why, &spent) => {
                let tried = StepAttempts { attempts: row.number, spent, ..self.chat.tried };
                self.fail(&gave_up(error, why), Some(Fact::Attempted(row, tried))).await
            }
            RetryDecision::GiveUp(why) => match self.elsewhere(&error) {
                Some(tried) => self.record(row, StepAttempts { spent: spent.anew(), ..tried }).await,
                None => self.do_without(&gave_up(error, why), source, Some(row)).await,
            },
        }
    }

    /// Goes on without a summary, unless a summary was all that somebody wanted.
    async fn do_without(
        &mut self,
        error: &ProviderError,
        source: SummarySource,
        row: Option<Box<AttemptRecord>>,
    ) -> Result<(), WriteError> {
        let tried = StepAttempts { spent: self.chat.tried.spent.anew(), ..self.chat.tried };
        if source == SummarySource::Asked {
            return self.fail(error, row.map(|row| Fact::Attempted(row, tried))).await;
        }
        self.room.unsummarised = Some(error.to_string());
        match row {
            Some(row) => self.record(row, tried).await,
            None => Ok(()),
        }
    }

    /// Commits the row of a summary, and on which terms to go on.
    async fn record(&mut self, row: Box<AttemptRecord>, tried: StepAttempts) -> Result<(), WriteError> {
        let tried = StepAttempts { attempts: row.number, ..tried };
        self.change(|change| change.fact(Fact::Attempted(row, tried))).await
    }

    fn summary_row(
        &self,
        compacting: &Compacting,
        draft: &Draft,
        took: Duration,
        outcome: AttemptOutcome,
    ) -> Box<AttemptRecord> {
        let Compacting { began, model, tokens, .. } = compacting.clone();
        let tally = draft.usage().settle(outcome.end(), tokens, draft.bytes() as u64);
        let facts = self.ports.providers.get(model.provider()).map(|provider| provider.facts(model.name()));
        let price: Price = facts.and_then(|facts| facts.price).unwrap_or_default();
        let (step, number, spend) = (self.chat.step, self.chat.tried.attempts + 1, tally.cost(&price));
        Box::new(AttemptRecord {
            step,
            number,
            model,
            aim: AttemptPurpose::Summary,
            began,
            took,
            tally,
            spend,
            outcome,
        })
    }
}

/// The summary in an answer, if it is one: a summary that was cut, or stopped by a policy, must not stand for everything.
fn written(draft: &Draft, stop: &Stop, provider: &str) -> Result<String, ProviderError> {
    let finished = |error: ProviderError| Err(error.with_cause(Cause::ErrorFinish));
    let no_use =
        |why| finished(ProviderError::new(provider, ErrorKind::Truncated).with_retry(Retry::Once).with_detail(why));
    let texts = draft.parts().iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.text.trim()).filter(|text| !text.is_empty()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n\n");
    match stop {
        Stop::End if text.is_empty() => no_use("the summary was empty"),
        Stop::End => Ok(text),
        Stop::ToolUse => no_use("a tool was called instead of writing the summary"),
        Stop::Length => no_use("the summary was longer than an answer may be"),
        Stop::Interrupted | Stop::Broken => no_use("the summary broke off"),
        Stop::Filtered { category, detail } => finished(ProviderError::filtered(provider, category, detail)),
    }
}

/// Who listens to a summary.
struct Teller {
    provider: Arc<dyn Provider>,
    permit: Permit,
    windows: Windows,
    clock: Clock,
    draft: Draft,
}

impl Teller {
    async fn tell(mut self, request: Request, cancel: CancellationToken) -> (Self, Ended) {
        let ended = tokio::select! {
            biased;
            () = cancel.cancelled() => Ended::Cancelled,
            ended = self.listen(request) => ended.unwrap_or_else(Ended::Broke),
        };
        (self, ended)
    }

    async fn listen(&mut self, request: Request) -> Result<Ended, ProviderError> {
        let provider = self.provider.clone();
        let error = |kind: ErrorKind| ProviderError::new(provider.name(), kind);
        let silent = |_| error(ErrorKind::Silence);
        let mut frames = timeout(self.windows.open_max, provider.open(request)).await.map_err(silent)??;
        self.permit.opened();
        let mut progress = Instant::now();
        while self.draft.weight() <= self.windows.draft_bytes_max {
            match timeout_at(progress + self.windows.silence_max, frames.next()).await.map_err(silent)? {
                Some(Ok(frame @ (Frame::Delta(_) | Frame::Together(_)))) => {
                    for delta in frame.deltas() {
                        let fits = self.draft.push(self.clock.now(), delta);
                        fits.map_err(|out_of_order| {
                            error(ErrorKind::Malformed).with_detail(&out_of_order.to_string())
                        })?;
                        if delta.is_progress() {
                            progress = Instant::now();
                            self.permit.spoke();
                        }
                    }
                }
                Some(Ok(Frame::Ping)) => {}
                Some(Ok(Frame::Stop(stop))) => return Ok(Ended::Answered(stop)),
                Some(Err(error)) => return Err(error),
                None => return Err(error(ErrorKind::Truncated)),
            }
        }
        Ok(Ended::Answered(Stop::Length))
    }
}
