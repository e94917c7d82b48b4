//! Names for things.
//!
//! Providers reuse, repeat and forget their ids, so none of theirs is ever a key here. Within a chat everything is
//! counted: messages, steps and commits are 1, 2, 3…, which makes order and identity the same question.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// One durable conversation. Time-ordered: the upper 48 bits are milliseconds, the rest is chance, both given by the
/// caller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChatId(u128);

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const CHAT_ID_LEN: usize = 26;

impl ChatId {
    /// An id made at `at`, told apart from its neighbours by `chance`.
    #[must_use]
    pub const fn new(at: Timestamp, chance: u128) -> Self {
        Self(((at.0 as u128) << 80) | (chance & ((1 << 80) - 1)))
    }

    /// When it was made.
    #[must_use]
    pub const fn made_at(self) -> Timestamp {
        Timestamp((self.0 >> 80) as i64)
    }

    /// The id as a number, for stores.
    #[must_use]
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// The id that [`Self::as_u128`] gave.
    #[must_use]
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }
}

impl fmt::Display for ChatId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for i in (0..CHAT_ID_LEN).rev() {
            let digit = (self.0 >> (5 * i)) & 31;
            write!(f, "{}", ALPHABET[digit as usize] as char)?;
        }
        Ok(())
    }
}

impl fmt::Debug for ChatId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChatId({self})")
    }
}

/// A text that is no chat id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a chat id: expected {CHAT_ID_LEN} letters and digits")]
pub struct BadChatId;

impl FromStr for ChatId {
    type Err = BadChatId;

    fn from_str(text: &str) -> Result<Self, BadChatId> {
        if text.len() != CHAT_ID_LEN {
            return Err(BadChatId);
        }
        let mut bits: u128 = 0;
        for (i, byte) in text.bytes().enumerate() {
            let digit = ALPHABET.iter().position(|&a| a == byte).ok_or(BadChatId)?;
            if i == 0 && digit > 7 {
                return Err(BadChatId); // 26 digits carry 130 bits; the first may use three.
            }
            bits = (bits << 5) | digit as u128;
        }
        Ok(Self(bits))
    }
}

macro_rules! counted {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// The one after this.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

counted! {
    /// A committed message, numbered within its chat.
    MessageId;
    /// A step: one reply of the model with the results of its calls. Never reused, not even after an edit.
    StepId;
    /// How many commits a chat has seen.
    Version;
    /// The number of a delta within its step's draft: 1, 2, 3… without a gap.
    Seq;
    /// The right to write, as a number that only grows.
    Fence;
    /// The number of a command in its chat's inbox.
    InboxSeq;
}

/// One tool call, by our own count: the step it belongs to and its place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallUid {
    /// The step of the reply with the call.
    pub step: StepId,
    /// Its place among the calls of that step, retracted ones included.
    pub ordinal: u16,
}

impl fmt::Display for CallUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.step, self.ordinal)
    }
}

/// Milliseconds since 1970, as read by a shell and handed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// How long after `earlier` this is; zero if it is not after.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0).max(0) as u64)
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
}

/// A model by its full name, `provider/model`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelId {
    provider: String,
    name: String,
}

impl ModelId {
    /// A model of a provider, by the provider's own name for it.
    pub(crate) fn of(provider: &str, name: &str) -> Self {
        let name = if name.is_empty() { "unknown" } else { name };
        Self { provider: provider.into(), name: name.into() }
    }

    /// The provider's name: what comes before the first slash.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// The provider's own name for the model.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.name)
    }
}

/// A text that names no model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no model: write provider/model, for example understudy/scripted")]
pub struct BadModelId(String);

impl FromStr for ModelId {
    type Err = BadModelId;

    fn from_str(text: &str) -> Result<Self, BadModelId> {
        match text.split_once(['/', ':']) {
            Some((provider, name)) if !provider.is_empty() && !name.is_empty() => {
                Ok(Self { provider: provider.into(), name: name.into() })
            }
            _ => Err(BadModelId(text.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_id_reads_back_as_written_and_sorts_by_time() {
        for bits in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef] {
            let id = ChatId::from_u128(bits);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        let (early, late) = (ChatId::new(Timestamp(1), u128::MAX), ChatId::new(Timestamp(2), 0));
        assert!(early < late && early.to_string() < late.to_string());
    }

    #[test]
    fn a_bad_chat_id_is_refused() {
        for text in
            ["", "abc", "../../etc/passwd0000000000", "zzzzzzzzzzzzzzzzzzzzzzzzzz", "0000000000000000000000000u"]
        {
            assert_eq!(text.parse::<ChatId>(), Err(BadChatId), "{text}");
        }
    }

    #[test]
    fn a_model_is_named_by_provider_and_name() {
        let model: ModelId = "openrouter/meta/llama".parse().unwrap();
        assert_eq!((model.provider(), model.name()), ("openrouter", "meta/llama"));
        assert_eq!("openai:gpt".parse::<ModelId>().unwrap().to_string(), "openai/gpt");
        for text in ["", "gpt", "/gpt", "openai/"] {
            assert!(text.parse::<ModelId>().is_err(), "{text}");
        }
    }
}
