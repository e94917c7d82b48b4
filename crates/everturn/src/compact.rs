//! Making room.
//!
//! Before a request is sent it is measured. If it would not fit, or hardly, the transcript is summarised first, by the
//! same model with the same beginning, so that the provider's cache still holds. What a person said last is kept word
//! for word, and so are the constraints a summary once wrote down.

use everturn_core::chat::{Tried, Wait};
use everturn_core::context::{self, Compaction, Fallback, History, Size, Threshold, Trigger, summary};
use everturn_core::cost::{End, Price, Report};
use everturn_core::delta::Delta;
use everturn_core::error::{Cause, Kind, ProviderError};
use everturn_core::fact::{AttemptOutcome, Attempted, Fact};
use everturn_core::governor;
use everturn_core::ids::Timestamp;
use everturn_core::message::{Body, Part, Summary, SummarySource};
use everturn_core::prompt::{Entry, PromptPart, Request, Role, ToolChoice};
use everturn_core::retry::{Progress, Verdict, verdict};
use everturn_providers::{Frame, Provider};
use everturn_stores::WriteError;
use futures_util::StreamExt as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::driver::Driver;
use crate::model::Asked;

/// What a summary call gave.
struct Told {
    text: String,
    report: Report,
    ended: Result<(), ProviderError>,
    stopped: bool,
}

impl Driver {
    /// Sees to it that `request` fits. Says whether something was done instead of sending it.
    pub(crate) async fn make_room(&mut self, asked: &Asked, request: &Request) -> Result<bool, WriteError> {
        let tokens = self.gauge.tokens(Size::text(request.bytes()));
        if self.after_summary.is_none() && self.has_summary() {
            self.after_summary = Some(tokens);
        }
        let refused = std::mem::take(&mut self.refused);
        let trigger = if refused { Trigger::Refused } else { Trigger::Measured };
        let limit = self.context_limit();
        let threshold = if self.compaction_failed { Threshold::OFF } else { self.agent.compaction };
        match context::compaction(trigger, tokens, limit, threshold, &self.foldable(request)) {
            Compaction::NotNeeded => Ok(false),
            Compaction::Needed => {
                let source = if refused { SummarySource::Overflow } else { SummarySource::Automatic };
                self.refused = refused; // Until the summary is there.
                self.compact(asked, source, summary::INSTRUCTIONS).await?;
                Ok(true)
            }
            Compaction::StillOver(Fallback::StrongerSummary) => {
                self.leaner = Some(Fallback::StrongerSummary);
                self.compact(asked, SummarySource::Overflow, summary::SHORTER).await?;
                Ok(true)
            }
            Compaction::StillOver(fallback) => {
                self.leaner = Some(fallback);
                Ok(true)
            }
            Compaction::Hopeless(too_long) => {
                let error = ProviderError::new(asked.provider.name(), Kind::ContextFull);
                self.fail(&error.with_detail(&too_long.to_string()), None).await?;
                Ok(true)
            }
        }
    }

    /// The provider refused a request as too long: make room, and ask once more.
    pub(crate) async fn overflowed(&mut self, error: &ProviderError, attempted: Fact) -> Result<(), WriteError> {
        let again = self.chat.turn.as_ref().is_some_and(|turn| turn.overflowed);
        if again && self.leaner == Some(Fallback::DropResults) {
            return self.fail(error, Some(attempted)).await;
        }
        self.refused = true;
        self.change(|change| change.fact(attempted).fact(Fact::Overflowed)).await
    }

    /// Summarises because somebody asked.
    pub(crate) async fn compact_as_asked(&mut self) -> Result<(), WriteError> {
        if let Some(until) = self.chat.wait.as_ref().map(|wait| wait.until).filter(|until| *until > self.now()) {
            return self.wait_until(until).await;
        }
        let asked = match self.asked() {
            Ok(asked) => asked,
            Err(error) => return self.fail(&error, None).await,
        };
        self.prepare(&asked);
        if !self.messages.iter().any(|message| matches!(message.body, Body::Reply(_))) {
            return self.change(|change| change.finish(everturn_core::chat::TurnEnd::Done)).await; // Nothing to fold.
        }
        self.compact(&asked, SummarySource::Asked, summary::INSTRUCTIONS).await
    }

