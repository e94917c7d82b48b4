//! Acquiring and releasing leases.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use everturn_core::ids::{ChatId, Fence, Seq, StepId, Version};
use tokio_postgres::types::Type;

use crate::failpoint::failpoint;
use crate::newest_rows::NewestRows;
use crate::postgres::ChatLock;
use crate::postgres::Inner;
use crate::postgres::connection::columns::{big, count, id_bytes, id_of};
use crate::postgres::connection::pool::{Param, TxMode};
use crate::postgres::connection::retry::DbFault;
use crate::postgres::journal::filing;
use crate::postgres::leases::cache::{ChatCache, HeldChat, UncertainAcquire};
use crate::postgres::notify::channel::Urgency;
use crate::store::{Hint, Lease, StoreError, Unsettled, WriteError};

/// A worker with a row that is too old is dead: its leases are void, and nothing that it still has in flight can be stored
/// after this. `$3` is the lease tolerance: random per process, so that processes do not take over all at once.
const EXPIRE_WORKER: &str = "
    DELETE FROM workers USING chats
    WHERE chats.id = $1 AND workers.id = chats.worker AND workers.id <> $2
    AND clock_timestamp() > workers.seen + workers.lasts * $3";

const TAKE: &str = "
    UPDATE chats SET fence = greatest(fence, $3) + 1, worker = $2
    WHERE id = $1 AND EXISTS (SELECT 1 FROM workers WHERE id = $2)
    AND (worker IS NULL OR worker = $2 OR NOT EXISTS (SELECT 1 FROM workers WHERE id = chats.worker))
    RETURNING fence, version, step";

const END: &str = "
    SELECT first + len - 1 AS seq FROM drafts JOIN chats USING (no, step)
    WHERE chats.id = $1 ORDER BY first DESC LIMIT 1";

const UNSETTLED: &str = "
    SELECT id, submitted > obeyed FROM chats
    WHERE (busy OR submitted > obeyed) AND (worker IS NULL OR worker = $1 OR NOT EXISTS (
        SELECT 1 FROM workers WHERE id = chats.worker AND clock_timestamp() <= seen + lasts * $2))
    ORDER BY id";

impl Inner {
    pub(crate) async fn acquire(self: Arc<Self>, _lock: ChatLock, chat: ChatId) -> Result<Lease, WriteError> {
        let cache = self.caches.at(chat);
        *cache.held() = None; // Rows under the earlier lease are refused from here on…
        self.flush().await?; // …and none is in flight when the fence is raised.
        failpoint!("postgres-acquire");
        let acquire = || async {
            let Some(worker) = self.state().current() else {
                let why = "this process has no valid worker row: its heartbeat does not reach the database";
                return Err(StoreError::Unavailable(why.into()).into());
            };
            self.try_acquire(&cache, chat, worker).await
        };
        let taken = self.reads.retry().run(acquire).await?;
        *cache.uncertain() = None;
        let (held, before) = taken?;
        let lease = Lease::granted(chat, held.fence, before);
        *cache.held() = Some(held);
        Ok(lease)
    }

    /// Takes the chat, and returns the fence of the newest lease that a driver got before.
    async fn try_acquire(
        &self,
        cache: &ChatCache,
        chat: ChatId,
        worker: i64,
    ) -> Result<Result<(HeldChat, Fence), WriteError>, DbFault> {
        let id = id_bytes(chat);
        let id: Param<'_> = (&&id[..], Type::BYTEA);
        let of_chat = || -> Param<'_> { (id.0, Type::BYTEA) };
        let conn = self.reads.pool.conn().await?;
        // What is read below is read after this.
        let lock = "SELECT no, worker, fence FROM chats WHERE id = $1 FOR UPDATE";
        let params = [of_chat()];
        let (_, there) = tokio::try_join!(conn.begin(TxMode::Write), conn.query_opt(lock, &params))?;
        let Some(there) = there else {
            conn.rollback().await?;
            return Ok(Err(StoreError::NoSuchChat.into()));
        };
        let (no, before): (i64, Option<i64>) = (there.get("no"), there.get("worker"));
        let expire = [of_chat(), (&worker, Type::INT8), (&self.lease_tolerance, Type::FLOAT8)];
        let floor = self.floor.load(Ordering::Relaxed);
        let take = [of_chat(), (&worker, Type::INT8), (&floor, Type::INT8)];
        let (_, taken) = tokio::try_join!(conn.execute(EXPIRE_WORKER, &expire), conn.query_opt(TAKE, &take))?;
        let Some(taken) = taken else {
            conn.commit().await?;
            return Ok(Err(WriteError::Fenced));
        };
        let found = Fence(count(&there, "fence"));
        let is_ours = |uncertain: &UncertainAcquire| Some(uncertain.worker) == before && uncertain.before < found; // Our acquisition, with its answer lost.
        let last = cache.uncertain().filter(is_ours).map_or(found, |uncertain| uncertain.before);
        *cache.uncertain() = Some(UncertainAcquire { worker, before: last });
        if let Some(other) = before.filter(|before| *before != worker) {
            filing::file(&conn, other).await?; // It is dead: nothing is added any more.
        }
        // In this order: what is filed in between is found twice, not missed.
        let (unfiled, filed, ()) =
            tokio::try_join!(filing::unfiled(&conn, before, no), conn.query_opt(END, &params), conn.commit())?;
        let step = StepId(count(&taken, "step"));
        let unfiled = filing::end_of(&filing::appends(&unfiled, no, step)?)?;
        let filed = Seq(filed.map_or(0, |row| count(&row, "seq")));
        let held = HeldChat {
            fence: Fence(count(&taken, "fence")),
            worker,
            version: Version(count(&taken, "version")),
            step,
            no,
            end: unfiled.unwrap_or(filed),
            chat: None,
            newest: NewestRows::default(),
        };
        Ok(Ok((held, last)))
    }

    pub(crate) async fn release(self: Arc<Self>, _lock: ChatLock, lease: Lease) -> Result<(), StoreError> {
        let cache = self.caches.at(lease.chat());
        let Some(held) = cache.held().take_if(|held| held.fence == lease.fence()) else { return Ok(()) };
        self.flush().await?;
        if held.end > Seq(0) {
            self.file(held.worker).await?; // So that the next holder does not read the tail of this worker.
        }
        let (id, fence) = (id_bytes(lease.chat()), big(held.fence.0));
        let sql = "
            UPDATE chats SET worker = NULL WHERE id = $1 AND fence = $2 AND worker = $3
            RETURNING busy OR submitted > obeyed";
        let params: [Param<'_>; 3] = [(&&id[..], Type::BYTEA), (&fence, Type::INT8), (&held.worker, Type::INT8)];
        let rows = self.reads.retry().run(|| self.reads.query_once(TxMode::WriteLater, sql, &params)).await?;
        if rows.first().is_some_and(|row| row.get(0)) {
            self.tell(Hint::Inbox(lease.chat()), Urgency::Now); // Its watchers read it; free chats are looked for regularly.
        }
        Ok(())
    }

    pub(crate) async fn unsettled(&self) -> Result<Vec<Unsettled>, StoreError> {
        let worker = self.state().current().unwrap_or_default();
        let params: [Param<'_>; 2] = [(&worker, Type::INT8), (&self.lease_tolerance, Type::FLOAT8)];
        let rows = self.reads.read(UNSETTLED, &params).await?;
        let found = rows.iter().map(|row| Ok(Unsettled { chat: id_of(row.get(0))?, has_commands: row.get(1) }));
        found.collect::<Result<_, _>>().map_err(crate::postgres::lasting)
    }
}
