//! Summarising the transcript.
//!
//! A summary is written by the model the chat talks to, from the request it knows already with an instruction behind it,
//! so that the provider's cache holds. It is an attempt like any other: it waits for the governor, is tried again, falls
//! back, stops when the turn is stopped, and is paid for. It is not shown while it arrives, so it is not journalled. A fact
//! says that it is being written; a driver that finds that fact without having written it knows that the writer is gone.
//!
//! User messages that the model has not answered stay behind the summary word for word, as long as the model can read
//! them, and so do the constraints that an earlier summary noted.

use std::sync::Arc;
use std::time::Duration;

use everturn_core::chat::{Compacting, StepAttempts};
use everturn_core::context::{CompactionFallback, PromptSize, PromptTooLong, size_of_parts, spare_bytes, summary};
use everturn_core::draft::Draft;
use everturn_core::error::{Cause, ErrorKind, ProviderError, Retry};
use everturn_core::fact::{AttemptOutcome, AttemptRecord, Fact};
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

use super::{Fitting, Reductions, spared, too_long_error};
use crate::admission::governor::Permit;
use crate::drive::inbox;
use crate::drive::session::ChatSession;
use crate::drive::step::attempt::{CallLimits, StreamOutcome};
use crate::drive::step::record::summary_row;
use crate::drive::step::recovery::{gave_up, is_models_own, is_total, may_be_media};
use crate::drive::step::request::Prepared;
use crate::drive::step::{call_limits, fail, permit, wait_fact};
use crate::drive::target::{ModelTarget, next_model};
use crate::util::clock::Clock;

/// The longest text in what is summarised when the whole is too long, and when that is too long again.
const TEXT_BYTES_MAX: [usize; 2] = [8 * 1024, 1024];
/// In place of older messages, when that is too long as well.
const OLDER_LEFT_OUT: &str = "(Older messages are left out here: they are too long to be read again.)";

/// Has the transcript summarised, plainly or as a stage of reduction, and commits the result. Its future is boxed, because
/// it is large and seldom: every driver would carry room for it.
pub(crate) async fn compact(
    session: &mut ChatSession,
    fitting: &mut Fitting,
    prepared: &Prepared,
    source: SummarySource,
    stage: Option<CompactionFallback>,
) -> Result<(), WriteError> {
    Box::pin(write_summary(session, fitting, prepared, source, stage)).await
}

async fn write_summary(
    session: &mut ChatSession,
    fitting: &mut Fitting,
    prepared: &Prepared,
    source: SummarySource,
    stage: Option<CompactionFallback>,
) -> Result<(), WriteError> {
    let target = &prepared.target;
    let short = fitting.reductions(session).short || stage.is_some();
    let instructions = if short { summary::SHORTER } else { summary::INSTRUCTIONS };
    let Some(request) = fitting_request(session, fitting, prepared, instructions) else {
        let request = prepared.request(session, fitting);
        let fixed = fitting.gauge.tokens(PromptSize::text(request.bytes().saturating_sub(request.entries.bytes())));
        let too_long = PromptTooLong { tokens: fitting.tokens(&request), fixed, limit: session.context_limit() };
        let error = too_long_error(session, fitting, target, too_long);
        return continue_without(session, fitting, &error, source, None).await;
    };
    let Some(permit) = permit(session, fitting, target).await? else { return Ok(()) };
    let tokens = fitting.tokens(&request);
    let compacting = Compacting { began: session.now(), model: target.model.clone(), source, tokens };
    session.change(|change| change.fact(Fact::Compacts(Box::new(compacting.clone())))).await?;
    let (draft, ended, jitter) = stream_summary(session, fitting, target, request, permit).await?;
    let written = match ended {
        StreamOutcome::Answered(stop) => written(&draft, &stop, target.provider.name()).map(Some),
        StreamOutcome::Broke(error) => Err(error),
        StreamOutcome::Cancelled => Ok(None),
    };
    let outcome = match &written {
        Ok(Some(_)) => AttemptOutcome::Answered,
        Ok(None) if session.env.halt.is_cancelled() => AttemptOutcome::Lost,
        Ok(None) => AttemptOutcome::Interrupted,
        Err(error) => AttemptOutcome::Broke(error.cause, error.kind),
    };
    let took = session.now().since(compacting.began);
    let row = summary_row(session, &compacting, &draft, took, outcome);
    match written {
        Ok(Some(text)) => keep_summary(session, fitting, text, source, stage, row).await,
        Ok(None) => record(session, row, session.chat.tried).await, // The next plan knows what stopped it.
        Err(error) => {
            let may_be_media = may_be_media(&error) && prepared.request(session, fitting).entries.have_media();
            no_summary(session, fitting, error, may_be_media, source, row, jitter).await
        }
    }
}

