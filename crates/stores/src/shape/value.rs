//! Small things that many shapes hold.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use everturn_core::ids::{CallUid, StepId};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Whether a field can be left out.
pub(super) fn unset<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Something that has a text of its own which reads back as the same.
pub(super) struct AsText<T>(pub(super) T);

impl<T: Display> Serialize for AsText<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for AsText<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Self).map_err(D::Error::custom)
    }
}

/// A length of time.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Nanos(pub(super) Duration);

impl Serialize for Nanos {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u128(self.0.as_nanos())
    }
}

impl<'de> Deserialize<'de> for Nanos {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const SECOND: u128 = 1_000_000_000;
        let nanos = u128::deserialize(deserializer)?;
        let secs = u64::try_from(nanos / SECOND).map_err(|_| D::Error::custom("too long a time"))?;
        Ok(Self(Duration::new(secs, (nanos % SECOND) as u32)))
    }
}

/// A call: its step, and its place there.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Uid(u64, u16);

impl From<CallUid> for Uid {
    fn from(CallUid { step, ordinal }: CallUid) -> Self {
        Self(step.0, ordinal)
    }
}

impl From<Uid> for CallUid {
    fn from(Uid(step, ordinal): Uid) -> Self {
        Self { step: StepId(step), ordinal }
    }
}
