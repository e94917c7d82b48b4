//! Tokens, money, and what all of it came to.

use everturn_core::cost::{self, Micros};
use everturn_core::fact;
use serde::{Deserialize, Serialize};

use super::value::{Nanos, unset};

#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Usage {
    #[serde(default, skip_serializing_if = "unset")]
    input: u64,
    #[serde(default, skip_serializing_if = "unset")]
    output: u64,
    #[serde(default, skip_serializing_if = "unset")]
    reasoning: u64,
    #[serde(default, skip_serializing_if = "unset")]
    cache_read: u64,
    #[serde(default, skip_serializing_if = "unset")]
    cache_write: u64,
}

impl From<cost::Usage> for Usage {
    fn from(cost::Usage { input, output, reasoning, cache_read, cache_write }: cost::Usage) -> Self {
        Self { input, output, reasoning, cache_read, cache_write }
    }
}

impl From<Usage> for cost::Usage {
    fn from(Usage { input, output, reasoning, cache_read, cache_write }: Usage) -> Self {
        Self { input, output, reasoning, cache_read, cache_write }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    #[serde(default, skip_serializing_if = "unset")]
    known: Usage,
    #[serde(default, skip_serializing_if = "unset")]
    estimated: Usage,
}

impl From<cost::Tally> for Tally {
    fn from(cost::Tally { known, estimated }: cost::Tally) -> Self {
        Self { known: known.into(), estimated: estimated.into() }
    }
}

impl From<Tally> for cost::Tally {
    fn from(Tally { known, estimated }: Tally) -> Self {
        Self { known: known.into(), estimated: estimated.into() }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Spend {
    #[serde(default, skip_serializing_if = "unset")]
    known: u64,
    #[serde(default, skip_serializing_if = "unset")]
    estimated: u64,
}

impl From<cost::Spend> for Spend {
    fn from(cost::Spend { known: Micros(known), estimated: Micros(estimated) }: cost::Spend) -> Self {
        Self { known, estimated }
    }
}

impl From<Spend> for cost::Spend {
    fn from(Spend { known, estimated }: Spend) -> Self {
        Self { known: Micros(known), estimated: Micros(estimated) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Totals {
    #[serde(default, skip_serializing_if = "unset")]
    tally: Tally,
    #[serde(default, skip_serializing_if = "unset")]
    spend: Spend,
    #[serde(default, skip_serializing_if = "unset")]
    attempts: u64,
    #[serde(default, skip_serializing_if = "unset")]
    steps: u64,
    #[serde(default, skip_serializing_if = "unset")]
    time_ns: Nanos,
    #[serde(default, skip_serializing_if = "unset")]
    alive_ns: Nanos,
}

impl From<fact::Totals> for Totals {
    fn from(fact::Totals { tally, spend, attempts, steps, time, alive }: fact::Totals) -> Self {
        let (tally, spend) = (tally.into(), spend.into());
        Self { tally, spend, attempts, steps, time_ns: Nanos(time), alive_ns: Nanos(alive) }
    }
}

impl From<Totals> for fact::Totals {
    fn from(Totals { tally, spend, attempts, steps, time_ns, alive_ns }: Totals) -> Self {
        let (tally, spend) = (tally.into(), spend.into());
        Self { tally, spend, attempts, steps, time: time_ns.0, alive: alive_ns.0 }
    }
}
