//! Making room.
//!
//! Before a request is sent it is measured. If it would not fit, or hardly, the transcript is summarised first; where no
//! summary makes it fit, things are left out of it, in stages; and where nothing is left to leave out, the person is
//! told the numbers. What to do is [`everturn_core::context`]'s answer. Here it is asked, and done.

mod summary;

use std::sync::Arc;

use everturn_core::chat::{Chat, TurnEnd};
use everturn_core::context::limit_in_meta;
use everturn_core::context::{
    self, Compaction, CompactionFallback, CompactionInput, CompactionThreshold, CompactionTrigger, PromptSize,
    PromptTooLong, TokenGauge, cut_earlier, spare_bytes,
};
use everturn_core::draft::Draft;
use everturn_core::error::{ErrorKind, ProviderError};
use everturn_core::fact::Fact;
use everturn_core::message::{Body, Message, Reply, Summary, SummarySource};
use everturn_core::prompt::{PromptEntries, PromptPart, Request, Target};
use everturn_stores::WriteError;

use crate::agent::Chaining;
use crate::drive::Driver;
use crate::drive::step::Asked;

/// About what the shorter summary has: 300 words.
const SHORTER_BYTES: usize = 2 * 1024;

/// More bytes than a token has in any text: what is too long even so is too long.
const BYTES_PER_TOKEN_MAX: u64 = 6;

/// What an answer may always have, however little room there seems to be; in a small window, a quarter of it.
const OUTPUT_MIN: u32 = 1_024;

/// A request may have a sixteenth more tokens than measured.
const MEASURE_ERROR: u64 = 16;

/// How many lengths an answer's bound may have.
const OUTPUT_STEPS: u64 = 32;

/// What a driver has found out about making room for this turn and this model. It is not stored: a driver that does not
/// know it finds it out again, and bounds that must hold over crashes are in the chat.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Whether the provider refused the last request as too long, and nothing was done about it yet.
    pub(crate) refused: bool,
    /// What was done last, short of a plain summary.
    pub(crate) leaner: Option<CompactionFallback>,
    /// How often what is summarised was too long itself.
    pub(crate) cuts: usize,
    /// Whether the next summary should be short, because the last was no use.
    pub(crate) short: bool,
    /// Why no summary is to be had.
    pub(crate) unsummarised: Option<String>,
}

impl Room {
    /// What the chat itself tells.
    pub(crate) fn of(chat: &Chat) -> Self {
        let refused = chat.turn.as_ref().is_some_and(|turn| turn.overflowed);
        Self { refused, ..Self::default() }
    }
}

impl Driver {
    /// The next request, if there is room for it. If there is none, something was done about that instead.
    pub(crate) async fn fitting(&mut self, asked: &Asked) -> Result<Option<Request>, WriteError> {
        let request = self.request(asked);
        let (tokens, limit) = (self.tokens(&request), self.context_limit());
        let (trigger, source) = if self.room.refused {
            (CompactionTrigger::Refused, SummarySource::Overflow)
        } else {
            (CompactionTrigger::Measured, SummarySource::Automatic)
        };
        let threshold = match self.room.unsummarised {
            Some(_) => CompactionThreshold::OFF, // It may still fit, and the provider knows.
            None => self.agent.compaction,
        };
        if trigger == CompactionTrigger::Measured && threshold.clears(tokens, limit) {
            return Ok(Some(request));
        }
        match context::compaction(trigger, tokens, limit, threshold, &self.slack(asked, &request)) {
            Compaction::NotNeeded => return Ok(Some(request)),
            Compaction::Needed => self.compact(asked, source, None).await?,
            Compaction::StillOver(stage @ CompactionFallback::StrongerSummary) => {
                self.compact(asked, SummarySource::Overflow, Some(stage)).await?;
            }
            Compaction::StillOver(stage) => {
                (self.room.leaner, self.room.refused) = (Some(stage), false);
            }
            // Ours is a guess. The provider has the last word, unless no text could be so short in tokens.
            Compaction::Hopeless(_) if trigger == CompactionTrigger::Measured && could_fit(&request, limit) => {
                return Ok(Some(request));
            }
            Compaction::Hopeless(too_long) => self.fail(&self.too_long(asked, too_long), None).await?,
        }
        Ok(None)
    }

