//! Cursors in the form that clients get.
//!
//! A cursor counts commits and deltas of one chat, and every chat counts from one on. So that a cursor of another chat is
//! not mistaken for one of this chat, it ends with a few digits made of the chat's id.

use std::fmt::Display;

use everturn::core::ids::ChatId;
use everturn::core::view::Cursor;

/// Formats a cursor of this chat.
pub fn of(chat: ChatId, cursor: Cursor) -> impl Display {
    std::fmt::from_fn(move |f| write!(f, "{cursor}.{:06x}", tag(chat)))
}

/// Parses a cursor; `None` if it is not one of this chat.
pub fn read(chat: ChatId, text: &str) -> Option<Cursor> {
    let (cursor, digits) = text.rsplit_once('.')?;
    let is_own = digits.len() == 6 && u32::from_str_radix(digits, 16) == Ok(tag(chat));
    if is_own { cursor.parse().ok() } else { None }
}

/// A hash of the chat's id; two ids collide in one of 16 million cases, also if they are neighbours.
const fn tag(chat: ChatId) -> u32 {
    let bits = chat.as_u128();
    let mixed = ((bits >> 64) as u64 ^ bits as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const CHAT: ChatId = ChatId::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);

    #[test]
    fn a_cursor_is_read_for_its_own_chat_alone() {
        let cursor: Cursor = "1.2.a".parse().unwrap();
        let text = of(CHAT, cursor).to_string();
        assert_eq!(read(CHAT, &text), Some(cursor));
        let neighbours = (1..1_000).map(|n| ChatId::from_u128(CHAT.as_u128() + n));
        assert!(neighbours.clone().all(|other| read(other, &text).is_none()));
        assert_eq!(neighbours.map(tag).collect::<BTreeSet<_>>().len(), 999);
        let digits = text.rsplit_once('.').unwrap().1;
        for bad in
            ["", "1.2.a", ".", digits, &format!("1.2.{digits}"), &format!("1.2.a.b.{digits}"), &format!("{text}.")]
        {
            assert_eq!(read(CHAT, bad), None, "{bad}");
        }
    }
}