/// Records a summary that a driver which is gone was writing.
pub(crate) async fn record_lost_summary(session: &mut ChatSession) -> Result<(), WriteError> {
    let Some(lost) = session.chat.compacting.clone() else { return Ok(()) };
    let nothing = Draft::new(session.chat.step);
    let row = summary_row(session, &lost, &nothing, Duration::ZERO, AttemptOutcome::Lost);
    record(session, row, session.chat.tried).await
}

/// The request for a summary, cut as little as it takes to be read. The measure decides on the first cut, which does
/// little harm; the others are made when the provider refused.
fn fitting_request(
    session: &ChatSession,
    fitting: &mut Fitting,
    prepared: &Prepared,
    instructions: &str,
) -> Option<Request> {
    let cuts = fitting.reductions(session).cuts;
    let request = summary_request(session, fitting, prepared, instructions, cuts)?;
    let over = session.context_limit().is_some_and(|limit| fitting.tokens(&request) > limit);
    if cuts > 0 || !over {
        return Some(request);
    }
    fitting.reductions_mut(session).cuts = 1;
    summary_request(session, fitting, prepared, instructions, 1)
}

/// The transcript with an instruction behind it. First long texts are cut, then the older half of what the model has
/// answered is left out, again and again; `None` if nothing of it would be left.
fn summary_request(
    session: &ChatSession,
    fitting: &Fitting,
    prepared: &Prepared,
    instructions: &str,
    cuts: usize,
) -> Option<Request> {
    let transcript = &session.transcript;
    let (summary, said) = transcript.messages().split_at(usize::from(transcript.summary().is_some()));
    let answered = transcript.answered_len().saturating_sub(summary.len());
    let halvings = cuts.saturating_sub(TEXT_BYTES_MAX.len()).min(usize::BITS as usize - 1);
    let left_out = answered - (answered >> halvings);
    if halvings > 0 && left_out == answered {
        return None;
    }
    let note = |text: &str| {
        Arc::new(Message { id: MessageId(0), at: session.now(), body: Body::Context(text.into()), sent: None })
    };
    let gap = (left_out > 0).then(|| note(OLDER_LEFT_OUT));
    let newest = &said[left_out..];
    let all = summary.iter().chain(&gap).chain(newest).cloned().chain([note(instructions)]).collect::<Vec<_>>();
    let entries = prepared.entries_of(session, &all);
    let entries = match cuts {
        0 => entries,
        1 => entries.cut(TEXT_BYTES_MAX[0].min(spare_bytes(session.context_limit()))),
        _ => entries.cut(TEXT_BYTES_MAX[1]),
    };
    let tool_choice = ToolChoice::None; // Offered all the same: they are part of the cached beginning.
    // Stop sequences of an answer would cut a summary short.
    let sampling = Sampling { stop: Vec::new(), ..session.env.agent.sampling.clone() };
    let request = prepared.request(session, fitting);
    let mut request = Request { entries, tool_choice, sampling, chain: None, background: false, ..request };
    request.output_is_told = false;
    request.max_output = prepared.output_max(session, fitting, &request, OUTPUT_MAX);
    Some(request.fit(&prepared.target.facts.target))
}

/// Streams a summary to its end, or until the turn is stopped. Returned with it is the jitter for the next try, if it broke.
async fn stream_summary(
    session: &mut ChatSession,
    fitting: &mut Fitting,
    target: &ModelTarget,
    request: Request,
    permit: Permit,
) -> Result<(Draft, StreamOutcome, Option<f64>), WriteError> {
    let size = PromptSize::text(request.bytes());
    let cancel = CancellationToken::new();
    let stream = SummaryStream {
        provider: target.provider.clone(),
        permit,
        call_limits: call_limits(&session.env.agent, session.env.agent.effort, &target.facts),
        clock: session.clocks.step,
        draft: Draft::new(session.chat.step),
    };
    let shared = session.env.shared.clone();
    let stream = recording(shared.recorder.clone(), session.recorded(), stream.run(request, cancel.clone()));
    let (SummaryStream { draft, permit, .. }, ended) = inbox::listen_during(session, stream, &cancel).await?;
    let jitter = permit.ended(&ended, &shared.entropy);
    if let Some(usage) = draft.usage().usage() {
        fitting.gauge.learn(size, usage.prompt());
    }
    Ok((draft, ended, jitter))
}

