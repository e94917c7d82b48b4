//! A field that is meant to be a text.
//!
//! Servers that imitate a wire imitate it loosely: arguments come as an object, a number as a text, a text as a list of
//! parts. A field of this type takes all of that, and borrows where it is what it should be, so that the usual event
//! costs nothing extra and the unusual one does not end the answer.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// Whatever stands in a field.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Loose<'a> {
    /// Nothing, or null.
    #[default]
    None,
    /// A text.
    Text(Cow<'a, str>),
    /// Something else.
    Json(Value),
}

impl Loose<'_> {
    /// The text; empty if it is none.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::None | Self::Json(_) => "",
        }
    }

    /// What it says, as text: a text as it is, anything else as JSON.
    pub fn written(self) -> String {
        match self {
            Self::None => String::new(),
            Self::Text(text) => text.into_owned(),
            Self::Json(json) => json.to_string(),
        }
    }

    /// The number, also when it was written as a text.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Text(text) => text.parse().ok(),
            Self::Json(json) => json.as_u64(),
        }
    }

    /// A place in a list.
    pub fn index(&self) -> Option<u32> {
        self.number().and_then(|number| u32::try_from(number).ok())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Loose<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Loose<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Loose::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Loose::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Loose::None)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Loose::Json(Value::Bool(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Loose::Json(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Loose::Json(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Loose::Json(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Value::deserialize(SeqAccessDeserializer::new(list)).map(Loose::Json)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Value::deserialize(MapAccessDeserializer::new(map)).map(Loose::Json)
    }
}