    /// The provider refused a request as too long.
    pub(crate) async fn overflowed(&mut self, attempted: Fact) -> Result<(), WriteError> {
        self.room.refused = true;
        self.change(|change| change.fact(attempted).fact(Fact::Overflowed)).await
    }

    /// Summarises because somebody asked.
    pub(crate) async fn compact_as_asked(&mut self) -> Result<(), WriteError> {
        if self.foldable() == 0 {
            return self.change(|change| change.finish(TurnEnd::Done)).await;
        }
        match self.asked() {
            Ok(asked) => {
                self.fetch().await?;
                self.prepare(&asked);
                self.compact(&asked, SummarySource::Asked, None).await
            }
            Err(error) => self.fail(&error, None).await,
        }
    }

    /// About how many tokens a request has.
    pub(crate) fn tokens(&self, request: &Request) -> u64 {
        self.gauge.tokens(PromptSize::text(request.bytes()))
    }

    /// How long an answer to a request may be where `wanted` tokens are wanted: many servers refuse one that would not fit behind it. Rounded, because some
    /// caches hold only as long as nothing about a request changes.
    pub(crate) fn output_max(&self, asked: &Asked, request: &Request, wanted: u32) -> u32 {
        let max = wanted.min(asked.facts.output_max);
        let Some(limit) = self.context_limit() else { return max };
        let tokens = self.tokens(request);
        let room = limit.saturating_sub(tokens.saturating_add(tokens / MEASURE_ERROR));
        let room = room - room % (limit / OUTPUT_STEPS).max(1);
        let least = OUTPUT_MIN.min(u32::try_from(limit / 4).unwrap_or(u32::MAX));
        u32::try_from(room).map_or(max, |room| max.min(room.max(least)))
    }

    /// The window of the model in use: as it told lately, else as it is configured.
    pub(crate) fn context_limit(&self) -> Option<u64> {
        let asked = self.asked().ok()?;
        let draft = self.draft.as_ref().filter(|draft| draft.model() == Some(&asked.model)).map(Draft::meta);
        let told = draft.and_then(limit_in_meta);
        let told = told.or_else(|| self.newest_reply_of(&asked).and_then(|(_, reply)| limit_in_meta(&reply.meta)));
        told.or(asked.facts.context_limit)
    }

    /// Learns how many bytes make a token from what the newest reply was counted at, as whoever received it did.
    pub(crate) fn calibrate(&mut self, asked: &Asked) {
        self.gauge = TokenGauge::default();
        let newest = self.newest_reply_of(asked).filter(|_| self.agent.chaining == Chaining::Off);
        let Some((place, tokens)) = newest.and_then(|(place, reply)| Some((place, reply.usage?.prompt()))) else {
            return;
        };
        let entries = self.prepared(&self.messages[..place], &asked.facts.target);
        let request = Request { entries, ..self.request(asked) };
        self.gauge.learn(PromptSize::text(request.bytes()), tokens);
    }

    /// The model's newest reply, and where it stands.
    fn newest_reply_of(&self, asked: &Asked) -> Option<(usize, &Reply)> {
        self.messages.iter().enumerate().rev().find_map(|(place, message)| match &message.body {
            Body::Reply(reply) if reply.model == asked.model => Some((place, &**reply)),
            _ => None,
        })
    }

    /// The newest summary, which everything since stands behind.
    pub(crate) fn summary(&self) -> Option<&Summary> {
        match &self.messages.first()?.body {
            Body::Summary(summary) => Some(summary),
            _ => None,
        }
    }

    /// How many messages the model has answered, or made. What was said since, nobody may fold away unheard.
    pub(crate) fn heard(&self) -> usize {
        let by_model = |message: &Message| matches!(message.body, Body::Reply(_) | Body::Result(_));
        self.messages.iter().rposition(|message| by_model(message)).map_or(0, |place| place + 1)
    }

    /// How many messages a new summary could stand for.
    fn foldable(&self) -> u64 {
        match self.heard() {
            0 => 0,
            heard => (heard - usize::from(self.summary().is_some())) as u64,
        }
    }