    fn has_summary(&self) -> bool {
        self.messages.first().is_some_and(|message| matches!(message.body, Body::Summary(_)))
    }

    /// What the transcript says about compacting it.
    fn foldable(&self, request: &Request) -> History {
        let summary = match self.messages.first().map(|message| &message.body) {
            Some(Body::Summary(summary)) => Some(summary),
            _ => None,
        };
        let kept = usize::from(summary.is_some()) + 1; // The newest words of a person are kept as they are.
        let compactions = self.chat.turn.as_ref().map_or(0, |turn| turn.compactions);
        let weight = |weigh: fn(&PromptPart) -> usize| {
            let entries = request.entries.iter().rev().skip(2);
            self.gauge.tokens(Size::text(entries.flat_map(|entry| &entry.parts).map(weigh).sum()))
        };
        History {
            foldable: self.messages.len().saturating_sub(kept) as u64,
            compactions_left: self.agent.limits.compactions_max.saturating_sub(compactions),
            after_last: self.after_summary,
            summary_tokens: summary.map_or(0, |summary| self.gauge.tokens(Size::text(summary.text.len()))),
            media_tokens: weight(PromptPart::media_bytes),
            result_tokens: weight(PromptPart::result_bytes),
            taken: self.leaner,
        }
    }

    async fn compact(&mut self, asked: &Asked, source: SummarySource, how: &str) -> Result<(), WriteError> {
        let Some(permit) = self.permit(asked).await? else { return Ok(()) };
        let mut request = self.request(asked);
        request.chain = None;
        request.tool_choice = ToolChoice::None;
        request.entries.push(Entry::new(Role::User, vec![PromptPart::text(how)]));
        let request = request.fit(&asked.facts.target);
        let (began, tokens) = (self.now(), self.gauge.tokens(Size::text(request.bytes())));
        let cancel = CancellationToken::new();
        let silence = self.agent.limits.silence_for(asked.facts.thinks);
        let call = tell(asked.provider.clone(), request, silence, cancel.clone());
        let told = self.listening(call, &cancel).await?;
        let row = self.summary_row(asked, began, tokens, &told);
        match told.ended {
            _ if told.stopped => self.change(|change| change.fact(row)).await, // The top of the loop knows by whom.
            Ok(()) => {
                permit.ended(governor::Ended::Answered, 0.0);
                self.keep_summary(told.text, source, tokens, began, row).await
            }
            Err(error) => {
                let jitter = self.ports.entropy.unit();
                permit.ended(governor::Ended::Broke(&error), jitter);
                self.no_summary(error, source, row, jitter).await
            }
        }
    }

    async fn keep_summary(
        &mut self,
        text: String,
        source: SummarySource,
        tokens_before: u64,
        began: Timestamp,
        row: Fact,
    ) -> Result<(), WriteError> {
        let earlier = match self.messages.first().map(|message| &message.body) {
            Some(Body::Summary(earlier)) => Some((**earlier).clone()),
            _ => None,
        };
        let newest = self.messages.iter().rev().find_map(|message| match &message.body {
            Body::User(parts) => Some(parts.clone()),
            _ => None,
        });
        let newest_user: Vec<Part> =
            newest.or_else(|| earlier.as_ref().map(|earlier| earlier.newest_user.clone())).unwrap_or_default();
        let text = summary::keep_constraints(earlier.as_ref().map_or("", |earlier| &earlier.text), &text);
        let runtime = self.now().since(began);
        let tail = self.chat.tail;
        self.refused = false;
        let summary = Summary { text, newest_user, source, tokens_before, runtime };
        self.change(|change| change.fact(row).say_as(Body::Summary(Box::new(summary)), tail)).await
    }

