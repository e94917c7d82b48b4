//! Fitting requests into the model's context window.
//!
//! A request is measured before it is sent. If it would not fit, or hardly, the transcript is summarised first; where no
//! summary makes it fit, parts are left out, in stages; and where nothing is left to leave out, the turn ends with the
//! numbers. [`everturn_core::context`] decides; here it is asked, and its answer carried out.

mod summary;

use std::sync::Arc;

use everturn_core::chat::{Chat, TurnEnd};
use everturn_core::context::{
    self, Compaction, CompactionFallback, CompactionInput, CompactionThreshold, CompactionTrigger, PromptSize,
    PromptTooLong, TokenGauge, cut_earlier, spare_bytes,
};
use everturn_core::error::{ErrorKind, ProviderError};
use everturn_core::fact::Fact;
use everturn_core::message::{Message, Summary, SummarySource};
use everturn_core::prompt::{PromptPart, Request};
use everturn_stores::WriteError;

use crate::agent::Chaining;
use crate::drive::session::ChatSession;
use crate::drive::step::fail;
use crate::drive::step::request::{Prepared, prepare};
use crate::drive::target::ModelTarget;
use summary::compact;
pub(crate) use summary::record_lost_summary;

/// About the bytes of a shorter summary: 300 words.
const SHORTER_BYTES: usize = 2 * 1024;

/// More bytes than a token has in any text: a request that is too long even so is too long.
const BYTES_PER_TOKEN_MAX: u64 = 6;

/// What a driver has found out about fitting requests. It is not stored: the next driver finds it out again, and limits
/// that must hold over crashes are in the chat.
pub(crate) struct Fitting {
    /// Estimates tokens from bytes.
    pub(crate) gauge: TokenGauge,
    reductions: Reductions,
    /// The [`ChatSession::terms`] that `reductions` are valid for.
    terms: u64,
}

/// What was left out already for this turn and this model.
#[derive(Debug)]
pub(crate) struct Reductions {
    /// Whether the provider refused the last request as too long, and nothing was done about it yet.
    pub(crate) refused: bool,
    /// The last stage that was taken beyond a plain summary.
    pub(crate) stage: Option<CompactionFallback>,
    /// How often the request for a summary was too long itself.
    pub(crate) cuts: usize,
    /// Whether the next summary should be short, because the last one was unusable.
    pub(crate) short: bool,
    /// Why no summary can be had.
    pub(crate) unsummarised: Option<String>,
}

impl Reductions {
    const NONE: Self = Self { refused: false, stage: None, cuts: 0, short: false, unsummarised: None };
}

static NO_REDUCTIONS: Reductions = Reductions::NONE;

impl Fitting {
    /// What the chat itself says: whether its last request was refused as too long.
    pub(crate) fn of(session: &ChatSession) -> Self {
        let refused = |chat: &Chat| chat.turn.as_ref().is_some_and(|turn| turn.overflowed);
        let reductions = Reductions { refused: refused(&session.chat), ..Reductions::NONE };
        Self { gauge: TokenGauge::default(), reductions, terms: session.terms() }
    }

    pub(crate) fn reductions(&self, session: &ChatSession) -> &Reductions {
        if self.terms == session.terms() { &self.reductions } else { &NO_REDUCTIONS }
    }

    fn reductions_mut(&mut self, session: &ChatSession) -> &mut Reductions {
        if self.terms != session.terms() {
            self.reductions = Reductions::NONE;
            self.terms = session.terms();
        }
        &mut self.reductions
    }

    /// About how many tokens a request has.
    pub(crate) fn tokens(&self, request: &Request) -> u64 {
        self.gauge.tokens(PromptSize::text(request.bytes()))
    }
}

/// A request that fits the context window, as far as can be measured.
pub(crate) struct Fitted {
    pub(crate) target: ModelTarget,
    pub(crate) request: Request,
}

