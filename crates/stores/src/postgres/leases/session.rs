//! The advisory lock by which the database shows that a process is dead.
//!
//! A killed process cannot unregister, but the kernel closes its connections, and the database then ends their sessions and
//! frees their locks within milliseconds. Each worker holds an advisory lock on the connection it listens on, and its row
//! names the lock. A free lock is a hint that chats can be taken; the fence still keeps two processes from writing to one
//! chat. A pooler that shares sessions makes such a lock worthless, so that is tested first.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::postgres::connection::pool::Param;
use crate::postgres::connection::retry::DbFault;
use crate::postgres::setup::address::DbAddress;

/// How long it may take to find out whether sessions are shared.
const PROBE_MAX: Duration = Duration::from_secs(10);
/// Which of two connections asks, in this order. A pooler gives both of them the session it used last, or each the next one
/// in turn: the first three questions show either. The others are for a pooler that serves more clients meanwhile.
const PROBES: [usize; 8] = [0, 1, 1, 0, 0, 1, 1, 0];

/// A worker and the lock that its session is to hold.
pub(crate) type WorkerLock = (i64, i64);

/// Whether sessions are shared between connections to this address, as behind a pooler that hands out transactions.
pub(crate) async fn is_shared(address: &DbAddress) -> Result<bool, DbFault> {
    let probe = async {
        let ((one, first), (other, second)) = tokio::try_join!(address.connect(), address.connect())?;
        tokio::spawn(first); // Both end with their clients.
        tokio::spawn(second);
        let mut sessions = [HashSet::new(), HashSet::new()];
        for asked in PROBES {
            sessions[asked].insert(process_id([&one, &other][asked]).await?);
        }
        let [of_one, of_other] = sessions;
        Ok(of_one.len() > 1 || of_other.len() > 1 || !of_one.is_disjoint(&of_other))
    };
    timeout(PROBE_MAX, probe).await.map_err(|_| DbFault::Passing("the database does not answer".into()))?
}

async fn process_id(client: &Client) -> Result<Option<String>, DbFault> {
    let answer = client.simple_query("SELECT pg_backend_pid()").await?;
    Ok(answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(Into::into),
        _ => None,
    }))
}

/// The statement that takes a lock for as long as the session lasts.
pub(crate) fn take(lock: i64) -> String {
    format!("SELECT pg_advisory_lock({lock})")
}

/// Workers with an ended session.
pub(crate) async fn disconnected(client: &Client) -> Result<Vec<WorkerLock>, DbFault> {
    let sql = "
        SELECT id, session_lock FROM workers
        WHERE session_lock IS NOT NULL AND pg_try_advisory_xact_lock_shared(session_lock)";
    let rows = client.query_typed(sql, &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Removes the workers that still have no session. Returns how many were removed.
pub(crate) async fn expire(client: &Client, dead: &[WorkerLock]) -> Result<u64, DbFault> {
    let (ids, locks): (Vec<i64>, Vec<i64>) = dead.iter().copied().unzip();
    let sql = "
        DELETE FROM workers USING unnest($1, $2) AS dead (id, session_lock)
        WHERE workers.id = dead.id AND workers.session_lock = dead.session_lock
        AND pg_try_advisory_xact_lock_shared(workers.session_lock)";
    let params: [Param<'_>; 2] = [(&ids, Type::INT8_ARRAY), (&locks, Type::INT8_ARRAY)];
    Ok(client.execute_typed(sql, &params).await?)
}
