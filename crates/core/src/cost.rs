//! Tokens and money, in whole numbers.
//!
//! Every attempt costs, also the one that broke, so every attempt is counted: what the provider reported as known, what
//! it never came to report as estimated, and the two are never mixed. Counts come from outside and may be negative,
//! fractional or absurd; such a count is unknown, and no sum here can overflow or shrink.

use std::fmt;

use serde_json::Value;

#[cfg(test)]
mod tests;

/// Bytes that make a token when nothing better is known. Low for prose, right for code and JSON: an estimate that errs
/// upwards stops a budget early, never late.
pub const BYTES_PER_TOKEN: u64 = 3;

/// More tokens than any one attempt can have; a larger count is a reporting error and counts as unknown.
pub const TOKENS_PLAUSIBLE_MAX: u64 = 1_000_000_000;

/// Tokens as one attempt reported them, cumulative: a later report of the same attempt replaces an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Prompt tokens that were neither read from nor written to a cache.
    pub input: u64,
    /// Tokens the model produced, reasoning included.
    pub output: u64,
    /// Of those, reasoning.
    pub reasoning: u64,
    /// Prompt tokens read from the provider's cache.
    pub cache_read: u64,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: u64,
}

impl Usage {
    /// The whole prompt, cached or not: what fills the context window.
    #[must_use]
    pub const fn prompt(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// Prompt and output. Reasoning is part of the output.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.prompt().saturating_add(self.output)
    }

    /// Both together.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            reasoning: self.reasoning.saturating_add(other.reasoning),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }
}

/// One token count as a provider stated it, or did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TokenCount {
    /// Absent, or no number of tokens.
    #[default]
    Unknown,
    /// A plausible count.
    Known(u64),
}

impl TokenCount {
    /// A count out of a JSON body: a whole number from 0 to [`TOKENS_PLAUSIBLE_MAX`], else unknown.
    #[must_use]
    pub fn from_json(value: Option<&Value>) -> Self {
        let Some(Value::Number(number)) = value else { return Self::Unknown };
        match (number.as_u64(), number.as_f64()) {
            (Some(count), _) => Self::from(i128::from(count)),
            // Some gateways write 12.0. The guard keeps the conversion exact.
            (None, Some(count)) if count.fract() == 0.0 && count.abs() <= TOKENS_PLAUSIBLE_MAX as f64 => {
                Self::from(count as i128)
            }
            _ => Self::Unknown,
        }
    }

    /// The count, if there is one.
    #[must_use]
    pub const fn known(self) -> Option<u64> {
        match self {
            Self::Known(count) => Some(count),
            Self::Unknown => None,
        }
    }

    /// The newer of two counts of the same thing. Counts only grow, so a zero after more is no count.
    const fn newer(self, earlier: Self) -> Self {
        match (self, earlier) {
            (Self::Unknown | Self::Known(0), Self::Known(_)) => earlier,
            (Self::Unknown | Self::Known(_), _) => self,
        }
    }
}

impl From<i128> for TokenCount {
    fn from(count: i128) -> Self {
        match u64::try_from(count) {
            Ok(count) if count <= TOKENS_PLAUSIBLE_MAX => Self::Known(count),
            _ => Self::Unknown,
        }
    }
}

impl From<i64> for TokenCount {
    fn from(count: i64) -> Self {
        Self::from(i128::from(count))
    }
}

impl From<u64> for TokenCount {
    fn from(count: u64) -> Self {
        Self::from(i128::from(count))
    }
}

/// What one attempt has said about its tokens so far. Providers tell it in pieces: the prompt at the start, the output
/// as it grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageReport {
    /// See [`Usage::input`].
    pub input: TokenCount,
    /// See [`Usage::output`].
    pub output: TokenCount,
    /// See [`Usage::reasoning`].
    pub reasoning: TokenCount,
    /// See [`Usage::cache_read`].
    pub cache_read: TokenCount,
    /// See [`Usage::cache_write`].
    pub cache_write: TokenCount,
}

/// How an attempt ended, which decides what its last report means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// With its terminal event: the last report is the whole truth.
    Finished,
    /// Without: the last report is how far it had got when it was made.
    Broken,
    /// Before it began: the provider said no, or was not there, and charges nothing for that.
    Refused,
}

impl UsageReport {
    /// Takes a later report of the same attempt. What it states replaces; what it leaves out, or states absurdly, stays.
    pub fn update(&mut self, later: &Self) {
        self.input = later.input.newer(self.input);
        self.output = later.output.newer(self.output);
        self.reasoning = later.reasoning.newer(self.reasoning);
        self.cache_read = later.cache_read.newer(self.cache_read);
        self.cache_write = later.cache_write.newer(self.cache_write);
    }