/// The next request, if it fits. If it does not, something was done about that instead, and `None` is returned.
pub(crate) async fn fit(
    session: &mut ChatSession,
    fitting: &mut Fitting,
    prepared: Prepared,
) -> Result<Option<Fitted>, WriteError> {
    let request = prepared.request(session, fitting);
    let tokens = fitting.tokens(&request);
    let limit = session.context_limit();
    let reductions = fitting.reductions(session);
    if session.chat.settings().is_some() {
        // The conversation is the client's: it learns that it is too long, and shortens it itself.
        if !reductions.refused {
            return Ok(Some(Fitted { target: prepared.target, request }));
        }
        let error = ProviderError::new(prepared.target.provider.name(), ErrorKind::ContextFull)
            .with_detail("the conversation is longer than the model's context window");
        fail(session, fitting, &error, None).await?;
        return Ok(None);
    }
    let (trigger, source) = if reductions.refused {
        (CompactionTrigger::Refused, SummarySource::Overflow)
    } else {
        (CompactionTrigger::Measured, SummarySource::Automatic)
    };
    let threshold = match reductions.unsummarised {
        Some(_) => CompactionThreshold::OFF, // It may still fit, and the provider knows.
        None => session.env.agent.compaction,
    };
    if trigger == CompactionTrigger::Measured && threshold.clears(tokens, limit) {
        return Ok(Some(Fitted { target: prepared.target, request }));
    }
    let slack = slack(session, fitting, &prepared, &request);
    match context::compaction(trigger, tokens, limit, threshold, &slack) {
        Compaction::NotNeeded => return Ok(Some(Fitted { target: prepared.target, request })),
        Compaction::Needed => compact(session, fitting, &prepared, source, None).await?,
        Compaction::StillOver(stage @ CompactionFallback::StrongerSummary) => {
            compact(session, fitting, &prepared, SummarySource::Overflow, Some(stage)).await?;
        }
        Compaction::StillOver(stage) => {
            let reductions = fitting.reductions_mut(session);
            reductions.stage = Some(stage);
            reductions.refused = false;
        }
        // The measure is an estimate. The provider decides, unless no text could have so few tokens.
        Compaction::Hopeless(_) if trigger == CompactionTrigger::Measured && could_fit(&request, limit) => {
            return Ok(Some(Fitted { target: prepared.target, request }));
        }
        Compaction::Hopeless(too_long) => {
            let error = too_long_error(session, fitting, &prepared.target, too_long);
            fail(session, fitting, &error, None).await?;
        }
    }
    Ok(None)
}

/// Commits that the provider refused a request as too long.
pub(crate) async fn overflowed(
    session: &mut ChatSession,
    fitting: &mut Fitting,
    attempted: Fact,
) -> Result<(), WriteError> {
    fitting.reductions_mut(session).refused = true;
    session.change(|change| change.fact(attempted).fact(Fact::Overflowed)).await
}

/// Summarises the transcript because a command asked for it.
pub(crate) async fn compact_on_request(session: &mut ChatSession, fitting: &mut Fitting) -> Result<(), WriteError> {
    if session.transcript.foldable_len() == 0 {
        tracing::info!(chat = %session.chat.id, "compaction requested, but there is nothing to summarise");
        return session.change(|change| change.finish(TurnEnd::Done)).await;
    }
    match session.target() {
        Ok(target) => {
            session.fetch_bytes().await?;
            let prepared = prepare(session, fitting, target);
            compact(session, fitting, &prepared, SummarySource::Asked, None).await
        }
        Err(error) => fail(session, fitting, &error, None).await,
    }
}

/// Calibrates the measure by the newest reply: the provider counted the tokens of the request it answered.
pub(crate) fn calibrate(session: &ChatSession, fitting: &mut Fitting, prepared: &Prepared) {
    fitting.gauge = TokenGauge::default();
    let newest = session.transcript.newest_reply_by(&prepared.target.model);
    let newest = newest.filter(|_| session.env.agent.chaining == Chaining::Off);
    let Some((index, tokens)) = newest.and_then(|(index, reply)| Some((index, reply.usage?.prompt()))) else {
        return;
    };
    let entries = prepared.entries_of(session, &session.transcript.messages()[..index]);
    let request = Request { entries, ..prepared.request(session, fitting) };
    fitting.gauge.learn(PromptSize::text(request.bytes()), tokens);
}