    /// What the transcript says about compacting it.
    fn slack(&self, asked: &Asked, request: &Request) -> CompactionInput {
        let compactions = self.chat.turn.as_ref().map_or(0, |turn| turn.compactions);
        let weight = |weigh: fn(&PromptPart) -> usize| {
            let entries = request.entries.iter().rev().skip(2);
            self.gauge.tokens(PromptSize::text(entries.flat_map(|entry| &entry.parts).map(weigh).sum()))
        };
        let (foldable, summary) = match self.room.unsummarised {
            Some(_) => (0, None),
            None => (self.foldable(), self.summary()),
        };
        let (earlier_tokens, cut_tokens) = self.spared(asked, request);
        let shorter = |summary: &Summary| PromptSize::text(summary.text.len().saturating_sub(SHORTER_BYTES));
        CompactionInput {
            foldable,
            compactions_left: self.agent.limits.compactions_max.saturating_sub(compactions),
            after_last: self.floor(asked, request),
            summary_tokens: summary.map_or(0, |summary| self.gauge.tokens(shorter(summary))),
            media_tokens: weight(PromptPart::media_bytes),
            result_tokens: weight(PromptPart::result_bytes),
            earlier_tokens,
            cut_tokens,
            fixed_tokens: self.gauge.tokens(PromptSize::text(request.bytes().saturating_sub(request.entries.bytes()))),
            taken: self.room.leaner,
        }
    }

    /// The entries of a request with less in them.
    pub(crate) fn leaner(&self, entries: &PromptEntries, stage: CompactionFallback, target: &Target) -> PromptEntries {
        match stage {
            CompactionFallback::StrongerSummary | CompactionFallback::DropMedia | CompactionFallback::DropResults => {
                entries.leaner(stage)
            }
            CompactionFallback::CutEarlier => self.prepared(&self.without_earlier(), target).leaner(stage),
            CompactionFallback::DropEarlier => self.prepared(&self.cut_earlier(0), target).leaner(stage),
        }
    }

    /// The messages, with what was said in earlier turns cut to what the window can spare.
    pub(crate) fn without_earlier(&self) -> Vec<Arc<Message>> {
        self.cut_earlier(spare_bytes(self.context_limit()))
    }

    fn cut_earlier(&self, bytes_max: usize) -> Vec<Arc<Message>> {
        let after = self.chat.turn.as_ref().map_or(self.chat.newest, |turn| turn.after);
        cut_earlier(&self.messages, after, bytes_max)
    }

    /// The tokens that cutting what was said in earlier turns would save, and leaving it out beyond that.
    fn spared(&self, asked: &Asked, request: &Request) -> (u64, u64) {
        let entries = request.entries.leaner(CompactionFallback::DropResults);
        let [cut, dropped] = [CompactionFallback::CutEarlier, CompactionFallback::DropEarlier]
            .map(|stage| self.leaner(&entries, stage, &asked.facts.target).bytes());
        let tokens = |bytes| self.gauge.tokens(PromptSize::text(bytes));
        (tokens(entries.bytes().saturating_sub(cut)), tokens(cut.saturating_sub(dropped)))
    }

    /// What the last summary got requests down to: its own with nothing behind it.
    fn floor(&self, asked: &Asked, request: &Request) -> Option<u64> {
        self.summary()?;
        let entries = self.prepared(self.messages.first(), &asked.facts.target);
        let bytes = request.bytes() - request.entries.bytes() + entries.bytes();
        Some(self.gauge.tokens(PromptSize::text(bytes)))
    }

    /// The error for a request that nothing makes fit.
    pub(crate) fn too_long(&self, asked: &Asked, too_long: PromptTooLong) -> ProviderError {
        let detail = match &self.room.unsummarised {
            Some(why) => format!("{too_long} (no summary could be had: {why})"),
            None => too_long.to_string(),
        };
        ProviderError::new(asked.provider.name(), ErrorKind::ContextFull).with_detail(&detail)
    }
}

/// Whether a request could be within the limit if its text were as simple as can be.
fn could_fit(request: &Request, limit: Option<u64>) -> bool {
    limit.is_none_or(|limit| request.bytes() as u64 / BYTES_PER_TOKEN_MAX <= limit)
}