async fn keep_summary(
    session: &mut ChatSession,
    fitting: &mut Fitting,
    text: String,
    source: SummarySource,
    stage: Option<CompactionFallback>,
    row: Box<AttemptRecord>,
) -> Result<(), WriteError> {
    let transcript = &session.transcript;
    let text = summary::keep_constraints(transcript.summary().map_or("", |earlier| &earlier.text), &text);
    let tokens_before = row.tally.known.prompt() + row.tally.estimated.prompt();
    let newest_user = newest_words(session, fitting, source);
    let summary = Summary { text, newest_user, source, tokens_before, runtime: row.took };
    let notes = transcript.messages()[transcript.answered_len()..].iter().filter_map(|message| match &message.body {
        Body::Context(text) => Some(Body::Context(text.clone())),
        _ => None,
    });
    let notes: Vec<Body> = notes.collect();
    let tail = session.chat.tail;
    let spent = session.chat.tried.spent.anew();
    let tried = StepAttempts { attempts: row.number, spent, ..session.chat.tried };
    session
        .change(|change| {
            change.fact(Fact::Attempted(row, tried)).say_as(Body::Summary(Box::new(summary)), tail);
            notes.into_iter().fold(change, |change, body| change.say_as(body, tail))
        })
        .await?;
    *fitting.reductions_mut(session) = Reductions { stage, ..Reductions::NONE };
    Ok(())
}

/// All user messages since the model's last; if there are none, the last one before. What is of earlier turns is cut where
/// nothing could stand beside it.
fn newest_words(session: &ChatSession, fitting: &Fitting, source: SummarySource) -> Vec<Part> {
    let whole = newest_words_of(session, session.transcript.messages());
    let is_over = match session.context_limit() {
        Some(limit) => fitting.gauge.tokens(size_of_parts(&whole)) > limit,
        None => source == SummarySource::Overflow,
    };
    if is_over { newest_words_of(session, &spared(session)) } else { whole }
}

fn newest_words_of(session: &ChatSession, messages: &[Arc<Message>]) -> Vec<Part> {
    let shown = |id, parts: &[Part]| if id > session.chat.media_hidden_until { parts.to_vec() } else { told_of(parts) };
    let said = |message: &Arc<Message>| match &message.body {
        Body::User(parts) => shown(message.id, parts),
        Body::Summary(summary) => shown(message.id, &summary.newest_user),
        Body::Context(_) | Body::Reply(_) | Body::Result(_) => Vec::new(),
    };
    let (answered, unanswered) = messages.split_at(session.transcript.answered_len());
    let newest: Vec<Part> = unanswered.iter().flat_map(said).collect();
    let earlier = || answered.iter().rev().map(said).find(|parts| !parts.is_empty());
    if newest.is_empty() { earlier().unwrap_or_default() } else { newest }
}

/// No summary was written: try again, with less, at another model, or continue without.
async fn no_summary(
    session: &mut ChatSession,
    fitting: &mut Fitting,
    error: ProviderError,
    may_be_media: bool,
    source: SummarySource,
    row: Box<AttemptRecord>,
    jitter: Option<f64>,
) -> Result<(), WriteError> {
    let reductions = fitting.reductions_mut(session);
    reductions.short |= error.cause == Cause::ErrorFinish;
    if error.kind == ErrorKind::ContextFull || (reductions.cuts == 0 && may_be_media) {
        reductions.cuts += 1;
        return record(session, row, session.chat.tried).await;
    }
    let agent = session.env.agent.clone();
    let limits = &agent.limits.retry;
    let spent = session.chat.tried.spent.failed(AttemptProgress::None, row.took, row.spend.total(), limits);
    let spent = spent.leaving(error.retry);
    let jitter = jitter.unwrap_or_else(|| session.env.shared.entropy.unit());
    match decide(error.retry, &spent, limits, jitter) {
        RetryDecision::Wait(span) => {
            let tried = StepAttempts { attempts: row.number, spent: spent.waited(span), ..session.chat.tried };
            let wait = wait_fact(session.now() + span, &error, row.number);
            session.change(|change| change.fact(Fact::Attempted(row, tried)).fact(wait)).await
        }
        RetryDecision::GiveUp(why) if is_total(why, &spent, limits) => {
            let tried = StepAttempts { attempts: row.number, spent, ..session.chat.tried };
            fail(session, fitting, &gave_up(error, why), Some(Fact::Attempted(row, tried))).await
        }
        RetryDecision::GiveUp(why) => match next_model(&agent, &session.chat).filter(|_| is_models_own(&error)) {
            Some(tried) => record(session, row, StepAttempts { spent: spent.anew(), ..tried }).await,
            None => continue_without(session, fitting, &gave_up(error, why), source, Some(row)).await,
        },
    }
}

