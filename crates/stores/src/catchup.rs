//! What every store does the same when somebody catches up.

use std::cmp::Ordering;

use everturn_core::draft::{Draft, OutOfOrder};
use everturn_core::view::{Cursor, Row};

/// How many messages a snapshot shows at most.
pub(crate) const PAGE_LEN_MAX: usize = 200;

/// A cursor from the future, of a draft that never got so far, or of another step than the commit it names, was not
/// given by this chat.
pub(crate) fn is_usable(seen: Cursor, now: Cursor) -> bool {
    match (seen.version.cmp(&now.version), seen.step.cmp(&now.step)) {
        (Ordering::Less | Ordering::Equal, Ordering::Equal) => seen.seq <= now.seq,
        (Ordering::Less, Ordering::Less) => true,
        (Ordering::Greater, _) | (_, Ordering::Greater) | (Ordering::Equal, Ordering::Less) => false,
    }
}

/// The draft that the journal of the open step adds up to.
pub(crate) fn draft(rows: &[Row]) -> Result<Option<Draft>, OutOfOrder> {
    let mut draft = None;
    for row in rows {
        draft.get_or_insert_with(|| Draft::new(row.step)).push(row.at, &row.delta)?;
    }
    Ok(draft)
}
