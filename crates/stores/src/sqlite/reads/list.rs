//! Lists of chats, and budget use of owners. Reads no bodies.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use everturn_core::budget::{BudgetUse, Day};
use everturn_core::cost::Micros;
use everturn_core::ids::{ChatId, InboxSeq, Timestamp, Version};
use everturn_core::status::Status;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter};

use crate::heading::{ChatQuery, Heading, SubAgentChats, searchable};
use crate::search;
use crate::shape;
use crate::sqlite::columns::{chat_id, id, name, number, text, unsigned};
use crate::sqlite::error::{TxError, is_damage};
use crate::sqlite::reads::damage::{self, DamageLog};
use crate::store::{StoreError, Unsettled};
use crate::tables::{self, ORPHANS_LEN_MAX};

const COLUMNS: &str =
    "id, agent, owner, title, status, archived, version, touched, submitted, obeyed, parent, internal";

/// List entry of one chat.
pub(crate) fn heading(connection: &Connection, chat: ChatId) -> Result<Heading, TxError<StoreError>> {
    let mut select = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM chats WHERE id = ?1"))?;
    let found = select.query_row(params![id(chat)], |row| Ok(heading_of(connection, row))).optional()?;
    found.ok_or(StoreError::NoSuchChat)?
}

fn heading_of(connection: &Connection, row: &Row<'_>) -> Result<Heading, TxError<StoreError>> {
    let (chat, received, obeyed) = (chat_id(row, 0)?, InboxSeq(unsigned(row, 8)?), InboxSeq(unsigned(row, 9)?));
    let begins_a_turn = received > obeyed && has_work(connection, chat, obeyed)?;
    Ok(Heading {
        id: chat,
        agent: name(row, 1)?,
        owner: name(row, 2)?,
        parent: row.get::<_, Option<[u8; 16]>>(10)?.map(|parent| ChatId::from_u128(u128::from_be_bytes(parent))),
        title: name(row, 3)?,
        status: tables::status_of(&row.get::<_, String>(4)?)?.shown(begins_a_turn),
        archived: row.get(5)?,
        internal: row.get(11)?,
        version: Version(unsigned(row, 6)?),
        received,
        touched: Timestamp(row.get(7)?),
    })
}