/// Goes on without a summary, unless a summary was all that was asked for.
async fn continue_without(
    session: &mut ChatSession,
    fitting: &mut Fitting,
    error: &ProviderError,
    source: SummarySource,
    row: Option<Box<AttemptRecord>>,
) -> Result<(), WriteError> {
    let tried = StepAttempts { spent: session.chat.tried.spent.anew(), ..session.chat.tried };
    if source == SummarySource::Asked {
        return fail(session, fitting, error, row.map(|row| Fact::Attempted(row, tried))).await;
    }
    fitting.reductions_mut(session).unsummarised = Some(error.to_string());
    match row {
        Some(row) => record(session, row, tried).await,
        None => Ok(()),
    }
}

/// Commits the row of a summary, and on which terms to go on.
async fn record(session: &mut ChatSession, row: Box<AttemptRecord>, tried: StepAttempts) -> Result<(), WriteError> {
    let tried = StepAttempts { attempts: row.number, ..tried };
    session.change(|change| change.fact(Fact::Attempted(row, tried))).await
}

/// The summary in an answer, if it is one: a summary that was cut, or stopped by a policy, must not stand for everything.
fn written(draft: &Draft, stop: &Stop, provider: &str) -> Result<String, ProviderError> {
    let finished = |error: ProviderError| Err(error.with_cause(Cause::ErrorFinish));
    let unusable =
        |why| finished(ProviderError::new(provider, ErrorKind::Truncated).with_retry(Retry::Once).with_detail(why));
    let texts = draft.parts().iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.text.trim()).filter(|text| !text.is_empty()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n\n");
    match stop {
        Stop::End if text.is_empty() => unusable("the summary was empty"),
        Stop::End => Ok(text),
        Stop::ToolUse => unusable("a tool was called instead of writing the summary"),
        Stop::Length => unusable("the summary was longer than an answer may be"),
        Stop::Interrupted | Stop::Broken => unusable("the summary broke off"),
        Stop::Filtered { category, detail } => finished(ProviderError::filtered(provider, category, detail)),
    }
}

/// A summary while it arrives.
struct SummaryStream {
    provider: Arc<dyn Provider>,
    permit: Permit,
    call_limits: CallLimits,
    clock: Clock,
    draft: Draft,
}

impl SummaryStream {
    async fn run(mut self, request: Request, cancel: CancellationToken) -> (Self, StreamOutcome) {
        let ended = tokio::select! {
            biased;
            () = cancel.cancelled() => StreamOutcome::Cancelled,
            ended = self.stream(request) => ended.unwrap_or_else(StreamOutcome::Broke),
        };
        (self, ended)
    }

    async fn stream(&mut self, request: Request) -> Result<StreamOutcome, ProviderError> {
        let provider = self.provider.clone();
        let error = |kind: ErrorKind| ProviderError::new(provider.name(), kind);
        let silent = |_| error(ErrorKind::Silence);
        let mut frames = timeout(self.call_limits.open_max, provider.open(request)).await.map_err(silent)??;
        self.permit.opened();
        let mut progress = Instant::now();
        while self.draft.weight() <= self.call_limits.draft_bytes_max {
            match timeout_at(progress + self.call_limits.silence_max, frames.next()).await.map_err(silent)? {
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
                Some(Ok(Frame::Stop(stop))) => return Ok(StreamOutcome::Answered(stop)),
                Some(Err(error)) => return Err(error),
                None => return Err(error(ErrorKind::Truncated)),
            }
        }
        Ok(StreamOutcome::Answered(Stop::Length))
    }
}
