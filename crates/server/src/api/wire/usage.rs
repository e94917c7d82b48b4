//! Usage of a chat.

use everturn::core::budget::BudgetUse;
use everturn::core::cost;
use everturn::core::error::Cause;
use everturn::core::fact::{AttemptOutcome, AttemptRecord, Totals};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Tokens {
    /// Prompt tokens outside the provider's cache.
    pub input: u64,
    /// Tokens the model produced, reasoning included.
    pub output: u64,
    /// Of those, reasoning.
    pub reasoning: u64,
    /// Prompt tokens read from the cache.
    pub cache_read: u64,
    /// Prompt tokens written to the cache.
    pub cache_write: u64,
}

/// Outcome of an attempt whose process ended.
const PROCESS_ENDED: &str = "process_ended";

/// The currency of every amount of money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub enum Currency {
    /// US dollars.
    #[default]
    #[serde(rename = "USD")]
    Usd,
}

/// Money in millionths of its currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Money {
    /// For tokens that were reported.
    pub known_micros: u64,
    /// For tokens that had to be estimated.
    pub estimated_micros: u64,
    /// The currency.
    #[serde(default)]
    pub currency: Currency,
}

/// A chat's usage, including interrupted and failed attempts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Tokens as providers reported them.
    pub known: Tokens,
    /// Estimated tokens, where the provider reported none.
    pub estimated: Tokens,
    /// The cost of the tokens, where the price is known.
    pub cost: Money,
    /// How many provider calls were made.
    pub attempts: u64,
    /// How many replies they gave.
    #[serde(default)]
    pub steps: u64,
    /// Sum of the times of provider calls and finished tool calls, in milliseconds.
    #[serde(default)]
    pub time_ms: u64,
    /// How long turns were at work, in milliseconds: provider calls, waits between their attempts, and tools;
    /// overlapping times count once. Waits for users are not included.
    #[serde(default)]
    pub alive_ms: u64,
    /// What the chats of sub-agents used, which the other numbers do not include. On a stream it is up to date whenever a
    /// sub-agent has ended, and every 20 seconds in between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_agents: Option<SubAgentUsage>,
    /// Each provider call, oldest first. Only if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<Attempt>,
}

/// What all chats of sub-agents below a chat used, deleted ones included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct SubAgentUsage {
    /// Prompt and output tokens, reported and estimated.
    pub tokens: u64,
    /// Their cost in millionths of `currency`, known and estimated.
    pub cost_micros: u64,
    /// The currency.
    #[serde(default)]
    pub currency: Currency,
    /// How many replies they gave.
    pub steps: u64,
    /// Sum of the times of provider calls and finished tool calls, in milliseconds.
    pub time_ms: u64,
    /// How long turns were at work, in milliseconds, each chat for itself.
    pub alive_ms: u64,
}

/// One provider call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// The step it was made for.
    pub step: u64,
    /// Its number in the step.
    pub number: u32,
    /// The model.
    pub model: String,
    /// The purpose: an answer, by the rung (`first`, `reattach`, `continue`, `restart`, `fall_back`), or a `summary`. Absent
    /// where it was not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "first")]
    pub rung: Option<String>,
    /// When it began.
    pub began: i64,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// Tokens as reported.
    pub known: Tokens,
    /// Tokens as estimated.
    pub estimated: Tokens,
    /// The cost of the tokens.
    pub cost: Money,
    /// `answered`, `interrupted`, `lost`, `process_ended` (the server of the attempt ended; the answer continues from the
    /// shown part), or how it broke.
    pub outcome: String,
}

impl From<cost::Usage> for Tokens {
    fn from(cost::Usage { input, output, reasoning, cache_read, cache_write }: cost::Usage) -> Self {
        Self { input, output, reasoning, cache_read, cache_write }
    }
}

impl From<cost::Spend> for Money {
    fn from(cost::Spend { known, estimated }: cost::Spend) -> Self {
        Self { known_micros: known.0, estimated_micros: estimated.0, currency: Currency::Usd }
    }
}

impl Usage {
    /// The usage of a chat, and that of the chats below it.
    #[must_use]
    pub fn of(totals: Totals, below: BudgetUse) -> Self {
        let Totals { tally, spend, attempts, steps, time, alive } = totals;
        let used = SubAgentUsage {
            tokens: below.tokens,
            cost_micros: below.cost.0,
            currency: Currency::Usd,
            steps: below.steps,
            time_ms: below.time.as_millis() as u64,
            alive_ms: below.alive.as_millis() as u64,
        };
        Self {
            sub_agents: (below != BudgetUse::default()).then_some(used),
            known: tally.known.into(),
            estimated: tally.estimated.into(),
            cost: spend.into(),
            attempts,
            steps,
            time_ms: time.as_millis() as u64,
            alive_ms: alive.as_millis() as u64,
            each: Vec::new(),
        }
    }
}

impl From<&AttemptRecord> for Attempt {
    fn from(attempted: &AttemptRecord) -> Self {
        let outcome = match attempted.outcome {
            AttemptOutcome::Answered => "answered".into(),
            AttemptOutcome::Broke(Cause::Resumed, _) => PROCESS_ENDED.into(),
            AttemptOutcome::Broke(cause, kind) => format!("{}: {}", cause.label(), kind.label()),
            AttemptOutcome::Interrupted => "interrupted".into(),
            AttemptOutcome::Lost => "lost".into(),
        };
        Self {
            step: attempted.step.0,
            number: attempted.number,
            model: attempted.model.to_string(),
            rung: attempted.aim.label().map(Into::into),
            began: attempted.began.0,
            took_ms: attempted.took.as_millis() as u64,
            known: attempted.tally.known.into(),
            estimated: attempted.tally.estimated.into(),
            cost: attempted.spend.into(),
            outcome,
        }
    }
}
