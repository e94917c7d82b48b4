//! Values as columns hold them.

use everturn_core::ids::ChatId;
use rusqlite::{Error, Row, types::Type};

/// A chat.
pub(crate) const fn id(chat: ChatId) -> [u8; 16] {
    chat.as_u128().to_be_bytes()
}

/// A chat that was stored.
pub(crate) fn chat_id(row: &Row<'_>, column: usize) -> Result<ChatId, Error> {
    Ok(ChatId::from_u128(u128::from_be_bytes(row.get(column)?)))
}

/// A count. SQLite's numbers have a sign.
pub(crate) fn number(count: u64) -> Result<i64, Error> {
    i64::try_from(count).map_err(|error| Error::ToSqlConversionFailure(error.into()))
}

/// A count that was stored.
pub(crate) fn unsigned(row: &Row<'_>, column: usize) -> Result<u64, Error> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| Error::IntegralValueOutOfRange(column, number))
}

/// A name that was stored as bytes.
pub(crate) fn name(row: &Row<'_>, column: usize) -> Result<String, Error> {
    text_of(row.get(column)?, column)
}

/// A name that was stored as bytes, if there is one.
pub(crate) fn optional_name(row: &Row<'_>, column: usize) -> Result<Option<String>, Error> {
    row.get::<_, Option<Vec<u8>>>(column)?.map(|bytes| text_of(bytes, column)).transpose()
}

fn text_of(bytes: Vec<u8>, column: usize) -> Result<String, Error> {
    String::from_utf8(bytes).map_err(|error| Error::FromSqlConversionFailure(column, Type::Blob, Box::new(error)))
}

/// A text that was stored, without a copy.
pub(crate) fn text<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a str, Error> {
    let text = row.get_ref(column)?.as_str();
    text.map_err(|error| Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}