/// Calibrates the measure by the prompt tokens that the provider counted for the draft.
pub(crate) fn learn_from_draft(session: &mut ChatSession, fitting: &mut Fitting) {
    let usage = session.step.draft.as_ref().and_then(|draft| draft.usage().usage());
    if let (Some(usage), Ok(target)) = (usage, session.target())
        && session.env.agent.chaining == Chaining::Off
    {
        let tokens = usage.prompt();
        let prepared = prepare(session, fitting, target);
        let size = PromptSize::text(prepared.request(session, fitting).bytes());
        fitting.gauge.learn(size, tokens);
    }
}

/// What compacting the transcript could gain.
fn slack(session: &ChatSession, fitting: &Fitting, prepared: &Prepared, request: &Request) -> CompactionInput {
    let tokens = |bytes| fitting.gauge.tokens(PromptSize::text(bytes));
    let weight = |weigh: fn(&PromptPart) -> usize| {
        let entries = request.entries.iter().rev().skip(2);
        tokens(entries.flat_map(|entry| &entry.parts).map(weigh).sum())
    };
    let reductions = fitting.reductions(session);
    let (foldable, summary) = match reductions.unsummarised {
        Some(_) => (0, None),
        None => (session.transcript.foldable_len(), session.transcript.summary()),
    };
    let whole = request.entries.leaner(CompactionFallback::DropResults);
    let cut = prepared.reduced(session, &whole, CompactionFallback::CutEarlier).bytes();
    let dropped = prepared.reduced(session, &whole, CompactionFallback::DropEarlier).bytes();
    let shorter = |summary: &Summary| summary.text.len().saturating_sub(SHORTER_BYTES);
    let compactions = session.chat.turn.as_ref().map_or(0, |turn| turn.compactions);
    CompactionInput {
        foldable,
        compactions_left: session.env.agent.limits.compactions_max.saturating_sub(compactions),
        after_last: floor(session, fitting, prepared, request),
        summary_tokens: summary.map_or(0, |summary| tokens(shorter(summary))),
        media_tokens: weight(PromptPart::media_bytes),
        result_tokens: weight(PromptPart::result_bytes),
        earlier_tokens: tokens(whole.bytes().saturating_sub(cut)),
        cut_tokens: tokens(cut.saturating_sub(dropped)),
        fixed_tokens: tokens(request.bytes().saturating_sub(request.entries.bytes())),
        taken: reductions.stage,
    }
}

/// The messages, with those of earlier turns cut to what the window can spare.
pub(crate) fn spared(session: &ChatSession) -> Vec<Arc<Message>> {
    cut(session, spare_bytes(session.context_limit()))
}

/// The messages, with those of earlier turns cut to so many bytes.
pub(crate) fn cut(session: &ChatSession, bytes_max: usize) -> Vec<Arc<Message>> {
    let after = session.chat.turn.as_ref().map_or(session.chat.newest, |turn| turn.after);
    cut_earlier(session.transcript.messages(), after, bytes_max)
}

/// The tokens of a request right after the last summary: with the summary alone.
fn floor(session: &ChatSession, fitting: &Fitting, prepared: &Prepared, request: &Request) -> Option<u64> {
    session.transcript.summary()?;
    let entries = prepared.entries_of(session, session.transcript.messages().first());
    let bytes = request.bytes() - request.entries.bytes() + entries.bytes();
    Some(fitting.gauge.tokens(PromptSize::text(bytes)))
}

/// The error for a request that nothing makes fit.
fn too_long_error(
    session: &ChatSession,
    fitting: &Fitting,
    target: &ModelTarget,
    too_long: PromptTooLong,
) -> ProviderError {
    let detail = match &fitting.reductions(session).unsummarised {
        Some(why) => format!("{too_long} (no summary could be had: {why})"),
        None => too_long.to_string(),
    };
    ProviderError::new(target.provider.name(), ErrorKind::ContextFull).with_detail(&detail)
}

/// Whether a request could be within the limit if its text were as simple as can be.
fn could_fit(request: &Request, limit: Option<u64>) -> bool {
    limit.is_none_or(|limit| request.bytes() as u64 / BYTES_PER_TOKEN_MAX <= limit)
}