    /// What was stated, as far as prompt and output both were. No prompt is empty: proxies that do not count say 0.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        let stated = self.input.known().zip(self.output.known()).map(|_| self.stated());
        stated.filter(|usage| usage.prompt() > 0)
    }

    /// The attempt's tokens: as stated where it stated them, else estimated from the prompt that was sent and the bytes
    /// that came back. A stated 0 for what was there counts as not stated: else a proxy that does not count would make
    /// everything free, and no budget would bind.
    #[must_use]
    pub fn settle(&self, end: StreamEnd, prompt_tokens_sent: u64, output_bytes: u64) -> Tally {
        let known = self.stated();
        let input = match self.input {
            TokenCount::Unknown | TokenCount::Known(0) if end == StreamEnd::Refused => 0,
            TokenCount::Known(_) if known.prompt() > 0 => 0,
            TokenCount::Unknown | TokenCount::Known(_) => prompt_tokens_sent.saturating_sub(known.prompt()),
        };
        let output = match (self.output, end) {
            (TokenCount::Known(1..), StreamEnd::Finished) => 0,
            (TokenCount::Known(_) | TokenCount::Unknown, _) => tokens_in(output_bytes).saturating_sub(known.output),
        };
        Tally { known, estimated: Usage { input, output, ..Usage::default() } }
    }

    fn stated(&self) -> Usage {
        let count = |reported: TokenCount| reported.known().unwrap_or(0);
        let output = count(self.output);
        Usage {
            input: count(self.input),
            output,
            reasoning: count(self.reasoning).min(output),
            cache_read: count(self.cache_read),
            cache_write: count(self.cache_write),
        }
    }
}

/// About how many tokens some bytes of text are.
#[must_use]
pub const fn tokens_in(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

/// Tokens of any number of attempts, the reported ones apart from the estimated ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// As providers reported them.
    pub known: Usage,
    /// As we had to guess.
    pub estimated: Usage,
}

impl Tally {
    /// Adds what another attempt, step or turn came to.
    pub const fn add(&mut self, other: &Self) {
        self.known = self.known.plus(&other.known);
        self.estimated = self.estimated.plus(&other.estimated);
    }

    /// Known and estimated together: what a token budget is held against.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.known.total().saturating_add(self.estimated.total())
    }

    /// What one attempt costs at this price. Known and estimated tokens are of one prompt, so one tariff holds for both.
    #[must_use]
    pub const fn cost(&self, price: &Price) -> Spend {
        let price = price.at(self.known.prompt().saturating_add(self.estimated.prompt()));
        Spend { known: cost(&self.known, &price), estimated: cost(&self.estimated, &price) }
    }
}

/// Money, in millionths of a US dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Micros(pub u64);

impl Micros {
    /// Whole dollars.
    #[must_use]
    pub const fn units(units: u64) -> Self {
        Self(units.saturating_mul(1_000_000))
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000);
        let cents = text.len() - 4; // Two digits at least, and more where they say something.
        let len = text.trim_end_matches('0').len().max(cents);
        write!(f, "${}", &text[..len])
    }
}

/// Money, the reported part apart from the estimated one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spend {
    /// For tokens that were reported.
    pub known: Micros,
    /// For tokens that were estimated.
    pub estimated: Micros,
}

impl Spend {
    /// Both together: what a money budget is held against.
    #[must_use]
    pub const fn total(&self) -> Micros {
        self.known.plus(self.estimated)
    }
}

/// What a million tokens cost, by the way they are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Price {
    /// Prompt tokens outside the cache.
    pub input: Micros,
    /// Output tokens, reasoning included.
    pub output: Micros,
    /// Prompt tokens read from the cache.
    pub cache_read: Micros,
    /// Prompt tokens written to the cache.
    pub cache_write: Micros,
    /// What the same costs where prompts are long, if that is something else.
    pub above: Option<LongPromptPrice>,
}

/// What a million tokens cost, all of them, once the prompt is longer than so much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LongPromptPrice {
    /// The longest prompt, cached tokens included, for which this does not hold yet.
    pub prompt: u64,
    /// See [`Price::input`].
    pub input: Micros,
    /// See [`Price::output`].
    pub output: Micros,
    /// See [`Price::cache_read`].
    pub cache_read: Micros,
    /// See [`Price::cache_write`].
    pub cache_write: Micros,
}

impl Price {
    /// The price of a request with a prompt of so many tokens.
    #[must_use]
    pub const fn at(&self, prompt: u64) -> Self {
        match self.above {
            Some(LongPromptPrice { prompt: longest, input, output, cache_read, cache_write }) if prompt > longest => {
                Self { input, output, cache_read, cache_write, above: None }
            }
            Some(_) | None => Self { above: None, ..*self },
        }
    }
}

/// What the tokens of one request cost. The parts are added exactly and the sum is rounded up once, to the next millionth: a budget
/// is never exceeded by roundings, and an attempt's cost is off by less than a millionth.
#[must_use]
pub const fn cost(usage: &Usage, price: &Price) -> Micros {
    const fn part(tokens: u64, per_million: Micros) -> u128 {
        tokens as u128 * per_million.0 as u128
    }
    let price = price.at(usage.prompt());
    let sum = part(usage.input, price.input)
        .saturating_add(part(usage.output, price.output))
        .saturating_add(part(usage.cache_read, price.cache_read))
        .saturating_add(part(usage.cache_write, price.cache_write));
    let micros = sum.div_ceil(1_000_000);
    Micros(if micros > u64::MAX as u128 { u64::MAX } else { micros as u64 })
}