    async fn no_summary(
        &mut self,
        error: ProviderError,
        source: SummarySource,
        row: Fact,
        jitter: f64,
    ) -> Result<(), WriteError> {
        let Fact::Attempted(_, tried) = &row else { return Ok(()) };
        if error.kind == Kind::ContextFull && self.leaner < Some(Fallback::DropResults) {
            self.leaner = Some(Fallback::DropResults); // The summary's own request is too long: leave more out of it.
            return self.change(|change| change.fact(row)).await;
        }
        match verdict(error.retry, &tried.spent, &self.agent.limits.retry, jitter) {
            Verdict::Wait(span) => {
                let (until, kind, message) = (self.now() + span, error.kind, error.to_string());
                let wait = Fact::Waits(Box::new(Wait { until, kind, message, attempt: tried.attempts }));
                self.change(|change| change.fact(row).fact(wait)).await
            }
            Verdict::GiveUp(_) if source == SummarySource::Automatic => {
                self.compaction_failed = true; // Then without: it may still fit, and the provider decides.
                self.change(|change| change.fact(row)).await
            }
            Verdict::GiveUp(_) => self.fail(&error, Some(row)).await,
        }
    }

    fn summary_row(&self, asked: &Asked, began: Timestamp, sent: u64, told: &Told) -> Fact {
        let end = if told.ended.is_ok() && !told.stopped { End::Finished } else { End::Broken };
        let tally = told.report.settle(end, sent, told.text.len() as u64);
        let spend = tally.cost(&asked.facts.price.unwrap_or(Price::default()));
        let took = self.now().since(began);
        let outcome = match &told.ended {
            _ if told.stopped => AttemptOutcome::Interrupted,
            Ok(()) => AttemptOutcome::Answered,
            Err(error) => AttemptOutcome::Broke(error.cause, error.kind),
        };
        let number = self.chat.tried.attempts + 1;
        let spent = self.chat.tried.spent.failed(Progress::None, took, spend.total(), &self.agent.limits.retry);
        let tried = Tried { attempts: number, spent, ..self.chat.tried };
        let (step, model) = (self.chat.step, asked.model.clone());
        Fact::Attempted(Box::new(Attempted { step, number, model, began, took, tally, spend, outcome }), tried)
    }
}

/// Asks for a summary and listens to the end, or until cancelled.
async fn tell(provider: Arc<dyn Provider>, request: Request, silence_max: Duration, cancel: CancellationToken) -> Told {
    let mut told = Told { text: String::new(), report: Report::default(), ended: Ok(()), stopped: false };
    let ended = tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        ended = listen(&*provider, request, silence_max, &mut told) => Some(ended),
    };
    let empty = || ProviderError::new(provider.name(), Kind::Malformed).with_detail("the summary was empty");
    told.stopped = ended.is_none();
    told.ended = ended.unwrap_or(Ok(()));
    if told.ended.is_ok() && !told.stopped && told.text.trim().is_empty() {
        told.ended = Err(empty());
    }
    told
}

async fn listen(
    provider: &dyn Provider,
    request: Request,
    silence_max: Duration,
    told: &mut Told,
) -> Result<(), ProviderError> {
    let silent = |_| ProviderError::new(provider.name(), Kind::Silence).with_cause(Cause::IdleStall);
    let mut frames = timeout(silence_max, provider.open(request)).await.map_err(silent)??;
    loop {
        match timeout(silence_max, frames.next()).await.map_err(silent)? {
            Some(Ok(Frame::Delta(Delta::Text(text)))) => told.text.push_str(&text),
            Some(Ok(Frame::Delta(Delta::Usage(report)))) => told.report.update(&report),
            Some(Ok(Frame::Delta(_) | Frame::Ping)) => {}
            Some(Ok(Frame::Stop(_))) => return Ok(()),
            Some(Err(error)) => return Err(error),
            None => return Err(ProviderError::new(provider.name(), Kind::Truncated).with_cause(Cause::Truncated)),
        }
    }
}