/// Whether a command that was not applied yet begins a turn.
fn has_work(connection: &Connection, chat: ChatId, obeyed: InboxSeq) -> Result<bool, TxError<StoreError>> {
    let mut select = connection.prepare_cached("SELECT body FROM inbox WHERE chat = ?1 AND seq > ?2 ORDER BY seq")?;
    let mut found = select.query(params![id(chat), number(obeyed.0)?])?;
    while let Some(row) = found.next()? {
        if shape::command::begins_a_turn(text(row, 0)?)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Chats that match. Damaged chats are left out.
pub(crate) fn headings(
    connection: &Connection,
    query: &ChatQuery,
    log: &DamageLog,
) -> Result<Vec<Heading>, TxError<StoreError>> {
    match matching(connection, query) {
        Err(error) if error.is_damage() => {}
        done => return done,
    }
    let mut places = damage::all(connection)?;
    places.retain(|place| query.after.is_none_or(|after| *place < after));
    places.sort_unstable_by(|one, other| other.cmp(one));
    let mut headings = Vec::new();
    for (_, chat) in places {
        let found = matching(connection, &ChatQuery { only: Some(chat), ..query.clone() });
        headings.extend(log.spare(chat, found)?.into_iter().flatten());
        if headings.len() >= query.len {
            break;
        }
    }
    Ok(headings)
}

/// Chats that match. Archived, internal and other chats are apart in the index, so they are read one after the other.
fn matching(connection: &Connection, query: &ChatQuery) -> Result<Vec<Heading>, TxError<StoreError>> {
    let mut headings = Vec::new();
    let asked =
        |wanted: Option<bool>| [false, true].into_iter().filter(move |is| wanted.is_none_or(|wanted| wanted == *is));
    for internal in asked(query.internal) {
        for archived in asked(query.archived) {
            some(connection, query, ListPart { internal, archived }, &mut headings)?;
        }
    }
    headings.sort_by_key(|heading: &Heading| std::cmp::Reverse(heading.place()));
    headings.truncate(query.len);
    Ok(headings)
}

/// Chats that lie together in the index.
#[derive(Clone, Copy)]
struct ListPart {
    internal: bool,
    archived: bool,
}

fn some(
    connection: &Connection,
    query: &ChatQuery,
    part: ListPart,
    headings: &mut Vec<Heading>,
) -> Result<(), TxError<StoreError>> {
    let mut sql = format!("SELECT {COLUMNS} FROM chats WHERE internal = ? AND archived = ?");
    let mut values = vec![Value::from(part.internal), Value::from(part.archived)];
    if let Some(chat) = query.only {
        sql.push_str(" AND id = ?");
        values.push(id(chat).to_vec().into());
    }
    if let Some(owner) = &query.owner {
        sql.push_str(" AND owner = ?");
        values.push(owner.as_bytes().to_vec().into());
    }
    match query.sub_agents {
        SubAgentChats::Listed => {}
        SubAgentChats::LeftOut => sql.push_str(" AND parent IS NULL"),
        SubAgentChats::Of(parent) => {
            sql.push_str(" AND parent = ?");
            values.push(id(parent).to_vec().into());
        }
    }
    if let Some(status) = query.status {
        sql.push_str(" AND status = ?");
        if is_unsettled(status) {
            sql.push_str(" AND unsettled = 1"); // They are few, and lie together in an index of their own.
        }
        values.push(tables::status_word(status).to_owned().into());
    }
    if !query.text.is_empty() {
        sql.push_str(" AND (instr(searchable, ?) > 0");
        values.push(searchable(&query.text).into_bytes().into());
        let wanted = search::wanted(&query.text);
        if !wanted.is_empty() {
            sql.push_str(" OR EXISTS (SELECT 1 FROM spoken WHERE spoken.chat = chats.id");
            sql.push_str(&" AND instr(words, ?) > 0".repeat(wanted.len()));
            sql.push(')');
            values.extend(wanted.into_iter().map(Value::from));
        }
        sql.push(')');
    }
    if let Some((touched, chat)) = query.after {
        sql.push_str(" AND (touched, id) < (?, ?)");
        values.extend([touched.0.into(), id(chat).to_vec().into()]);
    }
    sql.push_str(" ORDER BY touched DESC, id DESC LIMIT ?");
    values.push(i64::try_from(query.len).unwrap_or(i64::MAX).into());
    let mut select = connection.prepare_cached(&sql)?;
    let mut found = select.query(params_from_iter(values))?;
    while let Some(row) = found.next()? {
        headings.push(heading_of(connection, row)?);
    }
    Ok(())
}

const fn is_unsettled(status: Status) -> bool {
    match status {
        Status::Running | Status::Interrupting | Status::Awaiting => true,
        Status::Idle | Status::Failed => false,
    }
}

/// How many chats of an owner are at work, besides these. They are few, and lie together in an index of their own.
/// A damaged chat does not work.
pub(crate) fn working(
    connection: &Connection,
    owner: &str,
    besides: &BTreeSet<ChatId>,
    log: &DamageLog,
) -> Result<usize, TxError<StoreError>> {
    match count_working(connection, owner, besides) {
        Err(error) if is_damage(&error) => {}
        done => return Ok(done?),
    }
    let mut select = connection.prepare(&format!("SELECT 1 FROM chats WHERE id = ?2 AND {WORKING}"))?;
    let mut count = 0;
    for chat in damage::unsettled(connection)?.difference(besides) {
        let works = select.exists(params![owner.as_bytes(), id(*chat)]);
        count += usize::from(log.spare(*chat, works.map_err(TxError::from))?.unwrap_or(false));
    }
    Ok(count)
}

const WORKING: &str = "owner = ?1 AND unsettled = 1 AND (status IN ('running', 'interrupting') OR submitted > obeyed)";

fn count_working(connection: &Connection, owner: &str, besides: &BTreeSet<ChatId>) -> Result<usize, rusqlite::Error> {
    let sql = format!("SELECT id FROM chats INDEXED BY chats_unsettled WHERE {WORKING}");
    let mut select = connection.prepare_cached(&sql)?;
    let (mut found, mut count) = (select.query(params![owner.as_bytes()])?, 0);
    while let Some(row) = found.next()? {
        count += usize::from(!besides.contains(&chat_id(row, 0)?));
    }
    Ok(count)
}

/// What the chats below a chat have used.
pub(crate) fn used_below(connection: &Connection, chat: ChatId) -> Result<BudgetUse, TxError<StoreError>> {
    let sql = "SELECT steps, time_ms, tokens, cost, alive_ms FROM used_below WHERE chat = ?1";
    let found = connection.prepare_cached(sql)?.query_row(params![id(chat)], budget_use).optional()?;
    Ok(found.unwrap_or_default())
}

/// Chats whose parent was deleted.
pub(crate) fn orphans(connection: &Connection) -> Result<Vec<ChatId>, TxError<StoreError>> {
    let sql = "SELECT id FROM chats WHERE orphaned = 1 ORDER BY id LIMIT ?1";
    let mut select = connection.prepare_cached(sql)?;
    let found = select.query_map(params![ORPHANS_LEN_MAX as i64], |row| chat_id(row, 0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

fn budget_use(row: &Row<'_>) -> Result<BudgetUse, rusqlite::Error> {
    let (steps, time) = (unsigned(row, 0)?, Duration::from_millis(unsigned(row, 1)?));
    let (cost, alive) = (Micros(unsigned(row, 3)?), Duration::from_millis(unsigned(row, 4)?));
    Ok(BudgetUse { steps, time, alive, tokens: unsigned(row, 2)?, cost })
}

/// What an owner has used on these days.
pub(crate) fn used(
    connection: &Connection,
    owner: &str,
    days: &RangeInclusive<Day>,
) -> Result<BudgetUse, TxError<StoreError>> {
    let sql = "SELECT ifnull(sum(steps), 0), ifnull(sum(time_ms), 0), ifnull(sum(tokens), 0), ifnull(sum(cost), 0),
        ifnull(sum(alive_ms), 0) FROM used WHERE owner = ?1 AND day BETWEEN ?2 AND ?3";
    let params = params![owner.as_bytes(), days.start().0, days.end().0];
    Ok(connection.prepare_cached(sql)?.query_row(params, budget_use)?)
}

/// Chats that are busy or have commands to apply, oldest first. Damaged chats are included: their drivers report them.
pub(crate) fn unsettled(connection: &Connection) -> Result<Vec<Unsettled>, TxError<StoreError>> {
    let found_of = |row: &Row<'_>| Ok(Unsettled { chat: chat_id(row, 0)?, has_commands: row.get(1)? });
    let sql = "SELECT id, submitted > obeyed FROM chats WHERE unsettled = 1 ORDER BY id";
    let found = connection.prepare_cached(sql)?.query_map([], found_of)?.collect::<Result<_, _>>();
    match found {
        Err(error) if is_damage(&error) => {}
        found => return Ok(found?),
    }
    let mut select = connection.prepare("SELECT id, submitted > obeyed FROM chats WHERE id = ?1 AND unsettled = 1")?;
    let mut all = Vec::new();
    for chat in damage::unsettled(connection)? {
        match select.query_row(params![id(chat)], found_of).optional() {
            Err(error) if is_damage(&error) => all.push(Unsettled { chat, has_commands: true }),
            found => all.extend(found?),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rusqlite::Connection;

    use super::*;
    use crate::sqlite::setup::migrate;

    /// Counting the working chats of an owner reads no chats of other owners, and none at rest.
    #[test]
    fn chats_at_work_are_found_by_their_owner() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate::migrate(&mut connection).unwrap();
        let mut next = 0_u128;
        let mut make = |connection: &Connection, owner: &str, unsettled: bool| {
            next += 1;
            let insert =
                "INSERT INTO chats (id, agent, owner, title, searchable, status, archived, touched, version, step,
                    obeyed, submitted, unsettled, fence, body)
                VALUES (?1, x'61', ?2, x'', x'', ?3, 0, 0, 0, 0, 0, 0, ?4, 0, '{}')";
            let status = if unsettled { "running" } else { "idle" };
            let id = next.to_be_bytes();
            connection.execute(insert, params![id, owner.as_bytes(), status, unsettled]).unwrap();
        };
        for _ in 0..3 {
            make(&connection, "me", true);
        }
        let steps = |connection: &mut Connection| {
            let count = Arc::new(AtomicUsize::new(0));
            let counted = count.clone();
            let step = move || {
                counted.fetch_add(1, Ordering::Relaxed);
                false
            };
            connection.progress_handler(1, Some(step)).unwrap();
            assert_eq!(working(connection, "me", &BTreeSet::new(), &DamageLog::default()).unwrap(), 3);
            connection.progress_handler(0, None::<fn() -> bool>).unwrap();
            count.load(Ordering::Relaxed)
        };
        steps(&mut connection); // The first time it is told what there is.
        let before = steps(&mut connection);
        for n in 0..1_000 {
            make(&connection, &format!("owner {}", n % 7), true);
            make(&connection, "me", false);
        }
        let after = steps(&mut connection);
        assert!(after < before + 10, "{before} steps became {after}"); // One or two to see that the next is another's.
    }
}
